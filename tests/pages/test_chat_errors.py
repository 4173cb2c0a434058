"""Errors in a chat about a page, as the person gets them over the web socket and over REST."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx
import pytest
from pydantic import BaseModel

from callsheet.graphs import page_builder
from callsheet.graphs.page_builder import PageBuilder
from callsheet.server.pages.chat import ConversationView as View
from callsheet.server.pages.chat import completed_fields
from callsheet.state.errors import Missing
from callsheet.storage.runs.events import Event
from callsheet.storage.runs.records import Run
from callsheet.tools.call import Call
from callsheet.tools.policy import ToolOptions
from callsheet.tools.registry import tool
from tests.doubles.chat_double import ChatDouble, Say, Silence
from tests.doubles.page_chat_client import CALL, ends_turn, frame_types, new_page_id, open_chat
from tests.doubles.wire_served import running_server_on_own_redis

SECRET = "the cellar key is under the mat"


class NoPageArguments(BaseModel):
    """No arguments."""


@tool(schema=NoPageArguments, display="Breaking", options=ToolOptions(tries=1))
async def broken(args: NoPageArguments, call: Call) -> dict[str, Any]:
    """Raise an unexpected error."""
    raise RuntimeError(SECRET)


@tool(schema=NoPageArguments, display="Waiting", options=ToolOptions(tries=1, timeout_s=0.05))
async def slow(args: NoPageArguments, call: Call) -> dict[str, Any]:
    """Never answer."""
    await asyncio.Event().wait()
    return {}


@tool(schema=NoPageArguments, display="Waiting", options=ToolOptions(tries=1, timeout_s=60))
async def endless(args: NoPageArguments, call: Call) -> dict[str, Any]:
    """Never answer, with a long timeout."""
    await asyncio.Event().wait()
    return {}


@tool(schema=NoPageArguments, display="Sparing", options=ToolOptions(calls=1))
async def scarce(args: NoPageArguments, call: Call) -> dict[str, Any]:
    """Answer once a minute."""
    return {"count": 1}


EXTRA_TOOLS = {one.name: one for one in (broken, slow, endless, scarce)}
GRAPHS = {"page_builder": PageBuilder({**page_builder.WORKFLOW.tools, **EXTRA_TOOLS}).graph}
EDIT = {"elementId": "heading-1", "modifications": {"content": "Mine"}}


class FailingCall(NamedTuple):
    """A call that must fail, with its error; the type of the error is also the call's id."""

    type: str
    tool: str
    message: str
    arguments: dict[str, Any]
    status: str = "failed"


FAILING_CALLS = (
    FailingCall("validation_error", "read_element", "elementId: Field required", {}),
    FailingCall("permission_denied", "modify_element", "locked", EDIT),
    FailingCall("execution_error", "broken", "An unexpected error occurred during tool execution", {}),
    FailingCall("timeout_error", "slow", "no answer within", {}, "timeout"),
    FailingCall("rate_limit_error", "scarce", "1 times in 60 s", {}),
    FailingCall("unknown_tool", "paint", "Unknown tool: paint", {}),
)
RETRYABLE = {"validation_error", "execution_error", "timeout_error", "rate_limit_error"}


@dataclass
class ReportedTurn:
    """A turn as the web socket or REST reported it."""

    failed: dict[str, dict[str, Any]]
    """`error`, `type`, `retryable` and `suggestion` of calls that failed, by call."""
    done: list[str]
    """Ids of calls that succeeded."""
    reply: str
    raw: str


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(GRAPHS) as server_url:
        yield server_url


def scripted_answers() -> list[Say]:
    """One call a round: arguments that need repair, each failing call, and a last answer."""
    repaired = Say(calls=[("repaired", "read_element", "{elementId: 'heading-1',}")])
    allowed = Say(calls=[("allowed", "scarce", "{}")])
    failing = [Say(calls=[(one.type, one.tool, json.dumps(one.arguments))]) for one in FAILING_CALLS]
    return [repaired, allowed, *failing, Say("I could not do it.")]


async def lock_headline(url: str, page: str) -> None:
    """Create a page and lock its headline."""
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        body = {"message": "make the headline underlined", "provider": "offline"}
        assert (await http.post(f"/api/pages/{page}/chat", json=body)).status_code == 200
        assert (await http.put(f"/api/pages/{page}/locks/heading-1")).status_code == 200


async def by_web_socket(url: str, page: str) -> ReportedTurn:
    async with open_chat(url) as chat:
        frames = await chat.say(page, "do odd things", provider="openai")
    assert frame_types(frames) == ["userMessage", *CALL * (len(FAILING_CALLS) + 2), "aiResponseChunk"]
    ends = [frame for frame in frames if frame["type"] == "toolExecutionComplete"]
    failed = {}
    for frame in ends:
        if frame["status"] != "completed":
            assert frame["output"] is None
            names = ("error", "retryable", "suggestion")
            failed[frame["toolCallId"]] = {
                "type": frame["errorType"],
                **{name: frame[name] for name in names},
            }
    done = [frame["toolCallId"] for frame in ends if frame["status"] == "completed"]
    reply = "".join(frame["content"] for frame in frames if "isLastChunk" in frame)
    return ReportedTurn(failed, done, reply, json.dumps(frames))


async def by_rest(url: str, page: str) -> ReportedTurn:
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        body = {"message": "do odd things", "provider": "openai"}
        response = await http.post(f"/api/pages/{page}/chat", json=body)
    assert response.status_code == 200, response.text
    calls = response.json()["toolCalls"]
    failed = {call["id"]: call["result"] for call in calls if "error" in call["result"]}
    done = [call["id"] for call in calls if call["id"] not in failed]
    return ReportedTurn(failed, done, response.json()["message"], response.text)


