"""LangGraph's store on Redis: items by namespace and key, each owner's apart.

Namespaces are kept as text in which every label ends with a point, which no label contains; so all that is
below a namespace lies side by side in the index.
"""

import asyncio
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
from callsheet.storage.redis.scripts import Script

_ORDER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
OPERATORS: Final = frozenset({"$eq", "$ne", *_ORDER})
"""What a filter may say beside a plain value."""


def filter_matches(value: Any, wanted: Any) -> bool:
    """Return whether `value` is what a filter wants: an equal value, an object that has it, or `{"$gt": 3}`.

    A value that cannot be compared fits no order. Raises `ValueError` for an operator there is none of.
    """
    if isinstance(wanted, Mapping):
        if any(str(name).startswith("$") for name in wanted):
            return all(_applies(value, name, given) for name, given in wanted.items())
        return isinstance(value, Mapping) and all(
            filter_matches(value.get(key), one) for key, one in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(filter_matches(one, other) for one, other in zip(value, wanted, strict=True))
    return bool(value == wanted)


def namespace_matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends as the condition says; `*` is any label."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) or None :]
    return all(wanted in ("*", label) for label, wanted in zip(labels, path, strict=False))


def word_overlap(query: str, value: Any) -> float:
    """Return the share of the query's words that `value` has somewhere, from 0 to 1."""
    asked = set(_words(query))
    return len(asked & set(_words(_text(value)))) / len(asked) if asked else 0.0


def _applies(value: Any, name: str, given: Any) -> bool:
    if name == "$eq":
        return bool(value == given)
    if name == "$ne":
        return bool(value != given)
    if name not in _ORDER:
        raise ValueError(f"there is no filter operator {name!r}; use one of {', '.join(sorted(OPERATORS))}")
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (value, given))
    texts = isinstance(value, str) and isinstance(given, str)
    return bool(_ORDER[name](value, given)) if numbers or texts else False


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(_text(one) for one in value.values())
    if isinstance(value, list | tuple):
        return " ".join(_text(one) for one in value)
    return str(value)


_PAGE: Final = 500
"""Items that are read in one step."""

_PUT: Final = Script("""
local t = redis.call('TIME')
local now = t[1] .. string.format('%06d', t[2])
local before = redis.call('GET', KEYS[1])
local made = before and string.match(before, '^%d+') or now
local text = made .. ' ' .. now .. ' ' .. ARGV[3] .. ' ' .. ARGV[2]
redis.call('SET', KEYS[1], text)
if ARGV[3] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1
""")

_DELETE: Final = Script("""
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('DEL', KEYS[1])
""")

_REFRESH: Final = Script("""
for _, key in ipairs(KEYS) do
  local text = redis.call('GET', key)
  local ttl = text and string.match(text, '^%d+ %d+ (%d+) ')
  if ttl and ttl ~= '0' then redis.call('PEXPIRE', key, ttl) end
end
return 1
""")

# The first key is the index. What expired goes from it, unless it was written again meanwhile.
_PRESENT: Final = Script("""
local found = {}
for i = 2, #KEYS do
  found[i - 1] = redis.call('EXISTS', KEYS[i])
  if found[i - 1] == 0 then redis.call('ZREM', KEYS[1], ARGV[i - 1]) end
end
return found
""")


