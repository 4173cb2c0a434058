"""A vendor's endpoint on loopback: scripted answers, recorded requests, the vendor's own rules.

A request that breaks a rule of the API is answered as that vendor answers it, whatever the script says (X12).
OpenAI's Responses API is served beside Chat Completions.
"""

import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.doubles import responses_double
from tests.doubles.chat_rules import PARSE_ERROR, broken_rule

KEY = "sk-double-0123456789abcdef"
"""The key the double accepts."""


@dataclass(frozen=True)
class Say:
    """A completion: text, tool calls as (id, name, arguments), or both."""

    text: str = ""
    calls: Sequence[tuple[str, str, str]] = ()
    prompt_tokens: int = 11
    completion_tokens: int = 7
    break_off: str = ""
    """End of a stream after its first piece of text: `error` with an error event, `end` without one,
    `stall` by staying open."""
    piece: int = 5
    """Characters of a piece of a stream."""
    reasoning: str = ""
    """Reasoning, in a field of its own."""
    reasoning_field: str = "reasoning_content"
    finish: str = ""
    """Finish reason, where it is not the usual one."""
    refusal: str = ""
    indexes: Sequence[int | None] = ()
    """Indexes of the calls in a stream, where they are not 0, 1, 2 …"""


@dataclass(frozen=True)
class Fail:
    """An error as the API sends it."""

    status: int
    message: str = "scripted"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Bytes that need not be what they claim to be."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


@dataclass(frozen=True)
class Silence:
    """No answer until the double is closed."""


Reply = Say | Fail | Raw | Silence


@dataclass(frozen=True)
class Recorded:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body["messages"])


class ChatDouble:
    """The endpoint, for as long as it is entered."""

    def __init__(self, *replies: Reply, key: str = KEY, vendor: str = "openai") -> None:
        self.key = key
        self.vendor = vendor
        self.requests: list[Recorded] = []
        self.closing = threading.Event()
        self._replies = deque(replies)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_ChatHandler,), {"double": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """The base URL, for `<PREFIX>_BASE_URL`."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def environ(self) -> dict[str, str]:
        """Environment that points OpenAI's provider to the double, without retries."""
        return {"OPENAI_API_KEY": self.key, "OPENAI_BASE_URL": self.url, "OPENAI_MAX_RETRIES": "0"}

    def environ_of(self, prefix: str, **settings: str) -> dict[str, str]:
        """Environment that points a vendor's provider to the double, without retries."""
        chosen = {"API_KEY": self.key, "BASE_URL": self.url, "MAX_RETRIES": "0", **settings}
        return {f"{prefix}_{name}": value for name, value in chosen.items()}

    @property
    def unused(self) -> int:
        """Number of scripted replies that were not used."""
        return len(self._replies)

    def script(self, *replies: Reply) -> None:
        """Answer the next requests with `replies`, in order."""
        self._replies.extend(replies)

    def clear(self) -> None:
        """Drop the replies that nobody asked for."""
        self._replies.clear()

    def next_reply(self, request: Recorded) -> Reply:
        """Answer with a broken rule, else from the script; a request beyond the script is a 400."""
        if failure := self.refusal(request):
            return failure
        return self._replies.popleft() if self._replies else Fail(400, "the script has no further reply")

    def refusal(self, request: Recorded) -> Fail | None:
        """The vendor's answer to a wrong key or a broken rule; None for a valid request."""
        if request.headers.get("authorization") != f"Bearer {self.key}":
            shown = request.headers.get("authorization", "").removeprefix("Bearer ")
            return Fail(401, f"Incorrect API key provided: {shown}.", "invalid_api_key")
        match request.path:
            case "/v1/chat/completions":
                rule = broken_rule(request.body, self.vendor)
            case "/v1/responses":
                rule = responses_double.broken_rule(request.body)
            case _:
                rule = "no such path"
        if rule:
            crashes = rule == PARSE_ERROR and self.vendor == "llama.cpp"
            return Fail(500 if crashes else 400, rule, "invalid_request_error")
        return None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _ChatHandler(BaseHTTPRequestHandler):
    double: ChatDouble

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Recorded(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.double.requests.append(request)
        match self.double.next_reply(request):
            case Silence():
                self.double.closing.wait()
            case Raw(body=raw, content_type=content_type, status=status):
                self._send(status, raw, content_type)
            case Fail() as fail:
                error = {"message": fail.message, "type": "error", "param": None, "code": fail.code}
                self._send(fail.status, json.dumps({"error": error}).encode(), headers=fail.headers)
            case Say() as say if request.path == "/v1/responses":
                self._respond(say, body)
            case Say() as say if body.get("stream"):
                self._stream(say, body)
            case Say() as say:
                self._send(200, json.dumps(_completion(say, body["model"])).encode())

    def _send(
        self,
        status: int,
        raw: bytes,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": content_type,
            "Content-Length": str(len(raw)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(raw)

    def _respond(self, say: Say, body: Mapping[str, Any]) -> None:
        if not body.get("stream"):
            self._send(200, json.dumps(responses_double.response(say, body)).encode())
            return
        self._begin_stream()
        for event in responses_double.events(say, body):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def _stream(self, say: Say, body: Mapping[str, Any]) -> None:
        self._begin_stream()
        for chunk in _chunks(say, body):
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()
            if say.break_off and chunk["choices"][0]["delta"].get("content"):
                if say.break_off == "stall":
                    self.double.closing.wait()
                if say.break_off == "error":
                    self.wfile.write(b'data: {"error": {"message": "the engine stopped"}}\n\n')
                return
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing on standard error."""


def _extra(say: Say) -> dict[str, str]:
    fields = ((say.reasoning_field, say.reasoning), ("refusal", say.refusal))
    return {name: text for name, text in fields if text}


def _finish(say: Say) -> str:
    return say.finish or ("tool_calls" if say.calls else "stop")


def _usage(say: Say) -> dict[str, int]:
    total = say.prompt_tokens + say.completion_tokens
    return {
        "prompt_tokens": say.prompt_tokens,
        "completion_tokens": say.completion_tokens,
        "total_tokens": total,
    }


def _completion(say: Say, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None, **_extra(say)}
    if say.calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in say.calls
        ]
    return {
        "id": "chatcmpl-double",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(say), "logprobs": None}],
        "usage": _usage(say),
    }


def _chunks(say: Say, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The stream in the API's order: role, text, each call's name and then its arguments, end, usage."""
    yield _chunk(body, {"role": "assistant", "content": ""})
    for name, text in _extra(say).items():
        for piece in _pieces(text, say.piece):
            yield _chunk(body, {name: piece})
    for piece in _pieces(say.text, say.piece):
        yield _chunk(body, {"content": piece})
    indexes = say.indexes or range(len(say.calls))
    for index, (call_id, name, arguments) in zip(indexes, say.calls, strict=True):
        start = {
            "index": index,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        yield _chunk(body, {"tool_calls": [start]})
        for piece in _pieces(arguments, say.piece):
            yield _chunk(body, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk(body, {}, _finish(say))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**_chunk(body, {}), "choices": [], "usage": _usage(say)}


def _chunk(body: Mapping[str, Any], delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-double",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))
