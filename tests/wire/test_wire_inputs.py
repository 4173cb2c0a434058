"""A run with invalid input is refused, and a thread whose state cannot be built stays readable."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph_sdk.client import LangGraphClient
from pydantic import BaseModel

from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server
from tests.wire.protocol_reader import ProtocolThread

HELLO = {"role": "user", "content": "hello"}
INVALID_MESSAGES = [
    [{"role": "nobody", "content": "hi"}],
    [{"role": "tool", "content": "x"}],
    [{"role": "user"}],
    [{"role": "user", "content": {"a": 1}}],
    [{"role": "assistant", "content": "", "tool_calls": 5}],
    [5],
    None,
]
HELLO_INPUT: Any = {"messages": [HELLO]}
REMOVAL_OF_UNKNOWN = [{"type": "remove", "id": "nobody", "content": ""}]


class TypedFormState(BaseModel):
    """A state with types that are checked."""

    name: str = ""
    size: int = 0


@dataclass
class GuestContext:
    """A context with a field that has no default."""

    name: str
    tone: str = "plain"


class RoomContext(BaseModel):
    """A context with types that are checked."""

    size: int


def _greet(state: TypedFormState, runtime: Runtime[GuestContext]) -> dict[str, Any]:
    return {"name": f"{runtime.context.name}, {runtime.context.tone}"}


def _garble(state: MessagesState) -> dict[str, Any]:
    return {"messages": [5]}


def _graphs() -> dict[str, Any]:
    garbled = StateGraph(MessagesState)
    form = StateGraph(TypedFormState)
    for builder, node in ((garbled, _garble), (form, lambda state: {"size": state.size + 1})):
        builder.add_node("only", node)
        builder.add_edge(START, "only")
    greeting: Any = StateGraph(TypedFormState, context_schema=GuestContext)
    room: Any = StateGraph(TypedFormState, context_schema=RoomContext)
    for builder in (greeting, room):
        builder.add_node("greet", _greet)
        builder.add_edge(START, "greet")
    named = {"garbled": garbled, "form": form, "greeting": greeting, "room": room}
    return {**GRAPHS, **{name: builder.compile(name=name) for name, builder in named.items()}}


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url, _graphs()) as server_url:
        yield server_url


async def post_refused(http: httpx.AsyncClient, path: str, body: Any) -> str:
    reply = await http.post(path, json=body)
    assert reply.status_code == 422, reply.text
    return str(reply.json()["detail"])


@pytest.mark.parametrize("messages", [*INVALID_MESSAGES, REMOVAL_OF_UNKNOWN])
async def test_a_run_with_invalid_messages_is_refused_on_every_route(
    client: LangGraphClient, http: httpx.AsyncClient, messages: Any
) -> None:
    thread = (await client.threads.create())["thread_id"]
    body = {"assistant_id": "agent", "input": {"messages": messages}}
    for path in ("runs", "runs/wait", "runs/stream"):
        detail = await post_refused(http, f"/threads/{thread}/{path}", body)
        assert detail.startswith("'messages' does not fit graph 'agent': ")
        await post_refused(http, f"/{path}", body)
    assert "run 2 of 2" in await post_refused(http, "/runs/batch", [{"assistant_id": "counter"}, body])
    command = {"assistant_id": "agent", "command": {"update": {"messages": messages}}}
    await post_refused(http, f"/threads/{thread}/runs", command)
    await post_refused(http, "/runs", command | {"command": {"update": [["messages", messages]]}})
    reply = await ProtocolThread(http, thread).command("run.start", **body)
    assert (reply["type"], reply["error"]) == ("error", "invalid_argument")
    assert await client.runs.list(thread) == []
    assert (await client.threads.get(thread))["values"] is None


@pytest.mark.parametrize("messages", INVALID_MESSAGES)
async def test_crons_and_states_with_invalid_messages_are_refused(
    client: LangGraphClient, http: httpx.AsyncClient, messages: Any
) -> None:
    values = {"messages": messages}
    await post_refused(
        http, "/runs/crons", {"assistant_id": "agent", "schedule": "0 0 1 1 *", "input": values}
    )
    cron: Any = await client.crons.create("agent", schedule="0 0 1 1 *", input=HELLO_INPUT)
    reply = await http.patch(f"/runs/crons/{cron['cron_id']}", json={"input": values})
    assert reply.status_code == 422, reply.text
    thread = (await client.threads.create(graph_id="agent"))["thread_id"]
    await post_refused(http, f"/threads/{thread}/state", {"values": values, "as_node": "plan"})
    step = {"updates": [{"values": values, "as_node": "plan"}]}
    await post_refused(http, "/threads", {"metadata": {"graph_id": "agent"}, "supersteps": [step]})


async def test_a_message_can_be_removed_if_it_exists_or_a_run_is_active(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = (await client.threads.create())["thread_id"]
    graph_input: Any = {"messages": [{**HELLO, "id": "first"}]}
    await client.runs.wait(thread, "tools", input=graph_input)
    await post_refused(
        http, f"/threads/{thread}/runs", {"assistant_id": "tools", "input": {"messages": REMOVAL_OF_UNKNOWN}}
    )
    removal_of_first: Any = {"messages": [{"type": "remove", "id": "first", "content": ""}, HELLO]}
    values: Any = await client.runs.wait(thread, "tools", input=removal_of_first)
    assert "first" not in [message["id"] for message in values["messages"]]
    removal: Any = {"messages": REMOVAL_OF_UNKNOWN}
    long_message: Any = {"messages": [{**HELLO, "content": "word " * 40}]}
    thread = (await client.threads.create())["thread_id"]
    await client.runs.create(thread, "teller", input=long_message)
    await client.runs.create(thread, "teller", input=removal)


async def test_a_run_with_input_of_the_wrong_type_is_refused(http: httpx.AsyncClient) -> None:
    for graph_input in ("hi", [5], 5, False):
        body = {"assistant_id": "counter", "input": graph_input}
        assert "not an object" in await post_refused(http, "/runs/wait", body)
    wrong_size = {"assistant_id": "form", "input": {"size": "large"}}
    assert "'size' does not fit graph 'form'" in await post_refused(http, "/runs/wait", wrong_size)
    reply = await http.post("/runs/wait", json={"assistant_id": "form", "input": {"size": "4", "other": []}})
    assert reply.json()["size"] == 5


async def test_lists_show_a_thread_whose_state_cannot_be_built_without_values(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    """The same holds for the thread itself, after an update, and for its copy."""
    thread = (await client.threads.create(metadata={"mark": (mark := uuid.uuid4().hex)}))["thread_id"]
    await client.runs.wait(thread, "garbled", input=HELLO_INPUT, raise_error=False)
    (listed,) = await client.threads.search(metadata={"mark": mark})
    assert (listed["thread_id"], listed["values"], listed["status"]) == (thread, None, "error")
    assert (await client.threads.get(thread))["values"] is None
    await client.threads.update(thread, metadata={"changed": True})
    await client.threads.copy(thread)
    original_and_copy = await client.threads.search(metadata={"mark": mark})
    assert [row["values"] for row in original_and_copy] == [None, None]


async def test_every_route_reports_a_state_that_cannot_be_built(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "garbled", input=HELLO_INPUT, raise_error=False)
    path, search = f"/threads/{thread}", {"ids": [thread], "values": {"messages": []}}
    queries: list[Any] = [{}, {"select": "values.messages", "subgraphs": True}]
    for query in queries:
        reply = await http.get(f"{path}/state", params=query)
        assert reply.status_code == 400
        assert "cannot be built: Unsupported message type" in reply.json()["detail"]
    for history in (
        await http.get(f"{path}/history"),
        await http.post(f"{path}/history", json={"select": ["values"]}),
    ):
        assert [message["content"] for message in history.json()[0]["values"]["messages"]] == ["hello"]
    assert (await http.post("/threads/search", json=search | {"extract": {"a": "values.a"}})).json() == []
    assert (
        await http.post("/threads/count", json={"values": {"messages": []}, "metadata": {"x": 1}})
    ).json() == 0
    assert (await http.get(f"/api{path}/export")).status_code == 200
    protocol_thread = ProtocolThread(http, thread)
    assert (await protocol_thread.command("agent.getTree"))["result"]["tree"]["status"] == "failed"
    assert (await protocol_thread.command("run.start", assistant_id="garbled"))["type"] == "success"
    answer = {"assistant_id": "garbled", "command": {"resume": 1}}
    assert (await http.post(f"{path}/runs", json=answer)).status_code == 400


async def test_a_state_that_cannot_be_built_is_repaired_by_an_update(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "garbled", input=HELLO_INPUT, raise_error=False)
    await client.threads.update_state(thread, {"messages": [{**HELLO, "content": "again"}]})
    values: Any = (await client.threads.get_state(thread))["values"]
    assert [message["content"] for message in values["messages"]] == ["hello", "again"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("state/checkpoint", {"checkpoint": {"checkpoint_id": {"a": 1}}}),
        ("state/checkpoint", {"checkpoint": {"checkpoint_id": True}}),
        ("state", {"values": None, "checkpoint": {"checkpoint_map": 5}}),
        ("history", {"before": {"configurable": 0.1}}),
        ("history", {"checkpoint": {"checkpoint_ns": ["a"]}}),
    ],
)
async def test_a_checkpoint_of_the_wrong_type_is_refused(
    client: LangGraphClient, http: httpx.AsyncClient, path: str, body: Any
) -> None:
    thread = (await client.threads.create(graph_id="counter"))["thread_id"]
    await client.runs.wait(thread, "counter", input={"x": 1})
    await post_refused(http, f"/threads/{thread}/{path}", body)


@pytest.mark.parametrize("path", ["/runs/wait", "/threads/{}/runs"])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"assistant_id": "greeting"}, ("does not fit graph 'greeting'", "'name'")),
        ({"assistant_id": "greeting", "context": {"name": "Ana", "age": 5}}, ("'age'", "context schema")),
        ({"assistant_id": "room", "context": {"size": "big"}}, ("graph 'room'", "size:", "integer")),
        (
            {"interrupt_before": ["onyl"]},
            ("'interrupt_before' has 'onyl'", "no node of graph 'form'", "'only'"),
        ),
        ({"interrupt_after": ["only", "__end__"]}, ("'interrupt_after' has '__end__'",)),
        ({"config": {"recursion_limit": "ten"}}, ("config.recursion_limit is 'ten'", "whole number")),
        ({"config": {"max_concurrency": 0}}, ("config.max_concurrency is 0",)),
        ({"config": {"tags": "red"}}, ("config.tags is 'red'", "list")),
    ],
)
async def test_a_context_an_interrupt_and_a_limit_that_cannot_work_are_refused(
    client: LangGraphClient, http: httpx.AsyncClient, path: str, wrong: dict[str, Any], words: tuple[str, ...]
) -> None:
    """A wrong context or limit would fail the run later; a misspelt node would never interrupt it."""
    thread = (await client.threads.create())["thread_id"]
    detail = await post_refused(http, path.format(thread), {"assistant_id": "form", "input": {}, **wrong})
    assert [word for word in words if word not in detail] == [], detail
    assert await client.runs.list(thread) == []


async def test_a_context_that_fits_is_the_graphs_own(client: LangGraphClient) -> None:
    context: Any = {"name": "Ana"}
    values: Any = await client.runs.wait(None, "greeting", input={}, context=context, interrupt_before="*")
    assert "name" not in values
    values = await client.runs.wait(None, "greeting", input={}, context=context, interrupt_after=["greet"])
    assert values["name"] == "Ana, plain"
