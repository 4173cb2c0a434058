"""Assistants: a graph with a configuration, in versions; each owner's apart from all others'.

For every graph the server has one that nobody made. An owner who changes it has a changed copy of their own.
"""

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, Literal

from callsheet.state.errors import Conflict, Missing
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script, execute

NAMESPACE: Final = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
"""What LangGraph derives the ids of default assistants in; no namespace of RFC 9562."""
DEFAULT_METADATA: Final[Mapping[str, Any]] = {"created_by": "system"}
"""By this Studio finds the default assistants."""

# Written only where nothing was changed since it was read: ARGV[2] is what was read, empty for nothing.
# The same call once more, because its answer was lost, finds what it has written.
_WRITE: Final = Script("""
local there = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if there == ARGV[3] then return 1 end
if there ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
for i = 4, #ARGV do redis.call('RPUSH', KEYS[2], ARGV[i]) end
return 1
""")

_DELETE: Final = Script("""
redis.call('DEL', KEYS[2])
return redis.call('HDEL', KEYS[1], ARGV[1])
""")


@dataclass(frozen=True)
class Assistant:
    """An assistant in one of its versions."""

    assistant_id: str
    graph_id: str
    config: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    name: str = "Untitled"
    created_at: str = ""
    updated_at: str = ""
    version: int = 1
    description: str | None = None
    versions: int = 1
    """How many there are."""
    default: bool = False
    """Whether it is as the server made it."""


@dataclass(frozen=True)
class Assistants:
    """The assistants of one owner."""

    storage: Storage
    owner: str
    graphs: Collection[str]
    """The graphs that are served."""
    since: str
    """When the server's own assistants were made: the start of the server, as on the wire."""

    async def get(self, named: str) -> Assistant:
        """Return the assistant of this id, or the default one of this graph; raises `Missing`."""
        found, _ = await self._read(named)
        return found

    async def all(self) -> list[Assistant]:
        """Return all of them, in no order."""
        told = await self.storage.redis.hgetall(keys.owned_assistants(self.owner))
        own = [_assistant(text) for text in told.values()]
        known = {one.assistant_id for one in own}
        made = [self._default(graph) for graph in self.graphs]
        served = [one for one in own if one.graph_id in self.graphs]
        return served + [one for one in made if one.assistant_id not in known]

    async def create(self, new: Assistant, if_exists: Literal["raise", "do_nothing"] = "raise") -> Assistant:
        """Make an assistant; one that is there is returned with `do_nothing`, else `Conflict`."""
        made = replace(new, created_at=iso_now(), updated_at=iso_now())
        there = await self._there(made.assistant_id)
        if there is None and await self._write(made, b"", made):
            return made
        if if_exists == "do_nothing":
            return there or await self.get(made.assistant_id)
        raise Conflict(
            f"assistant {made.assistant_id!r} is there already", remedy="use another id, or update it"
        )

    async def update(self, named: str, changes: Mapping[str, Any]) -> Assistant:
        """Make a new version with `changes`, of which `metadata` is added to what there is."""
        while True:
            before, raw = await self._read(named)
            count = before.versions + 1
            metadata = {**before.metadata, **changes.get("metadata", {})}
            latest: dict[str, Any] = {**changes, "metadata": metadata, "version": count, "versions": count}
            made = replace(before, **latest, updated_at=iso_now(), default=False)
            first = [before] if before.default else []
            if await self._write(made, raw, *first, made):
                return made

    async def set_latest(self, named: str, version: int) -> Assistant:
        """Make an earlier version the one in force; raises `Missing` for one there is none of."""
        while True:
            before, raw = await self._read(named)
            known = {one.version: one for one in await self.versions(named)}
            if version not in known:
                raise Missing(
                    f"assistant {before.assistant_id!r} has no version {version}",
                    remedy=f"use one of {sorted(known)}",
                )
            made = replace(known[version], versions=before.versions, updated_at=iso_now(), default=False)
            if before.default or await self._write(made, raw):
                return before if before.default else made

    async def versions(self, named: str) -> list[Assistant]:
        """Return all versions, newest first."""
        found = await self.get(named)
        name = keys.assistant_versions(self.owner, found.assistant_id)
        told = await self.storage.redis.lrange(name, 0, -1)
        return [_assistant(text) for text in reversed(told)] or [found]

    async def delete(self, named: str) -> Assistant:
        """Take an assistant away and return it; raises as `made`."""
        found = await self.get_created(named)
        await _DELETE(self.storage.redis, self._keys(found.assistant_id), [found.assistant_id])
        return found

    async def get_created(self, named: str) -> Assistant:
        """Return an assistant that its owner made; raises `Conflict` for one of the server's own."""
        found = await self.get(named)
        if found.assistant_id == default_id(found.graph_id):
            raise Conflict(
                f"assistant {named!r} is the server's own for graph {found.graph_id!r}",
                remedy="delete only assistants you made; set_latest(1) makes this one as it was",
            )
        return found

    async def _read(self, named: str) -> tuple[Assistant, bytes]:
        """The assistant, and its text in storage: empty for one that is as the server made it."""
        names = [named, default_id(named)] if named in self.graphs else [named]
        texts = await execute(self.storage.redis, "HMGET", keys.owned_assistants(self.owner), *names)
        for name, text in zip(names, texts, strict=True):
            if text is not None and (found := _assistant(text)).graph_id in self.graphs:
                return found, text
            for graph in self.graphs:
                if default_id(graph) == name:
                    return self._default(graph), b""
        raise Missing(
            f"there is no assistant {named[:255]!r}",
            remedy=f"use an assistant's id, or a graph: {', '.join(sorted(self.graphs))}",
        )

    async def _there(self, assistant_id: str) -> Assistant | None:
        try:
            return await self.get(assistant_id)
        except Missing:
            return None

    async def _write(self, made: Assistant, before: bytes, *versions: Assistant) -> bool:
        told = [_text(one) for one in (made, *versions)]
        done = await _WRITE(
            self.storage.redis, self._keys(made.assistant_id), [made.assistant_id, before, *told]
        )
        return bool(done)

    def _default(self, graph: str) -> Assistant:
        return Assistant(
            default_id(graph),
            graph,
            metadata=dict(DEFAULT_METADATA),
            name=graph,
            created_at=self.since,
            updated_at=self.since,
            default=True,
        )

    def _keys(self, assistant_id: str) -> list[str]:
        return [keys.owned_assistants(self.owner), keys.assistant_versions(self.owner, assistant_id)]


@cache
def default_id(graph: str) -> str:
    """Return the id of the assistant the server has for a graph."""
    return str(uuid.uuid5(NAMESPACE, graph))


def iso_now() -> str:
    """Return the time as on the wire."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _assistant(text: bytes) -> Assistant:
    return Assistant(**json.loads(text))


def _text(one: Assistant) -> str:
    return json.dumps(asdict(one))
