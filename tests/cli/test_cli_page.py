"""`callsheet page`: a landing page edited in the terminal."""

import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from tests.doubles.command import Finished, assert_refused, command_in_process

OFFLINE = ("--provider", "offline")


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    return command_in_process(valkey_url, tmp_path, monkeypatch, capsys)


def test_a_page_is_edited_and_the_next_command_goes_on(here: Callable[..., Finished]) -> None:
    done = here("page", "make the headline teal", "--page", "shop", *OFFLINE)
    assert done.code == 0, done.err
    assert "Changing the page: v1" in done.err
    assert "heading-1 (Say what you offer in one line): color set to" in done.out
    assert 'callsheet page --page shop "undo that"' in done.out
    done = here("page", "undo that", "--page", "shop", *OFFLINE)
    assert "v2" in done.out
    done = here("page", "what can you do?", *OFFLINE)
    assert done.code == 0
    assert "callsheet page --page page-" in done.out


def test_nothing_is_deleted_without_leave(here: Callable[..., Finished]) -> None:
    """C-R1: where nobody can be asked, the question waits and is answered by the next command."""
    asked = here("page", "delete the features section", "--page", "shop", *OFFLINE)
    assert asked.code == 0
    assert "callsheet page --page shop --yes" in asked.out
    kept = here("page", "--page", "shop", "--no")
    assert "said no" in kept.out
    gone = here("page", "delete the features section", "--page", "shop", "--yes", "--json", *OFFLINE)
    assert json.loads(gone.out)["drafts"] == {"page": "v1"}


def test_a_person_at_the_terminal_is_asked(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    done = here("page", "delete the features section", "--page", "shop", *OFFLINE)
    assert "Deleting from the page: the section “Features” (section-2)\n" in done.err
    assert "I removed" in done.out


def test_a_question_left_without_an_answer_waits_for_another_command(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Left(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Left())
    done = here("page", "delete the features section", "--page", "shop", *OFFLINE)
    assert done.code == 130
    assert "callsheet page --page shop" in done.err
    assert "said no" in here("page", "--page", "shop", "--no").out


def test_the_operators_word_on_tools_holds_in_the_terminal_too(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"list_elements": {"output_bytes": 1}}')
    done = here("page", "make the headline teal", "--page", "shop", "--json", *OFFLINE)
    reply = json.loads(done.out)
    assert (reply["toolCalls"][0]["name"], reply["toolCalls"][0]["status"]) == ("list_elements", "error")
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"*": {"bogus": 5}}')
    assert_refused(here("page", "make the headline teal", *OFFLINE), "bogus", "CALLSHEET_TOOLS")


def test_this_is_what_is_selected(here: Callable[..., Finished]) -> None:
    done = here("page", "make this red", "--page", "shop", "--select", "button-1", *OFFLINE)
    assert "button-1" in done.out


def test_what_is_missing_is_named(here: Callable[..., Finished]) -> None:
    assert here("page").code == 2
    assert here("page", "--yes").code == 2
    assert_refused(here("page", "--page", "shop", "--yes"), "no conversation about page 'shop'")
