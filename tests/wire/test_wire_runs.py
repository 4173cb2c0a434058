"""Runs through LangGraph's own client: started, waited for, followed, listed, deleted (X7, X10)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    UnprocessableEntityError,
)

from tests.doubles.waiting import eventually
from tests.doubles.wire_served import (
    collect,
    create_thread,
    new_id,
    running_server_on_own_redis,
    thread_status,
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as found:
        yield found


COUNTED = {"x": 4, "log": ["a", "b", "c"]}


async def test_waiting_returns_the_final_values_and_leaves_an_idle_thread(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    assert await client.runs.wait(thread, "counter", input={"x": 1}) == COUNTED
    found: Any = await client.threads.get(thread)
    assert (found["status"], found["values"]) == ("idle", COUNTED)
    assert {"graph_id": "counter"}.items() <= found["metadata"].items()


async def test_a_stream_tells_the_input_then_every_step(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    told = await collect(
        client.runs.stream(thread, "counter", input={"x": 1}, stream_mode=["values", "updates"])
    )
    assert [event.event for event in told] == ["metadata", "values", *["updates", "values"] * 3]
    assert told[0].data["attempt"] == 1
    assert told[-1].data == COUNTED
    assert {event.id for event in told} == {None}
    run = await client.runs.get(thread, told[0].data["run_id"])
    assert run["status"] == "success"


async def test_a_reply_says_where_its_run_is(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread = await create_thread(client)
    asked = {"assistant_id": "counter", "input": {"x": 1}}
    for ending, suffix in (("stream", "stream"), ("wait", "join")):
        reply = await http.post(f"/threads/{thread}/runs/{ending}", json=asked)
        place = reply.headers["content-location"]
        assert place.startswith(f"/threads/{thread}/runs/")
        assert reply.headers["location"] == f"{place}/{suffix}"
    reply = await http.post(f"/threads/{thread}/runs", json=asked)
    assert reply.headers["content-location"] == f"/threads/{thread}/runs/{reply.json()['run_id']}"


async def test_a_background_run_is_joined_and_listed(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first: Any = await client.runs.create(thread, "counter", input={"x": 1}, metadata={"why": "test"})
    assert first["status"] == "pending"
    assert first["metadata"]["why"] == "test"
    assert await client.runs.join(thread, first["run_id"]) == COUNTED
    second = await client.runs.create(thread, "counter", input={"x": 1})
    await client.runs.join(thread, second["run_id"])
    ids = [run["run_id"] for run in await client.runs.list(thread)]
    assert ids == [second["run_id"], first["run_id"]]
    assert [run["run_id"] for run in await client.runs.list(thread, limit=1, offset=1)] == [first["run_id"]]
    assert await client.runs.list(thread, status="error") == []
    selected: Any = await client.runs.list(thread, limit=1, select=["run_id"])
    assert selected == [{"run_id": second["run_id"]}]
    as_json: Any = await client.runs.list(thread, limit=1, select=['["run_id"]'])  # type: ignore[list-item]
    assert as_json == selected, "LangGraph's JavaScript SDK sends an array as JSON"
    with pytest.raises(UnprocessableEntityError):
        await client.runs.list(thread, select=["nonsense"])  # type: ignore[list-item]


async def test_a_joined_run_returns_its_own_values_and_not_a_later_runs(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await client.runs.create(thread, "counter", input={"x": 1}, stream_mode="updates")
    second = await client.runs.create(thread, "counter", input={"x": 10})
    await client.runs.join(thread, second["run_id"])
    assert await client.runs.join(thread, first["run_id"]) == COUNTED


@pytest.mark.parametrize("ends", [True, False])
async def test_a_run_can_be_deleted_and_an_open_one_is_cancelled_first(
    client: LangGraphClient, *, ends: bool
) -> None:
    thread = await create_thread(client)
    slow = await client.runs.create(thread, "slow", input={"x": 200})
    if ends:
        await client.runs.cancel(thread, slow["run_id"], wait=True)
    await client.runs.delete(thread, slow["run_id"])
    assert await thread_status(client, thread) != "busy"
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, slow["run_id"])


async def test_a_failing_node_is_an_error_event_and_an_error_status(client: LangGraphClient) -> None:
    """The HTTP status stays 200, as the run had begun."""
    thread = await create_thread(client)
    told = await collect(client.runs.stream(thread, "boom", input={"x": 1}))
    assert told[-1].event == "error"
    assert told[-1].data == {"error": "ValueError", "message": "boom from node"}
    assert (await client.runs.get(thread, told[0].data["run_id"]))["status"] == "error"
    assert await thread_status(client, thread) == "error"
    waited: Any = await client.runs.wait(thread, "boom", input={"x": 1}, raise_error=False)
    assert waited == {"__error__": {"error": "ValueError", "message": "boom from node"}}


async def test_a_thread_is_made_where_wanted_and_missing_otherwise(client: LangGraphClient) -> None:
    thread = new_id()
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        await client.runs.wait(thread, "counter", input={"x": 1})
    found = await client.runs.wait(thread, "counter", input={"x": 1}, if_not_exists="create")
    assert found == COUNTED
    assert await thread_status(client, thread) == "idle"


async def test_the_thread_that_ran_last_is_the_first_of_the_list(client: LangGraphClient) -> None:
    first, second = await create_thread(client), await create_thread(client)
    for thread in (first, second, first):
        await client.runs.wait(thread, "counter", input={"x": 1})
    found = await client.threads.search(limit=2)
    assert [thread["thread_id"] for thread in found] == [first, second]


async def test_a_thread_stays_with_its_graph(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "counter", input={"x": 1})
    with pytest.raises(ConflictError, match="runs 'counter', not 'bench'"):
        await client.runs.create(thread, "bench", input={"x": 1})


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"assistant_id": "nobody"}, UnprocessableEntityError),
        ({"stream_mode": ["thoughts"]}, UnprocessableEntityError),
        ({"stream_mode": "lifecycle"}, UnprocessableEntityError),
        ({"multitask_strategy": "hurry"}, UnprocessableEntityError),
        ({"context": {"tone": "dry"}, "config": {"configurable": {"tone": "wet"}}}, BadRequestError),
    ],
)
async def test_a_request_that_cannot_be_is_refused(
    client: LangGraphClient, changed: dict[str, Any], error: type[Exception]
) -> None:
    thread = await create_thread(client)
    asked: Any = {"assistant_id": "counter", "input": {"x": 1}, **changed}
    with pytest.raises(error):
        await client.runs.create(thread, **asked)
    assert await client.runs.list(thread) == []


async def test_runs_without_a_thread_leave_none(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    assert await client.runs.wait(None, "counter", input={"x": 1}) == COUNTED
    told = await collect(client.runs.stream(None, "counter", input={"x": 1}, stream_mode="updates"))
    assert [event.event for event in told] == ["metadata", "updates", "updates", "updates"]
    run = told[0].data["run_id"]
    assert (await http.get(f"/runs/{run}")).json()["status"] == "success"
    assert (await http.get(f"/threads/{run}")).status_code == 404


async def test_a_run_without_a_thread_is_found_by_the_one_it_names_too(client: LangGraphClient) -> None:
    """LangGraph's clients ask for a run by its thread and its id, whatever thread it has."""
    made: Any = await client.runs.create(None, "counter", input={"x": 1})
    assert await client.runs.join(made["thread_id"], made["run_id"]) == COUNTED
    assert (await client.runs.get(made["thread_id"], made["run_id"]))["status"] == "success"
    with pytest.raises(NotFoundError):
        await client.runs.get(made["run_id"], new_id())


