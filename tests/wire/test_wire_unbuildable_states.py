"""A state that LangGraph cannot build breaks no other route than those that read this state."""

import operator
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Annotated, Any, Final

import httpx
import pytest
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import interrupt
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from pydantic import BaseModel
from typing_extensions import TypedDict

from callsheet.storage import Storage
from callsheet.storage.redis import keys
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server

REASONS: Final = {
    "clash": "At key 'value': Can receive only one value per step",
    "own_error": "the colour is not in the palette",
    "silent_error": "PaletteError",
    "type_error": "can only concatenate list",
    "key_error": "it lacks 'colour'",
    "connection_error": "the palette's server is away",
    "new_field": "size: Field required",
}
"""Graphs to the reason why their state cannot be built. All but the last fail in a run."""
FAILED: Final = [name for name in REASONS if name != "new_field"]


class PaletteError(Exception):
    """An error of a graph's own."""


class ValueState(TypedDict):
    value: str


class FormState(BaseModel):
    """A state with types that are checked."""

    name: str = ""


class LongerFormState(FormState):
    """The same in a later version of the project."""

    size: int


def _graph(state: Any, **nodes: Callable[[Any], Any]) -> Any:
    """A graph whose nodes all run in one step."""
    builder: Any = StateGraph(state)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder


def _reducing(reducer: Callable[[Any, Any], Any]) -> Any:
    state: Any = TypedDict("state", {"value": Annotated[list[Any], reducer]})
    return _graph(state, only=lambda _: {"value": None})


def _raising(error: Exception) -> Callable[[Any, Any], Any]:
    def reducer(before: Any, value: Any) -> Any:
        if value is None:
            raise error
        return before + value

    return reducer


def _interrupt_for_name(state: Any) -> dict[str, Any]:
    return {"name": interrupt("which name?")}


def _graphs(form: Any, node: str = "ask") -> Mapping[str, Pregel[Any, Any]]:
    builders = {
        "clash": _graph(ValueState, left=lambda _: {"value": "left"}, right=lambda _: {"value": "right"}),
        "own_error": _reducing(_raising(PaletteError("the colour is not in the palette\nsee its page"))),
        "silent_error": _reducing(_raising(PaletteError())),
        "type_error": _reducing(operator.add),
        "key_error": _reducing(_raising(KeyError("colour"))),
        "connection_error": _reducing(_raising(ConnectionError("the palette's server is away"))),
        "new_field": _graph(form, ask=_interrupt_for_name),
        "renamed": _graph(FormState, **{node: _interrupt_for_name}),
        "shorter": _graph(ValueState if node == "ask" else FormState, **{node: _interrupt_for_name}),
    }
    return {**GRAPHS} | {name: builder.compile(name=name) for name, builder in builders.items()}


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    """A server of the current version of the project."""
    with running_server(valkey_url, _graphs(LongerFormState, "ask_again")) as server_url:
        yield server_url


@pytest.fixture
async def earlier_client(valkey_url: str) -> AsyncIterator[LangGraphClient]:
    """A client of a server of the earlier version, before states and nodes were changed."""
    with running_server(valkey_url, _graphs(FormState)) as url:
        async with get_client(url=url) as sdk_client:
            yield sdk_client


async def broken_thread(client: LangGraphClient, graph: str, mark: str) -> str:
    thread: Any = await client.threads.create(metadata={"mark": mark})
    graph_input: Any = {"name": "x"} if graph == "new_field" else {"value": ["x"]}
    await client.runs.wait(thread["thread_id"], graph, input=graph_input, raise_error=False)
    return str(thread["thread_id"])


@pytest.mark.parametrize("graph", REASONS)
async def test_a_state_that_cannot_be_built_breaks_no_list_copy_count_or_deletion(
    client: LangGraphClient, http: httpx.AsyncClient, earlier_client: LangGraphClient, graph: str
) -> None:
    mark = uuid.uuid4().hex
    healthy: Any = await client.threads.create(metadata={"mark": mark})
    await client.runs.wait(healthy["thread_id"], "counter", input={"x": 1})
    thread = await broken_thread(earlier_client if graph == "new_field" else client, graph, mark)

    rows = await client.threads.search(metadata={"mark": mark}, sort_by="created_at", sort_order="asc")
    assert [(row["thread_id"], row["values"] and row["values"]["x"]) for row in rows] == [
        (healthy["thread_id"], 4),
        (thread, None),
    ]
    (match,) = await client.threads.search(metadata={"mark": mark}, values={"x": 4})
    assert match["thread_id"] == healthy["thread_id"]
    assert await client.threads.count(metadata={"mark": mark}, values={"x": 4}) == 1
    assert (await client.threads.get(thread))["values"] is None
    await client.threads.update(thread, metadata={"changed": True})
    copied = (await http.post(f"/threads/{thread}/copy")).json()
    assert (copied["values"], copied["status"]) == (None, "error")
    exported = await http.get(f"/api/threads/{thread}/export")
    assert (exported.status_code, bool(exported.content)) == (200, True)
    for name in (thread, copied["thread_id"]):
        await client.threads.delete(name)
    assert len(await client.threads.search(metadata={"mark": mark})) == 1


@pytest.mark.parametrize("graph", REASONS)
async def test_reading_a_state_that_cannot_be_built_gives_the_reason(
    client: LangGraphClient, http: httpx.AsyncClient, earlier_client: LangGraphClient, graph: str
) -> None:
    thread = await broken_thread(earlier_client if graph == "new_field" else client, graph, "")
    for reply in (
        await http.get(f"/threads/{thread}/state"),
        await http.get(f"/threads/{thread}/state", params={"select": "values.value", "subgraphs": True}),
        await http.post(f"/threads/{thread}/runs", json={"assistant_id": graph, "command": {"resume": "x"}}),
    ):
        assert reply.status_code == 400, reply.text
        assert f"cannot be built: {REASONS[graph]}" in reply.json()["detail"]
    assert (await client.runs.list(thread))[0]["thread_id"] == thread


