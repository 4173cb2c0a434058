"""The campaigns of an owner's library in Redis, numbered by their last change, for indexes to follow.

A change is one script. A process that holds everything up to change n reads what came after n. Each script
leaves a random mark: a process whose change n has another mark learns that Redis has gone back in time, as by
a crash, a failover or a backup, and that another history began.
"""

import asyncio
import secrets
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.errors import TooLarge
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Command, Script, execute_all

_CHUNK: Final = 500
"""Most campaigns in one script."""
_CHUNK_BYTES: Final = 1_000_000
_READ: Final = 2_000
"""Most changes that are read at once: each reading makes a segment of the index."""
_READ_BYTES: Final = 4_000_000
_MAX_DELETIONS: Final = 10_000
"""Deletions that are remembered; after more, every index is built again."""
_MAX_MARKS: Final = 10_000
"""Marks that are remembered; an index that is further behind is built again."""
_CALL_MS: Final = int(keys.CAMPAIGN_CALL_TTL_S * 1000)

_MARKING: Final = f"""
local records, changes, deletions, meta, call, vectors, marks = unpack(KEYS)
local mark = table.remove(ARGV, 1)

-- Changes until `before` have a mark already, or were made when there were no marks.
local function leave_mark(before)
  local seq = redis.call('HGET', meta, 'seq') or '0'
  if seq == before then return end
  if redis.call('ZCARD', marks) == 0 then redis.call('ZADD', marks, before, '0') end
  redis.call('ZADD', marks, seq, mark)
  redis.call('ZREMRANGEBYRANK', marks, 0, {-_MAX_MARKS - 1})
end
"""
"""Beginning of the scripts that change the library; a random mark is their first argument."""
_PUT: Final = Script(
    _MARKING
    + """
-- The same call again, because its reply was lost.
local before = redis.call('GET', call)
if before then return before end
local new, most = 0, tonumber(ARGV[3])
for i = 4, #ARGV, 2 do new = new + 1 - redis.call('HEXISTS', records, ARGV[i]) end
if most > 0 and new > 0 and redis.call('HLEN', records) + new > most then return -1 end
redis.call('HSETNX', meta, 'generation', ARGV[2])
local seq_before = redis.call('HGET', meta, 'seq') or '0'
for i = 4, #ARGV, 2 do
  if redis.call('HGET', records, ARGV[i]) ~= ARGV[i + 1] then
    local seq = redis.call('HINCRBY', meta, 'seq', 1)
    redis.call('HSET', records, ARGV[i], ARGV[i + 1])
    redis.call('ZADD', changes, seq, ARGV[i])
    redis.call('ZREM', deletions, ARGV[i])
  end
end
leave_mark(seq_before)
redis.call('SET', call, new, 'PX', ARGV[1])
return new
"""
)
_DELETE: Final = Script(
    _MARKING
    + """
local before = redis.call('GET', call)
if before then return before end
local gone, seq_before = 0, redis.call('HGET', meta, 'seq') or '0'
for i = 4, #ARGV do
  if redis.call('HDEL', records, ARGV[i]) == 1 then
    gone = gone + 1
    redis.call('ZREM', changes, ARGV[i])
    redis.call('HDEL', vectors, ARGV[i])
    redis.call('ZADD', deletions, redis.call('HINCRBY', meta, 'seq', 1), ARGV[i])
  end
end
if redis.call('ZCARD', deletions) > tonumber(ARGV[3]) then
  redis.call('DEL', deletions)
  redis.call('HSET', meta, 'generation', ARGV[2])
end
leave_mark(seq_before)
redis.call('SET', call, gone, 'PX', ARGV[1])
return gone
"""
)
_CHANGES: Final = Script("""
local records, changes, deletions, meta, marks = unpack(KEYS)
local after, most, bytes = '(' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local head = redis.call('HMGET', meta, 'generation', 'seq')

-- The mark of the script that made the change of this number.
local function mark_of(seq)
  return redis.call('ZRANGEBYSCORE', marks, seq, '+inf', 'LIMIT', 0, 1)[1] or '0'
end

if ARGV[1] ~= '0' and (tonumber(ARGV[1]) > tonumber(head[2] or '0') or mark_of(ARGV[1]) ~= ARGV[4]) then
  return {head[1], '0', '0', {}, {}}
end
local live = redis.call('ZRANGEBYSCORE', changes, after, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local texts, last = {}, head[2]
if #live == 2 * most then last = live[#live] end
for i = 1, #live, 2 do
  texts[#texts + 1] = redis.call('HGET', records, live[i])
  bytes = bytes - #texts[#texts]
  if bytes < 0 then
    last = live[i + 1]
    break
  end
end
if not last then return {head[1], '0', '0', texts, {}} end
return {head[1], last, mark_of(last), texts, redis.call('ZRANGEBYSCORE', deletions, after, last)}
""")
_NEW_GENERATION: Final = Script("""
if redis.call('HGET', KEYS[1], 'generation') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'generation', ARGV[2])
end
return 1
""")
_STORE_VECTORS: Final = Script("""
for i = 1, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
end
return 1
""")