async def test_a_thread_of_a_run_without_one_is_kept_where_wanted(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    made = await client.runs.create(None, "counter", input={"x": 1}, on_completion="keep")
    await client.runs.join(made["thread_id"], made["run_id"])
    assert (await client.threads.get_state(made["thread_id"]))["values"] == COUNTED
    assert (await http.get(f"/runs/{made['run_id']}")).json()["thread_id"] == made["thread_id"]


async def test_a_run_can_wait_for_its_time(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    loop = asyncio.get_running_loop()
    began = loop.time()
    later = await client.runs.create(thread, "counter", input={"x": 1}, after_seconds=1)
    assert later["status"] == "pending"
    assert await thread_status(client, thread) == "idle"
    await client.runs.join(thread, later["run_id"])
    assert loop.time() - began >= 0.9


async def test_every_durability_is_taken_and_every_step_kept(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    for chosen in ("sync", "async", "exit"):
        wish: Any = chosen
        run: Any = await client.runs.create(thread, "counter", input={"x": 1}, durability=wish)
        assert run["kwargs"]["durability"] == "sync"
        await client.runs.join(thread, run["run_id"])
    assert len(await client.threads.get_history(thread, limit=100)) == 15


async def test_a_run_stops_before_a_node_where_wanted(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    found: Any = await client.runs.wait(thread, "counter", input={"x": 1}, interrupt_before=["c"])
    assert found["log"] == ["a", "b"]
    assert await thread_status(client, thread) == "interrupted"
    assert (await client.runs.wait(thread, "counter", input=None)) == COUNTED


async def test_a_run_goes_on_from_an_earlier_checkpoint(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "counter", input={"x": 1})
    after_a: Any = (await client.threads.get_history(thread))[2]
    assert after_a["values"]["log"] == ["a"]
    told = await collect(
        client.runs.stream(thread, "counter", checkpoint=after_a["checkpoint"], stream_mode="updates")
    )
    assert [next(iter(event.data)) for event in told[1:]] == ["b", "c"]
    assert (await client.threads.get_state(thread))["values"] == COUNTED


async def test_nothing_a_caller_says_reaches_the_servers_own_names(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    said: Any = {"configurable": {"__callsheet_owner": "bob", "langgraph_auth_user": "bob", "tone": "dry"}}
    run: Any = await client.runs.create(thread, "counter", input={"x": 1}, config=said)
    kept = run["kwargs"]["config"]["configurable"]
    assert "tone" in kept
    assert not {name for name in kept if name.startswith(("__", "langgraph_auth"))}
    await client.runs.join(thread, run["run_id"])


async def test_nothing_that_is_said_beside_the_config_names_the_run_or_its_owner(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = await create_thread(client)
    ours: Any = {"run_id": "another", "thread_id": "another", "__pregel_resuming": True, "mine": "kept"}
    config: Any = {"metadata": ours}
    made = await client.assistants.create("counter", metadata=ours, config=config)
    body = {"input": {"x": 1}, "assistant_id": made["assistant_id"], "metadata": ours, "context": ours}
    run: Any = (await http.post(f"/threads/{thread}/runs", json=body)).json()
    await client.runs.join(thread, run["run_id"])
    state: Any = await client.threads.get_state(thread)
    for told in (run["kwargs"]["config"]["configurable"], run["metadata"], state["metadata"]):
        assert told["mine"] == "kept"
        assert "__pregel_resuming" not in told
        assert told.get("run_id", run["run_id"]) == run["run_id"]
        assert told.get("thread_id", thread) == thread


@pytest.mark.parametrize("config", [{"configurable": 7}, {"metadata": ["a"]}])
async def test_a_config_that_no_run_could_have_is_refused_wherever_it_is_sent(
    http: httpx.AsyncClient, config: Any
) -> None:
    for path, more in (("/assistants", {}), ("/runs", {}), ("/runs/crons", {"schedule": "* * * * *"})):
        named = new_id() if path == "/assistants" else "counter"
        body = {"graph_id": "counter", "assistant_id": named, "config": config, **more}
        reply = await http.post(path, json=body)
        assert (reply.status_code, "is not an object" in reply.text) == (422, True), (path, reply.text)


async def test_a_run_that_ended_is_deleted_with_its_thread(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "counter", input={"x": 1})
    await client.threads.delete(thread)
    with pytest.raises(NotFoundError):
        await client.runs.list(thread)


async def test_an_unknown_run_is_missing_everywhere(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread = await create_thread(client)
    for place in (f"/threads/{thread}/runs/{new_id()}", f"/runs/{new_id()}"):
        for rest in ("", "/join", "/stream"):
            assert (await http.get(place + rest)).status_code == 404, place + rest
    assert (await http.post(f"/threads/{thread}/runs/{new_id()}/cancel")).status_code == 404


@pytest.mark.parametrize(("chosen", "expected"), [("cancel", "interrupted"), ("continue", "success")])
async def test_a_reader_that_goes_ends_the_run_only_where_wanted(
    client: LangGraphClient, http: httpx.AsyncClient, chosen: str, expected: str
) -> None:
    thread = await create_thread(client)
    asked = {"assistant_id": "slow", "input": {"x": 20}, "stream_mode": "custom", "on_disconnect": chosen}
    async with http.stream("POST", f"/threads/{thread}/runs/stream", json=asked) as reply:
        place = reply.headers["content-location"]
        lines = reply.aiter_lines()
        while "tick" not in await anext(lines):
            pass

    async def ended() -> bool:
        return bool((await http.get(place)).json()["status"] == expected)

    await eventually(ended, f"the run is {expected}")
