"""Threads: whose they are, which graph runs on them, and which artefact they are about."""

import json
from dataclasses import dataclass
from typing import Any, Final

from callsheet.state.errors import Conflict, Missing
from callsheet.storage import indexes
from callsheet.storage.assistants import default_id
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script, ScriptCall

# A thread that was made without saying what for becomes what its first run is about.
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

# Only where the thread is there: a graph that runs without a server keeps its threads elsewhere.
_NAME: Final = Script("""
local owner, about, also = unpack(redis.call('HMGET', KEYS[1], 'owner', 'artefact', 'also'))
if owner ~= ARGV[1] or about == ARGV[2] then return 0 end
if not about or about == '' then return redis.call('HSET', KEYS[1], 'artefact', ARGV[2]) end
local known = cjson.decode(also or '[]')
for _, name in ipairs(known) do if name == ARGV[2] then return 0 end end
known[#known + 1] = ARGV[2]
return redis.call('HSET', KEYS[1], 'also', cjson.encode(known))
""")


@dataclass(frozen=True)
class Thread:
    """What is known of a thread as a whole."""

    id: str
    owner: str
    graph: str
    artefact: str
    """`kind:id` of what it is about; empty while that is open."""


async def bind(storage: Storage, thread: Thread) -> None:
    """Make the thread what `thread` says, or check that it already is.

    Raises `Missing` for a thread of another owner or another artefact, which must look like none at all
    (A-R14), and `Conflict` for one that runs another graph.
    """
    known = json.dumps({"graph_id": thread.graph, "assistant_id": default_id(thread.graph)})
    answer: list[bytes] = await _BIND(
        storage.redis, [keys.thread_meta(thread.id)], [thread.owner, thread.graph, thread.artefact, known]
    )
    found = Thread(thread.id, *(part.decode() for part in answer))
    if found.owner != thread.owner or (found.artefact != thread.artefact and found.graph == thread.graph):
        raise missing_thread(thread.id)
    if found.graph != thread.graph:
        raise Conflict(
            f"thread {thread.id!r} runs {found.graph!r}, not {thread.graph!r}",
            remedy="use another conversation id",
        )
    await indexes.touch_thread(storage, thread.owner, thread.id)


def name_call(thread_id: str, owner: str, artefact: str) -> ScriptCall:
    """Return the script that says what the owner's thread is about, or was made on it beside that."""
    return ScriptCall(_NAME, [keys.thread_meta(thread_id)], [owner, artefact])


async def artefacts_of(storage: Storage, thread_id: str) -> list[str]:
    """Return everything that was made on a thread, `kind:id`; what it is about is the first."""
    about, also = await storage.redis.hmget(keys.thread_meta(thread_id), ["artefact", "also"])
    return [name for name in (about.decode() if about else "", *json.loads(also or "[]")) if name]


async def get(storage: Storage, thread_id: str, owner: str) -> Thread:
    """Return the owner's thread; raises `Missing` when there is none, or it is another's."""
    answer: list[Any] = await storage.redis.hmget(keys.thread_meta(thread_id), ["owner", "graph", "artefact"])
    if answer[0] is None or answer[0].decode() != owner:
        raise missing_thread(thread_id)
    return Thread(thread_id, *(part.decode() if part else "" for part in answer))


async def exists(storage: Storage, thread_id: str) -> bool:
    """Return whether there is a thread of this id, whoever has it."""
    return bool(await storage.redis.exists(keys.thread_meta(thread_id)))


def missing_thread(thread_id: str) -> Missing:
    """Return the error for a thread that does not exist, or must look so."""
    return Missing(f"there is no conversation {thread_id!r}", remedy="check the id, or start with a new one")
