"""Export of a thread: its record, every checkpoint, and its artefacts with all versions, plans and files."""

import json
import operator
import uuid
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from callsheet.state.errors import CallsheetError, UnbuildableState
from callsheet.state.live_plan import Execution, PlanRules, call_of
from callsheet.state.plan import call_digest
from callsheet.storage import consents
from callsheet.storage.archive.lines import LineWriter, ValueCodec
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.storage.video import context
from callsheet.storage.video.context import ContextStore

_Line = tuple[str, dict[str, Any]]
"""Type and data of a line."""
_PLANS: Final = 100
"""Plans that are read at once."""


@dataclass(frozen=True)
class ExportSource:
    """Storage that threads are exported from."""

    storage: Storage
    saver: BaseCheckpointSaver[int]
    streams_of: Callable[[Artefact], Awaitable[Sequence[str]]]
    """Function that returns every stream of an artefact."""
    rules_of: Callable[[str], PlanRules]
    """Function that returns the rules of plans for a kind of artefact."""


async def export_lines(
    source: ExportSource, record: Thread, about: Mapping[str, Any]
) -> AsyncIterator[bytes]:
    """Yield the lines of the file; `about` is added to the first.

    The same thread always gives the same lines. No run may start until the checkpoints are read; raises
    `Busy` while a run is active, and `UnbuildableState` for a stored value that the serialiser cannot read.
    """
    async with threads.hold(source.storage, record.id, record.owner):
        # A run may have ended since it was read.
        record = await threads.get(source.storage, record.id, record.owner)
        checkpoints = await _checkpoints(source.saver, record.id)
        artefacts = await _artefacts(source, record)
        executions = [await _executions(source, record, one, checkpoints) for one in artefacts]
    writer = LineWriter()
    yield writer.header(about)
    yield writer.line("thread", _thread(record))
    for kind, data in _CheckpointEncoder().lines(reversed(checkpoints)):
        yield writer.line(kind, data)
    for artefact, plans in zip(artefacts, executions, strict=True):
        async for line_type, data in _everything(source, artefact, record.owner, plans):
            yield writer.line(line_type, data)
    yield writer.end()


async def export_artefact_lines(
    source: ExportSource, artefact: Artefact, owner: str, about: Mapping[str, Any]
) -> AsyncIterator[bytes]:
    """Yield the lines of an artefact whose thread was deleted, as those of a thread without states.

    None for an artefact that does not exist, or is being deleted.
    """
    meta = await artefact.meta()
    if not meta or "deleting" in meta:
        return
    thread = meta.get("thread", "")
    if not thread or await threads.exists(source.storage, thread):
        thread = str(uuid.uuid4())
    record = Thread(thread, owner, "", f"{artefact.kind}:{artefact.id}", created_ms=int(meta["createdMs"]))
    writer = LineWriter()
    yield writer.header(about)
    yield writer.line("thread", _thread(record))
    async for line_type, data in _everything(source, artefact, owner, ()):
        yield writer.line(line_type, data)
    yield writer.end()


async def _everything(
    source: ExportSource, artefact: Artefact, owner: str, plans: Iterable[Mapping[str, Any]]
) -> AsyncIterator[_Line]:
    """Yield the lines of an artefact, with these plans; raise `Missing` for one that is deleted meanwhile."""
    before = await artefact.meta()
    async for line in _artefact(source, artefact):
        yield line
    for plan in plans:
        yield "execution", {**plan}
    async for line in _context(source.storage, artefact, owner):
        yield line
    async for line in _files(source.storage, artefact):
        yield line
    after = await artefact.meta()
    # What was read last may be missing already.
    if "deleting" in after or not before or after.get("createdMs") != before["createdMs"]:
        raise artefact.missing_artefact()


async def _checkpoints(saver: BaseCheckpointSaver[int], thread: str) -> list[CheckpointTuple]:
    try:
        return [each async for each in saver.alist({"configurable": {"thread_id": thread}})]
    except CallsheetError:
        raise
    except Exception as error:
        raise UnbuildableState(
            f"thread {thread!r} has a stored value that cannot be read: {type(error).__name__}: {error}",
            remedy="export it where the library that stored the value is installed",
        ) from error


