"""A server's answer as LangGraph's checkpoint tuples."""

from collections.abc import Sequence
from typing import Any, cast

from langgraph.checkpoint.base import Checkpoint, CheckpointTuple

from storage.checkpoints.message_log import ThreadLog
from storage.checkpoints.piece_table import positions
from storage.checkpoints.places import Place
from storage.checkpoints.records import LIST, NUL, Codec, Record, text, value_field

Row = tuple[bytes, bytes, Sequence[bytes]]
"""A checkpoint's field, record and pending writes."""


class Answer:
    """Checkpoints of one thread with the values they name."""

    def __init__(
        self,
        codec: Codec,
        log: ThreadLog,
        values: Sequence[bytes],
        shared: dict[int, Any] | None = None,
    ) -> None:
        """`values` is field and value in turn.

        With `shared`, an element that several checkpoints have is one object in all of them, and in all other
        answers with the same `shared`; without, every value is the caller's own, and lists are remembered.
        """
        self._codec = codec
        self._log = log
        self._values = dict(zip(values[::2], values[1::2], strict=True))
        self._shared = shared
        self._tables: dict[bytes, list[int]] = {}

    def checkpoint_tuple(self, thread: str, row: Row) -> CheckpointTuple:
        """The checkpoint of the row."""
        field, data, members = row
        namespace, identity = map(text, field.split(NUL, 1))
        at = Place(thread, namespace, identity)
        record = self._codec.read_record(data)
        return CheckpointTuple(
            config=at.config(),
            checkpoint=self._checkpoint(at, record),
            metadata=record.metadata,
            parent_config=at._replace(checkpoint=record.parent).config() if record.parent else None,
            pending_writes=self._codec.read_writes(field, members),
        )

    def _checkpoint(self, at: Place, record: Record) -> Checkpoint:
        values = {}
        for channel, version in record.versions.items():
            field = value_field(at.namespace, channel, version)
            stored = self._values.get(field)
            if stored is not None:
                values[channel] = self._value((at.namespace, channel), field, stored)
        rest = {"id": at.checkpoint, "channel_values": values, "channel_versions": record.versions}
        return cast("Checkpoint", record.rest | rest)

    def _value(self, key: tuple[str, str], field: bytes, stored: bytes) -> Any:
        if stored[:1] != LIST:
            return self._codec.load(stored)
        table = self._tables.get(field)
        if table is None:
            table = self._tables[field] = positions(stored[1:])
        return self._own(key, table) if self._shared is None else self._common(table, self._shared)

    def _own(self, key: tuple[str, str], table: list[int]) -> list[Any]:
        values, self._log.lists[key] = self._log.values(table, self._codec.load)
        return values

    def _common(self, table: list[int], shared: dict[int, Any]) -> list[Any]:
        for position in table:
            if position not in shared:
                shared[position] = self._log.value(position, self._codec.load)
        return [shared[position] for position in table]
