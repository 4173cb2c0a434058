"""Routes of the store: items by namespace and key, separate for each owner."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, Literal

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

from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.policy import LANGGRAPH_READ, LANGGRAPH_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import Flag, Integer, Number, StrictRoute, while_connected
from callsheet.server.langgraph.reply_schemas import ItemReply, ItemsReply, NamespacesReply
from callsheet.server.langgraph.schemas import Body, JsonObject, ListPage, Responses
from callsheet.state.errors import Invalid
from callsheet.storage.store import RedisStore

router = APIRouter(prefix="/store", route_class=StrictRoute, tags=["store"])
_KeyText = Annotated[str, Field(min_length=1, max_length=1_000)]
_READ: Final = documented_wire_responses(403, 422, 500, 503, 504, reply=ItemReply | None)


def _write_responses(reply: object) -> Responses:
    errors = (400, 403, 413, 422, 500, 503, 504)
    return documented_wire_responses(*errors, reply=reply, status=204 if reply is None else 200)


class ItemPut(Body):
    """Item to write."""

    namespace: list[str]
    key: _KeyText
    value: JsonObject
    index: Literal[False] | list[str] | None = Field(
        None, description="Paths that are embedded, or false for none; needs `store.index` in langgraph.json"
    )
    ttl: Number | None = Field(None, gt=0, le=100_000_000, description="Time to live in minutes")


class ItemDelete(Body):
    """Item to delete."""

    namespace: list[str]
    key: _KeyText


class ItemSearch(ListPage):
    """Filter for items."""

    namespace_prefix: list[str] = Field(default_factory=list)
    filter: JsonObject | None = None
    query: str | None = Field(None, max_length=10_000)
    refresh_ttl: Flag | None = None


class NamespaceSearch(ListPage):
    """Filter for namespaces."""

    limit: Integer = Field(100, ge=1, le=1_000)
    prefix: list[str] | None = None
    suffix: list[str] | None = None
    max_depth: Integer | None = Field(None, ge=1)


@router.put("/items", status_code=204, responses=_write_responses(None))
@with_policy(LANGGRAPH_WRITE)
async def put_item(body: ItemPut, request: Request) -> Response:
    """Put an item into the store."""
    lifetime = {} if body.ttl is None else {"ttl": body.ttl}
    with _store_errors():
        await _store(request).aput(tuple(body.namespace), body.key, body.value, body.index, **lifetime)
    return Response(status_code=204)


@router.get("/items", responses=_READ)
@with_policy(LANGGRAPH_READ)
async def get_item(
    request: Request,
    key: Annotated[str, Query(min_length=1, max_length=1_000)],
    namespace: Annotated[str, Query(description="Labels, separated by dots")] = "",
    refresh_ttl: Annotated[bool | None, Query(description="Restart the item's time to live")] = None,
) -> Response:
    """Get an item. The reply is null if there is none."""
    labels = tuple(namespace.split(".")) if namespace else ()
    with _store_errors():
        item = await _store(request).aget(labels, key, refresh_ttl=refresh_ttl)
    return JsonReply(_item_view(item) if item else None)


@router.delete("/items", status_code=204, responses=_write_responses(None))
@with_policy(LANGGRAPH_WRITE)
async def delete_item(body: ItemDelete, request: Request) -> Response:
    """Delete an item."""
    with _store_errors():
        await _store(request).adelete(tuple(body.namespace), body.key)
    return Response(status_code=204)


@router.post("/items/search", responses=_write_responses(ItemsReply))
@with_policy(LANGGRAPH_READ)
async def search_items(request: Request, body: ItemSearch | None = None) -> Response:
    """Search the items of a namespace and those below it.

    With `store.index` in langgraph.json, the items nearest to `query` in meaning come first, else those with
    most of its words; without a query, those updated most recently.
    """
    search = body or ItemSearch()
    with _store_errors():
        searching = _store(request).asearch(
            tuple(search.namespace_prefix),
            query=search.query,
            filter=search.filter,
            limit=search.limit,
            offset=search.offset,
            refresh_ttl=search.refresh_ttl,
        )
        items = await while_connected(request, searching, [])
    return JsonReply({"items": [_item_view(item) for item in items]})


@router.post("/namespaces", responses=_write_responses(NamespacesReply))
@with_policy(LANGGRAPH_READ)
async def list_namespaces(request: Request, body: NamespaceSearch | None = None) -> Response:
    """List the namespaces that contain items."""
    search = body or NamespaceSearch()
    filters: list[tuple[NamespaceMatchType, list[str] | None]] = [
        ("prefix", search.prefix),
        ("suffix", search.suffix),
    ]
    conditions = tuple(MatchCondition(kind, tuple(path)) for kind, path in filters if path)
    operation = ListNamespacesOp(conditions, search.max_depth, search.limit, search.offset)
    with _store_errors():
        [namespaces] = await _store(request).abatch([operation])
    return JsonReply({"namespaces": namespaces})


@contextmanager
def _store_errors() -> Iterator[None]:
    """Raise `Invalid` for a namespace or filter that the store does not accept."""
    try:
        yield
    except (InvalidNamespaceError, ValueError) as error:
        raise Invalid(str(error), remedy="see /docs for the rules of namespaces and filters") from error


def _item_view(item: Item | SearchItem) -> JsonObject:
    view: JsonObject = item.dict()
    return {"namespace": view.pop("namespace"), "key": view.pop("key"), "value": view.pop("value")} | view


def _store(request: Request) -> RedisStore:
    return app_context(request).store.for_owner(current_owner(request))
