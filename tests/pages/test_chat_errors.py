"""What goes wrong in a chat about a page reaches its person, over the web socket and over REST."""

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
from callsheet.server.pages.chat_events import ConversationView as View
from callsheet.server.pages.chat_events import completed_fields
from callsheet.state.errors import Missing
from callsheet.storage.runs.events import Event
from callsheet.storage.runs.records import Run
from callsheet.tools.guard.call import Call
from callsheet.tools.guard.policy import ToolOptions
from callsheet.tools.registry import tool
from tests.doubles.chat_double import ChatDouble, Say, Silence
from tests.doubles.page_chat_client import CALL, ends_turn, frame_types, new_page_id, open_chat
from tests.doubles.wire_served import running_server_on_own_redis

SECRET = "the cellar key is under the mat"


class Nothing(BaseModel):
    """No arguments."""


@tool(schema=Nothing, display="Breaking", options=ToolOptions(tries=1))
async def broken(args: Nothing, call: Call) -> dict[str, Any]:
    """Fail as no code foresaw."""
    raise RuntimeError(SECRET)


@tool(schema=Nothing, display="Waiting", options=ToolOptions(tries=1, timeout_s=0.05))
async def slow(args: Nothing, call: Call) -> dict[str, Any]:
    """Never answer."""
    await asyncio.Event().wait()
    return {}


@tool(schema=Nothing, display="Waiting", options=ToolOptions(tries=1, timeout_s=60))
async def endless(args: Nothing, call: Call) -> dict[str, Any]:
    """Never answer, and be waited for."""
    await asyncio.Event().wait()
    return {}


@tool(schema=Nothing, display="Sparing", options=ToolOptions(calls=1))
async def scarce(args: Nothing, call: Call) -> dict[str, Any]:
    """Answer once a minute."""
    return {"count": 1}


EXTRA = {one.name: one for one in (broken, slow, endless, scarce)}
GRAPHS = {"page_builder": PageBuilder({**page_builder.WORKFLOW.tools, **EXTRA}).graph}
EDIT = {"elementId": "heading-1", "modifications": {"content": "Mine"}}


class Wrong(NamedTuple):
    """A call that must fail, and how; its id is the type of its error."""

    type: str
    tool: str
    says: str
    arguments: dict[str, Any]
    status: str = "failed"


SIX = (
    Wrong("validation_error", "read_element", "elementId: Field required", {}),
    Wrong("permission_denied", "modify_element", "locked", EDIT),
    Wrong("execution_error", "broken", "An unexpected error occurred during tool execution", {}),
    Wrong("timeout_error", "slow", "no answer within", {}, "timeout"),
    Wrong("rate_limit_error", "scarce", "1 times in 60 s", {}),
    Wrong("unknown_tool", "paint", "Unknown tool: paint", {}),
)
RETRYABLE = {"execution_error", "timeout_error", "rate_limit_error"}


@dataclass
class Heard:
    """What a door told of a turn."""

    failed: dict[str, dict[str, Any]]
    """`error`, `type`, `retryable` and `suggestion` of calls that failed, by call."""
    done: list[str]
    """Calls that did not."""
    words: str
    whole: str


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(GRAPHS) as found:
        yield found


def script() -> list[Say]:
    """One call a round: arguments that need mending, each of the six errors, and a last word."""
    mended = Say(calls=[("mended", "read_element", "{elementId: 'heading-1',}")])
    spent = Say(calls=[("spent", "scarce", "{}")])
    wrong = [Say(calls=[(one.type, one.tool, json.dumps(one.arguments))]) for one in SIX]
    return [mended, spent, *wrong, Say("I could not do it.")]


async def locked(url: str, page: str) -> None:
    """A page whose headline nobody may change."""
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        said = {"message": "make the headline underlined", "provider": "offline"}
        assert (await http.post(f"/api/pages/{page}/chat", json=said)).status_code == 200
        assert (await http.put(f"/api/pages/{page}/locks/heading-1")).status_code == 200


async def by_web_socket(url: str, page: str) -> Heard:
    async with open_chat(url) as chat:
        told = await chat.say(page, "do odd things", provider="openai")
    assert frame_types(told) == ["userMessage", *CALL * (len(SIX) + 2), "aiResponseChunk"]
    ends = [frame for frame in told if frame["type"] == "toolExecutionComplete"]
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
    words = "".join(frame["content"] for frame in told if "isLastChunk" in frame)
    return Heard(failed, done, words, json.dumps(told))


async def by_rest(url: str, page: str) -> Heard:
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        said = {"message": "do odd things", "provider": "openai"}
        reply = await http.post(f"/api/pages/{page}/chat", json=said)
    assert reply.status_code == 200, reply.text
    calls = reply.json()["toolCalls"]
    failed = {call["id"]: call["result"] for call in calls if "error" in call["result"]}
    done = [call["id"] for call in calls if call["id"] not in failed]
    return Heard(failed, done, reply.json()["message"], reply.text)


