"""Events of the Agent Streaming Protocol as a reader of a thread gets them, whichever wire a run came by.

Every open stream tells the thread's whole history first. An event's `event_id` is the same on every stream;
its `seq` grows, and comes from the id it is stored under, so that `since` means the same on every stream,
whatever was asked of it and however much of the history is gone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from callsheet.server.context import AppContext
from callsheet.server.langgraph.protocol.encoding import without_empty_fields
from callsheet.server.runtime.encoding import dumps
from callsheet.state.errors import Missing
from callsheet.storage.runs.events import BEGINNING, PROTOCOL, Event
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import records as thread_records

_EPOCH_MS: Final = 1_767_225_600_000
"""The beginning of 2026. Numbers count from there, and stay below 2 ** 53 until 2095."""
_BITS: Final = 12
_MOST: Final = (1 << _BITS) - 1
MAX_SEQ: Final = (1 << 53) - 1
_MESSAGE: Final = frozenset({"type", "content", "additional_kwargs", "response_metadata"})
_SAME: Final = frozenset({"updates", "custom"})
"""Modes of the first wire whose events are the same on this one."""
_ENDINGS: Final[Mapping[bytes, str]] = {b"success": "completed", b"error": "failed", b"timeout": "failed"}
_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProtocolFrame:
    """One event as it is sent."""

    event_id: str
    seq: int
    method: str
    place: Sequence[str]
    params: bytes
    """JSON."""

    def encoded(self) -> bytes:
        """Return the event as JSON."""
        known = (dumps(self.event_id), self.seq, dumps(self.method), self.params)
        return b'{"type":"event","event_id":%b,"seq":%d,"method":%b,"params":%b}' % known


def protocol_frame(
    event_id: str, seq: int, method: str, place: Sequence[str], said: tuple[int, object]
) -> ProtocolFrame:
    """Return an event that says (milliseconds of the epoch, data)."""
    told = {"namespace": place, "timestamp": said[0], "data": said[1]}
    return ProtocolFrame(event_id, seq, method, place, dumps(told))


def seq_of(event_id: str) -> int:
    """Return the number of a stored event, 0 for the id before the first."""
    ms, _, n = event_id.partition("-")
    return max(0, (int(ms) - _EPOCH_MS) << _BITS) + min(int(n), _MOST)


def id_of(seq: int) -> str:
    """Return a stored event's id by its number."""
    return f"{(seq >> _BITS) + _EPOCH_MS}-{seq & _MOST}" if seq else BEGINNING


def without_empty_message_fields(value: Any) -> Any:
    """Return JSON in which messages are without what they have nothing in."""
    if isinstance(value, list):
        return [without_empty_message_fields(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: without_empty_message_fields(one) for name, one in value.items()}
    return without_empty_fields(found) if found.keys() >= _MESSAGE else found


def interrupt_events(run: str, seq: int, ms: int, asked: Iterable[tuple[str, Any]]) -> list[ProtocolFrame]:
    """Return what tells of questions (id, value) of the graph itself."""
    return [
        protocol_frame(
            f"synth:{run}:input||{name}",
            seq,
            "input.requested",
            (),
            (ms, {"interrupt_id": name, "payload": value}),
        )
        for name, value in asked
    ]


class ThreadView:
    """What one reader sees of a thread; it remembers what the reader was told of each run."""

    def __init__(self, here: AppContext, thread: str, owner: str) -> None:
        self._here = here
        self._thread = thread
        self._owner = owner
        self.graph = ""
        """What runs on it, as it is served."""
        self._told: set[tuple[str, str]] = set()

    async def known(self) -> bool:
        """Return whether the thread is there, and the reader's."""
        record = await thread_records.find(self._here.storage, self._thread, self._owner)
        self.graph = record.graph if record else ""
        return record is not None

    async def frames(self, event: Event) -> list[ProtocolFrame]:
        """Return what a stored event tells."""
        if event.name.startswith(PROTOCOL):
            return self._native(event)
        kind, *place = event.name.split("|")
        match kind:
            case "metadata":
                return self._lifecycle(event, "running")
            case "values":
                return await self._values(event, place)
            case "end":
                return await self._ended(event)
            case _ if kind in _SAME and b'"__interrupt__"' not in event.data:
                said = (_ms(event), without_empty_message_fields(orjson.loads(event.data)))
                return [protocol_frame(event.id, seq_of(event.id), kind, place, said)]
        return []

    async def _ended(self, event: Event) -> list[ProtocolFrame]:
        if event.data == b"paused" and await self._speaks(event.run):
            return []
        # Whoever cancels a run interrupts it, in this protocol's words.
        what = _ENDINGS.get(event.data, "interrupted")
        return self._lifecycle(event, what, await self._error(event.run) if what == "failed" else "")

    def _native(self, event: Event) -> list[ProtocolFrame]:
        method, *place = event.name.removeprefix(PROTOCOL).split("|")
        event_id, params = event.id, event.data
        if method == "input.requested":
            name = orjson.loads(params)["data"]["interrupt_id"]
            event_id = f"synth:{event.run}:input|{'|'.join(place)}|{name}"
        if method == "lifecycle":
            told = orjson.loads(params)
            if not place:
                return self._lifecycle(event, told["data"]["event"])
            event_id = f"synth:{event.run}:lc|{'|'.join(place)}|{told['data']['event']}"
        return [ProtocolFrame(event_id, seq_of(event.id), method, place, params)]

    async def _values(self, event: Event, place: Sequence[str]) -> list[ProtocolFrame]:
        values = orjson.loads(event.data)
        asked: list[_Object] = values.pop("__interrupt__", []) if isinstance(values, dict) else []
        if asked and await self._speaks(event.run):
            asked = []
        seq, ms = seq_of(event.id), _ms(event)
        return [
            *interrupt_events(event.run, seq, ms, ((one["id"], one["value"]) for one in asked)),
            protocol_frame(event.id, seq, "values", place, (ms, without_empty_message_fields(values))),
        ]

    def _lifecycle(self, event: Event, what: str, error: str = "") -> list[ProtocolFrame]:
        """What happened to a whole run, told once: another attempt at it goes on running."""
        if (event.run, what) in self._told:
            return []
        self._told.add((event.run, what))
        said = {"event": what, "graph_name": self.graph} | ({"error": error} if error else {})
        event_id = f"synth:{event.run}:lc||{what}"
        return [protocol_frame(event_id, seq_of(event.id), "lifecycle", (), (_ms(event), said))]

    async def _error(self, run: str) -> str:
        record = await self._record(run)
        return str((record.error or {}).get("message", "")) if record else ""

    async def _speaks(self, run: str) -> bool:
        """Whether a run tells by itself what it asks, and that it waits."""
        record = await self._record(run)
        return bool(record and record.request.get("protocol"))

    async def _record(self, run: str) -> Run | None:
        try:
            return await self._here.worker.runs.get(self._thread, run)
        except Missing:
            return None


def _ms(event: Event) -> int:
    return int(event.id.partition("-")[0])