async def _artefacts(source: ExportSource, record: Thread) -> list[Artefact]:
    """Return the artefacts of a thread that exist."""
    names = [name.partition(":") for name in await threads.artefacts_of(source.storage, record.id)]
    artefacts = [Artefact(source.storage, kind, name, record.owner) for kind, _, name in names]
    return [artefact for artefact in artefacts if await artefact.meta()]


async def _executions(
    source: ExportSource, record: Thread, artefact: Artefact, checkpoints: Iterable[CheckpointTuple]
) -> list[dict[str, Any]]:
    """Return the executions of the thread's plans, oldest first, each with the calls that have consent."""
    rules = source.rules_of(artefact.kind)
    executions = Executions(source.storage, artefact.kind, artefact.id, record.owner, rules)
    kept = await executions.kept_ids()
    names, lines = [*dict.fromkeys([*kept, *_plans(checkpoints)])], []
    for at in range(0, len(names), _PLANS):
        for execution in await executions.settle_all(names[at : at + _PLANS]):
            if execution["thread"] == record.id:
                approved = await _calls_with_consent(source.storage, execution)
                # No attempt of this thread goes on with it elsewhere, and no run that is queued here comes.
                execution = {**execution, "epoch": 0, "repetition": None}  # noqa: PLW2901 -- the same plan
                lines.append({"record": execution, "consented": approved})
    return lines


def _plans(checkpoints: Iterable[CheckpointTuple]) -> Iterator[str]:
    """Yield the ids of the plans in the states, also repeatedly."""
    for entry in checkpoints:
        pending = [value for _, channel, value in entry.pending_writes or () if channel == "plan"]
        for plan in (entry.checkpoint["channel_values"].get("plan"), *pending):
            if isinstance(plan, Mapping) and isinstance(plan.get("id"), str):
                yield plan["id"]


async def _calls_with_consent(storage: Storage, execution: Execution) -> list[str]:
    """Return the ids of the steps that may be executed with a person's consent."""
    pending = [one for one in execution["steps"] if one["status"] == "pending"]
    calls = [call_digest(execution["id"], call_of(one)) for one in pending]
    given = await consents.are_open(storage, execution["thread"], calls)
    return [one["step"]["id"] for one, is_given in zip(pending, given, strict=True) if is_given]


async def _context(storage: Storage, artefact: Artefact, owner: str) -> AsyncIterator[_Line]:
    if artefact.kind == context.KIND:
        for entry in await ContextStore(storage, artefact.id, owner).entries():
            yield "context", entry._asdict()


def _thread(record: Thread) -> dict[str, Any]:
    names = ("id", "graph", "artefact", "metadata", "config", "status", "error", "interrupts", "ttl")
    return {name: getattr(record, name) for name in names} | {"createdMs": record.created_ms}