@dataclass(frozen=True)
class StoredItem:
    """An item as it is stored."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    made: datetime
    changed: datetime


@dataclass(frozen=True)
class Items:
    """The items of one owner."""

    storage: Storage
    owner: str

    async def put(
        self, namespace: Sequence[str], key: str, value: Mapping[str, Any], ttl_ms: int | None
    ) -> None:
        """Write an item; it expires after `ttl_ms`, if that is given. Twice is safe."""
        member = _member(namespace, key)
        await _PUT(
            self.storage.redis,
            [keys.store_item(self.owner, member), keys.store_index(self.owner)],
            [member, json.dumps(value, allow_nan=False), ttl_ms or 0],
        )

    async def delete(self, namespace: Sequence[str], key: str) -> None:
        """Take an item away; one that is not there is no mistake."""
        member = _member(namespace, key)
        redis = self.storage.redis
        await _DELETE(redis, [keys.store_item(self.owner, member), keys.store_index(self.owner)], [member])

    async def get(self, namespace: Sequence[str], key: str, *, refresh: bool) -> StoredItem | None:
        """Return an item or None; with `refresh` its lifetime begins anew."""
        member = _member(namespace, key)
        text = await self.storage.redis.get(keys.store_item(self.owner, member))
        if text is None:
            return None
        if refresh:
            await self.refresh([member])
        return _kept(member, text)

    async def list_below(self, prefix: Sequence[str]) -> list[StoredItem]:
        """Return every item of `prefix` and the namespaces below it."""
        found: list[StoredItem] = []
        for page in _pages(await self._members(prefix)):
            texts = await self.storage.redis.mget([keys.store_item(self.owner, one) for one in page])
            pairs = list(zip(page, texts, strict=True))
            found += [_kept(member, text) for member, text in pairs if text is not None]
            if gone := [member for member, text in pairs if text is None]:
                await self._present(gone)
        return found

    async def namespaces(self, prefix: Sequence[str]) -> set[tuple[str, ...]]:
        """Return the namespaces that have items, from `prefix` on down."""
        found: set[tuple[str, ...]] = set()
        for page in _pages(await self._members(prefix)):
            there = await self._present(page)
            found |= {_split(member)[0] for member, one in zip(page, there, strict=True) if one}
        return found

    async def refresh(self, members: Sequence[str]) -> None:
        """Let the lifetime of items begin anew."""
        if members:
            await _REFRESH(self.storage.redis, [keys.store_item(self.owner, one) for one in members])

    async def refresh_items(self, found: Sequence[StoredItem]) -> None:
        """As `refresh`, for items that were read."""
        await self.refresh([_member(one.namespace, one.key) for one in found])

    async def _present(self, members: Sequence[str]) -> list[int]:
        items = [keys.store_item(self.owner, one) for one in members]
        there: list[int] = await _PRESENT(
            self.storage.redis, [keys.store_index(self.owner), *items], list(members)
        )
        return there

    async def _members(self, prefix: Sequence[str]) -> list[str]:
        begin = _item_text(prefix).encode()
        low, high = (b"[" + begin, b"[" + begin + b"\xff") if begin else (b"-", b"+")
        found = await self.storage.redis.zrangebylex(keys.store_index(self.owner), low, high)
        return [member.decode() for member in found]


def _item_text(namespace: Sequence[str]) -> str:
    text = "".join(f"{label}." for label in namespace)
    if "\0" in text:
        raise InvalidNamespaceError(f"namespace {tuple(namespace)!r} has a NUL, which no label may have")
    return text


def _member(namespace: Sequence[str], key: str) -> str:
    return f"{_item_text(namespace)}\0{key}"


def _split(member: str) -> tuple[tuple[str, ...], str]:
    text, _, key = member.partition("\0")
    return tuple(text.split(".")[:-1]), key


def _kept(member: str, text: bytes) -> StoredItem:
    made, changed, _, value = text.split(b" ", 3)
    namespace, key = _split(member)
    return StoredItem(namespace, key, json.loads(value), _when(made), _when(changed))


def _when(microseconds: bytes) -> datetime:
    return datetime.fromtimestamp(int(microseconds) / 1e6, UTC)


def _pages(members: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(members), _PAGE):
        yield members[start : start + _PAGE]


_MINUTE_MS: Final = 60_000


class RedisStore(BaseStore):
    """The store of every owner; whose it is at the moment is asked of `owner` at each call.

    Lifetimes are in minutes, as everywhere in LangGraph. A `query` orders what is found by the share of its
    words that an item has, since there are no embeddings here.
    """

    supports_ttl = True

    def __init__(self, storage: Storage, owner: Callable[[], str], ttl: TTLConfig | None = None) -> None:
        """Works in the event loop it is made in; calls from elsewhere are handed over to it."""
        self.ttl_config = ttl
        self._storage = storage
        self._owner = owner
        self._loop = asyncio.get_running_loop()

    def for_owner(self, owner: str) -> "RedisStore":
        """Return the store of one owner, whoever calls."""
        return RedisStore(self._storage, lambda: owner, self.ttl_config)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out the operations in their order."""
        work = self._all(Items(self._storage, self._owner()), list(ops))
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """As `abatch`, for nodes that run in a thread; raises `Invalid` in the event loop itself."""
        if _running() is self._loop:
            raise Invalid(
                "the store's blocking methods would block the server",
                remedy="await aget, aput or asearch instead",
            )
        work = self._all(Items(self._storage, self._owner()), list(ops))
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _all(self, items: Items, ops: Sequence[Op]) -> list[Result]:
        for op in ops:
            validate_op_namespace(op)
        return [await _done(items, op) for op in ops]


