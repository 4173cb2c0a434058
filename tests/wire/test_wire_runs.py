"""Creating, waiting for, streaming, listing and deleting runs through LangGraph's own client (X7, X10)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import (
    BadRequestError,
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
    with running_server_on_own_redis() as server_url:
        yield server_url


COUNTER_VALUES = {"x": 4, "log": ["a", "b", "c"]}


async def test_wait_returns_the_final_values_and_the_thread_is_idle(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    assert await client.runs.wait(thread, "counter", input={"x": 1}) == COUNTER_VALUES
    record: Any = await client.threads.get(thread)
    assert (record["status"], record["values"]) == ("idle", COUNTER_VALUES)
    assert {"graph_id": "counter"}.items() <= record["metadata"].items()


async def test_a_stream_has_the_input_and_then_every_step(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    events = await collect(
        client.runs.stream(thread, "counter", input={"x": 1}, stream_mode=["values", "updates"])
    )
    assert [event.event for event in events] == ["metadata", "values", *["updates", "values"] * 3]
    assert events[0].data["attempt"] == 1
    assert events[-1].data == COUNTER_VALUES
    assert {event.id for event in events} == {None}
    run = await client.runs.get(thread, events[0].data["run_id"])
    assert run["status"] == "success"


async def test_a_reply_has_the_location_of_its_run(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread = await create_thread(client)
    body = {"assistant_id": "counter", "input": {"x": 1}}
    for ending, suffix in (("stream", "stream"), ("wait", "join")):
        reply = await http.post(f"/threads/{thread}/runs/{ending}", json=body)
        path = reply.headers["content-location"]
        assert path.startswith(f"/threads/{thread}/runs/")
        assert reply.headers["location"] == f"{path}/{suffix}"
    reply = await http.post(f"/threads/{thread}/runs", json=body)
    assert reply.headers["content-location"] == f"/threads/{thread}/runs/{reply.json()['run_id']}"


async def test_a_background_run_is_joined_and_listed(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first: Any = await client.runs.create(thread, "counter", input={"x": 1}, metadata={"why": "test"})
    assert first["status"] == "pending"
    assert first["metadata"]["why"] == "test"
    assert await client.runs.join(thread, first["run_id"]) == COUNTER_VALUES
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


async def test_joining_a_run_returns_its_own_values_and_not_those_of_a_later_run(
    client: LangGraphClient,
) -> None:
    thread = await create_thread(client)
    first = await client.runs.create(thread, "counter", input={"x": 1}, stream_mode="updates")
    second = await client.runs.create(thread, "counter", input={"x": 10})
    await client.runs.join(thread, second["run_id"])
    assert await client.runs.join(thread, first["run_id"]) == COUNTER_VALUES


@pytest.mark.parametrize("cancelled_before", [True, False])
async def test_deleting_an_active_run_cancels_it_first(
    client: LangGraphClient, *, cancelled_before: bool
) -> None:
    thread = await create_thread(client)
    slow = await client.runs.create(thread, "slow", input={"x": 200})
    if cancelled_before:
        await client.runs.cancel(thread, slow["run_id"], wait=True)
    await client.runs.delete(thread, slow["run_id"])
    assert await thread_status(client, thread) != "busy"
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, slow["run_id"])


async def test_a_failing_node_gives_an_error_event_and_the_status_error(client: LangGraphClient) -> None:
    """The HTTP status is 200, because the run had started."""
    thread = await create_thread(client)
    events = await collect(client.runs.stream(thread, "boom", input={"x": 1}))
    assert events[-1].event == "error"
    assert events[-1].data == {"error": "ValueError", "message": "boom from node"}
    assert (await client.runs.get(thread, events[0].data["run_id"]))["status"] == "error"
    assert await thread_status(client, thread) == "error"
    waited: Any = await client.runs.wait(thread, "boom", input={"x": 1}, raise_error=False)
    assert waited == {"__error__": {"error": "ValueError", "message": "boom from node"}}


async def test_a_missing_thread_is_created_only_with_if_not_exists_create(client: LangGraphClient) -> None:
    thread = new_id()
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        await client.runs.wait(thread, "counter", input={"x": 1})
    values = await client.runs.wait(thread, "counter", input={"x": 1}, if_not_exists="create")
    assert values == COUNTER_VALUES
    assert await thread_status(client, thread) == "idle"


async def test_the_thread_of_the_latest_run_is_first_in_the_list(client: LangGraphClient) -> None:
    first, second = await create_thread(client), await create_thread(client)
    for thread in (first, second, first):
        await client.runs.wait(thread, "counter", input={"x": 1})
    threads = await client.threads.search(limit=2)
    assert [thread["thread_id"] for thread in threads] == [first, second]


async def test_two_graphs_share_a_thread_and_its_state(client: LangGraphClient) -> None:
    """A thread is not tied to an assistant, as on LangGraph's server."""
    thread = await create_thread(client)
    first = await client.runs.wait(thread, "counter", input={"x": 1})
    assert first == COUNTER_VALUES
    both: Any = await client.runs.wait(thread, "bench", input={"x": 10})
    assert (both["x"], both["log"]) == (13, ["a", "b", "c"] * 2)
    record: Any = await client.threads.get(thread)
    assert record["metadata"]["graph_id"] == "bench"
    assert (await client.threads.get_state(thread))["values"] == both
    again: Any = await client.runs.wait(thread, "counter", input={"x": 0})
    assert len(again["log"]) == 9


