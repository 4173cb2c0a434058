"""Stored events as frames of the Agent Streaming Protocol, whichever wire their run was created on.

Every stream begins with the thread's stored history. An event's `event_id` is the same on every stream. Its
`seq` is derived from the id it is stored under, so `since` means the same on every stream, whatever the
stream's filter and however much of the history is gone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from callsheet.server.engine.json_values import dumps
from callsheet.server.http.context import AppContext
from callsheet.server.langgraph.protocol.encoding import without_empty_fields
from callsheet.server.langgraph.shapes import JsonObject
from callsheet.state.errors import Missing
from callsheet.storage.runs.events import GAP, PROTOCOL_PREFIX, START_ID, Event
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads

_EPOCH_MS: Final = 1_767_225_600_000
"""Start of 2026. Numbers count from there, and stay below 2 ** 53 until 2095."""
_COUNTER_BITS: Final = 12
_MAX_COUNTER: Final = (1 << _COUNTER_BITS) - 1
MAX_SEQ: Final = (1 << 53) - 1
_MESSAGE_FIELDS: Final = frozenset({"type", "content", "additional_kwargs", "response_metadata"})
_SHARED_MODES: Final = frozenset({"updates", "custom"})
"""Modes whose events are the same on both wires."""
_ENDINGS: Final[Mapping[bytes, str]] = {b"success": "completed", b"error": "failed", b"timeout": "failed"}


@dataclass(frozen=True, slots=True)
class ProtocolFrame:
    """Event as it is sent."""

    event_id: str
    seq: int
    method: str
    namespace: Sequence[str]
    params: bytes
    """JSON."""

    def encode(self) -> bytes:
        """Return the frame as JSON."""
        parts = (dumps(self.event_id), self.seq, dumps(self.method), self.params)
        return b'{"type":"event","event_id":%b,"seq":%d,"method":%b,"params":%b}' % parts


def protocol_frame(
    event_id: str, seq: int, method: str, namespace: Sequence[str], timestamp_ms: int, data: object
) -> ProtocolFrame:
    """Return the frame of an event with this data."""
    params = {"namespace": namespace, "timestamp": timestamp_ms, "data": data}
    return ProtocolFrame(event_id, seq, method, namespace, dumps(params))


def seq_of(event_id: str) -> int:
    """Return the number of a stored event; 0 for the id before the first."""
    ms, _, counter = event_id.partition("-")
    return max(0, (int(ms) - _EPOCH_MS) << _COUNTER_BITS) + min(int(counter), _MAX_COUNTER)


def id_of(seq: int) -> str:
    """Return the id of a stored event by its number."""
    return f"{(seq >> _COUNTER_BITS) + _EPOCH_MS}-{seq & _MAX_COUNTER}" if seq else START_ID


def without_empty_message_fields(value: Any) -> Any:
    """Return JSON with the empty optional fields of all messages removed."""
    if isinstance(value, list):
        return [without_empty_message_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: without_empty_message_fields(item) for name, item in value.items()}
    return without_empty_fields(fields) if fields.keys() >= _MESSAGE_FIELDS else fields


def interrupt_frames(
    run: str, seq: int, timestamp_ms: int, interrupts: Iterable[tuple[str, Any]]
) -> list[ProtocolFrame]:
    """Return the frames of a root graph's interrupts, given as (id, value)."""
    return [
        protocol_frame(
            f"synth:{run}:input||{name}",
            seq,
            "input.requested",
            (),
            timestamp_ms,
            {"interrupt_id": name, "payload": value},
        )
        for name, value in interrupts
    ]


def gap_frame(seq: int, first: str | None) -> ProtocolFrame:
    """Return the custom event `gap`: what comes before the event `first`, if any, is not stored any more."""
    data = {"name": GAP, "payload": {"first": seq_of(first) if first else None}}
    return protocol_frame(f"gap:{first or ''}", seq, "custom", (), 0, data)


