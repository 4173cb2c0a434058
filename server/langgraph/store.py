"""What is remembered beyond one thread: items by namespace and key, each owner's apart."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from langgraph.store.base import (
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    NamespaceMatchType,
    SearchItem,
)
from pydantic import Field
from starlette.responses import Response

from callsheet.server.ads.bodies import Flag, Number, StrictRoute, Whole
from callsheet.server.context import app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.origins import current_owner
from callsheet.server.langgraph.bodies import Body, Page
from callsheet.server.langgraph.shapes import WireJsonReply
from callsheet.state.errors import Invalid
from callsheet.storage.store import RedisStore

router = APIRouter(prefix="/store", route_class=StrictRoute, tags=["store"])
_READ: Final = (403, 422, 500, 503, 504)
_WRITE: Final = (400, 403, 413, 422, 500, 503, 504)
_Object = dict[str, Any]
_Key = Field(min_length=1, max_length=1_000)


class ItemPut(Body):
    """An item."""

    namespace: list[str]
    key: Annotated[str, _Key]
    value: _Object
    index: Literal[False] | list[str] | None = Field(None, description="Accepted; there are no embeddings")
    ttl: Number | None = Field(None, gt=0, le=100_000_000, description="Minutes it stays")


class ItemDelete(Body):
    """Which item."""

    namespace: list[str]
    key: Annotated[str, _Key]


class ItemSearch(Page):
    """Which items."""

    namespace_prefix: list[str] = Field(default_factory=list)
    filter: _Object | None = None
    query: str | None = Field(None, max_length=10_000)
    refresh_ttl: Flag | None = None


class NamespaceSearch(Page):
    """Which namespaces."""

    limit: Whole = Field(100, ge=1, le=1_000)
    prefix: list[str] | None = None
    suffix: list[str] | None = None
    max_depth: Whole | None = Field(None, ge=1)


@router.put("/items", status_code=204, responses=documented_wire_responses(*_WRITE, reply=None, status=204))
async def put_item(body: ItemPut, request: Request) -> Response:
    """Write an item."""
    lifetime = {} if body.ttl is None else {"ttl": body.ttl}
    with _ruled():
        await _theirs(request).aput(tuple(body.namespace), body.key, body.value, body.index, **lifetime)
    return Response(status_code=204)


@router.get("/items", responses=documented_wire_responses(*_READ, reply=_Object | None), response_model=None)
async def get_item(
    request: Request,
    key: Annotated[str, Query(min_length=1, max_length=1_000)],
    namespace: Annotated[str, Query(description="Labels, joined by points")] = "",
    refresh_ttl: Annotated[bool | None, Query(description="Whether its time begins anew")] = None,
) -> Response:
    """Show an item; null where there is none."""
    with _ruled():
        found = await _theirs(request).aget(_labels(namespace), key, refresh_ttl=refresh_ttl)
    return WireJsonReply(_item(found) if found else None)


@router.delete(
    "/items", status_code=204, responses=documented_wire_responses(*_WRITE, reply=None, status=204)
)
async def delete_item(body: ItemDelete, request: Request) -> Response:
    """Take an item away."""
    with _ruled():
        await _theirs(request).adelete(tuple(body.namespace), body.key)
    return Response(status_code=204)


@router.post(
    "/items/search", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None
)
async def search_items(request: Request, body: ItemSearch | None = None) -> Response:
    """Find items below a namespace: newest change first, or those with most words of the query."""
    wanted = body or ItemSearch()
    with _ruled():
        found = await _theirs(request).asearch(
            tuple(wanted.namespace_prefix),
            query=wanted.query,
            filter=wanted.filter,
            limit=wanted.limit,
            offset=wanted.offset,
            refresh_ttl=wanted.refresh_ttl,
        )
    return WireJsonReply({"items": [_item(one) for one in found]})


@router.post("/namespaces", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None)
async def list_namespaces(request: Request, body: NamespaceSearch | None = None) -> Response:
    """List the namespaces that have items."""
    wanted = body or NamespaceSearch()
    ends: list[tuple[NamespaceMatchType, list[str] | None]] = [
        ("prefix", wanted.prefix),
        ("suffix", wanted.suffix),
    ]
    conditions = tuple(MatchCondition(kind, tuple(path)) for kind, path in ends if path)
    operation = ListNamespacesOp(conditions, wanted.max_depth, wanted.limit, wanted.offset)
    with _ruled():
        [found] = await _theirs(request).abatch([operation])
    return WireJsonReply({"namespaces": found})


@contextmanager
def _ruled() -> Iterator[None]:
    """Turn what the store does not take into our words."""
    try:
        yield
    except (InvalidNamespaceError, ValueError) as error:
        raise Invalid(str(error), remedy="see /docs for the rules of namespaces and filters") from error


def _labels(namespace: str) -> tuple[str, ...]:
    return tuple(namespace.split(".")) if namespace else ()


def _item(item: Item | SearchItem) -> _Object:
    told: _Object = item.dict()
    return {"namespace": told.pop("namespace"), "key": told.pop("key"), "value": told.pop("value")} | told


def _theirs(request: Request) -> RedisStore:
    return app_context(request).store.for_owner(current_owner(request))
