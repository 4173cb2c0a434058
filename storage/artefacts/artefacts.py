"""Artefacts as version streams: created once, never overwritten, every effect with its receipt (A29–A35).

A version and the receipt that proves it are written by one script, in the artefact's own slot. The effect is
refused when a later claim or a revocation has moved the fence of its step on.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callsheet.state.errors import Conflict, Fenced, Forbidden, Missing
from callsheet.state.versions import Version, status
from callsheet.storage.artefacts import scripts
from callsheet.storage.artefacts.receipts import Done as Done  # noqa: PLC0414 -- an artefact and its steps are one thing to others
from callsheet.storage.artefacts.receipts import Fence as Fence  # noqa: PLC0414
from callsheet.storage.artefacts.receipts import Steps
from callsheet.storage.artefacts.receipts import receipt_name as receipt_name  # noqa: PLC0414
from callsheet.storage.redis import keys


@dataclass(frozen=True)
class Stream:
    """One stream as it stands: its versions oldest first, and the one a person chose."""

    versions: tuple[Version, ...] = ()
    active: str | None = None

    def newest(self) -> Version | None:
        """Return the newest version, or None for an empty stream."""
        return self.versions[-1] if self.versions else None

    def find(self, version_id: str) -> Version | None:
        """Return the version with this id, or None."""
        return next((version for version in self.versions if version.id == version_id), None)


@dataclass(frozen=True)
class StreamHead:
    """The newest of a stream, and what people have locked, as they were at one moment."""

    newest: Version | None
    active: str | None
    locked: frozenset[str]
    """Streams and parts of them, by their ids."""
    locks: str
    """Counts how often the locks changed."""


@dataclass(frozen=True)
class NewVersion:
    """What is to become a version."""

    stream: str
    data: Mapping[str, Any]
    created_by: str
    batch: str
    parent: str | None = None
    """None means the newest at the time of writing."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """What the receipt says beside `versionId`."""
    expected_head: "StreamHead | None" = None
    """What it was made of; None where it does not matter."""


class Artefact(Steps):
    """One artefact in storage, by the id that its owner calls it."""

    async def open(self, *, owner: str, thread: str, facts: Mapping[str, str]) -> None:
        """Make the artefact `owner`'s, about which `thread` is, and write the facts that are not there yet.

        Raises `Missing` for another's artefact or one that another thread is about, which must look like none
        at all (A-R14). Twice is safe.
        """
        pairs = [text for pair in facts.items() for text in pair]
        answer: list[bytes] = await scripts.OPEN(self._redis, [self._meta], [owner, thread, *pairs])
        if [part.decode() for part in answer] != [owner, thread]:
            raise Missing(
                f"there is no conversation {thread!r} about {self.kind} {self.id!r}", remedy="check the ids"
            )

    async def create_version(self, new: NewVersion, fence: Fence | None = None) -> dict[str, Any]:
        """Append a version and its receipt in one step and return `{"versionId", **new.result}`.

        With a fence that has a receipt already, nothing is written and that receipt is returned. Without a
        fence (an edit by a person) the receipt is this very call's, in case its answer is lost and it is sent
        again. Raises `Fenced` when the fence has moved on, `Forbidden` for a stream that a person has locked,
        and `Conflict` when `new.expected_head` is not how things are any more.
        """
        stream_keys = [
            keys.versions(self.kind, self.stored_id, new.stream),
            keys.counter(self.kind, self.stored_id, new.stream),
        ]
        answer = await scripts.CREATE(
            self._redis,
            [*stream_keys, self._receipts, self._fences, self._meta, self._locks],
            [
                fence.step if fence else f"by-hand|{uuid.uuid4().hex}",
                fence.value if fence else "",
                keys.version(self.kind, self.stored_id, new.stream, ""),
                new.parent or "",
                _tail({"data": new.data, "created_by": new.created_by, "batch": new.batch}),
                _tail(new.result),
                new.stream,
                *_onto(new.expected_head),
            ],
        )
        if answer[0] == b"fenced":
            raise Fenced(f"a late write to {new.stream!r} of {self.kind} {self.id!r} was refused")
        if answer[0] == b"locked":
            raise Forbidden(
                f"{new.stream!r} of {self.kind} {self.id!r} is locked",
                remedy="change something else; only a person can unlock it",
            )
        if answer[0] == b"moved":
            raise Conflict(
                f"{new.stream!r} of {self.kind} {self.id!r} changed meanwhile",
                remedy="look at it again and repeat the edit",
            )
        result: dict[str, Any] = json.loads(answer[1])
        return result

    async def streams(self, names: Sequence[str]) -> dict[str, Stream]:
        """Return the named streams as they stand, read in one step; an unwritten one is empty."""
        read_keys = [
            key
            for name in names
            for key in (
                keys.versions(self.kind, self.stored_id, name),
                keys.active(self.kind, self.stored_id, name),
            )
        ]
        prefixes = [keys.version(self.kind, self.stored_id, name, "") for name in names]
        answer = await scripts.READ(self._redis, read_keys, prefixes)
        return {name: _stream(name, found) for name, found in zip(names, answer, strict=True)}

    async def stream(self, name: str) -> Stream:
        """Return one stream as it stands."""
        return (await self.streams([name]))[name]

    async def stream_head(self, stream: str) -> StreamHead:
        """Return the newest version of a stream with what is locked, read in one step."""
        answer = await scripts.READ_HEAD(
            self._redis,
            [
                keys.versions(self.kind, self.stored_id, stream),
                keys.active(self.kind, self.stored_id, stream),
                self._locks,
                self._meta,
            ],
            [keys.version(self.kind, self.stored_id, stream, "")],
        )
        record, active, locked, locks = answer
        return StreamHead(
            _version(stream, json.loads(record)) if record else None,
            active.decode() if active else None,
            frozenset(name.decode() for name in locked),
            locks.decode(),
        )

    async def version(self, stream: str, version_id: str) -> Version:
        """Return one version; raises `Missing` when there is none of that id."""
        record = await self._redis.get(keys.version(self.kind, self.stored_id, stream, version_id))
        if record is None:
            raise self.missing_version(stream, version_id)
        return _version(stream, json.loads(record))

    async def lock(self, name: str, by: str) -> bool:
        """Lock a stream, or a part of one, against every change; return whether it was not locked before."""
        return bool(await scripts.LOCK(self._redis, [self._locks, self._meta], [name, json.dumps(by)]))

    async def unlock(self, name: str) -> bool:
        """Undo `lock`; return whether it was locked."""
        return bool(await scripts.UNLOCK(self._redis, [self._locks, self._meta], [name]))

    async def locks(self) -> dict[str, dict[str, Any]]:
        """Return what is locked, each with who did it and when: `{name: {by, at_ms}}`."""
        found: dict[Any, Any] = await self._redis.hgetall(self._locks)
        return {name.decode(): json.loads(value) for name, value in sorted(found.items())}

    async def activate(self, stream: str, version_id: str) -> None:
        """Make a version the chosen one of its stream; raises `Missing` when there is none of that id."""
        stream_keys = [
            keys.versions(self.kind, self.stored_id, stream),
            keys.active(self.kind, self.stored_id, stream),
        ]
        if not await scripts.ACTIVATE(self._redis, stream_keys, [version_id]):
            raise self.missing_version(stream, version_id)

    async def delete_draft(self, stream: str, version_id: str) -> None:
        """Delete a draft for good; its number is not used again.

        Raises `Missing` for an unknown version and `Conflict` for one that is active or frozen.
        """
        found = await self.stream(stream)
        version, newest = found.find(version_id), found.newest()
        if version is None or newest is None:
            raise self.missing_version(stream, version_id)
        if status(version, newest) == "frozen":
            raise Conflict(
                f"{stream} {version_id!r} is frozen, and only drafts may be deleted",
                remedy="leave it; it is history",
            )
        answer = await scripts.DELETE(
            self._redis,
            [
                keys.versions(self.kind, self.stored_id, stream),
                keys.active(self.kind, self.stored_id, stream),
                keys.version(self.kind, self.stored_id, stream, version_id),
                self._meta,
            ],
            [version_id, newest.id, uuid.uuid4().hex],
        )
        if answer == b"active":
            raise Conflict(f"{stream} {version_id!r} is active", remedy="activate another version first")
        if answer == b"moved":
            raise Conflict(
                f"{stream} changed meanwhile", remedy="look at the list again and repeat the request"
            )
        if answer == b"missing":
            raise self.missing_version(stream, version_id)

    async def receipt_results(self) -> list[dict[str, Any]]:
        """Return what every effect that happened gave, in no order."""
        found: list[Any] = await self._redis.hvals(self._receipts)
        return [json.loads(one) for one in found]

    async def erase(self, streams: Sequence[str]) -> None:
        """Take the artefact away: these streams with every version, files, receipts, and all else of it.

        Nothing may be under way that writes to it. Twice is safe.
        """
        kind, name = self.kind, self.stored_id
        whole = [self._meta, keys.files(kind, name)]
        of_streams = [
            key(kind, name, one) for one in streams for key in (keys.versions, keys.active, keys.counter)
        ]
        rest = [self._receipts, self._fences, self._locks]
        prefixes = [keys.version(kind, name, one, "") for one in streams]
        await scripts.ERASE(self._redis, [*whole, *of_streams, *rest], [keys.file(kind, name, ""), *prefixes])

    async def meta(self) -> dict[str, str]:
        """Return what is known of the artefact as a whole; empty when it does not exist."""
        found: dict[Any, Any] = await self._redis.hgetall(self._meta)
        return {name.decode(): value.decode() for name, value in found.items()}

    async def describe(self, facts: Mapping[str, str]) -> None:
        """Set facts about the artefact as a whole, over earlier ones."""
        await self._redis.hset(self._meta, mapping=dict[Any, Any](facts))

    def missing_version(self, stream: str, version_id: str) -> Missing:
        """Return the error for a version that is not there."""
        return Missing(
            f"{self.kind} {self.id!r} has no {stream} version {version_id!r}",
            remedy=f"list the {stream} versions to see which there are",
        )


def _tail(fields: Mapping[str, Any]) -> str:
    # Without the opening brace: the script puts the version's id in front.
    rest = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))[1:]
    return f",{rest}" if fields else rest


def _onto(tip: StreamHead | None) -> tuple[str, str, str]:
    if tip is None:
        return "no", "", ""
    return "yes", tip.newest.id if tip.newest else "", tip.locks


def _stream(name: str, found: Sequence[Any]) -> Stream:
    active, records = found
    versions = tuple(_version(name, json.loads(record)) for record in records)
    return Stream(versions, active.decode() if active else None)


def _version(stream: str, record: Mapping[str, Any]) -> Version:
    return Version(stream=stream, **record)