async def test_a_history_has_the_states_that_can_be_built_and_the_reason_for_the_others(
    client: LangGraphClient, http: httpx.AsyncClient, earlier_client: LangGraphClient
) -> None:
    thread = await broken_thread(earlier_client, "new_field", "")
    states_before = await earlier_client.threads.get_history(thread)
    states: Any = await client.threads.get_history(thread)
    assert [state["checkpoint"] for state in states] == [state["checkpoint"] for state in states_before]
    assert [state["metadata"] for state in states] == [state["metadata"] for state in states_before]
    assert [state["parent_checkpoint"] for state in states] == [
        state["parent_checkpoint"] for state in states_before
    ]
    unbuildable, *buildable = states
    stored: Any = states_before[0]["values"]
    assert stored == {"name": "x"}
    assert (unbuildable["values"], unbuildable["next"], unbuildable["tasks"]) == (stored, [], [])
    assert "cannot be built: size: Field required" in unbuildable["error"]
    assert all("error" not in state for state in buildable)
    assert buildable
    body = {"select": ["values"], "limit": 1}
    reply = await http.post(f"/threads/{thread}/history", json=body)
    assert reply.json() == [{"values": stored, "error": unbuildable["error"]}]


@pytest.mark.parametrize("graph", ["renamed", "shorter"])
async def test_a_thread_is_readable_after_its_nodes_and_channels_were_removed_from_the_graph(
    client: LangGraphClient, http: httpx.AsyncClient, earlier_client: LangGraphClient, graph: str
) -> None:
    thread: Any = await earlier_client.threads.create()
    await earlier_client.runs.wait(thread["thread_id"], graph, input={"name": "x", "value": "y"})
    assert (await client.threads.search(ids=[thread["thread_id"]]))[0]["thread_id"] == thread["thread_id"]
    assert (await client.threads.get_state(thread["thread_id"]))["next"] == []
    assert len(await client.threads.get_history(thread["thread_id"])) == 2


@pytest.mark.parametrize("stored", [b"\xff", b"Znothing", b"Mmsgpack\0\xc1"])
async def test_a_stored_value_that_cannot_be_read_breaks_no_other_view(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage, stored: bytes
) -> None:
    """From another serializer, or damaged. An export is refused, because it would lose the value."""
    mark = uuid.uuid4().hex
    thread = str((await client.threads.create(metadata={"mark": mark}))["thread_id"])
    await client.runs.wait(thread, "counter", input={"x": 1})
    async for key in storage.redis.scan_iter(match=f"*{thread}*", _type="hash"):
        for field in [field for field in await storage.redis.hkeys(key) if b"\0x\0" in field]:
            await storage.redis.hset(key, field, stored)
    (row,) = await client.threads.search(metadata={"mark": mark})
    assert (row["thread_id"], row["values"]) == (thread, None)
    assert await client.threads.count(metadata={"mark": mark}, values={"x": 4}) == 0
    assert (await client.threads.get(thread))["values"] is None
    for path in ("state", "history"):
        reply = await http.get(f"/threads/{thread}/{path}")
        assert (reply.status_code, "cannot be built" in reply.text) == (400, True), reply.text
    copied = await http.post(f"/threads/{thread}/copy")
    assert copied.status_code == 200, copied.text
    exported = await http.get(f"/api/threads/{thread}/export")
    assert (exported.status_code, "cannot be read" in exported.text) == (400, True), exported.text
    await client.threads.prune([thread], strategy="keep_latest")
    for name in (thread, copied.json()["thread_id"]):
        await client.threads.delete(name)


async def test_a_state_that_cannot_be_built_is_repaired_by_an_update_or_a_fork(
    client: LangGraphClient,
) -> None:
    """An update sets new values; a fork goes on from a checkpoint of the history."""
    thread = await broken_thread(client, "clash", "")
    await client.threads.update_state(thread, {"value": "mine"}, as_node="left")
    assert (await client.threads.get_state(thread))["values"] == {"value": "mine"}
    thread = await broken_thread(client, "clash", "")
    newest = (await client.threads.get_history(thread))[0]["checkpoint"]
    await client.threads.update_state(thread, None, as_node="__copy__", checkpoint=newest)
    assert (await client.threads.get_state(thread))["next"] == ["left", "right"]


async def test_a_field_that_a_later_version_requires_is_set_by_an_update(
    client: LangGraphClient, http: httpx.AsyncClient, earlier_client: LangGraphClient
) -> None:
    thread = await broken_thread(earlier_client, "new_field", "")
    reply = await http.post(f"/threads/{thread}/state", json={"values": {"size": 3}})
    assert reply.status_code == 200, reply.text
    state = await client.threads.get_state(thread)
    assert (state["values"], state["next"]) == ({"name": "x", "size": 3}, ["ask"])


async def test_waiting_for_a_run_whose_state_a_later_version_cannot_build_gives_the_reason(
    client: LangGraphClient, http: httpx.AsyncClient, earlier_client: LangGraphClient, storage: Storage
) -> None:
    thread = await broken_thread(earlier_client, "new_field", "")
    (run,) = await earlier_client.runs.list(thread)
    await storage.redis.delete(keys.run_keys(thread).events)
    reply = await http.get(f"/threads/{thread}/runs/{run['run_id']}/join")
    assert reply.status_code == 200
    assert "cannot be built: size: Field required" in reply.json()["__error__"]["message"]
