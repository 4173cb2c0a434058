"""LangGraph's store on Redis: what graphs remember beyond one thread, each owner's apart from all others'."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from langgraph.config import get_config
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from state.errors import Invalid
from storage.connection import Storage
from storage.store_filters import fits, likeness, matches
from storage.store_items import Items, Kept

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

    def of(self, owner: str) -> "RedisStore":
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
    found = [one for one in await items.below(op.namespace_prefix) if fits(one.value, op.filter or {})]
    found.sort(key=lambda one: (one.changed, one.key), reverse=True)
    scores = {id(one): likeness(op.query, one.value) if op.query else None for one in found}
    found.sort(key=lambda one: scores[id(one)] or 0.0, reverse=True)
    shown = found[op.offset : op.offset + op.limit]
    if op.refresh_ttl:
        await items.renew(shown)
    return [SearchItem(**_fields(one), score=scores[id(one)]) for one in shown]


async def _listed(items: Items, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    conditions = op.match_conditions or ()
    plain = [one.path for one in conditions if one.match_type == "prefix" and "*" not in one.path]
    found = await items.namespaces(max(plain, key=len, default=()))
    fitting = (one for one in found if all(matches(one, condition) for condition in conditions))
    cut = sorted({one[: op.max_depth] if op.max_depth else one for one in fitting})
    return cut[op.offset : op.offset + op.limit]


def _fields(kept: Kept) -> dict[str, Any]:
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
