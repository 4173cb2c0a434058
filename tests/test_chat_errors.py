"""What goes wrong in a chat about a page reaches its person, over the web socket and over REST."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from graphs import page_builder
from graphs.loop import compiled, loop
from server.chat_events import Chat as View
from server.chat_events import completed
from state.errors import Missing
from state.page_workflow import PageState
from storage.events import Event
from storage.run_records import Run
from tests.chat_client import CALL, anew, client, over, types
from tests.chat_double import ChatDouble, Say, Silence
from tests.wire_served import home
from tools.call import Call
from tools.registry import tool
from tools.terms import Terms

SECRET = "the cellar key is under the mat"


class Nothing(BaseModel):
    """No arguments."""


@tool(schema=Nothing, display="Breaking", terms=Terms(tries=1))
async def broken(args: Nothing, call: Call) -> dict[str, Any]:
    """Fail as no code foresaw."""
    raise RuntimeError(SECRET)


@tool(schema=Nothing, display="Waiting", terms=Terms(tries=1, timeout_s=0.05))
async def slow(args: Nothing, call: Call) -> dict[str, Any]:
    """Never answer."""
    await asyncio.Event().wait()
    return {}


@tool(schema=Nothing, display="Waiting", terms=Terms(tries=1, timeout_s=60))
async def endless(args: Nothing, call: Call) -> dict[str, Any]:
    """Never answer, and be waited for."""
    await asyncio.Event().wait()
    return {}


@tool(schema=Nothing, display="Sparing", terms=Terms(calls=1))
async def scarce(args: Nothing, call: Call) -> dict[str, Any]:
    """Answer once a minute."""
    return {"count": 1}


EXTRA = {one.name: one for one in (broken, slow, endless, scarce)}
SUBJECT = replace(page_builder.SUBJECT, tools={**page_builder.SUBJECT.tools, **EXTRA})
GRAPHS = {"page_builder": compiled(loop(PageState, SUBJECT), "page_builder")}
SIX = {
    "validation_error",
    "permission_denied",
    "execution_error",
    "timeout_error",
    "rate_limit_error",
    "unknown_tool",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with home(GRAPHS) as found:
        yield found


def script() -> list[Say]:
    """One call a round: each of the six errors, and a last word."""
    edit = {"elementId": "heading-1", "modifications": {"content": "Mine"}}
    named: list[tuple[str, Any]] = [
        *[("broken", {}), ("slow", {}), ("scarce", {}), ("scarce", {}), ("paint", {})],
        *[("read_element", {}), ("modify_element", edit)],
    ]
    calls = [Say(calls=[(f"c{i}", name, json.dumps(args))]) for i, (name, args) in enumerate(named)]
    return [*calls, Say("I could not do it.")]


async def locked(url: str, page: str) -> None:
    """A page whose headline nobody may change."""
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        said = {"message": "underline the headline", "provider": "offline"}
        assert (await http.post(f"/api/pages/{page}/chat", json=said)).status_code == 200
        assert (await http.put(f"/api/pages/{page}/locks/heading-1")).status_code == 200


async def test_each_of_the_six_errors_reaches_a_web_socket(url: str, model: ChatDouble) -> None:
    """C33–C41: type, message, retryable and a suggestion; internals stay inside; the turn goes on (C43)."""
    page = anew()
    await locked(url, page)
    model.script(*script())
    async with client(url) as chat:
        told = await chat.say(page, "do odd things", provider="openai")
    assert types(told) == ["userMessage", *CALL * 7, "aiResponseChunk"]
    ends = [frame for frame in told if frame["type"] == "toolExecutionComplete"]
    failed = [frame for frame in ends if frame["status"] != "completed"]
    assert {frame["errorType"] for frame in failed} == SIX
    assert all(frame["output"] is None and frame["error"] and frame["suggestion"] for frame in failed)
    by_type = {frame["errorType"]: frame for frame in failed}
    assert by_type["timeout_error"]["status"] == "timeout"
    assert by_type["execution_error"]["error"] == "An unexpected error occurred during tool execution"
    assert by_type["rate_limit_error"]["retryable"]
    assert not by_type["permission_denied"]["retryable"]
    assert SECRET not in json.dumps(told)
    assert "".join(frame["content"] for frame in told if "isLastChunk" in frame) == "I could not do it."


async def test_each_of_the_six_errors_reaches_rest(url: str, model: ChatDouble) -> None:
    """C-R2, C-R11."""
    page = anew()
    await locked(url, page)
    model.script(*script())
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        said = {"message": "do odd things", "provider": "openai"}
        reply = await http.post(f"/api/pages/{page}/chat", json=said)
    assert reply.status_code == 200, reply.text
    results = [call["result"] for call in reply.json()["toolCalls"]]
    assert {one["type"] for one in results if "error" in one} == SIX
    assert reply.json()["message"] == "I could not do it."
    assert SECRET not in reply.text


async def test_a_turn_can_be_cancelled_and_every_call_ends(url: str, model: ChatDouble) -> None:
    page = anew()
    model.script(Say(calls=[("c1", "endless", "{}")]), Silence())
    async with client(url) as chat, client(url) as late:
        said = {"type": "userMessage", "conversationId": page, "content": "wait", "provider": "openai"}
        await chat.send(said)
        await chat.until(lambda frame: frame["type"] == "toolExecutionProgress")
        again = {**said, "content": "and now?"}
        await chat.send(again)
        busy = (await chat.until(over))[-1]
        assert (busy["type"], busy["retryable"]) == ("error", True), "one turn at a time"
        await late.send({"type": "join", "conversationId": page})
        await late.until(lambda frame: frame["type"] == "toolExecutionProgress")
        assert types(late.told) == ["joined", "userMessage", *CALL[:2]], "who comes late is told the turn"
        await chat.send({"type": "cancel", "conversationId": page})
        told = await chat.until(over)
        assert types(told[-2:]) == ["toolExecutionComplete", "error"]
        assert "cancelled" in told[-2]["error"]
        assert told[-1]["details"] == {"kind": "cancelled"}
        done = await chat.say(page, "Make the headline teal")
        assert done[-1]["isLastChunk"], "and the conversation goes on"


async def test_a_model_that_cannot_be_reached_is_an_error_of_the_turn(url: str, model: ChatDouble) -> None:
    page = anew()
    async with client(url) as chat:
        told = await chat.say(page, "hello", provider="openai")
        assert types(told) == ["userMessage", "error"]
        assert told[-1]["error"]
        assert (await chat.say(page, "what can you do?"))[-1]["isLastChunk"]


async def test_what_is_added_to_the_last_word_is_told_too(url: str, model: ChatDouble) -> None:
    """A version that does not exist is put right after the model has spoken."""
    model.script(Say("The page is v9 now."))
    async with client(url) as chat:
        told = await chat.say(anew(), "hello", provider="openai")
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
    assert types(frames) == [CALL[0], CALL[1], CALL[1], CALL[2], CALL[0], CALL[2], "error"]
    assert [frame["input"] for frame in frames if "input" in frame] == [{"steps": 1}] * 2
    assert frames[3]["output"] == {"versionId": "v2"}
    assert frames[5]["errorType"] == "execution_error", "a call that a cancelled run left open ends too"


def test_an_output_without_an_error_is_completed() -> None:
    assert completed({"count": 0}) == {"status": "completed", "output": {"count": 0}}
