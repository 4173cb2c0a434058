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
    assert header.split()[:4] == ["Id", "Thread", "Graph", "Status"]
    columns = {line.split()[0]: line.split()[1:4] for line in lines}
    assert columns == {name: ["harbour", "ad_creation", columns[name][2]] for name in runs}
    assert (columns["r-1"][2], columns["r-2"][2]) == ("running", "pending")
    listed = json.loads(run_command("runs", "list", "--json", "--owner", "anna").out)
    assert [(run["id"], run["thread"], run["status"]) for run in listed] == [("r-9", "hers", "pending")]


def test_a_run_is_shown_with_its_request(run_command: RunCommand, runs: list[str]) -> None:
    run = json.loads(run_command("runs", "show", "r-2").out)
    assert (run["status"], run["request"]["input"]) == ("pending", {"say": "r-2"})
    assert_refused(run_command("runs", "show", "r-2", "--owner", "anna"), "'r-2'")
    assert_refused(run_command("runs", "show", "r-2", "--thread", "hers"), "'r-2'")


def test_pending_runs_end_and_running_ones_are_marked_as_cancelling(
    run_command: RunCommand, runs: list[str]
) -> None:
    assert run_command("runs", "cancel", "r-2").err.strip() == "Ended: r-2."
    assert run_command("runs", "cancel", "r-3", "--rollback").err.strip() == "Ended: r-3."
    assert run_command("runs", "cancel", "r-1").err.strip() == "Cancelling: r-1."
    assert "running, cancelling" in run_command("runs", "list").out
    of_thread = json.loads(run_command("runs", "list", "--thread", "harbour", "--json").out)
    assert [(run["id"], run["status"]) for run in of_thread] == [("r-2", "interrupted"), ("r-1", "running")]
    assert_refused(run_command("runs", "cancel", "r-2", "--thread", "harbour"), "ended already")
    assert_refused(run_command("runs", "show", "r-2"), "--thread")
    assert_refused(run_command("runs", "cancel", "r-9"), "'r-9'")