@pytest.mark.slow
@pytest.mark.parametrize("send_message", [by_web_socket, by_rest])
async def test_each_type_of_error_is_reported_over_socket_and_rest_and_recorded(
    url: str, model: ChatDouble, send_message: Callable[[str, str], Awaitable[ReportedTurn]]
) -> None:
    """C31, C32, C35, C38, C41, C43, C44, C-R2, C-R11: type, message, retryable and a suggestion.

    The turn ends with a text. Internals are not shown. Arguments that are almost JSON are repaired (C42).
    """
    page = new_page_id()
    await lock_headline(url, page)
    model.script(*scripted_answers())
    turn = await send_message(url, page)
    assert (turn.reply[:18], "repaired" in turn.done) == ("I could not do it.", True)
    assert {one.type for one in FAILING_CALLS} == turn.failed.keys() - {"allowed"}
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        listed = (await http.get("/api/tool-executions", params={"conversationId": page})).json()
    records = {one["toolCallId"]: one for one in listed["executions"]}
    for failing in FAILING_CALLS:
        error, record = turn.failed[failing.type], records[failing.type]
        assert (error["type"], error["retryable"]) == (failing.type, failing.type in RETRYABLE)
        assert failing.message in error["error"]
        assert error["suggestion"]
        assert (record["errorType"], record["status"], record["error"]) == (
            failing.type,
            failing.status,
            error["error"],
        )
        assert record["endTime"] >= record["startTime"]
    assert SECRET not in turn.raw + json.dumps(listed)


async def test_a_cancelled_turn_completes_every_call(url: str, model: ChatDouble) -> None:
    page = new_page_id()
    model.script(Say(calls=[("c1", "endless", "{}")]), Silence())
    async with open_chat(url) as chat, open_chat(url) as late:
        message = {"type": "userMessage", "conversationId": page, "content": "wait", "provider": "openai"}
        await chat.send(message)
        await chat.until(lambda frame: frame["type"] == "toolExecutionProgress")
        second = {**message, "content": "and now?"}
        await chat.send(second)
        busy = (await chat.until(ends_turn))[-1]
        assert (busy["type"], busy["retryable"]) == ("error", True), "one turn at a time"
        await late.send({"type": "join", "conversationId": page})
        await late.until(lambda frame: frame["type"] == "toolExecutionProgress")
        assert frame_types(late.frames) == ["joined", "userMessage", *CALL[:2]], (
            "a client that joins late gets the turn from its start"
        )
        await chat.send({"type": "cancel", "conversationId": page})
        frames = await chat.until(ends_turn)
        assert frame_types(frames[-2:]) == ["toolExecutionComplete", "error"]
        assert "cancelled" in frames[-2]["error"]
        assert frames[-1]["details"] == {"kind": "cancelled"}
        done = await chat.say(page, "Make the headline teal")
        assert done[-1]["isLastChunk"], "the conversation goes on"


async def test_an_unreachable_model_ends_the_turn_with_an_error(url: str, model: ChatDouble) -> None:
    page = new_page_id()
    async with open_chat(url) as chat:
        frames = await chat.say(page, "hello", provider="openai")
        assert frame_types(frames) == ["userMessage", "error"]
        assert frames[-1]["error"]
        assert (await chat.say(page, "what can you do?"))[-1]["isLastChunk"]


async def test_a_receipt_after_the_models_answer_is_sent_too(url: str, model: ChatDouble) -> None:
    """The model names a version that does not exist."""
    model.script(*[Say("The page is v9 now.")] * 2)
    async with open_chat(url) as chat:
        frames = await chat.say(new_page_id(), "hello", provider="openai")
    text = "".join(frame["content"] for frame in frames if "isLastChunk" in frame)
    assert text.startswith("The page is v9 now.")
    assert text.endswith("\n\nNothing was changed.")


class UnknownRuns:
    """A stand-in for runs that has none."""

    async def get(self, thread: str, run: str) -> Run:
        raise Missing("none")


class WorkerWithoutRuns:
    runs = UnknownRuns()


async def test_a_run_with_two_attempts_sends_start_and_complete_of_a_call_once() -> None:
    """C19: although both attempts published events of the step."""
    step = {"type": "step", "stepId": "c1", "plan": "p", "tool": "undo", "name": "Undoing"}
    pending = {**step, "status": "pending", "input": {"steps": 1}}
    running = {**step, "status": "in-progress"}
    done = {**step, "status": "completed", "output": {"versionId": "v2"}, "durationSeconds": 0.1}
    other = {**pending, "plan": "q"}
    events: list[tuple[str, Any]] = [
        *[("metadata", {"attempt": 1}), ("custom", pending), ("custom", running)],
        *[("metadata", {"attempt": 2}), ("custom", pending), ("custom", running), ("custom", done)],
        *[("custom", done), ("custom", other), ("values", {})],
    ]
    view = View(WorkerWithoutRuns(), "t")  # type: ignore[arg-type]  # all it asks of a worker
    frames = []
    for number, (name, data) in enumerate(events):
        frames += await view.frames(Event(f"1-{number}", "r", name, json.dumps(data).encode()))
    frames += await view.frames(Event("2-0", "r", "end", b"interrupted"))
    assert frame_types(frames) == [CALL[0], CALL[1], CALL[1], CALL[2], CALL[0], CALL[2], "error"]
    assert [frame["input"] for frame in frames if "input" in frame] == [{"steps": 1}] * 2
    assert frames[3]["output"] == {"versionId": "v2"}
    assert frames[5]["errorType"] == "execution_error", "a call that a cancelled run left open ends too"


def test_a_call_without_an_error_is_completed() -> None:
    assert completed_fields({"count": 0}) == {"status": "completed", "output": {"count": 0}}
