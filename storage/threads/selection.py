"""A search for threads by status, metadata and order, answered by the owner's index."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from callsheet.storage import thread_search
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Command, Script, execute, execute_all
from callsheet.storage.thread_search import PARTIAL, scalars, status_set, value_set

Order = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]
"""Orders of a search. Threads of one status are ordered by last change; equal times by id."""

_STATUS_SETS: Final = tuple(status_set(status) for status in ("busy", "error", "idle", "interrupted"))
_MAX_SETS: Final = 16
"""Most values of a filter that are looked up; the records answer the others."""
_WALKED: Final = 500
"""Threads that are looked at in one script."""
_SORTED: Final = 1_000
"""Matching threads that are sorted here rather than looked for among all threads in their order."""

# Returns how many entries of the first list were looked at, those that are in all other lists too, and score
# and id of the last one. Begins behind the entry at which the walk was, which may have left the list since.
_WALK: Final = Script("""
local first, count, range, score, last = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local is_down = range == 'ZREVRANGE'
local function is_less(a, b)
  for i = 1, math.min(#a, #b) do
    if a:byte(i) ~= b:byte(i) then return a:byte(i) < b:byte(i) end
  end
  return #a < #b
end
local function is_behind(rank)
  local id, own = unpack(redis.call(range, KEYS[1], rank, rank, 'WITHSCORES'))
  local difference = tonumber(own) - tonumber(score)
  if difference ~= 0 then return (difference < 0) == is_down end
  if is_down then return is_less(id, last) end
  return is_less(last, id)
end
if last and redis.call('ZSCORE', KEYS[1], last) == score then
  first = redis.call(is_down and 'ZREVRANK' or 'ZRANK', KEYS[1], last) + 1
elseif last then
  local above
  first, above = 0, redis.call('ZCARD', KEYS[1])
  while first < above do
    local middle = math.floor((first + above) / 2)
    if is_behind(middle) then above = middle else first = middle + 1 end
  end
end
local ids = redis.call(range, KEYS[1], first, first + count - 1)
local looked_at = #ids
last = ids[looked_at]
score = last and redis.call('ZSCORE', KEYS[1], last)
for i = 2, #KEYS do
  if #ids == 0 then break end
  local scores, kept = redis.call('ZMSCORE', KEYS[i], unpack(ids)), {}
  for j, id in ipairs(ids) do
    if scores[j] then kept[#kept + 1] = id end
  end
  ids = kept
end
return {looked_at, ids, score, last}
""")


@dataclass(frozen=True)
class ThreadSelection:
    """The owner's threads that match a filter as far as the index can say."""

    storage: Storage = field(repr=False)
    owner: str
    sizes: Mapping[str, int]
    """Sets that the threads are in, with their sizes."""
    statuses: Mapping[str, int]
    """Sizes of the sets of each status."""
    total: int
    """All threads of the owner."""
    is_exact: bool
    """False if only some of these threads match; their records say which."""

    async def count(self) -> int:
        """Return the number of these threads; for several sets, the smallest is read."""
        if len(self.sizes) <= 1:
            return min(self.sizes.values(), default=self.total)
        return sum([len(ids) async for ids in self._walk(self._lists("updated_at", 0), descending=True)])

    async def ids(
        self, order: Order, *, descending: bool = True, skip: int = 0, wanted: int = _WALKED
    ) -> AsyncIterator[list[str]]:
        """Yield the ids in this order, in chunks, without the first `skip`.

        Chunks are of `wanted` ids where the index has them as they are. A thread whose place in
        the order changes meanwhile may come twice, or not at all; no other one is left out.
        """
        if order == "status" and self.statuses.keys().isdisjoint(self.sizes):
            start = 0 if self.sizes else skip
            chunks, skip = self._by_status(start, wanted, descending=descending), skip - start
        elif len(lists := self._lists(order, skip + wanted)) == 1:
            chunks, skip = self._walk(lists, skip, wanted, descending=descending), 0
        elif lists:
            chunks = self._walk(lists, descending=descending)
        else:
            chunks = self._sort(order, descending=descending)
        async for ids in chunks:
            kept, skip = ids[skip:], max(0, skip - len(ids))
            if kept:
                yield kept

    async def _by_status(self, skip: int, wanted: int, *, descending: bool) -> AsyncIterator[list[str]]:
        """Yield the ids by status, without the first `skip`, which may be above 0 without a filter only."""
        for name in sorted(self.statuses, reverse=descending):
            part = replace(self, sizes={**self.sizes, name: self.statuses[name]})
            if skip < self.statuses[name]:
                async for ids in part.ids("updated_at", descending=descending, skip=skip, wanted=wanted):
                    yield ids
            skip = max(0, skip - self.statuses[name])

    def _lists(self, order: Order, wanted: int) -> list[str]:
        """Return the lists whose common entries these threads are, the first in this order; none to sort."""
        sets = [
            keys.threads_with(self.owner, name) for name in sorted(self.sizes, key=self.sizes.__getitem__)
        ]
        if order in {"updated_at", "status"}:
            return sets or [self._order_key(order)]
        smallest = min(self.sizes.values(), default=self.total)
        if sets and smallest <= max(_SORTED, wanted * self.total / (smallest or 1)):
            return []
        return [self._order_key(order), *sets]

    def _order_key(self, order: Order) -> str:
        names = keys.thread_search(self.owner)
        ordered = {"thread_id": names.ids, "created_at": names.created, "state_updated_at": names.state}
        return ordered.get(order, names.updated)

    async def _walk(
        self, lists: Sequence[str], start: int = 0, chunk: int = _WALKED, *, descending: bool
    ) -> AsyncIterator[list[str]]:
        command, place = "ZREVRANGE" if descending else "ZRANGE", list[bytes]()
        while True:
            count, ids, *place = await _WALK(self.storage.redis, lists, [start, chunk, command, *place])
            if ids:
                yield [member.decode() for member in ids]
            if count < chunk:
                return
            chunk = _WALKED

    async def _sort(self, order: Order, *, descending: bool) -> AsyncIterator[list[str]]:
        """Yield the ids, of which there are few."""
        rows: list[tuple[float, str]] = []
        async for ids in self._walk(self._lists("updated_at", 0), descending=descending):
            scores = await execute(self.storage.redis, "ZMSCORE", self._order_key(order), *ids)
            rows += [(float(score or 0), one) for score, one in zip(scores, ids, strict=True)]
        rows.sort(reverse=descending)
        for first in range(0, len(rows), _WALKED):
            yield [one for _, one in rows[first : first + _WALKED]]


async def select(
    storage: Storage, owner: str, *, status: str | None = None, metadata: Mapping[str, Any] | None = None
) -> ThreadSelection:
    """Return the owner's threads of a status whose metadata contain `metadata`.

    Sees every change that was answered before. Lists in `metadata` are not looked up.
    """
    await thread_search.refresh(storage.redis, owner)
    values = list(dict.fromkeys(value_set(path, value) for path, value in scalars(metadata or {})))
    names = [*_STATUS_SETS, *values[:_MAX_SETS]]
    cards = [Command(("ZCARD", keys.threads_with(owner, name))) for name in (PARTIAL, *names)]
    total, partial, *counts = await execute_all(
        storage.redis, [Command(("ZCARD", keys.owned_threads(owner))), *cards]
    )
    sizes = dict(zip(names, counts, strict=True))
    statuses = {name: sizes.pop(name) for name in _STATUS_SETS}
    is_exact = not metadata or (len(values) <= _MAX_SETS and _is_indexed(metadata))
    if partial and sizes:
        sizes, is_exact = {}, False
    if status:
        sizes[status_set(status)] = statuses[status_set(status)]
    return ThreadSelection(storage, owner, sizes, statuses, total, is_exact)


def _is_indexed(expected: Any) -> bool:
    """Return whether containment of this filter is the same as having all its scalars."""
    if isinstance(expected, Mapping):
        return bool(expected) and all(_is_indexed(part) for part in expected.values())
    return not isinstance(expected, list)
