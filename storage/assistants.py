"""Assistants: versioned configurations of graphs, separate for each owner.

Every graph has a default assistant, which is not stored. An owner who changes it gets a stored copy.
"""

import json
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal

from callsheet.state.errors import Conflict, Missing
from callsheet.state.times import iso_time
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script, execute

NAMESPACE: Final = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
"""UUID namespace that LangGraph uses for the ids of default assistants; not one of RFC 9562."""
DEFAULT_METADATA: Final[Mapping[str, Any]] = {"created_by": "system"}
"""Studio recognizes default assistants by it."""

# Compare and set: ARGV[2] is the text that was read, empty for none. A call that is sent again because its
# reply was lost finds the text it has written.
_WRITE: Final = Script("""
local current = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if current == ARGV[3] then return 1 end
if current ~= ARGV[2] then return 0 end
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
    """One version of an assistant."""

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
    """Number of versions."""
    default: bool = False
    """True for an unchanged default assistant."""


@dataclass(frozen=True)
class Assistants:
    """Assistants of one owner.

    Methods take `named`: the id of an assistant, or a graph's name for its default assistant.
    """

    storage: Storage
    owner: str
    graphs: Collection[str]
    """Names of the served graphs."""
    created_at: str
    """Creation time of the default assistants, as on the wire: the start of the server."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of the default assistants, by graph; those of the graphs by default."""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of the default assistants, by graph."""

    async def get(self, named: str) -> Assistant:
        """Return an assistant; raises `Missing`."""
        assistant, _ = await self._read(named)
        return assistant

    async def list_all(self) -> list[Assistant]:
        """Return all assistants of served graphs, in no order."""
        fields = await self.storage.redis.hgetall(keys.owned_assistants(self.owner))
        stored = [_decode(text) for text in fields.values()]
        stored_ids = {assistant.assistant_id for assistant in stored}
        defaults = [self._default(graph) for graph in self.graphs]
        return [
            *(assistant for assistant in stored if assistant.graph_id in self.graphs),
            *(assistant for assistant in defaults if assistant.assistant_id not in stored_ids),
        ]

    async def create(self, new: Assistant, if_exists: Literal["raise", "do_nothing"] = "raise") -> Assistant:
        """Create an assistant; for an id in use, return that assistant or raise `Conflict`."""
        created = replace(new, created_at=iso_now(), updated_at=iso_now())
        reserved = {*self.graphs, *(default_id(graph) for graph in self.graphs)}
        if created.assistant_id not in reserved and await self._write(created, b"", created):
            return created
        if if_exists == "do_nothing":
            return await self.get(created.assistant_id)
        raise Conflict(
            f"assistant {created.assistant_id!r} exists already", remedy="use another id, or update it"
        )

    async def update(self, named: str, changes: Mapping[str, Any]) -> Assistant:
        """Create a new version with `changes`; `metadata` is merged into the current one."""
        while True:
            before, text = await self._read(named)
            number = before.versions + 1
            metadata = {**before.metadata, **changes.get("metadata", {})}
            fields: dict[str, Any] = {**changes, "metadata": metadata, "version": number, "versions": number}
            updated = replace(before, **fields, updated_at=iso_now(), default=False)
            first = [before] if before.default else []
            if await self._write(updated, text, *first, updated):
                return updated

    async def set_latest(self, named: str, version: int) -> Assistant:
        """Make an earlier version the current one; raises `Missing` for an unknown version."""
        while True:
            before, text = await self._read(named)
            by_number = {assistant.version: assistant for assistant in await self.versions(named)}
            if version not in by_number:
                raise Missing(
                    f"assistant {before.assistant_id!r} has no version {version}",
                    remedy=f"use one of {sorted(by_number)}",
                )
            if before.default:
                return before
            current = replace(
                by_number[version], versions=before.versions, updated_at=iso_now(), default=False
            )
            if await self._write(current, text):
                return current

    async def versions(self, named: str) -> list[Assistant]:
        """Return all versions, newest first."""
        assistant = await self.get(named)
        key = keys.assistant_versions(self.owner, assistant.assistant_id)
        texts = await self.storage.redis.lrange(key, 0, -1)
        return [_decode(text) for text in reversed(texts)] or [assistant]

    async def delete(self, named: str) -> Assistant:
        """Delete and return an assistant; raises `Missing`, or `Conflict` for a default one."""
        assistant = await self.get_custom(named)
        await _DELETE(self.storage.redis, self._keys(assistant.assistant_id), [assistant.assistant_id])
        return assistant

    async def get_custom(self, named: str) -> Assistant:
        """Return an assistant that the owner created; raises `Missing`, or `Conflict` for a default one."""
        assistant = await self.get(named)
        if assistant.assistant_id == default_id(assistant.graph_id):
            raise Conflict(
                f"assistant {named!r} is the default assistant of graph {assistant.graph_id!r}",
                remedy="delete only assistants you created; set_latest(1) undoes your changes to this one",
            )
        return assistant

    async def _read(self, named: str) -> tuple[Assistant, bytes]:
        """Return the assistant and its stored text, which is empty for a default assistant."""
        ids = [named, default_id(named)] if named in self.graphs else [named]
        texts = await execute(self.storage.redis, "HMGET", keys.owned_assistants(self.owner), *ids)
        for assistant_id, text in zip(ids, texts, strict=True):
            if text is not None and (assistant := _decode(text)).graph_id in self.graphs:
                return assistant, text
            for graph in self.graphs:
                if default_id(graph) == assistant_id:
                    return self._default(graph), b""
        raise Missing(
            f"there is no assistant {named[:255]!r}",
            remedy=f"use an assistant's id, or a graph: {', '.join(sorted(self.graphs))}",
        )

    async def _write(self, current: Assistant, before: bytes, *new_versions: Assistant) -> bool:
        """Store the current version and append `new_versions`; return False if `before` is outdated."""
        texts = [_encode(assistant) for assistant in (current, *new_versions)]
        args: list[Argument] = [current.assistant_id, before, *texts]
        return bool(await _WRITE(self.storage.redis, self._keys(current.assistant_id), args))

    def _default(self, graph: str) -> Assistant:
        return Assistant(
            default_id(graph),
            graph,
            metadata=dict(DEFAULT_METADATA),
            name=self.names.get(graph, graph),
            created_at=self.created_at,
            updated_at=self.created_at,
            description=self.descriptions.get(graph),
            default=True,
        )

    def _keys(self, assistant_id: str) -> list[str]:
        return [keys.owned_assistants(self.owner), keys.assistant_versions(self.owner, assistant_id)]


@cache
def default_id(graph: str) -> str:
    """Return the id of a graph's default assistant."""
    return str(uuid.uuid5(NAMESPACE, graph))


def iso_now() -> str:
    """Return the current time as on the wire."""
    return iso_time(time.time() * 1000, "microseconds")


def _decode(text: bytes) -> Assistant:
    return Assistant(**json.loads(text))


def _encode(assistant: Assistant) -> str:
    return json.dumps(asdict(assistant))
