"""Terminal output: on wide and narrow terminals, in any script, with and without colours."""

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


def recording_console(width: int = 100, *, colours: bool = False) -> Console:
    """Return a terminal of this width that records its output."""
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


def output(console: Console) -> str:
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


def timeline_of(*versions: Version, spot_s: float = 30) -> Timeline:
    return ad.timeline({each.stream: each.data for each in versions}, language="english", spot_s=spot_s)


def cli_turn(
    *changes: VersionChange,
    timeline: Timeline,
    unchanged: dict[str, str] | None = None,
    message: str = "Done.",
) -> AdCliTurn:
    reply = {
        "message": message,
        "question": None,
        "timeline": timeline,
        "provider": "offline",
        "providerReason": "no key is set",
        "conversationId": "ad-1",
    }
    return AdCliTurn(reply, changes, unchanged or {})


def first_turn(*texts: str, spot_s: float = 30, message: str = "Done.") -> AdCliTurn:
    """Return a first turn that created all three streams."""
    voice_version = voices(1, *texts)
    timeline = timeline_of(voice_version, MUSIC, EFFECTS, spot_s=spot_s)
    changes = (
        VersionChange("voices", voice_version, None, timeline),
        VersionChange("music", MUSIC, None, timeline),
        VersionChange("sfx", EFFECTS, None, timeline),
    )
    return cli_turn(*changes, timeline=timeline, message=message)


def render(turn: AdCliTurn, width: int = 100) -> str:
    console = recording_console(width)
    rendering.show(console, turn)
    return output(console)


def normalise_spaces(text: str) -> str:
    return " ".join(text.split())


def test_tracks_effects_and_music_are_shown_with_their_times() -> None:
    text = normalise_spaces(render(first_turn(ENGLISH)))
    timeline = timeline_of(voices(1, ENGLISH), MUSIC, EFFECTS)
    voice = timeline["voices"][0]
    assert f"{voice['start']:.1f} – {voice['end']:.1f} s Alloy {ENGLISH}" in text
    assert "Music v1 0.0 – 30.0 s provider loudly warm acoustic guitar" in text
    assert "0.0 – 2.0 s at the start shop door bell" in text
    assert f"{voice['end']:.1f} – {voice['end'] + 2.5:.1f} s after voice 1 coffee machine" in text
    assert "with the first voice a street wakes up" in text
    assert "fits the spot of 30 s" in text
    assert "Model offline no key is set" in text


def test_an_ad_longer_than_its_spot_is_shown_with_the_excess() -> None:
    turn = first_turn(ENGLISH, ENGLISH, spot_s=5)
    long_s = turn.reply["timeline"]["durationSeconds"]
    assert f"{long_s:.1f} s {long_s - 5:.1f} s too long for the spot of 5 s" in normalise_spaces(render(turn))


def test_the_suggested_command_is_never_wrapped_on_a_narrow_terminal() -> None:
    last_line = render(first_turn(ENGLISH), width=30).rstrip().splitlines()[-1]
    assert last_line == f'  Refine  {program()} ad --thread ad-1 "make the music more upbeat"'


def test_an_id_with_spaces_and_quotes_is_quoted_for_the_shell() -> None:
    turn = first_turn(ENGLISH)
    odd_turn = AdCliTurn({**turn.reply, "conversationId": "it's mine"}, turn.changes, turn.unchanged)
    assert """--thread 'it'"'"'s mine' """ in render(odd_turn)


def test_a_refinement_marks_changed_tracks_and_names_unchanged_streams() -> None:
    """A56: people see the changes."""
    before, after = voices(1, ENGLISH, "Come by."), voices(2, ENGLISH, "Come by today.", parent="v1")
    timeline = timeline_of(after, MUSIC, EFFECTS)
    text = render(
        cli_turn(
            VersionChange("voices", after, before, timeline),
            timeline=timeline,
            unchanged={"music": "v1", "sfx": "v3"},
        )
    )
    assert "Voices  v1 → v2" in text
    marked_lines = [line for line in text.splitlines() if "•" in line]
    assert len(marked_lines) == 1
    assert "Come by today." in marked_lines[0]
    assert "Unchanged  music v1, effects v3" in text
    assert "acoustic" not in text


