"""Artefacts: streams of versions that never change, with a receipt for every effect.

Drafts can be deleted, and old versions are removed where a setting says so; no number is used again.

One script in the artefact's own slot writes a version together with the receipt that proves it. It refuses
the effect if a later claim or a revocation has moved the fence of the step.
"""

import asyncio
import json
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from callsheet.state.errors import Conflict, Fenced, Forbidden, Gone, Missing
from callsheet.state.versions import Origin, Version, number_of, status
from callsheet.storage import indexes
from callsheet.storage.artefacts import scripts
from callsheet.storage.artefacts.receipts import StepFence, StepReceipts
from callsheet.storage.redis import keys, keyspace
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Command, execute, execute_all, hgetall

_STEP: Final = 100
"""Versions, or heads of streams, that one script reads."""
_REMOVED: Final = "removed:"
"""Field of an artefact's record, before a stream's name: highest number of a removed old version."""


@dataclass(frozen=True)
class Stream:
    """Versions of one stream, oldest first, and the id of the version that a person activated."""

    versions: tuple[Version, ...] = ()
    """Those that were read: the newest ones, or older ones."""
    active: str | None = None
    count: int = 0
    """Number of all versions."""
    older: int = 0
    """Number of versions before those that were read."""
    head: Version | None = None
    """Newest version, if others were read."""
    active_version: Version | None = None

    def newest(self) -> Version | None:
        """Return the newest version, or None for an empty stream."""
        return self.head or (self.versions[-1] if self.versions else None)

    def find(self, version_id: str) -> Version | None:
        """Return the version with this id if it was read, or None."""
        return next((version for version in self.versions if version.id == version_id), None)


@dataclass(frozen=True)
class StreamHead:
    """Newest version of a stream, and the artefact's locks at the same moment."""

    newest: Version | None
    active: str | None
    locked: frozenset[str]
    """Ids of locked streams and parts of streams."""
    locks: str
    """Number of changes to the locks so far."""


@dataclass(frozen=True)
class OldVersions:
    """Versions of a stream that may be removed: those beyond the newest `kept`, but for the named ones."""

    stream: str
    kept: int
    """At least 1."""
    named: Collection[str]
    """Ids of versions that stay, beside the active one."""
    until_ms: int
    """Time of Redis until which `named` may be believed."""
    newest: str
    """Id of the newest version when `named` was read; one that is written later may need others."""


@dataclass(frozen=True)
class NewVersion:
    """A version to create."""

    stream: str
    data: Mapping[str, Any]
    created_by: str
    batch: str
    parent: str | None = None
    """None for the newest version at the time of writing."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the receipt in addition to `versionId`."""
    expected_head: "StreamHead | None" = None
    """State that the version was derived from; None skips the check."""
    origin: Origin = field(default_factory=Origin)


