"""LangGraph's store on Redis: items by namespace and key, separate for each owner.

The index holds `namespace NUL key` in lexical order. There every label of a namespace ends with a dot, which
no label may contain, so that all items below a namespace are adjacent.
"""

import asyncio
import json
import operator
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import nlargest
from typing import Any, Final

from langgraph.config import get_config
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from callsheet.state.errors import Invalid
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script
from callsheet.storage.store_vectors import ItemIndex

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_CHUNK: Final = 100
"""Items that are read and compared at once; others wait meanwhile."""
_MINUTE_MS: Final = 60_000

_PUT: Final = Script.with_clock("""
local now = now_us()
local before = redis.call('GET', KEYS[1])
local created = before and string.match(before, '^%d+') or now
local text = created .. ' ' .. now .. ' ' .. ARGV[3] .. ' ' .. ARGV[2]
redis.call('SET', KEYS[1], text)
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
redis.call('ZADD', KEYS[2], 0, ARGV[1])
redis.call('DEL', KEYS[3])
if ARGV[4] ~= '' then redis.call('SET', KEYS[3], ARGV[4]) end
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[3], ARGV[3]) end
return 1
""")

_DELETE: Final = Script("""
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[3])
return redis.call('DEL', KEYS[1])
""")

_REFRESH: Final = Script("""
for i = 1, #KEYS, 2 do
  local text = redis.call('GET', KEYS[i])
  local ttl = text and string.match(text, '^%d+ %d+ (%d+) ')
  if ttl and ttl ~= '0' then
    redis.call('PEXPIRE', KEYS[i], ttl)
    redis.call('PEXPIRE', KEYS[i + 1], ttl)
  end
end
return 1
""")

# The first key is the index. Members of expired items are removed unless the item was written again.
_EXIST: Final = Script("""
local present = {}
for i = 2, #KEYS do
  present[i - 1] = redis.call('EXISTS', KEYS[i])
  if present[i - 1] == 0 then redis.call('ZREM', KEYS[1], ARGV[i - 1]) end
end
return present
""")


class RedisStore(BaseStore):
    """Store of the owner that `owner` returns at each call.

    Lifetimes are in minutes, as everywhere in LangGraph. With an index, a `query` ranks the items that have
    vectors by meaning; without one, all items by the share of its words that they contain.
    """

    supports_ttl = True

    def __init__(
        self,
        storage: Storage,
        owner: Callable[[], str],
        ttl: TTLConfig | None = None,
        index: ItemIndex | None = None,
    ) -> None:
        """Bind the store to the running event loop, which also executes calls from other threads."""
        self.ttl_config = ttl
        self._storage = storage
        self._owner = owner
        self._index = index
        self._loop = asyncio.get_running_loop()

    def for_owner(self, owner: str) -> "RedisStore":
        """Return the store of a fixed owner."""
        return RedisStore(self._storage, lambda: owner, self.ttl_config, self._index)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute the operations in order."""
        results = self._execute_all(_Items(self._storage, self._owner(), self._index), list(ops))
        if asyncio.get_running_loop() is self._loop:
            return await results
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(results, self._loop))

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute the operations from a worker thread; raises `Invalid` in the store's own event loop."""
        if _current_loop() is self._loop:
            raise Invalid(
                "the store's blocking methods would block the server",
                remedy="await aget, aput or asearch instead",
            )
        results = self._execute_all(_Items(self._storage, self._owner(), self._index), list(ops))
        return asyncio.run_coroutine_threadsafe(results, self._loop).result()

    async def _execute_all(self, items: "_Items", ops: Sequence[Op]) -> list[Result]:
        for op in ops:
            validate_op_namespace(op)
        return [await _execute(items, op) for op in ops]


