"""A reached budget in the terminal: the commands show the question, and a person answers it (X14)."""

import json
import sys
from collections.abc import Iterator
from io import StringIO

import pytest

from tests.cli.conftest import RunCommand, TerminalInput
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.command import assert_refused

COMMANDS = {
    "ad": ("ad", "30 seconds for Miel, a bakery in Lyon"),
    "page": ("page", "make the headline teal"),
    "lesson": ("lesson", "My student is 10. Plants make their food from light.", "--choose", "1"),
    "scenes": ("scenes", "launch", "make all scenes faster", "--starter", "app-promo"),
}
QUESTION = "The budget of this turn is $"
each_command = pytest.mark.parametrize("args", COMMANDS.values(), ids=COMMANDS)


@pytest.fixture
def double(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    """A vendor's endpoint, and a budget below the cost of any call; `run_command` clears other settings."""
    with ChatDouble() as model:
        environ = {**model.environ, "OPENAI_MODEL": "gpt-4o-mini", "CALLSHEET_BUDGETS": '{"turn": 0.0001}'}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        yield model


@each_command
def test_a_reached_budget_is_printed_with_the_command_that_raises_it(
    run_command: RunCommand, double: ChatDouble, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO())
    result = run_command(*args, "--provider", "openai")
    assert result.code == 0, result.err
    assert QUESTION in " ".join(result.out.split())
    answer = next(line for line in result.out.splitlines() if line.startswith("  Answer  "))
    assert answer.endswith(" yes")
    pages = run_command("pages", "list", "--json")
    for page in json.loads(pages.out)["pages"]:
        # A budget is raised in words, and never by the option that approves deletions.
        assert_refused(run_command("pages", "chat", page["pageId"], "--yes"), "budget", "in quotes")
    assert not double.requests
    arguments = answer.partition("callsheet ")[2].split()
    double.script(*[Say("There is nothing to do.")] * 3)
    continued = run_command(*arguments, "--provider", "openai")
    assert continued.code == 0, continued.err
    assert QUESTION not in continued.out
    assert double.requests


@each_command
@pytest.mark.parametrize("answer", ["yes", "no"])
def test_a_reached_budget_is_a_question_at_the_terminal_and_only_yes_raises_it(
    run_command: RunCommand,
    double: ChatDouble,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    answer: str,
) -> None:
    double.script(*[Say("There is nothing to do.")] * 3)
    monkeypatch.setattr(sys, "stdin", TerminalInput(f"{answer}\n"))
    result = run_command(*args, "--provider", "openai")
    assert result.code == int("--choose" not in args), "nothing was made, but an answer was given"
    assert QUESTION in " ".join(result.err.split())
    assert QUESTION not in result.out
    if answer == "no":
        assert "the budget was not raised" in " ".join(result.out.split())
    assert bool(double.requests) == (answer == "yes")


@each_command
def test_new_work_after_a_used_up_day_is_refused_with_the_time_at_which_it_begins_again(
    run_command: RunCommand, double: ChatDouble, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CALLSHEET_BUDGETS", '{"day": 0.0001}')
    monkeypatch.setattr(sys, "stdin", StringIO())
    result = run_command(*args, "--provider", "openai")
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines()[-1 if "page" in args else -2].startswith(
        "error: the budget of this day is used up"
    )
    assert "when the budget begins again" in result.err
    assert not double.requests