@pytest.mark.slow
@pytest.mark.parametrize("send_message", [by_web_socket, by_rest])
async def test_each_of_the_six_errors_comes_through_either_door_and_is_on_record(
    url: str, model: ChatDouble, send_message: Callable[[str, str], Awaitable[Heard]]
) -> None:
    """C31, C32, C35, C38, C41, C43, C44, C-R2, C-R11: type, message, retryable and a suggestion.

    The turn goes on in words. Internals stay inside, and arguments that are almost JSON are no error (C42).
    """
    page = new_page_id()
    await locked(url, page)
    model.script(*script())
    heard = await send_message(url, page)
    assert (heard.words, "mended" in heard.done) == ("I could not do it.", True)
    assert {one.type for one in SIX} == heard.failed.keys() - {"spent"}
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        listed = (await http.get("/api/tool-executions", params={"conversationId": page})).json()
    records = {one["toolCallId"]: one for one in listed["executions"]}
    for wrong in SIX:
        told, record = heard.failed[wrong.type], records[wrong.type]
        assert (told["type"], told["retryable"]) == (wrong.type, wrong.type in RETRYABLE)
        assert wrong.says in told["error"]
        assert told["suggestion"]
        assert (record["errorType"], record["status"], record["error"]) == (
            wrong.type,
            wrong.status,
            told["error"],
        )
        assert record["endTime"] >= record["startTime"]
    assert SECRET not in heard.whole + json.dumps(listed)


async def test_a_turn_can_be_cancelled_and_every_call_ends(url: str, model: ChatDouble) -> None:
    page = new_page_id()
    model.script(Say(calls=[("c1", "endless", "{}")]), Silence())
    async with open_chat(url) as chat, open_chat(url) as late:
        said = {"type": "userMessage", "conversationId": page, "content": "wait", "provider": "openai"}
        await chat.send(said)
        await chat.until(lambda frame: frame["type"] == "toolExecutionProgress")
        again = {**said, "content": "and now?"}
        await chat.send(again)
        busy = (await chat.until(ends_turn))[-1]
        assert (busy["type"], busy["retryable"]) == ("error", True), "one turn at a time"
        await late.send({"type": "join", "conversationId": page})
        await late.until(lambda frame: frame["type"] == "toolExecutionProgress")
        assert frame_types(late.frames) == ["joined", "userMessage", *CALL[:2]], (
            "who comes late is told the turn"
        )
        await chat.send({"type": "cancel", "conversationId": page})
        told = await chat.until(ends_turn)
        assert frame_types(told[-2:]) == ["toolExecutionComplete", "error"]
        assert "cancelled" in told[-2]["error"]
        assert told[-1]["details"] == {"kind": "cancelled"}
        done = await chat.say(page, "Make the headline teal")
        assert done[-1]["isLastChunk"], "and the conversation goes on"


async def test_a_model_that_cannot_be_reached_is_an_error_of_the_turn(url: str, model: ChatDouble) -> None:
    page = new_page_id()
    async with open_chat(url) as chat:
        told = await chat.say(page, "hello", provider="openai")
        assert frame_types(told) == ["userMessage", "error"]
        assert told[-1]["error"]
        assert (await chat.say(page, "what can you do?"))[-1]["isLastChunk"]


async def test_what_is_added_to_the_last_word_is_told_too(url: str, model: ChatDouble) -> None:
    """A version that does not exist is put right after the model has spoken."""
    model.script(Say("The page is v9 now."))
    async with open_chat(url) as chat:
        told = await chat.say(new_page_id(), "hello", provider="openai")
    said = "".join(frame["content"] for frame in told if "isLastChunk" in frame)
    assert said.startswith("The page is v9 now.")
    assert "There is no v9" in said


class Runs:
    """Knows no run."""

    async def get(self, thread: str, run: str) -> Run:
        raise Missing("none")


class Worker:
    runs = Runs()


async def test_a_run_that_was_taken_up_again_tells_of_each_call_once() -> None:
    """C19: exactly one Start and one Complete, though the step was told of by two attempts."""
    step = {"type": "step", "stepId": "c1", "plan": "p", "tool": "undo", "name": "Undoing"}
    pending = {**step, "status": "pending", "input": {"steps": 1}}
    running = {**step, "status": "in-progress"}
    done = {**step, "status": "completed", "output": {"versionId": "v2"}, "durationSeconds": 0.1}
    other = {**pending, "plan": "q"}
    told: list[tuple[str, Any]] = [
        *[("metadata", {"attempt": 1}), ("custom", pending), ("custom", running)],
        *[("metadata", {"attempt": 2}), ("custom", pending), ("custom", running), ("custom", done)],
        *[("custom", done), ("custom", other), ("values", {})],
    ]
    view = View(Worker(), "t")  # type: ignore[arg-type]  # all it asks of a worker
    frames = []
    for number, (name, data) in enumerate(told):
        frames += await view.frames(Event(f"1-{number}", "r", name, json.dumps(data).encode()))
    frames += await view.frames(Event("2-0", "r", "end", b"interrupted"))
    assert frame_types(frames) == [CALL[0], CALL[1], CALL[1], CALL[2], CALL[0], CALL[2], "error"]
    assert [frame["input"] for frame in frames if "input" in frame] == [{"steps": 1}] * 2
    assert frames[3]["output"] == {"versionId": "v2"}
    assert frames[5]["errorType"] == "execution_error", "a call that a cancelled run left open ends too"


def test_an_output_without_an_error_is_completed() -> None:
    assert completed_fields({"count": 0}) == {"status": "completed", "output": {"count": 0}}