class ThreadView:
    """View of a thread for one reader; it remembers which lifecycle events the reader has got."""

    def __init__(self, ctx: AppContext, thread: str, owner: str) -> None:
        self.ctx = ctx
        self.thread = thread
        self._owner = owner
        self.graph = ""
        """Name of the thread's graph."""
        self.readable = False
        """True if the thread existed and belonged to the reader when it was last read."""
        self._sent_lifecycles: set[tuple[str, str]] = set()

    async def refresh(self) -> bool:
        """Read the thread's graph, and return whether the thread exists and belongs to the reader."""
        record = await threads.find(self.ctx.storage, self.thread, self._owner)
        self.graph = record.graph if record else ""
        self.readable = record is not None
        return self.readable

    async def frames(self, event: Event) -> list[ProtocolFrame]:
        """Return the frames of a stored event; none for an event that has no meaning in the protocol."""
        if event.name.startswith(PROTOCOL_PREFIX):
            return self._native_frames(event)
        kind, *namespace = event.name.split("|")
        match kind:
            case "metadata":
                return self._lifecycle(event, "running")
            case "values":
                return await self._values_frames(event, namespace)
            case "end":
                return await self._end_frames(event)
            case _ if kind in _SHARED_MODES and b'"__interrupt__"' not in event.data:
                data = without_empty_message_fields(orjson.loads(event.data))
                return [protocol_frame(event.id, seq_of(event.id), kind, namespace, _ms(event), data)]
        return []

    async def _end_frames(self, event: Event) -> list[ProtocolFrame]:
        if event.data == b"paused" and await self._is_protocol_run(event.run):
            return []
        # The protocol has no event for a cancelled run; it counts as interrupted.
        state = _ENDINGS.get(event.data, "interrupted")
        return self._lifecycle(event, state, await self._error(event.run) if state == "failed" else "")

    def _native_frames(self, event: Event) -> list[ProtocolFrame]:
        method, *namespace = event.name.removeprefix(PROTOCOL_PREFIX).split("|")
        event_id, path = event.id, "|".join(namespace)
        if method == "input.requested":
            name = orjson.loads(event.data)["data"]["interrupt_id"]
            event_id = f"synth:{event.run}:input|{path}|{name}"
        if method == "lifecycle":
            state = orjson.loads(event.data)["data"]["event"]
            if not namespace:
                return self._lifecycle(event, state)
            event_id = f"synth:{event.run}:lc|{path}|{state}"
        return [ProtocolFrame(event_id, seq_of(event.id), method, namespace, event.data)]

    async def _values_frames(self, event: Event, namespace: Sequence[str]) -> list[ProtocolFrame]:
        values = orjson.loads(event.data)
        interrupts: list[JsonObject] = values.pop("__interrupt__", []) if isinstance(values, dict) else []
        if interrupts and await self._is_protocol_run(event.run):
            interrupts = []
        seq, ms = seq_of(event.id), _ms(event)
        data = without_empty_message_fields(values)
        return [
            *interrupt_frames(event.run, seq, ms, ((item["id"], item["value"]) for item in interrupts)),
            protocol_frame(event.id, seq, "values", namespace, ms, data),
        ]

    def _lifecycle(self, event: Event, state: str, error: str = "") -> list[ProtocolFrame]:
        """Return the lifecycle event of a run, once: a later attempt at the run repeats none."""
        if (event.run, state) in self._sent_lifecycles:
            return []
        self._sent_lifecycles.add((event.run, state))
        data = {"event": state, "graph_name": self.graph} | ({"error": error} if error else {})
        event_id = f"synth:{event.run}:lc||{state}"
        return [protocol_frame(event_id, seq_of(event.id), "lifecycle", (), _ms(event), data)]

    async def _error(self, run: str) -> str:
        record = await self._record(run)
        return str((record.error or {}).get("message", "")) if record else ""

    async def _is_protocol_run(self, run: str) -> bool:
        """Return whether a run stores its own interrupt and lifecycle events."""
        record = await self._record(run)
        return bool(record and record.request.get("protocol"))

    async def _record(self, run: str) -> Run | None:
        try:
            return await self.ctx.worker.runs.get(self.thread, run)
        except Missing:
            return None


def _ms(event: Event) -> int:
    return int(event.id.partition("-")[0])
