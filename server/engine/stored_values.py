"""Values of graphs as their events store them: without what their checkpoint holds.

Each step streams the whole state. If its event held that, a conversation would take the square of its length.
So the event holds the id of a checkpoint and what differs from it; the rest is read from the checkpoint when
somebody reads the event. The newest values are kept in the memory of the process that executes their run.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from callsheet.server.engine.json_values import dumps
from callsheet.state.errors import Missing
from callsheet.storage.checkpoints.context import CheckpointRef
from callsheet.storage.runs.events import Event, NewEvent

_MIN_SAVED_BYTES: Final = 1_000
"""Values that would become smaller by less are stored whole, because they are faster to read."""
_KEPT_BYTES: Final = 32_000_000
"""Values kept in memory."""
_Key = tuple[str, str, str, bytes]


class StoredValues:
    """Reads the values of events."""

    def __init__(self, saver: BaseCheckpointSaver[Any], max_bytes: int = _KEPT_BYTES) -> None:
        self._saver = saver
        self._max_bytes = max_bytes
        self._kept_bytes = 0
        self._kept: OrderedDict[_Key, bytes] = OrderedDict()
        """The values used last, as JSON."""
        self._reading: dict[_Key, asyncio.Task[bytes | None]] = {}
        """Reads in progress: all readers of a thread need the same values at the same time."""

    def remember(self, thread: str, event: NewEvent, data: bytes) -> None:
        """Keep the values of an event that is about to be stored, as JSON."""
        self._keep((thread, event.name, event.checkpoint, event.data), data)

    async def read(self, thread: str, event: Event) -> bytes | None:
        """Return the values of a thread's event, as JSON; None if they are not stored any more."""
        if not event.names:
            return event.data
        key = (thread, event.name, event.checkpoint, event.data)
        if kept := self._kept.get(key):
            self._kept.move_to_end(key)
            return kept
        if not (reading := self._reading.get(key)):
            reading = self._reading[key] = asyncio.create_task(self._build(thread, event))
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            reading.add_done_callback(lambda _: self._reading.pop(key, None))
        data = await asyncio.shield(reading)
        if data is not None:
            self._keep(key, data)
        return data

    async def _build(self, thread: str, event: Event) -> bytes | None:
        namespace = event.name.partition("|")[2]
        try:
            stored = await self._saver.aget_tuple(CheckpointRef(thread, namespace, event.checkpoint).config())
        except Missing:
            return None
        if stored is None:
            return None
        values = {**stored.checkpoint["channel_values"], **json.loads(event.data)}
        if any(name not in values for name in event.names):
            return None
        return dumps({name: values[name] for name in event.names})

    def _keep(self, key: _Key, data: bytes) -> None:
        if key in self._kept or len(data) > self._max_bytes:
            return
        self._kept[key] = data
        self._kept_bytes += len(data)
        while self._kept_bytes > self._max_bytes:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])


def without_values_of(
    stored: Mapping[str, Any], complete: NewEvent, values: Mapping[str, Any]
) -> NewEvent | None:
    """Return an event without the values that are the very objects of its checkpoint, `stored`.

    None if that would hardly be smaller.
    """
    rest = {name: value for name, value in values.items() if name not in stored or stored[name] is not value}
    if len(rest) == len(values):
        return None
    partial = complete._replace(data=dumps(rest), names=dumps([*values]))
    saved_bytes = len(complete.data) - len(partial.data) - len(partial.names)
    return partial if saved_bytes >= _MIN_SAVED_BYTES else None