def running_owner(key: str, default: str) -> Callable[[], str]:
    """Return a function that reads the current run's owner from `key` of its `configurable`."""

    def owner() -> str:
        try:
            config = get_config()
        except RuntimeError:
            return default
        return str(config.get("configurable", {}).get(key) or default)

    return owner


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(frozen=True)
class _Items:
    """Items of one owner."""

    storage: Storage
    owner: str
    index: ItemIndex | None = None

    async def put(self, op: PutOp, value: Mapping[str, Any], ttl_ms: int | None) -> None:
        """Write an item with its vectors, which expires after `ttl_ms` if given. Twice is safe."""
        member = member_of(op.namespace, op.key)
        text = json.dumps(value, allow_nan=False)
        indexed = self.index is not None and op.index is not False
        vectors = await self.index.vectors_of(value, op.index or None) if self.index and indexed else b""
        args: list[Argument] = [member, text, ttl_ms or 0, vectors]
        await _PUT(self.storage.redis, self._keys(member), args)

    async def delete(self, namespace: Sequence[str], key: str) -> None:
        """Delete an item. Twice is safe."""
        member = member_of(namespace, key)
        await _DELETE(self.storage.redis, self._keys(member), [member])

    async def get(self, namespace: Sequence[str], key: str) -> Item | None:
        """Return an item or None."""
        member = member_of(namespace, key)
        text = await self.storage.redis.get(self._item_key(member))
        return None if text is None else _parse_item(member, text)

    async def chunks_below(self, prefix: Sequence[str]) -> AsyncIterator[list[Item]]:
        """Yield all items in `prefix` and the namespaces below it, in small chunks.

        Between two chunks others have their turn.
        """
        async for page in self._members(prefix):
            texts = await self.storage.redis.mget([self._item_key(member) for member in page])
            pairs = list(zip(page, texts, strict=True))
            yield [_parse_item(member, text) for member, text in pairs if text is not None]
            if expired := [member for member, text in pairs if text is None]:
                await self._exist(expired)

    async def namespaces(self, prefix: Sequence[str]) -> set[tuple[str, ...]]:
        """Return the namespaces that have items, from `prefix` on down."""
        namespaces: set[tuple[str, ...]] = set()
        async for page in self._members(prefix):
            exist = await self._exist(page)
            namespaces |= {
                split_member(member)[0] for member, exists in zip(page, exist, strict=True) if exists
            }
        return namespaces

    async def refresh(self, items: Sequence[Item]) -> None:
        """Restart the lifetimes of items."""
        if items:
            members = [member_of(item.namespace, item.key) for item in items]
            await _REFRESH(
                self.storage.redis,
                [key for one in members for key in self._keys(one) if key != self._index_key],
            )

    async def vectors(self, items: Sequence[Item]) -> list[bytes | None]:
        """Return the stored vectors of items; None for an item without."""
        members = [member_of(item.namespace, item.key) for item in items]
        names = [keys.store_vectors(self.owner, one) for one in members]
        return list(await self.storage.redis.mget(names)) if names else []

    async def _exist(self, members: Sequence[str]) -> list[int]:
        """Return 1 or 0 for each member, and remove those of expired items from the index."""
        item_keys = [self._item_key(member) for member in members]
        exist: list[int] = await _EXIST(
            self.storage.redis, [keys.store_index(self.owner), *item_keys], list(members)
        )
        return exist

    async def _members(self, prefix: Sequence[str]) -> AsyncIterator[list[str]]:
        start = _namespace_text(prefix).encode()
        low, high = (b"[" + start, b"[" + start + b"\xff") if start else (b"-", b"+")
        key = keys.store_index(self.owner)
        while members := await self.storage.redis.zrangebylex(key, low, high, start=0, num=_CHUNK):
            yield [member.decode() for member in members]
            low = b"(" + members[-1]

    def _keys(self, member: str) -> list[str]:
        """Return the keys of an item, of the index, and of the item's vectors."""
        return [self._item_key(member), self._index_key, keys.store_vectors(self.owner, member)]

    @property
    def _index_key(self) -> str:
        return keys.store_index(self.owner)

    def _item_key(self, member: str) -> str:
        return keys.store_item(self.owner, member)


def _namespace_text(namespace: Sequence[str]) -> str:
    text = "".join(f"{label}." for label in namespace)
    if "\0" in text:
        raise InvalidNamespaceError(f"namespace {tuple(namespace)!r} contains a NUL; remove it")
    return text


def member_of(namespace: Sequence[str], key: str) -> str:
    """Return the member of the index for an item."""
    return f"{_namespace_text(namespace)}\0{key}"


def split_member(member: str) -> tuple[tuple[str, ...], str]:
    """Return namespace and key of a member of the index."""
    text, _, key = member.partition("\0")
    return tuple(text.split(".")[:-1]), key


def _parse_item(member: str, text: bytes) -> Item:
    created, updated, _, value = text.split(b" ", 3)
    namespace, key = split_member(member)
    return Item(
        namespace=namespace,
        key=key,
        value=json.loads(value),
        created_at=_parse_time(created),
        updated_at=_parse_time(updated),
    )


def _parse_time(microseconds: bytes) -> datetime:
    return datetime.fromtimestamp(int(microseconds) / 1e6, UTC)


async def _execute(items: _Items, op: Op) -> Result:
    if isinstance(op, GetOp):
        item = await items.get(op.namespace, op.key)
        if item and op.refresh_ttl:
            await items.refresh([item])
        return item
    if isinstance(op, PutOp):
        await _put(items, op)
        return None
    if isinstance(op, SearchOp):
        return await _search(items, op)
    if isinstance(op, ListNamespacesOp):
        return await _list_namespaces(items, op)
    raise TypeError(f"a store has no operation {op!r}")