class Artefact(StepReceipts):
    """One artefact in storage, by its owner and the owner's id for it."""

    async def open(self, *, owner: str, thread: str, facts: Mapping[str, str]) -> None:
        """Create the artefact for `owner` and `thread` if necessary, and set facts that are not set yet.

        Raises `Missing` for an artefact of another owner or thread, which must be indistinguishable from one
        that does not exist, and for one that is being deleted. Twice is safe.
        """
        pairs = [text for pair in facts.items() for text in pair]
        answer: list[bytes] = await scripts.OPEN(self._redis, [self._meta], [owner, thread, *pairs])
        if not any(answer):
            raise self.missing_artefact()
        if [part.decode() for part in answer] != [owner, thread]:
            raise Missing(
                f"there is no conversation {thread!r} about {self.kind} {self.id!r}", remedy="check the ids"
            )

    async def create_version(self, new: NewVersion, fence: StepFence | None = None) -> dict[str, Any]:
        """Append a version and its receipt in one step and return `{"versionId", **new.result}`.

        Repeats and errors are those of `create_versions`.
        """
        return await self.create_versions([new], fence)

    async def create_versions(
        self, new: Sequence[NewVersion], fence: StepFence | None = None, *, named: bool = False
    ) -> dict[str, Any]:
        """Append a version to each of several streams, with one receipt, in one step.

        Return `{"versionId", "versions", **result}`: the first version, all of them by stream if there are
        several or with `named`, and the result of the first. A step with a receipt writes nothing and
        returns that receipt. Without a fence (an edit by a person) the receipt belongs to this call, so that
        resending it is safe. Raises `Fenced` for an outdated fence, `Forbidden` for a locked stream, and
        `Conflict` for an outdated `expected_head`; then no stream is changed. Raises `Missing` while the
        artefact is deleted, and for an edit without a record of the artefact.
        """
        step, fence_value = (fence.step, fence.value) if fence else (f"by-hand|{uuid.uuid4().hex}", "")
        stream_keys = [
            self._key(key, one.stream) for one in new for key in (keys.versions, keys.version_counter)
        ]
        writes = [argument for one in new for argument in self._write_arguments(one)]
        answer = await scripts.CREATE(
            self._redis,
            [self._receipts, self._fences, self._meta, self._locks, *stream_keys],
            [step, fence_value, _json_tail(new[0].result), "named" if named or len(new) > 1 else "", *writes],
        )
        if answer[0] == b"fenced":
            raise Fenced(f"a late write to {new[0].stream!r} of {self.kind} {self.id!r} was refused")
        if answer[0] == b"missing":
            raise self.missing_artefact()
        if answer[0] in {b"locked", b"moved"}:
            raise self._write_error(answer[0], answer[1].decode())
        result: dict[str, Any] = json.loads(answer[1])
        return result

    def _write_arguments(self, new: NewVersion) -> Sequence[str]:
        head = new.expected_head
        newest_id = head.newest.id if head and head.newest else ""
        fields = {"data": new.data, "created_by": new.created_by, "batch": new.batch}
        record = _json_tail(fields | ({"origin": new.origin} if new.origin else {}))
        expected = ("yes", newest_id, head.locks) if head else ("no", "", "")
        return [
            self._key(keys.version, new.stream, ""),
            new.parent or "",
            record,
            new.stream,
            *expected,
        ]

    def _write_error(self, verdict: bytes, stream: str) -> Forbidden | Conflict:
        if verdict == b"locked":
            return Forbidden(
                f"{stream!r} of this {self.kind} is locked",
                remedy="change something else; only a person can unlock it",
            )
        return Conflict(
            f"{stream!r} of {self.kind} {self.id!r} changed meanwhile",
            remedy="look at it again and repeat the edit",
        )

    async def newest_of(self, names: Sequence[str], count: int = 1) -> dict[str, Stream]:
        """Return the named streams with `count` newest versions, read in one step; some may be empty."""
        return await self.newest_by_count(dict.fromkeys(names, count))

    async def newest_by_count(self, counts: Mapping[str, int]) -> dict[str, Stream]:
        """Return the named streams, each with so many of its newest versions, as `newest_of`."""
        return await self._read(counts)

    async def older(self, name: str, before: str | None, limit: int) -> Stream:
        """Return a stream with up to `limit` versions before a version, or the newest ones for None.

        Raises `Missing` for an unknown version; one that was removed as an old one still marks its place.
        """
        try:
            return (await self._read({name: limit}, before or ""))[name]
        except Gone:
            ids: list[bytes] = await execute(self._redis, "LRANGE", self._key(keys.versions, name), 0, -1)
            later = (one.decode() for one in ids if number_of(one.decode()) > number_of(before or ""))
            return (await self._read({name: limit}, next(later, "")))[name]

    async def streams(self, names: Sequence[str]) -> dict[str, Stream]:
        """Return the named streams with all of their versions, as `stream`."""
        return dict(zip(names, await asyncio.gather(*map(self.stream, names)), strict=True))

    async def stream(self, name: str) -> Stream:
        """Return one stream with all of its versions, read in steps: turns and views must not need them."""
        page = await self.older(name, None, _STEP)
        versions, oldest = page.versions, page
        while oldest.older:
            oldest = await self.older(name, oldest.versions[0].id, _STEP)
            versions = (*oldest.versions, *versions)
        return replace(page, versions=versions, older=0)

    async def existing(self, stream: str, ids: Collection[str]) -> list[Version]:
        """Return those of the versions that exist."""
        names = [self._key(keys.version, stream, name) for name in ids]
        records = await asyncio.gather(*(self._redis.get(name) for name in names))
        return [_version(stream, record) for record in records if record is not None]

    async def _read(self, limits: Mapping[str, int], before: str = "") -> dict[str, Stream]:
        stream_keys = [
            self._key(key, name) for name in limits for key in (keys.versions, keys.active_version)
        ]
        args: list[Argument] = [before]
        for name, limit in limits.items():
            args += (limit, self._key(keys.version, name, ""))
        replies = await scripts.READ(self._redis, stream_keys, args)
        streams = {}
        for name, (count, older, records, head, active, active_record) in zip(limits, replies, strict=True):
            if count < 0:
                raise await self.absent_version(name, before)
            streams[name] = Stream(
                tuple(_version(name, record) for record in records),
                active.decode() if active else None,
                count,
                older,
                _version(name, head) if head else None,
                _version(name, active_record) if active_record else None,
            )
        return streams

    async def stream_head(self, stream: str) -> StreamHead:
        """Return the newest version of a stream and the artefact's locks, read in one step."""
        return (await self.stream_heads([stream]))[stream]

    async def stream_heads(self, names: Collection[str]) -> dict[str, StreamHead]:
        """Return the heads of the named streams, `_STEP` of them in one step."""
        listed = [*names]
        parts = [listed[at : at + _STEP] for at in range(0, len(listed), _STEP)]
        heads = await asyncio.gather(*map(self._read_heads, parts))
        return {name: head for part in heads for name, head in part.items()}

    async def _read_heads(self, names: Sequence[str]) -> dict[str, StreamHead]:
        stream_keys = [self._key(key, name) for name in names for key in (keys.versions, keys.active_version)]
        heads, locked, locks = await scripts.READ_HEADS(
            self._redis,
            [self._locks, self._meta, *stream_keys],
            [self._key(keys.version, name, "") for name in names],
        )
        locked_names = frozenset(name.decode() for name in locked)
        return {
            name: StreamHead(
                _version(name, record) if record else None,
                active.decode() if active else None,
                locked_names,
                locks.decode(),
            )
            for name, (record, active) in zip(names, heads, strict=True)
        }

    async def version(self, stream: str, version_id: str) -> Version:
        """Return a version; raises `Missing` if it does not exist, and `Gone` if it does not any more."""
        record = await self._redis.get(self._key(keys.version, stream, version_id))
        if record is None:
            raise await self.absent_version(stream, version_id)
        return _version(stream, record)

    async def lock(self, name: str, by: str) -> bool:
        """Lock a stream, or a part of one, against every change; return False if it was locked already.

        Raises `Missing` if there is no such artefact, or it is being deleted; so do the edits below.
        """
        return self._has_changed(
            await scripts.LOCK(self._redis, [self._locks, self._meta], [name, json.dumps(by)])
        )

    async def unlock(self, name: str) -> bool:
        """Undo `lock`; return False if it was not locked."""
        return self._has_changed(await scripts.UNLOCK(self._redis, [self._locks, self._meta], [name]))

    async def locks(self) -> dict[str, dict[str, Any]]:
        """Return all locks, each with its author and time: `{name: {by, at_ms}}`."""
        fields: dict[Any, Any] = await self._redis.hgetall(self._locks)
        return {name.decode(): json.loads(value) for name, value in sorted(fields.items())}

    async def activate(self, stream: str, version_id: str) -> None:
        """Make a version the active one of its stream; raises as `version`."""
        stream_keys = [self._key(keys.version, stream, version_id), self._key(keys.active_version, stream)]
        if not self._has_changed(
            await scripts.ACTIVATE(self._redis, [*stream_keys, self._meta], [version_id])
        ):
            raise await self.absent_version(stream, version_id)

    async def delete_draft(self, stream: str, version_id: str) -> None:
        """Delete a draft for good; its number is not used again.

        Raises `Missing` for an unknown version and `Conflict` for an active or frozen one.
        """
        version = await self.version(stream, version_id)
        newest = (await self.stream_head(stream)).newest or version
        if status(version, newest) == "frozen":
            raise Conflict(
                f"{stream} {version_id!r} is frozen, and only drafts may be deleted",
                remedy="keep it; frozen versions are the stream's history",
            )
        answer = await scripts.DELETE(
            self._redis,
            [
                *(self._key(keys.versions, stream), self._key(keys.active_version, stream)),
                *(self._key(keys.version, stream, version_id), self._meta),
            ],
            [version_id, newest.id, uuid.uuid4().hex],
        )
        if answer == b"gone":
            raise self.missing_artefact()
        if answer == b"active":
            raise Conflict(f"{stream} {version_id!r} is active", remedy="activate another version first")
        if answer == b"moved":
            raise Conflict(f"{stream} changed meanwhile", remedy="read the list again and repeat the request")
        if answer == b"missing":
            raise await self.absent_version(stream, version_id)

    async def counts(self, names: Sequence[str]) -> dict[str, int]:
        """Return the numbers of versions of the named streams, read in one trip."""
        commands = [Command(("LLEN", self._key(keys.versions, name))) for name in names]
        return dict(zip(names, await execute_all(self._redis, commands), strict=True)) if names else {}

    async def remove_old_versions(self, old: OldVersions, at: int, limit: int) -> tuple[int, int | None]:
        """Remove up to `limit` old versions from place `at` of the stream on, in one step; 0 is the oldest.

        Return the number of removed ones, and the place to go on at; None at the end, for a locked stream,
        and once `named` may not be believed any more: after its time, or once there is a newer version. Twice
        is safe. Their numbers are not used again.
        """
        removed, place = await scripts.REMOVE_OLD(
            self._redis,
            [
                *(self._key(keys.versions, old.stream), self._key(keys.active_version, old.stream)),
                *(self._meta, self._locks),
            ],
            [
                *(self._key(keys.version, old.stream, ""), old.stream, old.kept, at, limit, old.until_ms),
                *(old.newest, *old.named),
            ],
        )
        return removed, None if place < 0 else place

    async def removed_up_to(self, stream: str) -> int:
        """Return the highest number of a version that was removed as an old one; 0 for none."""
        text: bytes | None = await execute(self._redis, "HGET", self._meta, f"{_REMOVED}{stream}")
        # An imported record may hold anything.
        return number_of(f"v{text.decode()}") if text else 0

    async def receipt_results(self) -> list[dict[str, Any]]:
        """Return the recorded results of all effects, in no order."""
        values: list[Any] = await self._redis.hvals(self._receipts)
        return [json.loads(value) for value in values]

    async def mixer(self) -> dict[str, Any]:
        """Return the settings of the mixer; empty if none were set."""
        return _parse(await self._redis.get(self._key(keys.mixer)))

    async def change_mixer(
        self, update: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Replace the mixer's settings by `update(settings)` and return them; no concurrent change is lost.

        `update` may be called several times.
        """
        key = self._key(keys.mixer)
        while True:
            before: bytes | None = await self._redis.get(key)
            after = update(_parse(before))
            # Sorted: a swap that is sent again because its reply was lost must find the same text.
            text = json.dumps(after, ensure_ascii=False, sort_keys=True)
            if self._has_changed(
                await scripts.SWAP_MIXER(self._redis, [key, self._meta], [before or "", text])
            ):
                return after

    async def begin_deletion(self, owner: str, thread: str) -> None:
        """Mark the artefact as being deleted, after which nothing changes it; raise `Missing` for another's.

        Twice is safe. `erase` and `erase_record` come after it.
        """
        if not await scripts.BEGIN_DELETION(self._redis, [self._meta], [owner, thread]):
            raise self.missing_artefact()

    async def erase(self, owner: str) -> None:
        """Delete everything of the artefact except its record: versions, files, receipts, locks, plans.

        Twice is safe.
        """
        stem = self._key(keys.artefact_stem)
        plan_stem = keys.execution_keys(self.kind, self.stored_id, "").record
        for name in await keyspace.keys_below(self._storage, plan_stem):
            place = keys.execution_place(owner, name.removeprefix(plan_stem))
            await execute(self._redis, "UNLINK", place)
        await keyspace.delete_below(self._storage, stem, kept={self._meta})

    async def erase_record(self, owner: str) -> None:
        """Delete the artefact's record and its place in the owner's list. Twice is safe."""
        await indexes.remove(self._storage, owner, self.kind, self.id)
        await execute(self._redis, "UNLINK", self._meta)
        # An edit that was complete before the deletion may have listed the artefact once more meanwhile.
        await indexes.remove(self._storage, owner, self.kind, self.id)

    async def meta(self) -> dict[str, str]:
        """Return the artefact's record; empty if the artefact does not exist."""
        fields = await hgetall(self._redis, self._meta)
        return {name.decode(): value.decode() for name, value in fields.items()}

    async def set_facts(self, facts: Mapping[str, str]) -> None:
        """Set facts of the artefact's record, replacing earlier values; raise `Missing` without a record."""
        pairs = [text for pair in facts.items() for text in pair]
        if pairs and not await scripts.SET_FACTS(self._redis, [self._meta], pairs):
            raise self.missing_artefact()

    async def drop_facts(self, names: Sequence[str]) -> None:
        """Remove facts of the artefact's record; absent ones are none."""
        if names:
            await execute(self._redis, "HDEL", self._meta, *names)

    async def absent_version(self, stream: str, version_id: str) -> Missing | Gone:
        """Return the error for a version that does not exist, or does not any more."""
        if 0 < number_of(version_id) <= await self.removed_up_to(stream):
            return self.removed_version(stream, version_id)
        name = self._version_name(stream)
        return Missing(
            f"{self.kind} {self.id!r} has no {name} {version_id!r}",
            remedy=f"list the {name}s to see which there are",
        )

    def removed_version(self, stream: str, version_id: str) -> Gone:
        """Return the error for a version that was deleted, or removed as an old one."""
        name = self._version_name(stream)
        return Gone(
            f"{name} {version_id!r} of {self.kind} {self.id!r} is not kept any more: somebody deleted it, or "
            "it was removed as an old one that nothing needs",
            remedy=f"list the {name}s to see which there are",
            details={"setting": "CALLSHEET_KEPT_VERSIONS"},
        )

    def _version_name(self, stream: str) -> str:
        # A page has one stream, called like itself.
        return "version" if stream == self.kind else f"{stream} version"

    def _has_changed(self, answer: int) -> bool:
        """Return whether a script changed something; raise `Missing` if it found no artefact to change."""
        if answer < 0:
            raise self.missing_artefact()
        return bool(answer)

    def _key(self, key: Callable[..., str], *parts: str) -> str:
        return key(self.kind, self.stored_id, *parts)


def _json_tail(fields: Mapping[str, Any]) -> str:
    """Return the JSON of `fields` without its opening brace: the script puts the version's id in front."""
    tail = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))[1:]
    return f",{tail}" if fields else tail


def _version(stream: str, record: bytes | None) -> Version:
    if record is None:
        raise Missing(
            f"a version of {stream!r} is gone from storage",
            remedy="Redis has evicted it or somebody deleted it: restore a backup, or make a new artefact",
        )
    return Version(stream=stream, **json.loads(record))


def _parse(text: bytes | None) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(text) if text else {}
    return settings


BOUND_KINDS: Final = frozenset({"lesson"})
"""Kinds of artefacts that are deleted with their thread, without which nobody can go on with them; it names
them."""


async def delete_bound(storage: Storage, owner: str, thread: str) -> None:
    """Delete the artefacts that go with a thread. Twice is safe."""
    for kind in BOUND_KINDS:
        artefact = Artefact(storage, kind, thread, owner)
        meta = await artefact.meta()
        if (meta.get("owner"), meta.get("thread")) == (owner, thread):
            await artefact.begin_deletion(owner, thread)
            await artefact.erase(owner)
            await artefact.erase_record(owner)
