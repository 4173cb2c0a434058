"""A batch of runs in one request starts all of them or none."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from tests.doubles.wire_served import (
    APPROVED,
    HELLO,
    create_thread,
    new_id,
    running_server_on_own_redis,
    thread_status,
)

COUNTER_VALUES = {"x": 4, "log": ["a", "b", "c"]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(max_batch_runs=3) as server_url:
        yield server_url


async def test_a_batch_starts_every_run(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread = await create_thread(client)
    payloads: Any = [
        {"assistant_id": "counter", "input": {"x": 1}},
        {"assistant_id": "counter", "input": {"x": 5}, "thread_id": thread},
    ]
    first, second = await client.runs.create_batch(payloads)
    assert (await http.get(f"/runs/{first['run_id']}/join")).json() == COUNTER_VALUES
    values: Any = await client.runs.join(thread, second["run_id"])
    assert values["x"] == 8


async def test_a_batch_over_the_limit_starts_no_run(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    """X13: the limit is 3 here, 100 by default."""
    thread = await create_thread(client)
    run_body = {"assistant_id": "counter", "input": {"x": 1}, "thread_id": thread}
    reply = await http.post("/runs/batch", json=[run_body] * 4)
    assert reply.status_code == 413
    assert "a batch of 4 runs is over the limit of 3" in reply.json()["detail"]
    assert "CALLSHEET_MAX_BATCH_RUNS" in reply.json()["detail"]
    assert await client.runs.list(thread) == []
    assert len((await http.post("/runs/batch", json=[run_body] * 3)).json()) == 3


def _no_such_thread(thread: str) -> Any:
    del thread
    return {"thread_id": new_id()}, "there is no thread"


def _no_such_assistant(thread: str) -> Any:
    return {"thread_id": thread, "assistant_id": new_id()}, "there is no assistant"


def _resume_without_interrupt(thread: str) -> Any:
    return {"thread_id": thread, "command": {"resume": "yes"}}, f"thread {thread!r} has no pending interrupt"


def _resume_without_thread(thread: str) -> Any:
    del thread
    return {"command": {"resume": "yes"}}, "a resume needs the interrupted thread"


def _two_contexts(thread: str) -> Any:
    del thread
    return {"config": {"configurable": {"a": 1}}, "context": {"a": 1}}, "'config.configurable' and"


@pytest.mark.parametrize(
    "make_invalid",
    [
        _no_such_thread,
        _no_such_assistant,
        _resume_without_interrupt,
        _resume_without_thread,
        _two_contexts,
    ],
)
async def test_a_batch_with_an_invalid_run_starts_no_run(
    client: LangGraphClient, http: httpx.AsyncClient, make_invalid: Any
) -> None:
    thread, new_thread = await create_thread(client), new_id()
    run_body = {"assistant_id": "counter", "input": {"x": 1}}
    changed, reason = make_invalid(thread)
    first = {**run_body, "thread_id": thread}
    last = {**run_body, "thread_id": new_thread, "if_not_exists": "create"}
    reply = await http.post("/runs/batch", json=[first, {**run_body, **changed}, last])
    assert reply.status_code == 422, reply.text
    assert reply.json()["detail"].startswith(f"run 2 of 3: {reason}")
    assert reply.json()["detail"].endswith("no run was created.")
    assert await client.runs.list(thread) == []
    with pytest.raises(NotFoundError):
        await client.threads.get(new_thread)


async def test_a_batch_that_resumes_one_interrupt_twice_starts_no_run(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "agent", input=HELLO)
    answer = {"assistant_id": "agent", "thread_id": thread, "command": {"resume": APPROVED}}
    reply = await http.post("/runs/batch", json=[answer, answer])
    assert reply.status_code == 422
    assert "run 2 of 2: an earlier run answers the same interrupt" in reply.json()["detail"]
    assert await thread_status(client, thread) == "interrupted"
    [run] = (await http.post("/runs/batch", json=[answer])).json()
    await client.runs.join(thread, run["run_id"])
    assert await thread_status(client, thread) == "idle"


async def test_a_batch_creates_missing_threads_with_if_not_exists_create(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    new_thread = new_id()
    run_body = {
        "assistant_id": "counter",
        "input": {"x": 1},
        "thread_id": new_thread,
        "if_not_exists": "create",
    }
    runs = (await http.post("/runs/batch", json=[run_body, run_body])).json()
    assert [run["thread_id"] for run in runs] == [new_thread, new_thread]
    await client.runs.join(new_thread, runs[1]["run_id"])
    assert len(await client.runs.list(new_thread)) == 2
