"""`callsheet runs`: list, show and cancel runs of any process."""

import asyncio
import json
from typing import Any

import pytest

from callsheet.state.budgets import Budgets
from callsheet.storage import connect, spending
from callsheet.storage.runs.records import RunAttempt, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from callsheet.storage.spending import Account, ModelUsage
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


def test_an_operator_lists_the_runs_of_all_owners(run_command: RunCommand, runs: list[str]) -> None:
    header, *lines = run_command("runs", "list", "--all-owners").out.splitlines()
    assert header.split() == ["Run", "Owner", "Status", "Age", "Tries", "Step", "Thread,", "and", "error"]
    assert {line.split()[0]: line.split()[1] for line in lines} == {
        **dict.fromkeys(runs, "local"),
        "r-9": "anna",
    }
    chosen = run_command("runs", "list", "--all-owners", "--status", "running", "--since", "2h", "--json")
    [run] = json.loads(chosen.out)
    assert (run["runId"], run["attempts"], run["status"]) == ("r-1", 1, "running")
    assert "no such runs" in run_command("runs", "list", "--all-owners", "--status", "error").out
    for since in ("60000d", "1805-01-01"):
        assert run_command("runs", "list", "--all-owners", "--since", since).code == 0
    for wrong in (
        ("--status", "running"),
        ("--all-owners", "--since", "soon"),
        ("--all-owners", "--since", "999999d"),
    ):
        assert run_command("runs", "list", *wrong).code == 2
    assert_refused(run_command("runs", "list", "--all-owners", "--status", "odd"), "status")


def test_the_use_of_models_is_shown_by_owner_and_model_and_as_csv(
    run_command: RunCommand, valkey_url: str
) -> None:
    async def use_models() -> None:
        async with connect(valkey_url) as storage:
            for owner in ("local", "anna", "=1+1"):
                account = await spending.with_redis_day(storage, Account(owner, "t", "m"))
                for call, model in (("c1", "m1"), ("c2", "m2")):
                    await spending.reserve(storage, account, call, 0.0, Budgets(), 60)
                    await spending.settle(storage, account, call, model, ModelUsage(1, 10, 5, 0, 0.25))

    assert "offline model is free and not counted" in run_command("usage").out
    asyncio.run(use_models())
    header, *rows = run_command("usage", "--by", "owner,model", "--csv").out.splitlines()
    assert header == "owner,model,modelCalls,inputTokens,cachedTokens,outputTokens,costUsd,estimatedCalls"
    assert rows == [
        f"{owner},{model},1,10,0,5,0.25,0" for owner in ("'=1+1", "anna", "local") for model in ("m1", "m2")
    ]
    for_all = json.loads(run_command("usage", "--by", "owner,model", "--json").out)
    assert for_all[0]["owner"] == "=1+1", "only spreadsheets take it for a formula"
    [own] = json.loads(run_command("usage", "--by", "day", "--json").out)
    assert (own["modelCalls"], own["costUsd"]) == (2, 0.5)
    assert "$0.2500" in run_command("usage").out
    assert run_command("usage", "--by", "colour").code == 2
    assert_refused(run_command("usage", "--from", "2000-01-01"), "period")
