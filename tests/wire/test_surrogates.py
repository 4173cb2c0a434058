"""An unpaired surrogate, which is not a character, reaches no store and no client, and causes no failure."""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from httpx import AsyncClient
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.config import get_store, get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Interrupt, interrupt
from langgraph_sdk.client import LangGraphClient

from callsheet.providers import load
from callsheet.state.errors import Unavailable
from callsheet.state.unicode import utf8_safe_value
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.waiting import eventually
from tests.doubles.wire_served import running_redis_for_file
from tests.doubles.wire_server import running_server

WITH_SURROGATE, REPLACED = "bad \ud83d", "bad \ufffd"
attempts: list[str] = []


async def act(state: MessagesState) -> dict[str, Any]:
    """Do the action that the last message names, with an unpaired surrogate."""
    action = state["messages"][-1].text
    attempts.append(action)
    match action:
        case "raise":
            raise ValueError(WITH_SURROGATE)
        case "write":
            get_stream_writer()({WITH_SURROGATE: [WITH_SURROGATE, "\ud83d\ude00"]})
        case "ask":
            return {"messages": [AIMessage(str(interrupt({"question": WITH_SURROGATE})))]}
        case "ask with objects":
            return {"messages": [AIMessage(str(interrupt({"since": datetime(2026, 1, 2, tzinfo=UTC)})))]}
        case "raise with objects":
            since: dict[str, object] = {"since": datetime(2026, 1, 2, tzinfo=UTC)}
            raise Unavailable("there is no bread", remedy="come back at four", details=since)
        case "raise a circle":
            circle: dict[str, Any] = {}
            circle["circle"] = circle
            raise Unavailable("no bread", details=circle)
        case "store":
            await get_store().aput(
                ("notes", WITH_SURROGATE), WITH_SURROGATE, {WITH_SURROGATE: WITH_SURROGATE}
            )
    return {"messages": [AIMessage(WITH_SURROGATE)]}


