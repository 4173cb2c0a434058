"""Turns: a message is sent, its run is followed, and a question that it asks is answered.

Ctrl-C cancels the run on the server. If the connection breaks, the request is sent again with its idempotency
key, which joins the run that it started.
"""

import os
import signal
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, Final, Self
from urllib.parse import unquote

import httpx

from callsheet.server.cli.client import ServerClient, ServerRefusal, path_part
from callsheet.server.cli.kinds import CAMPAIGNS, LESSONS, PAGES, VIDEOS, Kind
from callsheet.server.cli.output import OnStep, say
from callsheet.state.errors import Unavailable

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells expect it."""
OPEN: Final = frozenset({"pending", "running"})
"""Status of a run that has not ended."""
RAISE_BUDGET: Final = "raise_budget"
_ATTEMPTS: Final = 3
_CANCEL_S: Final = 5.0
_POLL_S: Final = 0.1
_STATUSES: Final = frozenset(
    {"pending", "in-progress", "completed", "error", "blocked", "cancelled", "skipped"}
)


class StoppedError(Exception):
    """The person pressed Ctrl-C, and the run is cancelled."""


@dataclass(frozen=True)
class TurnMessage:
    """A message about a thing."""

    kind: Kind
    id: str
    """Empty for a new conversation whose id the server chooses."""
    text: Any
    """The words; for a new ad also a brief as an object."""
    new: bool = False
    path: str = ""
    """Route of a change of a video by hand, such as an undo, which is requested instead."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request."""

    def request(self) -> tuple[str, dict[str, Any]]:
        """Return path and body of the request."""
        name, fields = path_part(self.id) if self.id else "", dict(self.fields)
        if self.kind is PAGES:
            return f"/api/pages/{name}/chat", {"message": self.text, **fields}
        if self.kind is LESSONS:
            session = {"sessionId": self.id} if self.id else {}
            messages = [{"role": "user", "content": self.text}]
            return "/api/agent-create/tools", {"messages": messages, **session, **fields}
        if self.kind is CAMPAIGNS:
            conversation = {"conversationId": self.id} if self.id else {}
            return "/api/chat", {"message": self.text, **conversation, **fields}
        if self.kind is VIDEOS:
            words = {} if self.path else {"message": self.text}
            return self.path or f"/api/projects/{name}/executions", {**words, **fields}
        if self.new:
            return "/api/ai/generate", {"adId": self.id, "brief": self.text, **fields}
        return f"/api/ads/{name}/chat", {"message": self.text, **fields}


def send(client: ServerClient, message: TurnMessage, show: OnStep) -> dict[str, Any]:
    """Send the message and return the reply of the REST API; raises `StoppedError` after Ctrl-C."""
    path, body = message.request()
    with Interruption(client) as stop:
        if message.kind is VIDEOS:
            return _run_execution(client, message.id, (path, body), show, stop)
        return stream_reply(client, (path, body), show, stop)


def stream_reply(
    client: ServerClient, request: tuple[str, Mapping[str, Any]], show: OnStep, stop: "Interruption"
) -> dict[str, Any]:
    """Start a run by a POST, show its steps, and return its reply."""
    path, body = request
    post = {"json": body, "headers": {"Idempotency-Key": uuid.uuid4().hex}}
    for attempt in range(_ATTEMPTS):
        try:
            result = _follow(client.events("POST", path, stop.on_start, **post), show, stop)
            # The frames of a page's chat have no result; the request sent again gets it.
            return result or dict(client.call("POST", path, **post).json())
        except Unavailable:
            if attempt == _ATTEMPTS - 1:
                raise
            client.reconnect()
    raise AssertionError


def _follow(events: Iterator[tuple[str, Any]], show: OnStep, stop: "Interruption") -> dict[str, Any] | None:
    """Show the steps of a stream and return its result, if it has one; raises the run's error."""
    names: dict[str, str] = {}
    for name, data in events:
        stop.check(name)
        if name == "result":
            return dict(data)
        if name == "error":
            raise ServerRefusal(data, data.get("status", 500))
        if step := as_step(name, data):
            # The end of a call of a page does not repeat its name.
            names.setdefault(step["stepId"], step["name"])
            show({**step, "name": names[step["stepId"]]})
    stop.check("error")
    return None