class _CheckpointEncoder:
    """Encoder that writes each channel value and each distinct list element once."""

    def __init__(self) -> None:
        self._codec = ValueCodec()
        self._values: set[tuple[str, str, str]] = set()
        """Namespace, channel and version of the values already written."""
        self._numbers: dict[str, int] = {}
        """Number of each element already written, by its JSON."""
        self._numbers_by_identity: dict[int, int] = {}
        self._newest: dict[tuple[str, str], tuple[list[Any], list[list[int]]]] = {}
        """The newest list of each namespace and channel, and its spans; most lists begin with it."""

    def lines(self, checkpoints: Iterator[CheckpointTuple]) -> Iterator[_Line]:
        """Yield the lines of the checkpoints, which must all stay alive: elements are known by identity."""
        for entry in checkpoints:
            namespace = str(entry.config["configurable"].get("checkpoint_ns", ""))
            versions = entry.checkpoint["channel_versions"]
            for channel, value in entry.checkpoint["channel_values"].items():
                yield from self._value(namespace, channel, versions[channel], value)
            yield "checkpoint", self._checkpoint(namespace, entry)

    def _value(self, namespace: str, channel: str, version: Any, value: Any) -> Iterator[_Line]:
        key = (namespace, channel, str(version))
        if key in self._values:
            return
        self._values.add(key)
        data: dict[str, Any] = {"ns": namespace, "channel": channel, "version": version}
        if type(value) is not list:
            yield "value", data | {"value": self._codec.encode(value)}
            return
        before, spans = self._newest.get((namespace, channel), ([], []))
        is_longer = len(before) <= len(value) and all(map(operator.is_, before, value))
        spans = [*spans[:-1], list(spans[-1])] if is_longer and spans else []
        for element in value[len(before) if spans else 0 :]:
            yield from self._element(element)
            _extend(spans, self._numbers_by_identity[id(element)])
        self._newest[namespace, channel] = value, spans
        yield "value", data | {"spans": spans}

    def _element(self, element: Any) -> Iterator[_Line]:
        if id(element) in self._numbers_by_identity:
            return
        encoded = self._codec.encode(element)
        text = json.dumps(encoded, sort_keys=True)
        is_new = text not in self._numbers
        number = self._numbers.setdefault(text, len(self._numbers))
        self._numbers_by_identity[id(element)] = number
        if is_new:
            yield "element", {"number": number, "value": encoded}

    def _checkpoint(self, namespace: str, entry: CheckpointTuple) -> dict[str, Any]:
        parent = (entry.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        fields = {name: part for name, part in entry.checkpoint.items() if name != "channel_values"}
        return {
            "ns": namespace,
            "parent": parent,
            "checkpoint": self._codec.encode(fields),
            "values": sorted(entry.checkpoint["channel_values"]),
            "metadata": self._codec.encode(dict(entry.metadata)),
            "writes": [
                {"task": task, "channel": channel, "value": self._codec.encode(value)}
                for task, channel, value in entry.pending_writes or ()
            ],
        }


def _extend(spans: list[list[int]], number: int) -> None:
    """Append a number to numbers given as spans, each a first one and a count."""
    if spans and number == sum(spans[-1]):
        spans[-1][1] += 1
    else:
        spans.append([number, 1])


async def _artefact(source: ExportSource, artefact: Artefact) -> AsyncIterator[_Line]:
    meta = await artefact.meta()
    if not meta:
        return
    redis, kind = source.storage.redis, artefact.kind
    mixer = await redis.get(keys.mixer(kind, artefact.stored_id))
    receipts = await redis.hgetall(keys.receipts(kind, artefact.stored_id))
    facts = {name: text for name, text in meta.items() if name not in {"owner", "thread", "importing"}}
    about = {"facts": facts, "mixer": json.loads(mixer) if mixer else None, "locks": await artefact.locks()}
    yield "artefact", {"kind": kind, "id": artefact.id, **about}
    for name, stream in (await artefact.streams(await source.streams_of(artefact))).items():
        counter = await redis.get(keys.version_counter(kind, artefact.stored_id, name))
        yield "stream", {"stream": name, "active": stream.active, "counter": int(counter or 0)}
        for version in stream.versions:
            yield (
                "version",
                {
                    "stream": name,
                    "createdBy": version.created_by,
                    "batch": version.batch,
                    "id": version.id,
                    "parent": version.parent,
                    "createdMs": version.created_ms,
                    "data": version.data,
                    **({"origin": version.origin} if version.origin else {}),
                },
            )
    for step, result in sorted(receipts.items()):
        yield "receipt", {"step": step.decode(), "result": json.loads(result)}


async def _files(storage: Storage, artefact: Artefact) -> AsyncIterator[_Line]:
    """Yield the uploaded files, each followed by its bytes in pieces; not one that is deleted meanwhile."""
    for file_id, record in sorted((await files.records(storage, artefact)).items()):
        pieces = [piece async for piece in files.pieces(storage, artefact, file_id)]
        is_complete = sum(map(len, pieces)) == record["size"]
        if not is_complete and file_id not in await files.records(storage, artefact):
            continue
        yield "file", {"id": file_id, **record}
        for piece in pieces:
            yield "piece", {"base64": b64encode(piece).decode()}