async def _put(items: _Items, op: PutOp) -> None:
    if op.value is None:
        await items.delete(op.namespace, op.key)
        return
    if op.ttl is not None and op.ttl * _MINUTE_MS < 1:
        raise ValueError(f"ttl {op.ttl!r} of {op.key!r} is not positive; use a number of minutes above 0")
    ttl_ms = None if op.ttl is None else int(op.ttl * _MINUTE_MS)
    await items.put(op, op.value, ttl_ms)


async def _search(items: _Items, op: SearchOp) -> list[SearchItem]:
    """Return matching items, the best match of the query first, then the newest update first."""
    score = await _scorer(items, op.query)
    best: list[SearchItem] = []
    end = op.offset + op.limit
    async for chunk in items.chunks_below(op.namespace_prefix):
        matching = [item for item in chunk if _matches(item.value, op.filter or {})]
        best += [
            SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, value)
            for item, value in await score(matching)
        ]
        # Not after each chunk: a long page would be sorted again and again.
        if len(best) > 2 * end + _CHUNK:
            best = nlargest(end, best, key=_rank)
    page = nlargest(end, best, key=_rank)[op.offset :]
    if op.refresh_ttl:
        await items.refresh(page)
    return page


def _rank(item: SearchItem) -> tuple[float, datetime, str]:
    return (item.score or 0.0, item.updated_at, item.key)


async def _scorer(
    items: _Items, query: str | None
) -> Callable[[Sequence[Item]], Awaitable[list[tuple[Item, float | None]]]]:
    """Return a function that scores items; with an index, those without vectors match no query."""
    index = items.index if query else None
    target = await index.query_vector(query) if index and query else b""
    words = _words(query or "")

    async def score(matching: Sequence[Item]) -> list[tuple[Item, float | None]]:
        if not query:
            return [(item, None) for item in matching]
        if index is None:
            return [(item, _word_overlap(words, item.value)) for item in matching]
        pairs = zip(matching, await items.vectors(matching), strict=True)
        indexed = [(item, vectors) for item, vectors in pairs if vectors and index.fits(vectors)]
        scores = await index.scores(target, [vectors for _, vectors in indexed])
        return [(item, score) for (item, _), score in zip(indexed, scores, strict=True)]

    return score


async def _list_namespaces(items: _Items, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    conditions = op.match_conditions or ()
    prefixes = [each.path for each in conditions if each.match_type == "prefix" and "*" not in each.path]
    namespaces = {
        namespace[: op.max_depth] if op.max_depth else namespace
        for namespace in await items.namespaces(max(prefixes, key=len, default=()))
        if all(_namespace_matches(namespace, condition) for condition in conditions)
    }
    return sorted(namespaces)[op.offset : op.offset + op.limit]


def _namespace_matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Return whether a namespace has the condition's prefix or suffix; `*` matches any label."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) or None :]
    return all(pattern in ("*", label) for label, pattern in zip(labels, path, strict=False))


def _matches(value: Any, pattern: Any) -> bool:
    """Return whether `value` equals `pattern`, contains its fields, or satisfies its operators: `{"$gt": 3}`.

    Raises `ValueError` for an unknown operator.
    """
    if isinstance(pattern, Mapping):
        if any(str(name).startswith("$") for name in pattern):
            return all(_compare(value, name, operand) for name, operand in pattern.items())
        return isinstance(value, Mapping) and all(
            _matches(value.get(key), part) for key, part in pattern.items()
        )
    if isinstance(pattern, list | tuple):
        same_length = isinstance(value, list | tuple) and len(value) == len(pattern)
        return same_length and all(_matches(*pair) for pair in zip(value, pattern, strict=True))
    return bool(value == pattern)


def _compare(value: Any, name: str, operand: Any) -> bool:
    """Return the result of one operator; False where two values have no order."""
    if name == "$eq":
        return bool(value == operand)
    if name == "$ne":
        return bool(value != operand)
    if name not in _COMPARISONS:
        allowed = ", ".join(sorted({"$eq", "$ne", *_COMPARISONS}))
        raise ValueError(f"there is no filter operator {name!r}; use one of {allowed}")
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (value, operand))
    texts = isinstance(value, str) and isinstance(operand, str)
    return bool(_COMPARISONS[name](value, operand)) if numbers or texts else False


def _word_overlap(words: set[str], value: Any) -> float:
    """Return the share of the words that occur in `value`, from 0 to 1."""
    return len(words & _words(_text(value))) / len(words) if words else 0.0


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(_text(part) for part in value.values())
    if isinstance(value, list | tuple):
        return " ".join(_text(part) for part in value)
    return str(value)