def _run_execution(
    client: ServerClient,
    project: str,
    request: tuple[str, Mapping[str, Any]],
    show: OnStep,
    stop: "Interruption",
) -> dict[str, Any]:
    """Start a plan about a video, show its steps, and return what the server says of it at its end."""
    thread = stop.thread = client.get(f"/api/projects/{path_part(project)}")["threadId"]
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    try:
        reply = dict(client.call("POST", request[0], json=request[1], headers=headers).json())
    except ServerRefusal:
        stop.check("error")
        raise
    if execution := reply["executionId"]:
        for name, data in client.events("GET", f"/api/execution-progress/{execution}", lambda _: None):
            if step := as_step(name, data):
                show(step)
        stop.check("error")
    runs = client.get(f"/threads/{path_part(thread)}/runs", limit=1)
    values = client.get(f"/threads/{path_part(thread)}/runs/{runs[0]['run_id']}/join") if runs else {}
    stop.check("error")
    if execution:
        reply |= {"execution": client.get(f"/api/executions/{execution}")}
    return {
        "projectId": project,
        **reply,
        "scenes": client.get(f"/api/projects/{path_part(project)}")["scenes"],
        "message": last_message(values) or reply["message"],
        "created": values.get("created") or [],
        "provider": values.get("provider", ""),
        "providerReason": values.get("provider_reason", ""),
    }


class Interruption:
    """Ctrl-C during a run: the first cancels the run on the server, the second leaves at once."""

    def __init__(self, client: ServerClient) -> None:
        self.thread = ""
        """Thread of the run, once it is known."""
        self.pressed = False
        self._client = client
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def on_start(self, reply: httpx.Response) -> None:
        """Learn the thread from the reply that begins a stream."""
        place = reply.headers.get("content-location", "").split("/")
        # /api/conversations/ID/events, or /threads/ID/runs/RUN
        self.thread = unquote(place[place.index("events") - 1]) if "events" in place else self.thread
        self.thread = unquote(place[place.index("threads") + 1]) if "threads" in place else self.thread
        if self.pressed:
            self._cancel()

    def check(self, event: str) -> None:
        """Raise `StoppedError` where a run ends with an error because it was cancelled."""
        if self.pressed and event == "error":
            raise StoppedError

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.pressed:
            os._exit(INTERRUPTED)
        self.pressed = True
        say("Stopping; Ctrl-C again leaves at once.")
        if self.thread:
            self._cancel()

    def _cancel(self) -> None:
        """Cancel the runs of the thread that have not ended; wait a moment for one that is being recorded."""
        path, deadline = f"/threads/{path_part(self.thread)}/runs", time.monotonic() + _CANCEL_S
        with self._client.second() as http:
            while time.monotonic() < deadline:
                runs = http.get(path, params={"limit": 10}).json()
                unfinished = [run for run in runs if run["status"] in OPEN] if isinstance(runs, list) else []
                for run in unfinished:
                    http.post(f"{path}/{run['run_id']}/cancel", params={"action": "interrupt"})
                if unfinished:
                    return
                time.sleep(_POLL_S)


def as_step(name: str, data: Any) -> Mapping[str, Any] | None:
    """Return an event of any stream as a step to show; None for any other event."""
    if not isinstance(data, Mapping):
        return None
    if name in {"step", "step-update"} or (name.startswith("custom") and data.get("type") == "step"):
        status = data["status"] if data["status"] in _STATUSES else "error"
        problem = {"preview": {"error": data["error"]}} if data.get("error") else {}
        return {**data, **problem, "status": status}
    step = {"stepId": data.get("toolCallId"), "name": data.get("title", "")}
    if name == "toolExecutionStart":
        return {**step, "status": "in-progress"}
    if name != "toolExecutionComplete":
        return None
    failed = data["status"] != "completed"
    preview = {"error": data.get("error", "")} if failed else data.get("output") or {}
    took = data.get("durationSeconds")
    return {**step, "status": "error" if failed else "completed", "preview": preview, "durationSeconds": took}


def last_message(values: Any) -> str:
    """Return the newest turn's last text of the model in a graph's values; empty for none."""
    messages: Any = values.get("messages") if isinstance(values, Mapping) else None
    for message in reversed(messages if isinstance(messages, list) else []):
        if message.get("type") == "human":
            break
        if message.get("type") == "ai" and not message.get("tool_calls"):
            return content_text(message.get("content"))
    return ""


def content_text(content: Any) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))
