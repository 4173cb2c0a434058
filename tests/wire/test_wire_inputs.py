"""Input that a graph cannot take makes no run, and a thread whose state cannot be built stays readable."""

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_sdk.client import LangGraphClient
from pydantic import BaseModel

from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server
from tests.wire.protocol_reader import ProtocolThread

HELLO = {"role": "user", "content": "hello"}
BAD = [
    [{"role": "nobody", "content": "hi"}],
    [{"role": "tool", "content": "x"}],
    [{"role": "user"}],
    [{"role": "user", "content": {"a": 1}}],
    [{"role": "assistant", "content": "", "tool_calls": 5}],
    [5],
    None,
]
GIVEN: Any = {"messages": [HELLO]}
UNKNOWN = [{"type": "remove", "id": "nobody", "content": ""}]


class Form(BaseModel):
    """A state with types that are checked."""

    name: str = ""
    size: int = 0


def _garble(state: MessagesState) -> dict[str, Any]:
    return {"messages": [5]}


def _graphs() -> dict[str, Any]:
    garbled = StateGraph(MessagesState)
    form = StateGraph(Form)
    for builder, node in ((garbled, _garble), (form, lambda state: {"size": state.size + 1})):
        builder.add_node("only", node)
        builder.add_edge(START, "only")
    return {**GRAPHS, "garbled": garbled.compile(name="garbled"), "form": form.compile(name="form")}


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url, _graphs()) as found:
        yield found


async def refused(http: httpx.AsyncClient, path: str, body: Any) -> str:
    reply = await http.post(path, json=body)
    assert reply.status_code == 422, reply.text
    return str(reply.json()["detail"])


@pytest.mark.parametrize("messages", [*BAD, UNKNOWN])
async def test_messages_that_no_graph_takes_make_no_run(
    client: LangGraphClient, http: httpx.AsyncClient, messages: Any
) -> None:
    thread = (await client.threads.create())["thread_id"]
    body = {"assistant_id": "agent", "input": {"messages": messages}}
    for path in ("runs", "runs/wait", "runs/stream"):
        detail = await refused(http, f"/threads/{thread}/{path}", body)
        assert detail.startswith("'messages' does not fit graph 'agent': ")
        await refused(http, f"/{path}", body)
    assert "run 2 of 2" in await refused(http, "/runs/batch", [{"assistant_id": "counter"}, body])
    command = {"assistant_id": "agent", "command": {"update": {"messages": messages}}}
    await refused(http, f"/threads/{thread}/runs", command)
    await refused(http, "/runs", command | {"command": {"update": [["messages", messages]]}})
    reply = await ProtocolThread(http, thread).command("run.start", **body)
    assert (reply["type"], reply["error"]) == ("error", "invalid_argument")
    assert await client.runs.list(thread) == []
    assert (await client.threads.get(thread))["values"] is None


@pytest.mark.parametrize("messages", BAD)
async def test_messages_that_no_graph_takes_are_neither_scheduled_nor_written(
    client: LangGraphClient, http: httpx.AsyncClient, messages: Any
) -> None:
    values = {"messages": messages}
    await refused(http, "/runs/crons", {"assistant_id": "agent", "schedule": "0 0 1 1 *", "input": values})
    cron: Any = await client.crons.create("agent", schedule="0 0 1 1 *", input=GIVEN)
    reply = await http.patch(f"/runs/crons/{cron['cron_id']}", json={"input": values})
    assert reply.status_code == 422, reply.text
    thread = (await client.threads.create(graph_id="agent"))["thread_id"]
    await refused(http, f"/threads/{thread}/state", {"values": values, "as_node": "plan"})
    step = {"updates": [{"values": values, "as_node": "plan"}]}
    await refused(http, "/threads", {"metadata": {"graph_id": "agent"}, "supersteps": [step]})


async def test_a_message_is_removed_where_it_is_and_may_be_while_a_run_is_active(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = (await client.threads.create())["thread_id"]
    given: Any = {"messages": [{**HELLO, "id": "first"}]}
    await client.runs.wait(thread, "tools", input=given)
    await refused(http, f"/threads/{thread}/runs", {"assistant_id": "tools", "input": {"messages": UNKNOWN}})
    removed: Any = {"messages": [{"type": "remove", "id": "first", "content": ""}, HELLO]}
    values: Any = await client.runs.wait(thread, "tools", input=removed)
    assert "first" not in [message["id"] for message in values["messages"]]
    gone: Any = {"messages": UNKNOWN}
    long: Any = {"messages": [{**HELLO, "content": "word " * 40}]}
    thread = (await client.threads.create())["thread_id"]
    await client.runs.create(thread, "teller", input=long)
    await client.runs.create(thread, "teller", input=gone)


async def test_input_of_another_type_than_the_state_makes_no_run(http: httpx.AsyncClient) -> None:
    for given in ("hi", [5], 5, False):
        body = {"assistant_id": "counter", "input": given}
        assert "not an object" in await refused(http, "/runs/wait", body)
    wrong = {"assistant_id": "form", "input": {"size": "large"}}
    assert "'size' does not fit graph 'form'" in await refused(http, "/runs/wait", wrong)
    right = await http.post("/runs/wait", json={"assistant_id": "form", "input": {"size": "4", "other": []}})
    assert right.json()["size"] == 5


async def test_a_thread_whose_state_cannot_be_built_breaks_no_list(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    """It is shown without values, in the list, by itself, after a change and as a copy."""
    thread = (await client.threads.create(metadata={"mark": (mark := uuid.uuid4().hex)}))["thread_id"]
    await client.runs.wait(thread, "garbled", input=GIVEN, raise_error=False)
    (found,) = await client.threads.search(metadata={"mark": mark})
    assert (found["thread_id"], found["values"], found["status"]) == (thread, None, "error")
    assert (await client.threads.get(thread))["values"] is None
    await client.threads.update(thread, metadata={"changed": True})
    await client.threads.copy(thread)
    both = await client.threads.search(metadata={"mark": mark})
    assert [one["values"] for one in both] == [None, None]


async def test_every_view_of_a_thread_whose_state_cannot_be_built_says_so(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "garbled", input=GIVEN, raise_error=False)
    path, search = f"/threads/{thread}", {"ids": [thread], "values": {"messages": []}}
    queries: list[Any] = [{}, {"select": "values.messages", "subgraphs": True}]
    for query in queries:
        shown = await http.get(f"{path}/state", params=query)
        assert shown.status_code == 400
        assert "cannot be built: Unsupported message type" in shown.json()["detail"]
    for past in (
        await http.get(f"{path}/history"),
        await http.post(f"{path}/history", json={"select": ["values"]}),
    ):
        assert [message["content"] for message in past.json()[0]["values"]["messages"]] == ["hello"]
    assert (await http.post("/threads/search", json=search | {"extract": {"a": "values.a"}})).json() == []
    assert (
        await http.post("/threads/count", json={"values": {"messages": []}, "metadata": {"x": 1}})
    ).json() == 0
    assert (await http.get(f"/api{path}/export")).status_code == 200
    wire = ProtocolThread(http, thread)
    assert (await wire.command("agent.getTree"))["result"]["tree"]["status"] == "failed"
    assert (await wire.command("run.start", assistant_id="garbled"))["type"] == "success"
    answer = {"assistant_id": "garbled", "command": {"resume": 1}}
    assert (await http.post(f"{path}/runs", json=answer)).status_code == 400


async def test_a_state_that_cannot_be_built_is_repaired_by_an_update(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "garbled", input=GIVEN, raise_error=False)
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
    await refused(http, f"/threads/{thread}/{path}", body)
