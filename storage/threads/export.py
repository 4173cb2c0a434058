"""A thread as a file: its record, every checkpoint, and what was made on it with all versions and files."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.files import FileRecord
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads import threads
from callsheet.storage.threads.lines import LineWriter, ValueCodec
from callsheet.storage.threads.records import ThreadRecord

Streams = Mapping[str, Sequence[str]]
"""The streams of each kind of artefact."""


@dataclass(frozen=True)
class ExportSource:
    """Where threads are read from."""

    storage: Storage
    saver: BaseCheckpointSaver[int]
    streams: Streams


async def export_lines(
    source: ExportSource, record: ThreadRecord, about: Mapping[str, Any]
) -> AsyncIterator[bytes]:
    """Yield the lines of the file, the same ones for the same thread; `about` is said in the first of them.

    No run is let on the thread until its checkpoints were read; raises `Busy` where one is at it.
    """
    async with thread_records.hold(source.storage, record.id, record.owner):
        found = [one async for one in source.saver.alist({"configurable": {"thread_id": record.id}})]
    made = [_made(source, record, name) for name in await threads.artefacts_of(source.storage, record.id)]
    sent = [await files.records(source.storage, one) for one in made]
    lines = LineWriter()
    yield lines.header(about, plain=len(made) <= 1 and not any(sent))
    yield lines.line("thread", _thread(record))
    for kind, data in _Past().told(reversed(found)):
        yield lines.line(kind, data)
    for one, there in zip(made, sent, strict=True):
        async for what, data in _artefact(source, one):
            yield lines.line(what, data)
        async for what, data in _files(source, one, there):
            yield lines.line(what, data)
    yield lines.end()


def _made(source: ExportSource, record: ThreadRecord, name: str) -> Artefact:
    kind, _, artefact = name.partition(":")
    return Artefact(source.storage, kind, artefact, record.owner)


def _thread(record: ThreadRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "graph": record.graph,
        "artefact": record.artefact,
        "metadata": record.metadata,
        "config": record.config,
        "status": record.status,
        "error": record.error,
        "interrupts": record.interrupts,
        "ttl": record.ttl,
        "createdMs": record.created_ms,
    }


class _Past:
    """Checkpoints as lines; a value that many of them have, and an element that many lists have, once."""

    def __init__(self) -> None:
        self._codec = ValueCodec()
        self._told: set[tuple[str, str, str]] = set()
        self._elements: dict[str, int] = {}
        self._known: dict[int, int] = {}

    def told(self, checkpoints: Iterator[CheckpointTuple]) -> Iterator[tuple[str, dict[str, Any]]]:
        # Kept to the end, so that no two elements ever have one identity.
        for one in checkpoints:
            namespace = str(one.config["configurable"].get("checkpoint_ns", ""))
            values = one.checkpoint["channel_values"]
            for channel, value in values.items():
                yield from self._value(namespace, channel, one.checkpoint["channel_versions"][channel], value)
            yield "checkpoint", self._checkpoint(namespace, one)

    def _value(
        self, namespace: str, channel: str, version: Any, value: Any
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        if (namespace, channel, str(version)) in self._told:
            return
        self._told.add((namespace, channel, str(version)))
        said: dict[str, Any] = {"ns": namespace, "channel": channel, "version": version}
        if type(value) is not list:
            yield "value", said | {"value": self._codec.encode(value)}
            return
        for element in value:
            yield from self._element(element)
        yield "value", said | {"elements": [self._known[id(element)] for element in value]}

    def _element(self, element: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        if id(element) in self._known:
            return
        encoded = self._codec.encode(element)
        text = json.dumps(encoded, sort_keys=True)
        fresh = text not in self._elements
        number = self._known[id(element)] = self._elements.setdefault(text, len(self._elements))
        if fresh:
            yield "element", {"number": number, "value": encoded}

    def _checkpoint(self, namespace: str, one: CheckpointTuple) -> dict[str, Any]:
        parent = (one.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        bare = {name: part for name, part in one.checkpoint.items() if name != "channel_values"}
        return {
            "ns": namespace,
            "parent": parent,
            "checkpoint": self._codec.encode(bare),
            "values": sorted(one.checkpoint["channel_values"]),
            "metadata": self._codec.encode(dict(one.metadata)),
            "writes": [
                {"task": task, "channel": channel, "value": self._codec.encode(value)}
                for task, channel, value in one.pending_writes or ()
            ],
        }


async def _artefact(source: ExportSource, artefact: Artefact) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    meta = await artefact.meta()
    if not meta:
        return
    redis, kind = source.storage.redis, artefact.kind
    mixer = await redis.get(keys.mixer(kind, artefact.stored_id))
    receipts = await redis.hgetall(keys.receipts(kind, artefact.stored_id))
    known = {name: text for name, text in meta.items() if name not in {"owner", "thread"}}
    yield (
        "artefact",
        {"kind": kind, "id": artefact.id, "facts": known, "mixer": json.loads(mixer) if mixer else None},
    )
    for name, stream in (await artefact.streams(source.streams.get(kind, ()))).items():
        newest = await redis.get(keys.counter(kind, artefact.stored_id, name))
        yield "stream", {"stream": name, "active": stream.active, "counter": int(newest or 0)}
        for one in stream.versions:
            known_of = {"id": one.id, "parent": one.parent, "createdMs": one.created_ms, "data": one.data}
            yield "version", {"stream": name, "createdBy": one.created_by, "batch": one.batch} | known_of
    for step, result in sorted(receipts.items()):
        yield "receipt", {"step": step.decode(), "result": json.loads(result)}


async def _files(
    source: ExportSource, artefact: Artefact, there: Mapping[str, FileRecord]
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yield what people sent, each file with its bytes in pieces."""
    for name, record in sorted(there.items()):
        yield "file", {"id": name, **record}
        async for piece in files.pieces(source.storage, artefact, name):
            yield "piece", {"base64": b64encode(piece).decode()}
