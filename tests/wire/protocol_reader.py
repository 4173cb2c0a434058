"""A reader of the second wire that does as little as possible: what it gets is what was sent."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.doubles.waiting import PATIENCE_S
from tests.doubles.wire_served import HELLO

ALL: Any = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"]
SEEN: Any = ["values", "messages", "lifecycle", "input"]
"""What the recorded streams have."""
Event = dict[str, Any]
Until = Callable[[list[Event]], bool]


class ProtocolThread:
    """One thread of a server."""

    def __init__(self, http: httpx.AsyncClient, thread: str = "") -> None:
        self.http = http
        self.thread = thread or str(uuid.uuid4())
        self._sent = 0

    async def command(self, method: str, **params: Any) -> Event:
        """The answer to a command."""
        self._sent += 1
        asked = {"id": self._sent, "method": method, "params": params}
        reply = await self.http.post(f"/threads/{self.thread}/commands", json=asked)
        assert reply.status_code == 200, reply.text
        told: Event = reply.json()
        assert told["id"] == asked["id"]
        return told

    async def start(self, graph: str = "agent", given: Any = HELLO, **more: Any) -> str:
        """Start a run and return its id."""
        told = await self.command("run.start", assistant_id=graph, input=given, **more)
        assert told["type"] == "success", told
        return str(told["result"]["run_id"])

    async def respond(self, question: str, response: Any) -> str:
        """Answer a question and return the id of the run that goes on with it."""
        told = await self.command("input.respond", namespace=[], interrupt_id=question, response=response)
        assert told["type"] == "success", told
        return str(told["result"]["run_id"])

    @asynccontextmanager
    async def stream(self, channels: Any = ALL, **more: Any) -> AsyncIterator["ProtocolStream"]:
        """An open stream."""
        asked = {"channels": channels, **more}
        place = f"/threads/{self.thread}/stream/events"
        async with self.http.stream("POST", place, json=asked) as reply:
            assert reply.status_code == 200, await reply.aread()
            yield ProtocolStream(reply)

    async def seen(self, until: Until, channels: Any = ALL, **more: Any) -> list[Event]:
        """The events of a stream that is opened now, until a condition holds."""
        async with self.stream(channels, **more) as stream:
            return await stream.seen(until)

    async def state(self) -> Any:
        """The thread's newest state."""
        return (await self.http.get(f"/threads/{self.thread}/state")).json()


class ProtocolStream:
    """An open stream, and all that it has told."""

    def __init__(self, reply: httpx.Response) -> None:
        self._lines = reply.aiter_lines()
        self.told: list[Event] = []

    async def seen(self, until: Until) -> list[Event]:
        """All that it has told, once a condition holds of that."""
        async with asyncio.timeout(PATIENCE_S):
            while not until(self.told):
                self.told.append(await self._next())
        return self.told

    async def _next(self) -> Event:
        fields: dict[str, str] = {}
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                event: Event = json.loads(fields["data"])
                assert (fields["event"], fields["id"]) == (event["method"], str(event["seq"]))
                return event
        raise EOFError("the stream has ended")


def run_has_ended(run: str = "", *, how: str = "") -> Until:
    """Whether a run, any unless chosen, has ended, in some way or in this one."""
    hows = {how} if how else {"completed", "failed", "interrupted"}
    return lambda told: any(what in hows and run in event_id for what, event_id in run_lifecycles(told))


def runs_have_ended(count: int) -> Until:
    """Whether so many runs have ended."""
    return lambda told: sum(what not in {"running", "started"} for what, _ in run_lifecycles(told)) >= count


def run_lifecycles(told: list[Event]) -> list[tuple[str, str]]:
    """What became of whole runs: what happened, and the event's id."""
    return [
        (event["params"]["data"]["event"], event["event_id"])
        for event in told
        if event["method"] == "lifecycle" and not event["params"]["namespace"]
    ]


def questions(told: list[Event]) -> list[str]:
    """The questions that were asked."""
    return [event["params"]["data"]["interrupt_id"] for event in told if event["method"] == "input.requested"]


def values(told: list[Event]) -> list[Any]:
    """The states of the graph itself."""
    return [
        event["params"]["data"]
        for event in told
        if event["method"] == "values" and not event["params"]["namespace"]
    ]


def streamed_text(told: list[Event]) -> str:
    """What was said, put together from its parts."""
    parts = [event["params"]["data"] for event in told if event["method"] == "messages"]
    return "".join(part["delta"]["text"] for part in parts if part["event"] == "content-block-delta")