def running_owner(key: str, otherwise: str) -> Callable[[], str]:
    """Return what finds the owner of the run that is going on under `key` of its `configurable`."""

    def found() -> str:
        try:
            config = get_config()
        except RuntimeError:
            return otherwise
        return str(config.get("configurable", {}).get(key) or otherwise)

    return found


async def _done(items: Items, op: Op) -> Result:
    if isinstance(op, GetOp):
        found = await items.get(op.namespace, op.key, refresh=op.refresh_ttl)
        return Item(**_fields(found)) if found else None
    if isinstance(op, PutOp):
        await _put(items, op)
        return None
    if isinstance(op, SearchOp):
        return await _search(items, op)
    if isinstance(op, ListNamespacesOp):
        return await _listed(items, op)
    raise TypeError(f"a store has no operation {op!r}")


async def _put(items: Items, op: PutOp) -> None:
    if op.value is None:
        await items.delete(op.namespace, op.key)
        return
    if op.ttl is not None and op.ttl * _MINUTE_MS < 1:
        raise ValueError(f"ttl {op.ttl!r} of {op.key!r} is no lifetime; give minutes, more than 0")
    ttl_ms = None if op.ttl is None else int(op.ttl * _MINUTE_MS)
    await items.put(op.namespace, op.key, op.value, ttl_ms)


async def _search(items: Items, op: SearchOp) -> list[SearchItem]:
    """Newest change first; with a query, those most like it first."""
    found = [
        one
        for one in await items.list_below(op.namespace_prefix)
        if filter_matches(one.value, op.filter or {})
    ]
    found.sort(key=lambda one: (one.changed, one.key), reverse=True)
    scores = {id(one): word_overlap(op.query, one.value) if op.query else None for one in found}
    found.sort(key=lambda one: scores[id(one)] or 0.0, reverse=True)
    shown = found[op.offset : op.offset + op.limit]
    if op.refresh_ttl:
        await items.refresh_items(shown)
    return [SearchItem(**_fields(one), score=scores[id(one)]) for one in shown]


async def _listed(items: Items, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    conditions = op.match_conditions or ()
    plain = [one.path for one in conditions if one.match_type == "prefix" and "*" not in one.path]
    found = await items.namespaces(max(plain, key=len, default=()))
    fitting = (one for one in found if all(namespace_matches(one, condition) for condition in conditions))
    cut = sorted({one[: op.max_depth] if op.max_depth else one for one in fitting})
    return cut[op.offset : op.offset + op.limit]


def _fields(kept: StoredItem) -> dict[str, Any]:
    return {
        "namespace": kept.namespace,
        "key": kept.key,
        "value": kept.value,
        "created_at": kept.made,
        "updated_at": kept.changed,
    }


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
