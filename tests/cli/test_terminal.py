"""What the command line draws: on wide and narrow terminals, in any script, with and without colours."""

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from callsheet.server.ads import rendering
from callsheet.server.ads.terminal_session import AdCliTurn, VersionChange
from callsheet.server.cli import layout
from callsheet.server.processes import terminal
from callsheet.server.settings.installation import program
from callsheet.state.ads import ad
from callsheet.state.ads.timeline import Timeline
from callsheet.state.versions import Version

THAI = "สวัสดีครับ ขนมปังอุ่นๆ จากเตาอบทุกเช้า"
CHINESE = "早上好，新鲜的面包每天清晨六点出炉，欢迎光临我们的面包店"
ENGLISH = "Fresh bread, warm buns, and coffee to go. Every single day of the week."
ALLOY = "openai/alloy@english"


def screen(width: int = 100, *, colours: bool = False) -> Console:
    """A terminal of this width that remembers what it was shown."""
    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colours,
        color_system="standard" if colours else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )


def seen(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def version(stream: str, number: int, data: dict[str, Any], parent: str | None = None) -> Version:
    return Version(f"v{number}", stream, data, 0, "llm", parent, f"run-{number}")


def voices(number: int, *texts: str, parent: str | None = None, speed: float = 1.0) -> Version:
    tracks = [{"voiceId": ALLOY, "text": text, "speed": speed} for text in texts]
    return version("voices", number, {"voiceTracks": ad.track_list(tracks)}, parent)


MUSIC = version("music", 1, ad.music_bed("warm acoustic guitar", "loudly", 30))
PROMPTS: list[dict[str, Any]] = [
    {"description": "shop door bell", "placement": {"type": "start"}, "duration": 2},
    {"description": "coffee machine", "placement": {"type": "afterVoice", "index": 0}, "duration": 2.5},
    {"description": "a street wakes up", "placement": {"type": "withFirstVoice"}},
]
EFFECTS = version("sfx", 1, {"soundFxPrompts": ad.effect_list(PROMPTS, 1)})


def timed(*versions: Version, spot_s: float = 30) -> Timeline:
    return ad.timeline({one.stream: one.data for one in versions}, language="english", spot_s=spot_s)


def turn(
    *takes: VersionChange, timeline: Timeline, kept: dict[str, str] | None = None, said: str = "Done."
) -> AdCliTurn:
    reply = {
        "message": said,
        "timeline": timeline,
        "provider": "offline",
        "providerReason": "no key is set",
        "conversationId": "ad-1",
    }
    return AdCliTurn(reply, takes, kept or {})


def whole(*texts: str, spot_s: float = 30, said: str = "Done.") -> AdCliTurn:
    """A first turn that made all three streams."""
    spoken = voices(1, *texts)
    timeline = timed(spoken, MUSIC, EFFECTS, spot_s=spot_s)
    takes = (
        VersionChange("voices", spoken, None, timeline),
        VersionChange("music", MUSIC, None, timeline),
        VersionChange("sfx", EFFECTS, None, timeline),
    )
    return turn(*takes, timeline=timeline, said=said)


def shown(made: AdCliTurn, width: int = 100) -> str:
    console = screen(width)
    rendering.show(console, made)
    return seen(console)


def words(text: str) -> str:
    return " ".join(text.split())


def test_every_track_effect_and_the_music_stand_with_their_times() -> None:
    told = words(shown(whole(ENGLISH)))
    spans = timed(voices(1, ENGLISH), MUSIC, EFFECTS)
    voice = spans["voices"][0]
    assert f"{voice['start']:.1f} – {voice['end']:.1f} s Alloy {ENGLISH}" in told
    assert "Music v1 0.0 – 30.0 s provider loudly warm acoustic guitar" in told
    assert "0.0 – 2.0 s at the start shop door bell" in told
    assert f"{voice['end']:.1f} – {voice['end'] + 2.5:.1f} s after voice 1 coffee machine" in told
    assert "with the first voice a street wakes up" in told
    assert "fits the spot of 30 s" in told
    assert "Model offline no key is set" in told


def test_an_ad_longer_than_its_spot_says_by_how_much() -> None:
    made = whole(ENGLISH, ENGLISH, spot_s=5)
    long_s = made.reply["timeline"]["durationSeconds"]
    assert f"{long_s:.1f} s {long_s - 5:.1f} s too long for the spot of 5 s" in words(shown(made))


def test_the_last_line_can_be_copied_whole_on_a_narrow_terminal() -> None:
    last = shown(whole(ENGLISH), width=30).rstrip().splitlines()[-1]
    assert last == f'  Refine  {program()} ad --thread ad-1 "make the music more upbeat"'


def test_an_id_with_spaces_and_quotes_is_quoted_for_the_shell() -> None:
    made = whole(ENGLISH)
    odd = AdCliTurn({**made.reply, "conversationId": "it's mine"}, made.changes, made.unchanged)
    assert """--thread 'it'"'"'s mine' """ in shown(odd)


def test_a_refinement_marks_what_is_new_and_names_what_stayed() -> None:
    """A56: people see what changed."""
    before, after = voices(1, ENGLISH, "Come by."), voices(2, ENGLISH, "Come by today.", parent="v1")
    timeline = timed(after, MUSIC, EFFECTS)
    told = shown(
        turn(
            VersionChange("voices", after, before, timeline),
            timeline=timeline,
            kept={"music": "v1", "sfx": "v3"},
        )
    )
    assert "Voices  v1 → v2" in told
    marked = [line for line in told.splitlines() if "•" in line]
    assert len(marked) == 1
    assert "Come by today." in marked[0]
    assert "Unchanged  music v1, effects v3" in told
    assert "acoustic" not in told


def test_a_stream_that_is_wholly_new_has_no_marks() -> None:
    before, after = voices(1, "Come by."), voices(2, ENGLISH, parent="v1")
    timeline = timed(after)
    assert "•" not in shown(turn(VersionChange("voices", after, before, timeline), timeline=timeline))


def test_a_version_that_restores_an_older_one_says_which() -> None:
    before, after = voices(2, "Come by."), voices(3, ENGLISH, parent="v1")
    timeline = timed(after)
    assert "v2 → v3, from v1" in shown(
        turn(VersionChange("voices", after, before, timeline), timeline=timeline)
    )


def test_three_variations_of_one_turn_are_all_shown() -> None:
    """A77: each can be reviewed."""
    made = [voices(1, "One."), voices(2, "Two.", parent="v1"), voices(3, "Three.", parent="v2")]
    takes = [VersionChange("voices", made[i], made[i - 1] if i else None, timed(made[i])) for i in range(3)]
    told = words(shown(turn(*takes, timeline=timed(made[2]))))
    assert told.index("Voices v1 ") < told.index("Voices v1 → v2 ") < told.index("Voices v2 → v3 ")
    for text in ("One.", "Two.", "Three."):
        assert f"Alloy {text}" in told


def test_an_answer_without_a_version_shows_the_answer_and_the_length() -> None:
    told = shown(turn(timeline=timed(MUSIC), kept={"music": "v1"}, said="There are two voices."))
    assert "There are two voices." in told
    assert "Length" in told
    assert "Music" not in told


def test_an_unknown_voice_is_shown_by_its_id_and_an_unusual_pace_by_its_number() -> None:
    spoken = voices(1, ENGLISH, speed=0.9)
    spoken.data["voiceTracks"][0]["voiceId"] = "acme/someone"
    told = shown(turn(VersionChange("voices", spoken, None, timed(spoken)), timeline=timed(spoken)))
    assert "acme/someone · speed 0.9" in told


@pytest.mark.parametrize("width", [34, 50, 71, 72, 100, 200])
@pytest.mark.parametrize(
    "text", [ENGLISH, THAI, CHINESE, "👩‍🚀 émotion — " * 12, "مرحبا بكم في المخبز " * 4, "x" * 300]
)
def test_no_line_is_wider_than_the_terminal(width: int, text: str) -> None:
    """A38: in any script; Chinese letters take two columns, Thai marks none."""
    lines = shown(whole(text, said=text), width).splitlines()
    assert max(cell_len(line) for line in lines if "Refine" not in line) <= width


@pytest.mark.parametrize("text", [ENGLISH, THAI, CHINESE, "x" * 300])
@pytest.mark.parametrize("width", [34, 60, 100])
def test_nothing_is_lost_at_the_ends_of_lines(text: str, width: int) -> None:
    """A38: in any script."""
    margin = 21 if width < layout.NARROW else 28
    column = "".join(line[margin:] for line in shown(whole(text), width).splitlines())
    assert "".join(text.split()) in "".join(column.split())


def test_what_steers_a_terminal_is_taken_out_of_every_text() -> None:
    hostile = "\x1b]0;gone\x07\x1b[2Jhello\r\x08\x9b31m"
    made = whole(hostile, said=hostile)
    console = screen(colours=True)
    rendering.show(console, made)
    for code in ("\x1b]", "\x1b[2J", "\x07", "\r", "\x08", "\x9b"):
        assert code not in seen(console)
    assert "hello" in seen(console)


def test_what_lies_beyond_the_spot_is_red() -> None:
    console = screen(colours=True)
    console.print(rendering.Bars(timed(voices(1, ENGLISH), spot_s=3)))
    assert "\x1b[31m━" in seen(console)
    fitting = screen(colours=True)
    fitting.print(rendering.Bars(timed(voices(1, ENGLISH), spot_s=30)))
    assert "\x1b[31m" not in seen(fitting)


def test_a_bar_is_as_long_as_what_it_stands_for() -> None:
    spoken = voices(1, ENGLISH)
    timeline = timed(spoken)
    console = screen(17 + 60)
    console.print(rendering.Bars(timeline))
    bar = seen(console).splitlines()[0][17:]
    assert bar.count("━") == pytest.approx(timeline["voices"][0]["end"] * 2, abs=1)
    assert len(bar) == 60


def step(status: str, name: str = "Searching voices", **more: Any) -> dict[str, Any]:
    return {"type": "step", "stepId": name, "tool": "t", "name": name, "status": status, **more}


DONE: dict[str, Any] = {"preview": {"count": 10}, "durationSeconds": 0.1234}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (step("completed", **DONE), "✔ Searching voices: 10 found (0.12 s)"),
        (
            step("completed", preview={"versionId": "v2"}, durationSeconds=1.0),
            "✔ Searching voices: v2 (1.00 s)",
        ),
        (step("completed", preview={}, durationSeconds=0.0), "✔ Searching voices (0.00 s)"),
        (
            step("error", preview={"error": "no\x1b[2J voice"}, durationSeconds=0.5),
            "✖ Searching voices: no[2J voice (0.50 s)",
        ),
        (
            step("blocked", preview={"error": "not carried out"}, durationSeconds=0.0),
            "✖ Searching voices: not carried out",
        ),
    ],
)
def test_a_step_that_is_over_is_a_line_where_nobody_watches(event: dict[str, Any], line: str) -> None:
    console = screen(40)
    with terminal.show_progress(console) as report:
        report(step("in-progress"))
        assert seen(console) == ""
        report(event)
        report({"type": "something else"})
    assert seen(console) == f"{line}\n"


