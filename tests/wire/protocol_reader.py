"""A plain client of the Agent Streaming Protocol, which returns events exactly as the server sends them."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.doubles.waiting import PATIENCE_S
from tests.doubles.wire_served import HELLO

ALL_CHANNELS: Any = [
    "values",
    "updates",
    "messages",
    "tools",
    "lifecycle",
    "input",
    "checkpoints",
    "tasks",
    "custom",
]
RECORDED_CHANNELS: Any = ["values", "messages", "lifecycle", "input"]
"""The channels of the recorded streams."""
Event = dict[str, Any]
Condition = Callable[[list[Event]], bool]


class ProtocolThread:
    """One thread of a server."""

    def __init__(self, http: httpx.AsyncClient, thread_id: str = "") -> None:
        self.http = http
        self.thread_id = thread_id or str(uuid.uuid4())
        self._sent = 0

    async def command(self, method: str, **params: Any) -> Event:
        """Send a command and return its reply."""
        self._sent += 1
        body = {"id": self._sent, "method": method, "params": params}
        reply = await self.http.post(f"/threads/{self.thread_id}/commands", json=body)
        assert reply.status_code == 200, reply.text
        answer: Event = reply.json()
        assert answer["id"] == body["id"]
        return answer

    async def start(self, graph: str = "agent", graph_input: Any = HELLO, **more: Any) -> str:
        """Start a run and return its id."""
        reply = await self.command("run.start", assistant_id=graph, input=graph_input, **more)
        assert reply["type"] == "success", reply
        return str(reply["result"]["run_id"])

    async def respond(self, interrupt_id: str, response: Any) -> str:
        """Answer an interrupt and return the id of the run that resumes the thread."""
        reply = await self.command(
            "input.respond", namespace=[], interrupt_id=interrupt_id, response=response
        )
        assert reply["type"] == "success", reply
        return str(reply["result"]["run_id"])

    @asynccontextmanager
    async def stream(self, channels: Any = ALL_CHANNELS, **more: Any) -> AsyncIterator["ProtocolStream"]:
        """An open stream."""
        body = {"channels": channels, **more}
        path = f"/threads/{self.thread_id}/stream/events"
        async with self.http.stream("POST", path, json=body) as reply:
            assert reply.status_code == 200, await reply.aread()
            yield ProtocolStream(reply)

    async def read_until(
        self, condition: Condition, channels: Any = ALL_CHANNELS, **more: Any
    ) -> list[Event]:
        """Open a stream and return its events once a condition holds of them."""
        async with self.stream(channels, **more) as stream:
            return await stream.read_until(condition)

    async def state(self) -> Any:
        """Return the thread's newest state."""
        return (await self.http.get(f"/threads/{self.thread_id}/state")).json()


class ProtocolStream:
    """An open stream, and the events read from it."""

    def __init__(self, reply: httpx.Response) -> None:
        self._lines = reply.aiter_lines()
        self.events: list[Event] = []

    async def read_until(self, condition: Condition) -> list[Event]:
        """Return all events of the stream once a condition holds of them."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition(self.events):
                self.events.append(await self._next())
        return self.events

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


def run_ended(run: str = "", *, status: str = "") -> Condition:
    """Return the condition that a run, or any, has ended, in any way or with `status`."""
    statuses = {status} if status else {"completed", "failed", "interrupted"}
    return lambda events: any(
        event in statuses and run in event_id for event, event_id in run_lifecycles(events)
    )


def runs_ended(count: int) -> Condition:
    """Return the condition that `count` runs have ended."""
    return lambda events: (
        sum(event not in {"running", "started"} for event, _ in run_lifecycles(events)) >= count
    )


def run_lifecycles(events: list[Event]) -> list[tuple[str, str]]:
    """Return the lifecycle events of runs, without those of subgraphs, each with its event id."""
    return [
        (event["params"]["data"]["event"], event["event_id"])
        for event in events
        if event["method"] == "lifecycle" and not event["params"]["namespace"]
    ]


def interrupt_ids(events: list[Event]) -> list[str]:
    """Return the ids of the interrupts."""
    return [
        event["params"]["data"]["interrupt_id"] for event in events if event["method"] == "input.requested"
    ]


def root_values(events: list[Event]) -> list[Any]:
    """Return the states of the root graph."""
    return [
        event["params"]["data"]
        for event in events
        if event["method"] == "values" and not event["params"]["namespace"]
    ]


def streamed_text(events: list[Event]) -> str:
    """Return the text of all messages, joined from its parts."""
    parts = [event["params"]["data"] for event in events if event["method"] == "messages"]
    return "".join(part["delta"]["text"] for part in parts if part["event"] == "content-block-delta")