async def test_runs_of_two_graphs_on_a_new_thread_at_once_are_both_executed(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    creating = [client.runs.create(thread, graph, input={"x": 1}) for graph in ("counter", "bench") * 2]
    created = await asyncio.gather(*creating)
    for run in created:
        await client.runs.join(thread, run["run_id"])
    state: Any = await client.threads.get_state(thread)
    assert len(state["values"]["log"]) == 12


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
async def test_a_run_with_invalid_parameters_is_refused(
    client: LangGraphClient, changed: dict[str, Any], error: type[Exception]
) -> None:
    thread = await create_thread(client)
    body: Any = {"assistant_id": "counter", "input": {"x": 1}, **changed}
    with pytest.raises(error):
        await client.runs.create(thread, **body)
    assert await client.runs.list(thread) == []


async def test_stateless_runs_leave_no_thread(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    assert await client.runs.wait(None, "counter", input={"x": 1}) == COUNTER_VALUES
    events = await collect(client.runs.stream(None, "counter", input={"x": 1}, stream_mode="updates"))
    assert [event.event for event in events] == ["metadata", "updates", "updates", "updates"]
    run = events[0].data["run_id"]
    assert (await http.get(f"/runs/{run}")).json()["status"] == "success"
    assert (await http.get(f"/threads/{run}")).status_code == 404


async def test_a_stateless_run_is_read_by_its_thread_id_and_run_id(client: LangGraphClient) -> None:
    """LangGraph's clients request every run by a thread id and a run id."""
    run: Any = await client.runs.create(None, "counter", input={"x": 1})
    assert await client.runs.join(run["thread_id"], run["run_id"]) == COUNTER_VALUES
    assert (await client.runs.get(run["thread_id"], run["run_id"]))["status"] == "success"
    with pytest.raises(NotFoundError):
        await client.runs.get(run["run_id"], new_id())


async def test_the_thread_of_a_stateless_run_is_kept_with_on_completion_keep(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    run = await client.runs.create(None, "counter", input={"x": 1}, on_completion="keep")
    await client.runs.join(run["thread_id"], run["run_id"])
    assert (await client.threads.get_state(run["thread_id"]))["values"] == COUNTER_VALUES
    assert (await http.get(f"/runs/{run['run_id']}")).json()["thread_id"] == run["thread_id"]


async def test_a_run_with_after_seconds_starts_later(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    delayed = await client.runs.create(thread, "counter", input={"x": 1}, after_seconds=1)
    assert delayed["status"] == "pending"
    assert await thread_status(client, thread) == "idle"
    await client.runs.join(thread, delayed["run_id"])
    assert loop.time() - start_s >= 0.9


async def test_every_durability_is_accepted_and_stores_every_step(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    for name in ("sync", "async", "exit"):
        durability: Any = name
        run: Any = await client.runs.create(thread, "counter", input={"x": 1}, durability=durability)
        assert run["kwargs"]["durability"] == "sync"
        await client.runs.join(thread, run["run_id"])
    assert len(await client.threads.get_history(thread, limit=100)) == 15


async def test_a_run_stops_before_its_input_is_taken(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "counter", input={"x": 1}, interrupt_before=["__start__"])
    assert (await client.threads.get_state(thread))["next"] == ["__start__"]


async def test_a_run_stops_before_a_node_in_interrupt_before(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    values: Any = await client.runs.wait(thread, "counter", input={"x": 1}, interrupt_before=["c"])
    assert values["log"] == ["a", "b"]
    assert await thread_status(client, thread) == "interrupted"
    assert (await client.runs.wait(thread, "counter", input=None)) == COUNTER_VALUES


async def test_a_run_starts_from_an_earlier_checkpoint(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "counter", input={"x": 1})
    after_a: Any = (await client.threads.get_history(thread))[2]
    assert after_a["values"]["log"] == ["a"]
    events = await collect(
        client.runs.stream(thread, "counter", checkpoint=after_a["checkpoint"], stream_mode="updates")
    )
    assert [next(iter(event.data)) for event in events[1:]] == ["b", "c"]
    assert (await client.threads.get_state(thread))["values"] == COUNTER_VALUES


async def test_reserved_names_in_configurable_are_removed(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    config: Any = {"configurable": {"__callsheet_owner": "bob", "langgraph_auth_user": "bob", "tone": "dry"}}
    run: Any = await client.runs.create(thread, "counter", input={"x": 1}, config=config)
    configurable = run["kwargs"]["config"]["configurable"]
    assert "tone" in configurable
    assert not {name for name in configurable if name.startswith(("__", "langgraph_auth"))}
    await client.runs.join(thread, run["run_id"])


async def test_reserved_names_in_metadata_and_context_are_ignored(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = await create_thread(client)
    reserved: Any = {"run_id": "another", "thread_id": "another", "__pregel_resuming": True, "mine": "kept"}
    config: Any = {"metadata": reserved}
    assistant = await client.assistants.create("counter", metadata=reserved, config=config)
    body = {
        "input": {"x": 1},
        "assistant_id": assistant["assistant_id"],
        "metadata": reserved,
        "context": reserved,
    }
    run: Any = (await http.post(f"/threads/{thread}/runs", json=body)).json()
    await client.runs.join(thread, run["run_id"])
    state: Any = await client.threads.get_state(thread)
    for names in (run["kwargs"]["config"]["configurable"], run["metadata"], state["metadata"]):
        assert names["mine"] == "kept"
        assert "__pregel_resuming" not in names
        assert names.get("run_id", run["run_id"]) == run["run_id"]
        assert names.get("thread_id", thread) == thread


@pytest.mark.parametrize("config", [{"configurable": 7}, {"metadata": ["a"]}])
async def test_a_config_with_wrong_types_is_refused_on_every_route(
    http: httpx.AsyncClient, config: Any
) -> None:
    for path, more in (("/assistants", {}), ("/runs", {}), ("/runs/crons", {"schedule": "* * * * *"})):
        assistant_id = new_id() if path == "/assistants" else "counter"
        body = {"graph_id": "counter", "assistant_id": assistant_id, "config": config, **more}
        reply = await http.post(path, json=body)
        assert (reply.status_code, "is not an object" in reply.text) == (422, True), (path, reply.text)


async def test_the_runs_of_a_deleted_thread_are_missing(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "counter", input={"x": 1})
    await client.threads.delete(thread)
    with pytest.raises(NotFoundError):
        await client.runs.list(thread)


async def test_an_unknown_run_is_404_on_every_route(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread = await create_thread(client)
    for path in (f"/threads/{thread}/runs/{new_id()}", f"/runs/{new_id()}"):
        for rest in ("", "/join", "/stream"):
            assert (await http.get(path + rest)).status_code == 404, path + rest
    assert (await http.post(f"/threads/{thread}/runs/{new_id()}/cancel")).status_code == 404


@pytest.mark.parametrize(("on_disconnect", "expected"), [("cancel", "interrupted"), ("continue", "success")])
async def test_a_disconnect_cancels_the_run_only_with_on_disconnect_cancel(
    client: LangGraphClient, http: httpx.AsyncClient, on_disconnect: str, expected: str
) -> None:
    thread = await create_thread(client)
    body = {
        "assistant_id": "slow",
        "input": {"x": 20},
        "stream_mode": "custom",
        "on_disconnect": on_disconnect,
    }
    async with http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as reply:
        path = reply.headers["content-location"]
        lines = reply.aiter_lines()
        while "tick" not in await anext(lines):
            pass

    async def has_status() -> bool:
        return bool((await http.get(path)).json()["status"] == expected)

    await eventually(has_status, f"the run is {expected}")
