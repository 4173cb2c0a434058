"""`callsheet lesson`: a lesson made in the terminal."""

import json
import re
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from tests.doubles.command import Finished, assert_refused, command_in_process
from tests.doubles.image_double import image_results, scripted_google, search_settings
from tests.doubles.pdf_writer import pdf
from tests.lessons.lesson_material import material

OFFLINE = ("--provider", "offline")
TEXT = material("photosynthesis").text


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    return command_in_process(valkey_url, tmp_path, monkeypatch, capsys)


def named(done: Finished) -> str:
    """The lesson that the output says how to go on with."""
    found = re.search(r"--lesson (\w+)", done.out)
    assert found, done.out
    return found[1]


def test_a_lesson_waits_for_a_choice_and_the_next_commands_go_on(here: Callable[..., Finished]) -> None:
    """B46-B50: the facts are a table, the narration a timeline."""
    asked = here("lesson", f"My student is 10 and loves soccer.\n\n{TEXT}", *OFFLINE)
    assert asked.code == 0, asked.err
    assert "Finding the facts" in asked.err
    assert re.search(r"3 +Chlorophyll .*", asked.out)
    name = named(asked)
    told = here("lesson", "1, 2 and 5", "--lesson", name)
    assert "The narration is ready: 60 s in 4 segments." in told.out
    assert re.search(r"0\.0 – 10\.0 s +Hook", told.out)
    assert re.search(r"45\.0 – 60\.0 s +Conclusion", told.out)
    again = here("lesson", "make the hook shorter", "--lesson", name)
    assert re.search(r"• +0\.0 – 10\.0 s +Hook", again.out)
    assert not re.search(r"• +45\.0", again.out)
    assert f"callsheet lesson --lesson {name} 'make the hook shorter'" in again.out


@pytest.mark.slow
def test_a_file_is_read_and_the_choice_given_with_it(here: Callable[..., Finished], tmp_path: Path) -> None:
    """B5."""
    file = tmp_path / "leaves.pdf"
    file.write_bytes(pdf(TEXT))
    who = "My student is 9 and loves football"
    done = here("lesson", who, "--file", str(file), "--choose", "1, 2, 4, 5, 6 and 7", "--json", *OFFLINE)
    reply = json.loads(done.out)
    assert (reply["childAge"], reply["childInterest"]) == ("9", "football")
    assert reply["interrupt"] is None
    assert len(reply["confirmedFacts"]) == len(reply["facts"]) - 1
    assert len(reply["narration"]["segments"]) == 4


@pytest.mark.slow
def test_a_person_at_the_terminal_is_asked_until_they_have_chosen(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("none\nall\nyes\n"))
    done = here("lesson", TEXT, "--review", *OFFLINE)
    assert "none is chosen" in done.err
    assert "Is this narration about Photosynthesis right?" in done.err
    assert "The narration is approved." in done.out
    monkeypatch.setattr(sys, "stdin", Terminal("\n"))
    later = here("lesson", TEXT, *OFFLINE)
    assert "'1 and 2'" in later.out


def test_what_is_missing_is_named(here: Callable[..., Finished]) -> None:
    assert here("lesson").code == 2
    assert_refused(here("lesson", "hello", "--lesson", "nobody"), "there is no thread 'nobody'")
    assert_refused(here("lesson", "--file", "/nowhere.pdf"), "cannot be read")


def test_images_are_chosen_in_the_terminal(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B62: they are a table under the narration, and one is kept."""
    with scripted_google(200, image_results) as (url, _):
        for key, value in search_settings(url).items():
            monkeypatch.setenv(key, value)
        asked = here("lesson", TEXT, "--images", "--choose", "all", *OFFLINE)
        assert re.search(r"45\.0 – 60\.0 s +Conclusion", asked.out)
        assert re.search(r"3 +A tree +https://e\.org/Photosynthesis-tree\.png +e\.org", asked.out)
        done = here("lesson", "3", "--lesson", named(asked))
    assert "Added: A tree." in done.out