class Head(NamedTuple):
    """State of a library."""

    generation: str = ""
    """Changes when the numbers of changes begin again; empty before the first campaign."""
    seq: int = 0
    """Number of the last change."""
    mark: int = 0
    """Random mark of the script that made a change; 0 for one that was made before there were marks."""
    campaigns: int = 0
    """Number of campaigns there are."""


class Changes(NamedTuple):
    """The changes after a number, up to `head.seq` with its mark; there may be later ones.

    A `head.seq` below the number means that the change of that number is not one of this library's.
    """

    head: Head
    campaigns: list[Campaign]
    deleted: list[str]


class Records(Protocol):
    """The campaigns of a library, by id and by change."""

    async def head(self, seq: int = 0) -> Head:
        """Return the state, with the mark of change number `seq`."""

    async def begin_generation(self, after: str) -> None:
        """Let every index be built again, unless generation `after` has ended."""

    async def count(self) -> int:
        """Return the number of campaigns."""

    async def changes(self, after: int, mark: int) -> Changes:
        """Return the next changes after number `after`, which has this mark."""

    async def get(self, ids: Sequence[str]) -> list[Campaign | None]:
        """Return a campaign or None for each id."""

    async def put(self, campaigns: Sequence[Campaign], most: int) -> int:
        """Add or replace campaigns; return how many were new.

        Raises `TooLarge`, before anything is written, if there would be more than `most`; 0 for no limit.
        """

    async def delete(self, ids: Sequence[str]) -> int:
        """Delete campaigns; return how many there were."""

    async def delete_all(self) -> None:
        """Delete the library. Twice is safe."""

    async def vectors(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return what `put_vectors` stored for each id."""

    async def put_vectors(self, vectors: Iterable[tuple[str, bytes]]) -> None:
        """Keep vectors of campaigns that there still are."""


class RedisRecords:
    """The campaigns of one owner."""

    def __init__(self, storage: Storage, owner: str) -> None:
        self._storage = storage
        self._owner = owner
        self._keys = keys.library(owner)

    async def head(self, seq: int = 0) -> Head:
        """Return the state, with the mark of change number `seq`."""
        calls = [
            Command(("HMGET", self._keys.meta, "generation", "seq")),
            Command(("ZRANGEBYSCORE", self._keys.marks, seq, "+inf", "LIMIT", 0, 1)),
            Command(("HLEN", self._keys.records)),
        ]
        (generation, last), marks, count = await execute_all(self._storage.redis, calls)
        mark = int(marks[0]) if marks else 0
        return Head(generation.decode(), int(last), mark, int(count)) if generation else Head()

    async def begin_generation(self, after: str) -> None:
        """Let every index be built again, unless generation `after` has ended."""
        await _NEW_GENERATION(self._storage.redis, [self._keys.meta], [after, uuid.uuid4().hex])

    async def count(self) -> int:
        """Return the number of campaigns."""
        return int(await self._storage.redis.hlen(self._keys.records))

    async def changes(self, after: int, mark: int) -> Changes:
        """Return the next changes after number `after`, which has this mark."""
        args = [after, _READ, _READ_BYTES, mark]
        used = [*self._keys[:4], self._keys.marks]
        generation, last, marked, texts, deleted = await _CHANGES(self._storage.redis, used, args)
        head = Head((generation or b"").decode(), int(last), int(marked))
        campaigns = await asyncio.to_thread(lambda: [Campaign.model_validate_json(text) for text in texts])
        return Changes(head, campaigns, [each.decode() for each in deleted])

    async def get(self, ids: Sequence[str]) -> list[Campaign | None]:
        """Return a campaign or None for each id."""
        texts = await self._storage.redis.hmget(self._keys.records, ids) if ids else []
        return [Campaign.model_validate_json(text) if text else None for text in texts]

    async def put(self, campaigns: Sequence[Campaign], most: int) -> int:
        """Add or replace campaigns, in chunks that are atomic each."""
        newest = {campaign.id: campaign for campaign in campaigns}
        if most:
            await self._require_space(list(newest), most)
        new = 0
        for chunk in _chunks((each, campaign.model_dump_json()) for each, campaign in newest.items()):
            added = await self._change(_PUT, most, [part for pair in chunk for part in pair])
            if added < 0:
                raise too_many(most)
            new += added
        return new

    async def delete(self, ids: Sequence[str]) -> int:
        """Delete campaigns, in chunks that are atomic each."""
        pairs = ((each, "") for each in dict.fromkeys(ids))
        chunks = [[each for each, _ in chunk] for chunk in _chunks(pairs)]
        return sum([await self._change(_DELETE, _MAX_DELETIONS, chunk) for chunk in chunks])

    async def delete_all(self) -> None:
        """Delete the library. Twice is safe."""
        await self._storage.redis.unlink(*self._keys)

    async def vectors(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return what `put_vectors` stored for each id."""
        return list(await self._storage.redis.hmget(self._keys.vectors, ids))

    async def put_vectors(self, vectors: Iterable[tuple[str, bytes]]) -> None:
        """Keep vectors of campaigns that there still are."""
        args: list[Argument] = [part for pair in vectors for part in pair]
        await _STORE_VECTORS(self._storage.redis, [self._keys.records, self._keys.vectors], args)

    async def _change(self, script: Script, most: int, args: Sequence[str]) -> int:
        call = keys.library_call(self._owner, uuid.uuid4().hex)
        used = [*self._keys[:4], call, self._keys.vectors, self._keys.marks]
        mark, generation = 1 + secrets.randbits(62), uuid.uuid4().hex
        return int(await script(self._storage.redis, used, [mark, _CALL_MS, generation, most, *args]))

    async def _require_space(self, ids: Sequence[str], most: int) -> None:
        known = 0
        for start in range(0, len(ids), _CHUNK):
            changes = await self._storage.redis.zmscore(self._keys.changes, ids[start : start + _CHUNK])
            known += sum(change is not None for change in changes)
        if known < len(ids) and await self.count() + len(ids) - known > most:
            raise too_many(most)


def _chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Yield the pairs in lists that are short enough for one script."""
    chunk: list[tuple[str, str]] = []
    size = 0
    for pair in pairs:
        if chunk and (len(chunk) == _CHUNK or size + len(pair[1]) > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(pair)
        size += len(pair[1])
    if chunk:
        yield chunk


def too_many(most: int) -> TooLarge:
    """Return the error for a library that would hold more than `most` campaigns."""
    return TooLarge(
        f"the library would hold more than {most} campaigns",
        remedy="raise CALLSHEET_MAX_CAMPAIGNS, or export the library and delete what you no longer need",
    )
