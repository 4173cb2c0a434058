"""`callsheet lesson`: creating a lesson in the terminal."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand, TerminalInput
from tests.doubles.command import Finished, assert_refused
from tests.doubles.image_double import image_results, scripted_google, search_settings
from tests.doubles.pdf_writer import pdf
from tests.lessons.lesson_material import material

OFFLINE = ("--provider", "offline")
TEXT = material("photosynthesis").text


def lesson_name(result: Finished) -> str:
    """Return the lesson of the command that the output suggests."""
    match = re.search(r"lessons chat ([\w-]+)", result.out)
    assert match, result.out
    return match[1]


def test_a_lesson_waits_for_the_choice_of_facts_and_later_commands_continue_it(
    run_command: RunCommand, tmp_path: Path
) -> None:
    """B46-B50: the facts are printed as a table, the narration as a timeline."""
    question = run_command("lesson", f"My student is 10 and loves soccer.\n\n{TEXT}", *OFFLINE)
    assert question.code == 0, question.err
    assert "Finding the facts" in question.err
    assert re.search(r"3 +Chlorophyll .*", question.out)
    name = lesson_name(question)
    narration = run_command("lesson", "1, 2 and 5", "--lesson", name)
    assert "The narration is ready, with 4 segments: planned for 60 s, about" in " ".join(
        narration.out.split()
    )
    assert re.search(r"0\.0 – 10\.0 s +Hook", narration.out)
    assert re.search(r"45\.0 – 60\.0 s +Conclusion", narration.out)
    refined = run_command("lesson", "make the hook shorter", "--lesson", name)
    assert "Rewritten: hook; the rest is unchanged." in refined.out
    assert f"callsheet lessons chat {name} '…'" in refined.out
    shown = run_command("lessons", "show", name).out
    assert re.search(
        r"Photosynthesis planned for 60 s, about \d+ s of it spoken, by estimate, reading level:"
        r" target grade \S+, measured grade \S+",
        " ".join(shown.split()),
    )
    assert re.search(r"45\.0 – 60\.0 s +Conclusion", shown)
    assert re.findall(r"^ *✓ (\d)  ", shown, re.MULTILINE) == ["1", "2", "5"]
    assert re.search(r"^ *3  Chlorophyll", shown, re.MULTILINE)
    assert "✓ 3 of 7 chosen" in shown
    assert "-->" in run_command("lessons", "export", name, "--format", "srt").out
    starts = {"srt": "1\n", "vtt": "WEBVTT", "json": "{", "html": "<!", "md": "# "}
    for ending, start in starts.items():
        file = tmp_path / f"narration.{ending}"
        assert run_command("lessons", "export", name, str(file)).code == 0
        assert file.read_text().startswith(start)
    assert run_command("lessons", "restore", name, "v1").code == 0
    assert run_command("lessons", "delete", name, "--yes").code == 0
    assert_refused(run_command("lessons", "show", name), f"no lesson {name!r}")


def test_a_new_lesson_has_the_id_that_is_chosen_for_it_as_other_things_have(run_command: RunCommand) -> None:
    result = run_command("lessons", "new", TEXT, "--id", "tea", *OFFLINE)
    assert (result.code, lesson_name(result)) == (0, "tea"), result.err
    assert_refused(
        run_command("lessons", "new", TEXT, "--id", "tea", *OFFLINE), "already", "lessons chat tea"
    )


def test_a_quiz_of_the_chosen_facts_is_written_to_a_file_of_the_form_that_its_ending_names(
    run_command: RunCommand, tmp_path: Path
) -> None:
    name = lesson_name(run_command("lesson", f"My student is 10.\n\n{TEXT}", *OFFLINE))
    assert_refused(run_command("lessons", "quiz", name), "no chosen facts", "choose facts first")
    assert run_command("lesson", "1 and 2", "--lesson", name).code == 0
    printed = run_command("lessons", "quiz", name, "--write", "--count", "1", *OFFLINE)
    assert printed.code == 0, printed.err
    assert "1. " in printed.out
    assert "2. " not in printed.out
    for ending, start in ((".zip", b"PK"), (".csv", b"#separator"), (".json", b"{"), (".md", b"# ")):
        file = tmp_path / f"quiz{ending}"
        assert run_command("lessons", "quiz", name, str(file)).code == 0
        assert file.read_bytes().startswith(start)
    assert json.loads(run_command("lessons", "quiz", name, "--json").out)["madeBy"] == "code"
    assert_refused(run_command("lessons", "quiz", name, "quiz.txt"), "'quiz.txt'", "use .md or .csv or .zip")


def test_the_command_after_an_answered_question_refines_what_was_made(run_command: RunCommand) -> None:
    name = lesson_name(run_command("lesson", f"My student is 10.\n\n{TEXT}", *OFFLINE))
    answered = run_command("questions", "answer", name, "1 and 2")
    assert f'callsheet lessons chat {name} "…"' in answered.out


@pytest.mark.slow
def test_one_command_with_a_file_and_the_chosen_facts_makes_a_lesson(
    run_command: RunCommand, tmp_path: Path
) -> None:
    """B5."""
    file = tmp_path / "leaves.pdf"
    file.write_bytes(pdf(TEXT))
    message = "My student is 9 and loves football"
    result = run_command(
        "lesson", message, "--file", str(file), "--choose", "1, 2, 4, 5, 6 and 7", "--json", *OFFLINE
    )
    reply = json.loads(result.out)
    assert (reply["childAge"], reply["childInterest"]) == ("9", "football")
    assert reply["interrupt"] is None
    assert len(reply["confirmedFacts"]) == len(reply["facts"]) - 1
    assert len(reply["narration"]["segments"]) == 4


@pytest.mark.slow
def test_the_questions_of_a_lesson_are_repeated_at_the_terminal_until_answered(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", TerminalInput("none\nall\nyes\n"))
    approved = run_command("lesson", TEXT, "--review", *OFFLINE)
    assert "none is chosen" in approved.err
    assert "Is this narration about Photosynthesis right?" in approved.err
    assert "The narration is approved." in approved.out
    monkeypatch.setattr(sys, "stdin", TerminalInput("\n"))
    unanswered = run_command("lesson", TEXT, *OFFLINE)
    assert "'1 and 2'" in unanswered.out


def test_a_command_without_a_text_or_with_an_unknown_lesson_or_file_is_refused(
    run_command: RunCommand,
) -> None:
    assert run_command("lesson").code == 2
    assert_refused(run_command("lesson", "hello", "--lesson", "nobody"), "there is no lesson 'nobody'")
    assert_refused(run_command("lesson", "--file", "/nowhere.pdf"), "cannot be read")


def test_a_later_command_chooses_an_image_by_its_number(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B62: the images are a table under the narration."""
    with scripted_google(200, image_results) as (url, _):
        for key, value in search_settings(url).items():
            monkeypatch.setenv(key, value)
        question = run_command("lesson", TEXT, "--images", "--choose", "all", *OFFLINE)
        assert re.search(r"45\.0 – 60\.0 s +Conclusion", question.out)
        assert re.search(r"3 +A tree +https://e\.org/Photosynthesis-tree\.png +e\.org", question.out)
        result = run_command("lesson", "3", "--lesson", lesson_name(question))
    assert "Added: A tree." in result.out