def test_a_stream_with_only_new_tracks_has_no_marks() -> None:
    before, after = voices(1, "Come by."), voices(2, ENGLISH, parent="v1")
    timeline = timeline_of(after)
    assert "•" not in render(cli_turn(VersionChange("voices", after, before, timeline), timeline=timeline))


def test_a_version_restored_from_an_older_one_names_it() -> None:
    before, after = voices(2, "Come by."), voices(3, ENGLISH, parent="v1")
    timeline = timeline_of(after)
    assert "v2 → v3, from v1" in render(
        cli_turn(VersionChange("voices", after, before, timeline), timeline=timeline)
    )


def test_three_variations_of_one_turn_are_all_shown() -> None:
    """A77: so that each can be reviewed."""
    versions = [voices(1, "One."), voices(2, "Two.", parent="v1"), voices(3, "Three.", parent="v2")]
    changes = [
        VersionChange("voices", versions[i], versions[i - 1] if i else None, timeline_of(versions[i]))
        for i in range(3)
    ]
    text = normalise_spaces(render(cli_turn(*changes, timeline=timeline_of(versions[2]))))
    assert text.index("Voices v1 ") < text.index("Voices v1 → v2 ") < text.index("Voices v2 → v3 ")
    for track in ("One.", "Two.", "Three."):
        assert f"Alloy {track}" in text


def test_a_turn_without_a_version_shows_the_answer_and_the_length() -> None:
    text = render(
        cli_turn(timeline=timeline_of(MUSIC), unchanged={"music": "v1"}, message="There are two voices.")
    )
    assert "There are two voices." in text
    assert "Length" in text
    assert "Music" not in text


def test_an_unknown_voice_is_shown_by_its_id_and_a_speed_other_than_1_by_its_number() -> None:
    voice_version = voices(1, ENGLISH, speed=0.9)
    voice_version.data["voiceTracks"][0]["voiceId"] = "acme/someone"
    text = render(
        cli_turn(
            VersionChange("voices", voice_version, None, timeline_of(voice_version)),
            timeline=timeline_of(voice_version),
        )
    )
    assert "acme/someone · speed 0.9" in text


@pytest.mark.parametrize("width", [34, 50, 71, 72, 100, 200])
@pytest.mark.parametrize(
    "text", [ENGLISH, THAI, CHINESE, "👩‍🚀 émotion — " * 12, "مرحبا بكم في المخبز " * 4, "x" * 300]
)
def test_no_line_is_wider_than_the_terminal(width: int, text: str) -> None:
    """A38: in any script; Chinese characters take two columns, Thai marks none."""
    lines = render(first_turn(text, message=text), width).splitlines()
    assert max(cell_len(line) for line in lines if "Refine" not in line) <= width


@pytest.mark.parametrize("text", [ENGLISH, THAI, CHINESE, "x" * 300])
@pytest.mark.parametrize("width", [34, 60, 100])
def test_wrapped_text_is_complete(text: str, width: int) -> None:
    """A38: in any script."""
    margin = 21 if width < layout.NARROW else 28
    column = "".join(line[margin:] for line in render(first_turn(text), width).splitlines())
    assert "".join(text.split()) in "".join(column.split())


def test_control_sequences_are_removed_from_every_text() -> None:
    hostile = "\x1b]0;gone\x07\x1b[2Jhello\r\x08\x9b31m"
    turn = first_turn(hostile, message=hostile)
    console = recording_console(colours=True)
    rendering.show(console, turn)
    for code in ("\x1b]", "\x1b[2J", "\x07", "\r", "\x08", "\x9b"):
        assert code not in output(console)
    assert "hello" in output(console)


def test_the_part_of_a_bar_beyond_the_spot_is_red() -> None:
    console = recording_console(colours=True)
    console.print(rendering.Bars(timeline_of(voices(1, ENGLISH), spot_s=3)))
    assert "\x1b[31m━" in output(console)
    fitting = recording_console(colours=True)
    fitting.print(rendering.Bars(timeline_of(voices(1, ENGLISH), spot_s=30)))
    assert "\x1b[31m" not in output(fitting)


