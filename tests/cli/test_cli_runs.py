"""`callsheet runs`: list, show and cancel runs of any process."""

import asyncio
import json
from typing import Any

import pytest

from callsheet.storage import connect
from callsheet.storage.runs.records import RunAttempt, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads.threads import NewThread, create
from tests.cli.conftest import RunCommand
from tests.doubles.command import assert_refused


@pytest.fixture
def runs(valkey_url: str) -> list[str]:
    """A running run and two pending ones; another owner has one, too."""

    async def create_runs() -> list[str]:
        async with connect(valkey_url) as storage:
            store = Runs(storage)
            await create(storage, NewThread("harbour", "local"))
            for name in ("r-1", "r-2", "r-3"):
                await store.create(RunRequest("harbour", name, "ad_creation", "local", request(name)))
            await store.create(RunRequest("hers", "r-9", "ad_creation", "anna", request("r-9")))
            assert isinstance(await store.claim("harbour", "r-1"), RunAttempt)
        return ["r-1", "r-2", "r-3"]

    return asyncio.run(create_runs())


def request(text: str) -> dict[str, Any]:
    return request_fields(input={"say": text})


def test_a_list_without_runs_says_that_there_are_none(run_command: RunCommand) -> None:
    assert run_command("runs", "list").out.strip() == "No run is pending or running."
    assert_refused(run_command("runs", "list", "--thread", "none"), "'none'")


def test_the_list_has_pending_and_running_runs(run_command: RunCommand, runs: list[str]) -> None:
    header, *lines = run_command("runs", "list").out.splitlines()
    assert header.split() == ["Run", "Status", "Made", "Thread"]
    statuses = {line.split()[0]: line.split()[1] for line in lines}
    assert statuses == {"r-1": "running", "r-2": "pending", "r-3": "pending"}


def test_a_run_is_shown_with_its_request(run_command: RunCommand, runs: list[str]) -> None:
    run = json.loads(run_command("runs", "show", "r-2").out)
    assert (run["status"], run["kwargs"]["input"]) == ("pending", {"say": "r-2"})
    assert_refused(run_command("runs", "show", "r-9"), "'r-9'")
    assert_refused(run_command("runs", "show", "r-2", "--thread", "hers"), "'hers'")


def test_pending_runs_end_and_running_ones_are_cancelled_by_who_executes_them(
    run_command: RunCommand, runs: list[str]
) -> None:
    assert run_command("runs", "cancel", "r-2").err.strip() == "Cancelled r-2."
    assert run_command("runs", "cancel", "r-3", "--rollback").err.strip() == "Cancelled r-3."
    assert run_command("runs", "cancel", "r-1").err.strip() == "Cancelling r-1."
    of_thread = json.loads(run_command("runs", "list", "--thread", "harbour", "--json").out)
    assert {run["run_id"]: run["status"] for run in of_thread}["r-2"] == "interrupted"
    assert_refused(run_command("runs", "cancel", "r-2", "--thread", "harbour"), "ended already")
    assert_refused(run_command("runs", "show", "r-2"), "--id")
    assert_refused(run_command("runs", "cancel", "r-9"), "'r-9'")