def test_nothing_is_said_where_it_should_be_quiet() -> None:
    console = screen(colours=True)
    with terminal.show_progress(console, quiet=True) as report:
        report(step("completed", **DONE))
    assert seen(console) == ""


def drawn(steps: terminal.StepProgress) -> list[str]:
    console = screen(60)
    console.print(steps)
    return [line.strip() for line in seen(console).splitlines()]


def test_steps_tick_from_pending_over_running_to_done() -> None:
    """A82: what happens is seen as it happens."""
    steps = terminal.StepProgress()
    assert "Thinking" in drawn(steps)[0]
    steps.update(step("pending"))
    assert drawn(steps)[0].startswith("○ Searching voices")
    steps.update(step("in-progress"))
    assert drawn(steps)[0].endswith("Searching voices")
    assert drawn(steps)[0][0] not in "○✔✖"
    assert len(drawn(steps)) == 1, "it does not think while it works"
    steps.update(step("completed", **DONE))
    assert words(drawn(steps)[0]) == "✔ Searching voices 10 found 0.12 s"
    assert "Thinking" in drawn(steps)[1]


def test_a_terminal_is_left_without_spinners_even_when_the_run_fails() -> None:
    console = screen(60, colours=True)

    def failing() -> None:
        with terminal.show_progress(console) as report:
            report(step("completed", **DONE))
            report(step("in-progress", "Describing the music"))
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    last = seen(console).rpartition("✔")[2]
    assert "✖" in last
    assert "Describing the music" in last
    assert "Thinking" not in last


def test_an_error_is_one_line_and_its_remedy_another() -> None:
    console = screen(30)
    terminal.show_error(console, "thing 'a'\nbreaks a rule that takes more than one line", "do that")
    assert seen(console) == "error: thing 'a' breaks a rule that takes more than one line\nremedy: do that\n"
    alone = screen()
    terminal.show_error(alone, "it is so", "")
    assert seen(alone) == "error: it is so\n"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    rendering.show(terminal.console(), whole(ENGLISH))
    assert "\x1b[1;36m" not in capsys.readouterr().out
    monkeypatch.delenv("NO_COLOR")
    rendering.show(terminal.console(), whole(ENGLISH))
    assert "\x1b[1;36m" in capsys.readouterr().out


def test_a_terminal_that_lacks_a_letter_shows_another(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    narrow = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr("sys.stdout", narrow)
    rendering.show(terminal.console(), whole(THAI))
    narrow.flush()
    assert b"?" in written.getvalue()
