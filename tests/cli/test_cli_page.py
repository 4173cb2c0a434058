"""`callsheet page`: editing a landing page in the terminal."""

import json
import re
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand, TerminalInput
from tests.doubles.command import assert_refused

OFFLINE = ("--provider", "offline")


def test_page_edits_a_page_and_the_next_command_continues(run_command: RunCommand) -> None:
    result = run_command("pages", "new", "make the headline teal", "--id", "shop", *OFFLINE)
    assert result.code == 0, result.err
    assert "Changing the page: v1" in result.err
    assert "heading-1 (Say what you offer in one line): color set to" in result.out
    assert "callsheet pages chat shop 'undo that'" in result.out
    result = run_command("page", "undo that", "--page", "shop", *OFFLINE)
    assert "v2" in result.out
    assert "'undo that'" not in result.out, "what was done is not offered"
    nothing = run_command("page", "what can you do?", *OFFLINE)
    assert (nothing.code, "callsheet pages chat page-" in nothing.out) == (1, True), "nothing was made"


def test_a_deletion_waits_for_approval_by_a_later_command(run_command: RunCommand) -> None:
    """C-R1: without a terminal the question stays open until a command answers it."""
    question = run_command("pages", "new", "delete the features section", "--id", "shop", *OFFLINE)
    assert question.code == 0
    assert "callsheet pages chat shop yes" in question.out
    assert "shop" in run_command("questions", "list").out
    refused = run_command("page", "--page", "shop", "--no")
    assert "said no" in refused.out
    approved = run_command(
        "page", "delete the features section", "--page", "shop", "--yes", "--json", *OFFLINE
    )
    assert json.loads(approved.out)["drafts"] == {"page": "v1"}


def test_a_deletion_is_approved_at_the_terminal(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", TerminalInput("y\n"))
    result = run_command("pages", "new", "delete the features section", "--id", "shop", *OFFLINE)
    assert "Deleting from the page: the section “Features” (section-2)\n" in result.err
    assert "I removed" in result.out
    assert result.err.count("Shall I?") == 1


def test_a_question_without_an_answer_at_the_terminal_stays_open(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", TerminalInput())
    result = run_command("pages", "new", "delete the features section", "--id", "shop", *OFFLINE)
    assert result.code == 130
    assert "callsheet pages chat shop" in result.err
    assert "said no" in run_command("page", "--page", "shop", "--no").out


def test_a_page_is_checked_and_written_to_a_zip_file(run_command: RunCommand, tmp_path: Path) -> None:
    assert run_command("pages", "new", "make the headline teal", "--id", "shop", *OFFLINE).code == 0
    checked = run_command("pages", "check", "shop")
    assert checked.code == 1
    assert "fail  description: none; set `description` of the page" in checked.out
    assert "pages chat shop 'the description of the page is" in " ".join(checked.out.split())
    assert "contrast: ok" in checked.out
    assert json.loads(run_command("pages", "check", "shop", "--json").out)["verdict"] == "fail"
    file = tmp_path / "shop.zip"
    site = "https://shop.example/"
    assert run_command("pages", "export", "shop", str(file), "--site", site).code == 0
    with zipfile.ZipFile(file) as archive:
        assert site in archive.read("index.html").decode()


def test_an_export_says_that_another_version_is_active(run_command: RunCommand, tmp_path: Path) -> None:
    """A34: the newest is written when none is named, and nobody takes it for the active one."""
    assert run_command("pages", "new", "make the headline teal", "--id", "shop", *OFFLINE).code == 0
    file = str(tmp_path / "shop.html")
    assert run_command("pages", "activate", "shop", "v1").code == 0
    assert "active" not in run_command("pages", "export", "shop", file).err
    assert run_command("pages", "restore", "shop", "start").code == 0
    result = run_command("pages", "export", "shop", file)
    assert "It is v2, the newest; v1 is active (--version v1)." in " ".join(result.err.split())
    assert "active" not in run_command("pages", "export", "shop", file, "--version", "v1").err


def test_a_campaign_becomes_an_ad_and_the_ad_a_page(run_command: RunCommand) -> None:
    created = run_command("ads", "new", "--from-campaign", "c-0002", "--id", "kestrel", "--json", *OFFLINE)
    assert created.code == 0, created.err
    assert json.loads(created.out)["brief"]["clientDescription"].startswith("Kestrel Pay")
    northfold = run_command("ads", "new", "--from-campaign", "c-0074", "--id", "northfold", *OFFLINE)
    assert "Double points on dining until the end of the year" in re.sub(r"\s+", " ", northfold.out)
    assert re.search(r"Model +offline", northfold.out)
    assert "Not spoken" in run_command("ads", "new", "--from-campaign", "c-0072", *OFFLINE).out
    assert run_command("pages", "new", "--from-ad", "kestrel", "--id", "kestrel").code == 0
    page = json.loads(run_command("pages", "show", "kestrel", "--json").out)
    assert page["versionId"] == "v1"
    assert_refused(run_command("pages", "new", "--from-ad", "nobody"), "no ad 'nobody'")
    assert_refused(run_command("videos", "new", "--from-lesson", "nobody"), "no lesson 'nobody'")


def test_a_video_is_written_as_a_timeline(run_command: RunCommand, tmp_path: Path) -> None:
    assert run_command("videos", "new", "--id", "film", "--starter", "app-promo").code == 0
    file = tmp_path / "film.otio"
    assert run_command("videos", "export", "film", str(file)).code == 0
    assert json.loads(file.read_text())["OTIO_SCHEMA"] == "Timeline.1"


@pytest.mark.parametrize(
    ("command", "file", "remedy"),
    [
        ("videos export film", "film.mp4", "use .json or .otio; a film is made on the page"),
        ("videos preview film", "film.mp4", "use .html; a film is made on the page"),
        ("lessons export film", "narration.docx", "use .md or .srt or .vtt or .json or .html"),
        ("ads export film", "ad.mp3", "use .jsonl; a sound file is written by `ads listen`"),
        ("pages export film", "shop.pdf", "use .html or .zip"),
        ("audit export", "actions.csv", "use .jsonl"),
        ("threads export film", "thread.json", "use .jsonl"),
    ],
)
def test_a_file_whose_ending_is_not_written_is_refused_with_those_that_are(
    run_command: RunCommand, tmp_path: Path, command: str, file: str, remedy: str
) -> None:
    assert_refused(run_command(*command.split(), str(tmp_path / file)), file, remedy)
    assert not [*tmp_path.glob("*.*")]


def test_the_word_this_refers_to_the_selected_element(run_command: RunCommand) -> None:
    result = run_command("pages", "new", "make this red", "--id", "shop", "--select", "button-1", *OFFLINE)
    assert "button-1" in result.out


def test_a_missing_message_or_page_is_an_error(run_command: RunCommand) -> None:
    assert run_command("page").code == 2
    assert run_command("page", "--yes").code == 2
    assert_refused(run_command("page", "--page", "shop", "--yes"), "no page 'shop'")
    run_command("pages", "new", "make the headline teal", "--id", "shop", *OFFLINE)
    assert_refused(run_command("pages", "chat", "shop", "--yes"), "no question waits")
