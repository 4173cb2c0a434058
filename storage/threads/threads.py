"""Binding of a thread to its owner, its graph and the artefacts created on it."""

import hmac
import json
import secrets
import uuid
from dataclasses import dataclass
from typing import Any, Final

from callsheet.state.errors import Conflict, Missing
from callsheet.storage import indexes
from callsheet.storage.assistants import default_id
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script, ScriptCall

# A thread created without a graph or an artefact takes those of its first run.
_BIND: Final = Script("""
local t = redis.call('TIME')
local now = t[1] .. string.format('%03d', math.floor(t[2] / 1000))
local theirs = redis.call('HMGET', KEYS[1], 'owner', 'graph', 'artefact')
if not theirs[1] then
  redis.call('HSET', KEYS[1], 'createdMs', now, 'updatedMs', now, 'stateUpdatedMs', now, 'metadata', ARGV[4])
end
for i, name in ipairs({'owner', 'graph', 'artefact'}) do
  if (not theirs[i] or theirs[i] == '') and (not theirs[1] or theirs[1] == ARGV[1]) then
    redis.call('HSET', KEYS[1], name, ARGV[i])
    theirs[i] = ARGV[i]
  end
end
return {theirs[1], theirs[2] or '', theirs[3] or ''}
""")

# Changes nothing if the thread does not exist here: a graph without a server keeps its threads elsewhere.
_LINK_ARTEFACT: Final = Script("""
local owner, about, also = unpack(redis.call('HMGET', KEYS[1], 'owner', 'artefact', 'also'))
if owner ~= ARGV[1] or about == ARGV[2] then return 0 end
if not about or about == '' then return redis.call('HSET', KEYS[1], 'artefact', ARGV[2]) end
local known = cjson.decode(also or '[]')
for _, name in ipairs(known) do if name == ARGV[2] then return 0 end end
known[#known + 1] = ARGV[2]
return redis.call('HSET', KEYS[1], 'also', cjson.encode(known))
""")

_SECRET: Final = Script("""
local secret = redis.call('GET', KEYS[1])
if not secret then redis.call('SET', KEYS[1], ARGV[1]) end
return secret or ARGV[1]
""")


@dataclass(frozen=True)
class Thread:
    """Owner, graph and main artefact of a thread."""

    id: str
    owner: str
    graph: str
    artefact: str
    """`kind:id` of the main artefact; empty until one is created."""


async def bind(storage: Storage, thread: Thread) -> None:
    """Create the thread, or check that the existing one has the same owner, graph and artefact.

    Raises `Missing` for a thread of another owner or artefact, which must be indistinguishable from one that
    does not exist (A-R14), and `Conflict` for one with another graph.
    """
    metadata = json.dumps({"graph_id": thread.graph, "assistant_id": default_id(thread.graph)})
    answer: list[bytes] = await _BIND(
        storage.redis, [keys.thread_meta(thread.id)], [thread.owner, thread.graph, thread.artefact, metadata]
    )
    bound = Thread(thread.id, *(part.decode() for part in answer))
    if bound.owner != thread.owner or (bound.artefact != thread.artefact and bound.graph == thread.graph):
        raise missing_thread(thread.id)
    if bound.graph != thread.graph:
        raise Conflict(
            f"thread {thread.id!r} runs {bound.graph!r}, not {thread.graph!r}",
            remedy="use another conversation id",
        )
    await indexes.touch_thread(storage, thread.owner, thread.id)


def link_artefact_call(thread_id: str, owner: str, artefact: str) -> ScriptCall:
    """Return the script that links an artefact to the owner's thread; the first becomes its main artefact."""
    return ScriptCall(_LINK_ARTEFACT, [keys.thread_meta(thread_id)], [owner, artefact])


async def artefacts_of(storage: Storage, thread_id: str) -> list[str]:
    """Return `kind:id` of all artefacts created on a thread, the main one first."""
    main, also = await storage.redis.hmget(keys.thread_meta(thread_id), ["artefact", "also"])
    return [name for name in (main.decode() if main else "", *json.loads(also or "[]")) if name]


async def get(storage: Storage, thread_id: str, owner: str) -> Thread:
    """Return the owner's thread; raises `Missing` if it does not exist or belongs to someone else."""
    fields: list[Any] = await storage.redis.hmget(keys.thread_meta(thread_id), ["owner", "graph", "artefact"])
    if fields[0] is None or fields[0].decode() != owner:
        raise missing_thread(thread_id)
    return Thread(thread_id, *(part.decode() if part else "" for part in fields))


async def derived_id(storage: Storage, owner: str, name: str) -> str:
    """Return an id, always the same, for the owner's thread of this name: an artefact `kind:id`, a request.

    It depends on a secret of the storage, so that nobody else can create a thread with this id first.
    """
    secret: bytes = await _SECRET(storage.redis, [keys.THREAD_ID_SEED], [secrets.token_hex(32)])
    digest = hmac.digest(secret, json.dumps([owner, name]).encode(), "sha256")
    return str(uuid.UUID(bytes=digest[:16], version=4))


async def has_owner(storage: Storage, thread_id: str) -> bool:
    """Return whether a thread of this id belongs to anybody; the first run of a new one may come before."""
    return bool(await storage.redis.hexists(keys.thread_meta(thread_id), "owner"))


async def exists(storage: Storage, thread_id: str) -> bool:
    """Return whether a thread has this id, whoever owns it."""
    return bool(await storage.redis.exists(keys.thread_meta(thread_id)))


def missing_thread(thread_id: str) -> Missing:
    """Return the error for a conversation that does not exist or is not the caller's."""
    return Missing(f"there is no conversation {thread_id!r}", remedy="check the id, or start a new one")
