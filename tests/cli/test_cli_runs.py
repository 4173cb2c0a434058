"""`callsheet runs`: looked at and cancelled on the command line, whichever process is at them."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callsheet.storage import connect
from callsheet.storage.runs.records import RunAttempt, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads.threads import NewThread, create
from tests.doubles.command import Finished, assert_refused, command_in_process

Command = Callable[..., Finished]


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    return command_in_process(valkey_url, tmp_path, monkeypatch, capsys)


@pytest.fixture
def runs(valkey_url: str) -> list[str]:
    """A run that a process is at, and two that wait for it; another owner has one, too."""

    async def made() -> list[str]:
        async with connect(valkey_url) as storage:
            book = Runs(storage)
            await create(storage, NewThread("harbour", "local"))
            for name in ("r-1", "r-2", "r-3"):
                await book.create(RunRequest("harbour", name, "ad_creation", "local", asked(name)))
            await book.create(RunRequest("hers", "r-9", "ad_creation", "anna", asked("r-9")))
            assert isinstance(await book.claim("harbour", "r-1"), RunAttempt)
        return ["r-1", "r-2", "r-3"]

    return asyncio.run(made())


def asked(word: str) -> dict[str, Any]:
    return request_fields(input={"say": word})


def test_without_runs_the_list_says_so(here: Command) -> None:
    assert here("runs", "list").out.strip() == "No run is pending or running."
    assert_refused(here("runs", "list", "--thread", "none"), "'none'")


def test_the_list_has_what_waits_and_what_is_under_way(here: Command, runs: list[str]) -> None:
    title, *lines = here("runs", "list").out.splitlines()
    assert title.split()[:4] == ["Id", "Thread", "Graph", "Status"]
    found = {line.split()[0]: line.split()[1:4] for line in lines}
    assert found == {name: ["harbour", "ad_creation", found[name][2]] for name in runs}
    assert (found["r-1"][2], found["r-2"][2]) == ("running", "pending")
    told = json.loads(here("runs", "list", "--json", "--owner", "anna").out)
    assert [(run["id"], run["thread"], run["status"]) for run in told] == [("r-9", "hers", "pending")]


def test_a_run_is_shown_with_what_it_was_asked(here: Command, runs: list[str]) -> None:
    told = json.loads(here("runs", "show", "r-2").out)
    assert (told["status"], told["request"]["input"]) == ("pending", {"say": "r-2"})
    assert_refused(here("runs", "show", "r-2", "--owner", "anna"), "'r-2'")
    assert_refused(here("runs", "show", "r-2", "--thread", "hers"), "'r-2'")


def test_runs_are_cancelled_and_those_that_ended_are_told_apart(here: Command, runs: list[str]) -> None:
    assert here("runs", "cancel", "r-2").err.strip() == "Ended: r-2."
    assert here("runs", "cancel", "r-3", "--rollback").err.strip() == "Ended: r-3."
    assert here("runs", "cancel", "r-1").err.strip() == "Cancelling: r-1."
    assert "running, cancelling" in here("runs", "list").out
    of_thread = json.loads(here("runs", "list", "--thread", "harbour", "--json").out)
    assert [(run["id"], run["status"]) for run in of_thread] == [("r-2", "interrupted"), ("r-1", "running")]
    assert_refused(here("runs", "cancel", "r-2", "--thread", "harbour"), "ended already")
    assert_refused(here("runs", "show", "r-2"), "--thread")
    assert_refused(here("runs", "cancel", "r-9"), "'r-9'")