def test_the_length_of_a_bar_is_proportional_to_its_duration() -> None:
    voice_version = voices(1, ENGLISH)
    timeline = timeline_of(voice_version)
    console = recording_console(17 + 60)
    console.print(rendering.Bars(timeline))
    bar = output(console).splitlines()[0][17:]
    assert bar.count("━") == pytest.approx(timeline["voices"][0]["end"] * 2, abs=1)
    assert len(bar) == 60


def step_event(status: str, name: str = "Searching voices", **more: Any) -> dict[str, Any]:
    return {"type": "step", "stepId": name, "tool": "t", "name": name, "status": status, **more}


DONE: dict[str, Any] = {"preview": {"count": 10}, "durationSeconds": 0.1234}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (step_event("completed", **DONE), "✔ Searching voices: 10 found (0.12 s)"),
        (
            step_event("completed", preview={"versionId": "v2"}, durationSeconds=1.0),
            "✔ Searching voices: v2 (1.00 s)",
        ),
        (step_event("completed", preview={}, durationSeconds=0.0), "✔ Searching voices (0.00 s)"),
        (
            step_event("error", preview={"error": "no\x1b[2J voice"}, durationSeconds=0.5),
            "✖ Searching voices: no[2J voice (0.50 s)",
        ),
        (
            step_event("blocked", preview={"error": "not carried out"}, durationSeconds=0.0),
            "✖ Searching voices: not carried out",
        ),
    ],
)
def test_without_a_terminal_every_finished_step_is_a_line(event: dict[str, Any], line: str) -> None:
    console = recording_console(40)
    with terminal.show_progress(console) as report:
        report(step_event("in-progress"))
        assert output(console) == ""
        report(event)
        report({"type": "something else"})
    assert output(console) == f"{line}\n"


def test_quiet_progress_prints_nothing() -> None:
    console = recording_console(colours=True)
    with terminal.show_progress(console, quiet=True) as report:
        report(step_event("completed", **DONE))
    assert output(console) == ""


def rendered_lines(steps: terminal.StepProgress) -> list[str]:
    console = recording_console(60)
    console.print(steps)
    return [line.strip() for line in output(console).splitlines()]


def test_steps_are_shown_as_pending_running_and_done() -> None:
    """A82: progress is shown as it happens."""
    steps = terminal.StepProgress()
    assert "Thinking" in rendered_lines(steps)[0]
    steps.update(step_event("pending"))
    assert rendered_lines(steps)[0].startswith("○ Searching voices")
    steps.update(step_event("in-progress"))
    assert rendered_lines(steps)[0].endswith("Searching voices")
    assert rendered_lines(steps)[0][0] not in "○✔✖"
    assert len(rendered_lines(steps)) == 1, "no 'Thinking' during a step"
    steps.update(step_event("completed", **DONE))
    assert normalise_spaces(rendered_lines(steps)[0]) == "✔ Searching voices 10 found 0.12 s"
    assert "Thinking" in rendered_lines(steps)[1]


def test_no_spinner_is_left_on_the_terminal_after_a_failed_run() -> None:
    console = recording_console(60, colours=True)

    def fail() -> None:
        with terminal.show_progress(console) as report:
            report(step_event("completed", **DONE))
            report(step_event("in-progress", "Describing the music"))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    final_lines = output(console).rpartition("✔")[2]
    assert "✖" in final_lines
    assert "Describing the music" in final_lines
    assert "Thinking" not in final_lines


def test_an_error_is_one_line_and_its_remedy_another_one() -> None:
    console = recording_console(30)
    terminal.show_error(console, "thing 'a'\nbreaks a rule that takes more than one line", "do that")
    assert (
        output(console) == "error: thing 'a' breaks a rule that takes more than one line\nremedy: do that\n"
    )
    second_console = recording_console()
    terminal.show_error(second_console, "it is so", "")
    assert output(second_console) == "error: it is so\n"


def test_no_color_switches_colours_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    rendering.show(terminal.console(), first_turn(ENGLISH))
    assert "\x1b[1;36m" not in capsys.readouterr().out
    monkeypatch.delenv("NO_COLOR")
    rendering.show(terminal.console(), first_turn(ENGLISH))
    assert "\x1b[1;36m" in capsys.readouterr().out


def test_a_character_that_the_terminal_cannot_encode_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    narrow = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr("sys.stdout", narrow)
    rendering.show(terminal.console(), first_turn(THAI))
    narrow.flush()
    assert b"?" in written.getvalue()
