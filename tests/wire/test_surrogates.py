"""Half of a surrogate pair, which is no character, reaches no store and no client and fails nothing."""

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

HALF, WHOLE = "bad \ud83d", "bad \ufffd"
attempts: list[str] = []


async def act(state: MessagesState) -> dict[str, Any]:
    """Do what the message says with half of a surrogate pair."""
    wish = state["messages"][-1].text
    attempts.append(wish)
    match wish:
        case "raise":
            raise ValueError(HALF)
        case "write":
            get_stream_writer()({HALF: [HALF, "\ud83d\ude00"]})
        case "ask":
            return {"messages": [AIMessage(str(interrupt({"question": HALF})))]}
        case "ask with objects":
            return {"messages": [AIMessage(str(interrupt({"since": datetime(2026, 1, 2, tzinfo=UTC)})))]}
        case "raise with objects":
            raise Unavailable("no bread", details={"since": datetime(2026, 1, 2, tzinfo=UTC)})
        case "raise a circle":
            circle: dict[str, Any] = {}
            circle["circle"] = circle
            raise Unavailable("no bread", details=circle)
        case "store":
            await get_store().aput(("notes", HALF), HALF, {HALF: HALF})
    return {"messages": [AIMessage(HALF)]}


GRAPHS = {
    "act": StateGraph(MessagesState)
    .add_node("act", act)
    .add_edge(START, "act")
    .add_edge("act", END)
    .compile()
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_redis_for_file() as redis, running_server(redis, GRAPHS, webhook_private=True) as found:
        yield found


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """No half of a pair in captured logs, which pytest-xdist cannot send to its parent."""
    for name in ("callsheet.server", "langgraph"):
        caplog.set_level("CRITICAL", logger=name)


def given(wish: str) -> Any:
    return {"messages": [{"role": "user", "content": wish}]}


async def events(client: LangGraphClient, wish: str, **more: Any) -> dict[str, Any]:
    """The last event of each name of a run; None has halves of pairs in it."""
    thread = await client.threads.create()
    stream = client.runs.stream(
        thread["thread_id"],
        "act",
        input=given(wish),
        stream_mode=["custom", "values", "updates", "messages", "events", "debug"],
        **more,
    )
    return {part.event: part.data async for part in stream} | {"thread": thread["thread_id"]}


async def test_a_run_fails_at_once_with_its_own_error_though_its_text_is_no_unicode(
    client: LangGraphClient,
) -> None:
    attempts.clear()
    began = time.monotonic()
    ended = await events(client, "raise")
    assert ended["error"] == {"error": "ValueError", "message": WHOLE}
    assert time.monotonic() - began < 8, "no lease had to expire"
    assert attempts == ["raise"]
    [run] = await client.runs.list(ended["thread"])
    assert run["status"] == "error"
    assert (await client.threads.get(ended["thread"]))["status"] == "error"
    await client.runs.wait(ended["thread"], "act", input=given("go on"))


async def test_data_of_a_node_is_streamed_and_read_with_a_replacement_character(
    client: LangGraphClient, http: AsyncClient
) -> None:
    ended = await events(client, "write")
    assert ended["custom"] == {WHOLE: [WHOLE, "😀"]}
    assert ended["values"]["messages"][-1]["content"] == WHOLE
    assert "error" not in ended
    text = (await http.get(f"/threads/{ended['thread']}/history")).text
    assert "\\ud83d" not in text


async def test_a_question_with_half_a_pair_waits_and_is_answered(client: LangGraphClient) -> None:
    ended = await events(client, "ask")
    thread = await client.threads.get(ended["thread"])
    [[question]] = thread["interrupts"].values()
    assert thread["status"] == "interrupted"
    assert question["value"] == {"question": WHOLE}
    answered: Any = await client.runs.wait(ended["thread"], "act", command={"resume": "fine"})
    assert answered["messages"][-1]["content"] == "fine"


async def test_a_question_with_objects_waits_as_json(client: LangGraphClient) -> None:
    ended = await events(client, "ask with objects")
    thread = await client.threads.get(ended["thread"])
    [[question]] = thread["interrupts"].values()
    assert question["value"] == {"since": "2026-01-02T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("wish", "message"),
    [("raise with objects", "no bread"), ("raise a circle", "the outcome of the run cannot be stored")],
)
async def test_an_error_that_cannot_be_stored_fails_the_run_and_is_no_crash(
    client: LangGraphClient, wish: str, message: str
) -> None:
    attempts.clear()
    ended = await events(client, wish)
    assert message in ended["error"]["message"]
    assert attempts == [wish]


async def test_an_item_of_the_store_is_kept_with_a_replacement_character(client: LangGraphClient) -> None:
    assert "error" not in await events(client, "store")
    [item] = (await client.store.search_items(["notes"]))["items"]
    assert (item["namespace"], item["key"], item["value"]) == (["notes", WHOLE], WHOLE, {WHOLE: WHOLE})


async def test_a_webhook_is_called_with_the_error_of_a_run(client: LangGraphClient) -> None:
    bodies: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    await events(client, "raise", webhook=f"http://127.0.0.1:{server.server_port}/")
    await eventually(lambda: asyncio.sleep(0, bool(bodies)), "the webhook was called")
    await asyncio.to_thread(server.shutdown)
    server.server_close()
    assert bodies[0]["error"] == {"error": "ValueError", "message": WHOLE}


@pytest.mark.parametrize("wish", [HALF, "\udc00"])
async def test_a_client_that_sends_half_a_pair_is_told(http: AsyncClient, wish: str) -> None:
    thread = (await http.post("/threads", json={})).json()["thread_id"]
    body = json.dumps({"assistant_id": "act", "input": given(wish), "schedule": "0 0 1 1 *"})
    for path in (f"/threads/{thread}/runs", "/runs/crons", f"/threads/{thread}/state"):
        reply = await http.post(path, content=body)
        assert (reply.status_code, "surrogate" in reply.text) == (422, True), path


@pytest.mark.parametrize("piece", [1, 1_000])
@pytest.mark.parametrize("streaming", [True, False])
async def test_halves_of_pairs_from_a_model_are_joined_or_replaced(*, streaming: bool, piece: int) -> None:
    """In its text, its reasoning and the arguments of a call, as characters and as escapes."""
    text = "smile \ud83d\ude00, bad \ud83d!"
    escaped = json.dumps({"language": text})
    say = Say(
        text,
        calls=[("a", "search", escaped), ("b", "search", json.dumps({"language": text}, ensure_ascii=False))],
        reasoning=text,
        piece=piece,
    )
    with ChatDouble(say, vendor="qwen") as double:
        model = load("qwen", environ=double.environ_of("DASHSCOPE"))
        answer = await model.ainvoke([HumanMessage("hi")], stream=streaming)
    whole = "smile 😀, bad \ufffd!"
    assert answer.text == whole
    assert [call["args"] for call in answer.tool_calls] == [{"language": whole}] * 2
    assert answer.additional_kwargs["reasoning_content"] == whole


async def test_half_a_pair_at_the_end_of_a_stream_is_replaced() -> None:
    say = Say("bad \ud83d", calls=[("a", "search", '{"language": "bad \ud83d')], piece=1)
    with ChatDouble(say) as double:
        model = load("openai", environ=double.environ)
        pieces = [piece async for piece in model.astream([HumanMessage("hi")])]
    assert "".join(piece.text for piece in pieces) == WHOLE
    args = [call["args"] or "" for piece in pieces for call in piece.tool_call_chunks]
    assert "".join(args) == '{"language": "' + WHOLE


def test_a_value_without_halves_of_pairs_is_the_same_object() -> None:
    value = {"a": [1, ("ü", None)], "b": AIMessage("x"), "c": Interrupt("why?", id="1")}
    assert utf8_safe_value(value) is value


def test_every_text_of_a_value_is_made_safe() -> None:
    value = {HALF: [(HALF, 1)], "b": AIMessage(HALF, id="1"), "c": Interrupt({"why": HALF}, id="1"), "d": str}
    assert utf8_safe_value(value) == {
        WHOLE: [(WHOLE, 1)],
        "b": AIMessage(WHOLE, id="1"),
        "c": Interrupt({"why": WHOLE}, id="1"),
        "d": str,
    }
    deep: Any = HALF
    for _ in range(100):
        deep = [deep]
    assert utf8_safe_value(deep) is deep
