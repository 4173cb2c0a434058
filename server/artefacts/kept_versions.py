"""Removal of old versions: those beyond the newest ones of their stream that nothing needs any more.

A pass looks at every artefact, and rests nine times as long as it works. What needs a version is read right
before some are removed: a question or a plan that waits, undo, a rendered file, a thing made from the
artefact. Messages and receipts need none: they only name what there was.
"""

import asyncio
import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from langgraph.types import Interrupt, Send

from callsheet.server.artefacts import sources
from callsheet.server.http.context import AppContext
from callsheet.state.errors import CallsheetError, Unavailable
from callsheet.state.live_plan import Execution, created_versions
from callsheet.state.versions import Version, number_of
from callsheet.storage.artefacts import recordings
from callsheet.storage.artefacts.artefacts import Artefact, OldVersions
from callsheet.storage.artefacts.plans import MAX_SEARCHED, Executions
from callsheet.storage.redis import keys
from callsheet.storage.redis.scripts import read_time_ms
from callsheet.storage.threads import threads

INTERVAL_S: Final = 30.0
"""Seconds between two passes."""
_REST: Final = 9
"""Seconds of rest for a second of work."""
_WORK_S: Final = 0.05
"""Seconds of work between two rests."""
_BATCH: Final = 250
"""Versions that one script removes at most."""
_BELIEVED_MS: Final = 5_000
"""Time after which the versions that something needs are read again."""
_LISTED: Final = 100
"""Artefacts of an owner that are listed at once."""
_VERSION: Final = re.compile(r"\bv[1-9][0-9]{0,14}+\b")
_PAST: Final = frozenset({"messages", "results", "created", "drafts", "receipt", "summary"})
"""Keys of a thread's state that say what there was."""
_ALL: Final = ""
"""Stands for every stream of an artefact."""
_Needed = defaultdict[str, set[str]]
"""Versions by stream."""
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Owned:
    """An artefact, and the number of newest versions that its owner keeps."""

    artefact: Artefact
    owner: str
    kept: int