GRAPHS = {
    "act": StateGraph(MessagesState)
    .add_node("act", act)
    .add_edge(START, "act")
    .add_edge("act", END)
    .compile()
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_redis_for_file() as redis, running_server(redis, GRAPHS, webhook_private=True) as server_url:
        yield server_url


@pytest.fixture(autouse=True)
def _silence_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Keep unpaired surrogates out of captured logs, which pytest-xdist cannot send to its parent."""
    for name in ("callsheet.server", "langgraph"):
        caplog.set_level("CRITICAL", logger=name)


def graph_input(action: str) -> Any:
    return {"messages": [{"role": "user", "content": action}]}


async def last_events(client: LangGraphClient, action: str, **more: Any) -> dict[str, Any]:
    """Execute a run and return the last event of each name."""
    thread = await client.threads.create()
    stream = client.runs.stream(
        thread["thread_id"],
        "act",
        input=graph_input(action),
        stream_mode=["custom", "values", "updates", "messages", "events", "debug"],
        **more,
    )
    return {part.event: part.data async for part in stream} | {"thread": thread["thread_id"]}


async def test_a_run_whose_error_has_a_surrogate_fails_at_once_with_that_error(
    client: LangGraphClient,
) -> None:
    attempts.clear()
    start_s = time.monotonic()
    last = await last_events(client, "raise")
    assert last["error"] == {"error": "ValueError", "message": REPLACED}
    assert time.monotonic() - start_s < 8, "no lease had to expire"
    assert attempts == ["raise"]
    [run] = await client.runs.list(last["thread"])
    assert run["status"] == "error"
    assert (await client.threads.get(last["thread"]))["status"] == "error"
    await client.runs.wait(last["thread"], "act", input=graph_input("go on"))


async def test_a_surrogate_in_custom_data_and_messages_is_replaced(
    client: LangGraphClient, http: AsyncClient
) -> None:
    last = await last_events(client, "write")
    assert last["custom"] == {REPLACED: [REPLACED, "😀"]}
    assert last["values"]["messages"][-1]["content"] == REPLACED
    assert "error" not in last
    text = (await http.get(f"/threads/{last['thread']}/history")).text
    assert "\\ud83d" not in text


async def test_an_interrupt_with_a_surrogate_is_stored_and_resumed(client: LangGraphClient) -> None:
    last = await last_events(client, "ask")
    thread = await client.threads.get(last["thread"])
    [[pending]] = thread["interrupts"].values()
    assert thread["status"] == "interrupted"
    assert pending["value"] == {"question": REPLACED}
    values: Any = await client.runs.wait(last["thread"], "act", command={"resume": "fine"})
    assert values["messages"][-1]["content"] == "fine"


async def test_an_interrupt_with_objects_is_shown_as_json(client: LangGraphClient) -> None:
    last = await last_events(client, "ask with objects")
    thread = await client.threads.get(last["thread"])
    [[pending]] = thread["interrupts"].values()
    assert pending["value"] == {"since": "2026-01-02T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("raise with objects", "there is no bread. Come back at four."),
        ("raise a circle", "the outcome of the run cannot be stored"),
    ],
)
async def test_an_error_with_details_that_are_not_json_fails_the_run_after_one_attempt(
    client: LangGraphClient, action: str, message: str
) -> None:
    attempts.clear()
    last = await last_events(client, action)
    assert message in last["error"]["message"]
    assert attempts == [action]


async def test_a_surrogate_in_a_store_item_is_replaced(client: LangGraphClient) -> None:
    assert "error" not in await last_events(client, "store")
    [item] = (await client.store.search_items(["notes"]))["items"]
    assert (item["namespace"], item["key"], item["value"]) == (
        ["notes", REPLACED],
        REPLACED,
        {REPLACED: REPLACED},
    )


async def test_a_webhook_gets_the_error_of_a_run_with_the_surrogate_replaced(client: LangGraphClient) -> None:
    bodies: list[Any] = []

    class SurrogateWebhookHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), SurrogateWebhookHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    await last_events(client, "raise", webhook=f"http://127.0.0.1:{server.server_port}/")
    await eventually(lambda: asyncio.sleep(0, bool(bodies)), "the webhook was called")
    await asyncio.to_thread(server.shutdown)
    server.server_close()
    assert bodies[0]["error"] == {"error": "ValueError", "message": REPLACED}


@pytest.mark.parametrize("action", [WITH_SURROGATE, "\udc00"])
async def test_a_request_with_a_surrogate_is_refused(http: AsyncClient, action: str) -> None:
    thread = (await http.post("/threads", json={})).json()["thread_id"]
    body = json.dumps({"assistant_id": "act", "input": graph_input(action), "schedule": "0 0 1 1 *"})
    for path in (f"/threads/{thread}/runs", "/runs/crons", f"/threads/{thread}/state"):
        reply = await http.post(path, content=body)
        assert (reply.status_code, "surrogate" in reply.text) == (422, True), path


@pytest.mark.parametrize("chunk_size", [1, 1_000])
@pytest.mark.parametrize("streaming", [True, False])
async def test_surrogates_from_a_model_are_joined_to_pairs_or_replaced(
    *, streaming: bool, chunk_size: int
) -> None:
    """In text, reasoning and the arguments of a tool call, as characters and as JSON escapes."""
    text = "smile \ud83d\ude00, bad \ud83d!"
    escaped = json.dumps({"language": text})
    say = Say(
        text,
        calls=[("a", "search", escaped), ("b", "search", json.dumps({"language": text}, ensure_ascii=False))],
        reasoning=text,
        piece=chunk_size,
    )
    with ChatDouble(say, vendor="qwen") as double:
        model = load("qwen", environ=double.environ_of("DASHSCOPE"))
        answer = await model.ainvoke([HumanMessage("hi")], stream=streaming)
    expected = "smile 😀, bad \ufffd!"
    assert answer.text == expected
    assert [call["args"] for call in answer.tool_calls] == [{"language": expected}] * 2
    assert answer.additional_kwargs["reasoning_content"] == expected


async def test_a_surrogate_at_the_end_of_a_models_stream_is_replaced() -> None:
    say = Say("bad \ud83d", calls=[("a", "search", '{"language": "bad \ud83d')], piece=1)
    with ChatDouble(say) as double:
        model = load("openai", environ=double.environ)
        chunks = [chunk async for chunk in model.astream([HumanMessage("hi")])]
    assert "".join(chunk.text for chunk in chunks) == REPLACED
    args = [call["args"] or "" for chunk in chunks for call in chunk.tool_call_chunks]
    assert "".join(args) == '{"language": "' + REPLACED


def test_a_value_without_surrogates_is_returned_as_the_same_object() -> None:
    value = {"a": [1, ("ü", None)], "b": AIMessage("x"), "c": Interrupt("why?", id="1")}
    assert utf8_safe_value(value) is value


def test_surrogates_in_every_text_of_a_value_are_replaced() -> None:
    value = {
        WITH_SURROGATE: [(WITH_SURROGATE, 1)],
        "b": AIMessage(WITH_SURROGATE, id="1"),
        "c": Interrupt({"why": WITH_SURROGATE}, id="1"),
        "d": str,
    }
    assert utf8_safe_value(value) == {
        REPLACED: [(REPLACED, 1)],
        "b": AIMessage(REPLACED, id="1"),
        "c": Interrupt({"why": REPLACED}, id="1"),
        "d": str,
    }
    deep: Any = WITH_SURROGATE
    for _ in range(100):
        deep = [deep]
    assert utf8_safe_value(deep) is deep
