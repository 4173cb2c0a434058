"""`callsheet ads listen`: the sound of an ad as a file, and by a player."""

import json
from pathlib import Path

import pytest
import soundfile

from tests.cli.conftest import RunCommand
from tests.doubles.command import BRIEF, assert_refused
from tests.lessons.lesson_material import material

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def player(folder: Path, name: str, code: int = 0) -> None:
    """A program that keeps what it is to play."""
    program = folder / name
    program.write_text(f'#!/bin/sh\nfor last; do :; done\ncp "$last" {folder}/played\nexit {code}\n')
    program.chmod(0o755)


def test_an_ad_is_written_to_a_file_and_played(
    run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "ad.ogg"
    result = run_command("ads", "new", BRIEF, "--id", "ad-1", "--provider", "offline", "--save", str(saved))
    assert result.code == 0, result.err
    assert "✔ Speaking\n✔ Mixing" in result.err
    assert "is not available here; preview voice 1 speaks" in result.err
    assert "LUFS" in result.err
    assert soundfile.info(saved).duration == pytest.approx(30, abs=0.1)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/bin")
    player(programs, "ffplay")
    listened = run_command("ads", "listen", "ad-1", "--track", "track-0")
    assert listened.code == 0, listened.err
    assert soundfile.info(programs / "played").format == "MP3"
    player(programs, "ffplay", code=3)
    assert_refused(run_command("ads", "listen", "ad-1", "--track", "track-0"), "ffplay ended with 3")
    shown = run_command("ads", "listen", "ad-1", "--save", str(saved), "--json")
    assert json.loads(shown.out)["profile"] == "spotify"


def test_a_missing_player_a_wrong_ending_and_an_unknown_ad_are_errors_with_a_remedy(
    run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run_command("ads", "new", BRIEF, "--id", "ad-1", "--provider", "offline", "--save", "ad.mp4")
    assert_refused(refused, "'ad.mp4'", ".mp3, .ogg, .wav")
    assert_refused(run_command("ads", "listen", "ad-1"), "no ad 'ad-1'")
    run_command("ads", "new", BRIEF, "--id", "ad-1", "--provider", "offline")
    assert_refused(run_command("ads", "listen", "ad-1", "--save", "ad.mp3", "--track", "x"), "no track 'x'")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_refused(run_command("ads", "listen", "ad-1"), "no player is installed", "--save FILE.mp3")


def test_a_narration_is_written_to_a_file_in_full_or_by_segment(
    run_command: RunCommand, tmp_path: Path
) -> None:
    text = material("photosynthesis").text
    lesson = run_command("lesson", text, "--choose", "1 and 2", "--json", "--provider", "offline")
    name = json.loads(lesson.out)["sessionId"]
    saved = tmp_path / "hook.ogg"
    result = run_command("lessons", "listen", name, "--segment", "hook", "--save", str(saved))
    assert result.code == 0, result.err
    assert "✔ Speaking\n✔ Mixing" in result.err
    assert "preview voice 1 speaks" in result.err
    assert 0 < soundfile.info(saved).duration < 20
    refused = run_command("lessons", "listen", name, "--segment", "nobody", "--save", str(saved))
    assert_refused(refused, "no segment 'nobody'")


def test_pronunciations_of_an_ad_and_of_everything_are_set_shown_and_removed(run_command: RunCommand) -> None:
    run_command("ads", "new", BRIEF, "--id", "ad-1", "--provider", "offline")
    assert (
        "everywhere" in run_command("ads", "pronunciations", "--set", "Lyon=lee-on", "--set", "Miel=meal").out
    )
    own = run_command("ads", "pronunciations", "ad-1", "--set", "Miel=mee-ell")
    assert [line.split() for line in own.out.splitlines()[1:]] == [
        ["Lyon", "everywhere", "lee-on"],
        ["Miel", "this", "ad", "mee-ell"],
    ]
    assert_refused(run_command("ads", "pronunciations", "ad-1", "--remove", "Lyon"), "'Lyon' in this ad")
    assert_refused(run_command("ads", "pronunciations", "ad-1", "--set", "Lyon"), '"Miel=mee-ell"')
    removed = run_command("ads", "pronunciations", "ad-1", "--remove", "Miel", "--json")
    assert json.loads(removed.out) == {"names": {}, "ownerNames": {"Lyon": "lee-on", "Miel": "meal"}}