class VersionRetention:
    """Removes the old versions of all artefacts."""

    def __init__(self, ctx: AppContext) -> None:
        """Read the settings; there is nothing to do unless `is_on`."""
        counts: int | dict[str, int] = json.loads(ctx.settings.kept_versions)
        self._ctx = ctx
        self._counts = counts if isinstance(counts, dict) else {"*": counts}
        self._specs = {one.artefact.kind: one.artefact for one in ctx.workflows.specs.values()}

    @property
    def is_on(self) -> bool:
        """True if an owner's versions are removed."""
        return any(self._counts.values())

    async def remove_old(self) -> None:
        """Look at each artefact once, and remove its old versions."""
        async for one in _with_rests(self._artefacts()):
            try:
                await self._remove_of(one)
            except Unavailable:
                raise
            except CallsheetError as error:
                # The others are looked at nevertheless.
                _log.warning("old versions of %s %r stay: %s", one.artefact.kind, one.artefact.id, error)

    async def _artefacts(self) -> AsyncIterator[_Owned]:
        """Yield the artefacts of which not all versions are kept."""
        redis = self._ctx.storage.redis
        async for key in redis.scan_iter(keys.OWNED_ARTEFACTS, count=1_000):
            owner, kind = keys.parse_owned_artefacts(key.decode())
            kept = self._counts.get(owner, self._counts.get("*", 0))
            if kept and kind in self._specs:
                async for name, _ in redis.zscan_iter(key, count=_LISTED):
                    yield _Owned(Artefact(self._ctx.storage, kind, name.decode(), owner), owner, kept)

    async def _remove_of(self, one: _Owned) -> None:
        artefact, kept = one.artefact, one.kept
        spec = self._specs[artefact.kind]
        names = [name for name in await spec.all_streams_of(artefact) if name not in spec.entry_streams]
        for stream, count in (await artefact.counts(names)).items():
            at: int | None = 0 if count > kept else None
            while at is not None:
                until_ms = await read_time_ms(self._ctx.storage.redis) + _BELIEVED_MS
                newest = (await artefact.stream_head(stream)).newest
                needed = await self._needs(one, stream, newest)
                if needed is None or newest is None:
                    return
                old = OldVersions(stream, kept, needed, until_ms, newest.id)
                _, at = await artefact.remove_old_versions(old, at, _BATCH)

    async def _needs(self, one: _Owned, stream: str, newest: Version | None) -> set[str] | None:
        """Return the versions of a stream that something needs; None while a run or an import goes on."""
        artefact = one.artefact
        meta = await artefact.meta()
        thread = await threads.find(self._ctx.storage, meta.get("thread") or "-", one.owner)
        # The states that an import has yet to write may need any version.
        is_changing = thread and (thread.status == "busy" or thread.is_importing)
        if meta.get("owner") != one.owner or is_changing:
            return None
        needed: _Needed = defaultdict(set)
        spec = self._specs[artefact.kind]
        if newest:
            needed[_ALL].update(spec.named_by(stream, newest.data))
            needed[stream].update(await spec.needed_by_undo(artefact, stream))
        await self._add_waiting(needed, one, meta["thread"])
        await self._add_sources(needed, artefact, meta)
        return needed[_ALL] | needed[stream]

    async def _add_waiting(self, needed: _Needed, one: _Owned, thread: str) -> None:
        """Add what waits in the thread's state, and what its plans can undo or still do."""
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        stored = await self._ctx.saver.aget_tuple(config)
        values: Mapping[str, Any] = stored.checkpoint["channel_values"] if stored else {}
        writes = (stored and stored.pending_writes) or ()
        waiting = [*values.items(), *((channel, value) for _, channel, value in writes)]
        # Such as one that waits for its time; none is active.
        waiting += [("run", run.request) for run in await self._ctx.worker.runs.list_unfinished(thread)]
        needed[_ALL].update(_versions_in([value for name, value in waiting if name not in _PAST]))
        executions = Executions(self._ctx.storage, one.artefact.kind, one.artefact.id, one.owner)
        plans = {*_plan_ids(values), *await executions.newest_ids(MAX_SEARCHED)}
        for record in await executions.records([*plans]):
            needed[_ALL].update(_versions_in([each["step"]["params"] for each in record["steps"]]))
            for stream, version in _undo_versions(record):
                needed[stream].add(version)

    async def _add_sources(self, needed: _Needed, artefact: Artefact, meta: Mapping[str, str]) -> None:
        """Add the versions that rendered files, and things made from the artefact, were made of."""
        for stream, version in await sources.used_versions(artefact, self._ctx.storage, meta):
            needed[stream].add(version)
        for recording in await recordings.newest(self._ctx.storage, artefact):
            for stream, version in recording["details"].get("versions", {}).items():
                needed[stream].add(version)


def _undo_versions(record: Execution) -> Iterator[tuple[str, str]]:
    """Yield each version that a plan made, and the one before it, with its stream: undoing needs both."""
    for one in record["steps"]:
        for stream, version in (item for versions in created_versions(one) for item in versions.items()):
            # A record that was imported by an earlier release may hold anything.
            if isinstance(version, str):
                yield stream, version
                yield stream, f"v{number_of(version) - 1}"


def _plan_ids(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of the plans in a thread's state, which a client may have written."""
    for key, field in (("plan", "id"), ("paused", "plan")):
        plan = values.get(key)
        if isinstance(plan, Mapping) and isinstance(plan.get(field), str):
            yield plan[field]


def _versions_in(value: object) -> Iterator[str]:
    """Yield every id of a version in a value."""
    rest: list[object] = [value]
    while rest:
        one = rest.pop()
        match one:
            case str():
                yield from _VERSION.findall(one)
            case Mapping():
                rest += one.values()
            case list() | tuple() | set() | frozenset():
                rest += one
            case Interrupt():
                rest.append(one.value)
            case Send():
                rest.append(one.arg)


async def _with_rests(items: AsyncIterator[_T]) -> AsyncIterator[_T]:
    """Yield the items with rests, so that finding and using them takes a tenth of the time."""
    started_s = time.monotonic()
    async for item in items:
        yield item
        if (worked_s := time.monotonic() - started_s) > _WORK_S:
            await asyncio.sleep(worked_s * _REST)
            started_s = time.monotonic()
