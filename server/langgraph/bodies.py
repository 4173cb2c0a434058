"""Shared parts of the wire's routes: body fields, paging, metadata matching, documented replies."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.json_replies import JsonReply
from callsheet.server.http.requests import Integer
from callsheet.server.langgraph.shapes import JsonObject
from callsheet.state.errors import Invalid

_Item = TypeVar("_Item")
Responses = dict[int | str, JsonObject]
_NULL: Final = {"type": "null"}
CHECKPOINT_FIELDS: Final = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
_MOVED: Final = ("title", "description", "default")


def read_responses(reply: object, *errors: int) -> Responses:
    """Return the OpenAPI responses of a route that reads: its reply, the usual errors, and `errors`."""
    return documented_wire_responses(403, 404, 422, 500, 503, 504, *errors, reply=reply)


def write_responses(reply: object) -> Responses:
    """Return the OpenAPI responses of a route that writes; a reply of None is status 204."""
    errors = (400, 403, 404, 409, 413, 422, 500, 503, 504)
    return documented_wire_responses(*errors, reply=reply, status=204 if reply is None else 200)


def _allow_null(schema: JsonObject) -> None:
    """Document that every optional field may be null."""
    for name, field in schema.get("properties", {}).items():
        if name not in schema.get("required", ()) and _NULL not in field.get("anyOf", ()):
            notes = {key: field.pop(key) for key in _MOVED if key in field}
            schema["properties"][name] = {"anyOf": [field, _NULL], **notes}


class Body(BaseModel):
    """Request body in which null means the same as a missing field. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", json_schema_extra=_allow_null)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None}


class Page(Body):
    """Part of a list."""

    limit: Integer = Field(10, ge=1, le=1_000)
    offset: Integer = Field(0, ge=0, le=10_000_000)

    def cut(self, items: Sequence[_Item]) -> Sequence[_Item]:
        """Return the items of this page, and one more if there is a next page."""
        return items[self.offset : self.offset + self.limit + 1]


def checkpoint_fields(checkpoint: Any) -> JsonObject:
    """Return the fields that name a checkpoint, without other fields and empty ones; raises `Invalid`."""
    if not isinstance(checkpoint, Mapping):
        raise Invalid(f"checkpoint {checkpoint!r:.40} is not an object", remedy="send its checkpoint_id")
    fields = {name: checkpoint[name] for name in CHECKPOINT_FIELDS if checkpoint.get(name)}
    branches = fields.get("checkpoint_map", {})
    names = [fields.get(name, "") for name in CHECKPOINT_FIELDS[:2]]
    if not isinstance(branches, Mapping) or not all(
        isinstance(name, str) for name in (*names, *branches.values())
    ):
        raise Invalid("ids in 'checkpoint' must be strings", remedy="send its checkpoint_id")
    return fields


def page_reply(items: Sequence[Any], page: Page) -> JsonReply:
    """Return the reply with a page; `items` are as `Page.cut` returns them.

    `X-Pagination-Total` is, as in LangGraph's server, the number of items known so far: one more than those
    returned until now if there are more.
    """
    headers = {"X-Pagination-Total": str(page.offset + len(items))}
    if len(items) > page.limit:
        headers["X-Pagination-Next"] = str(page.offset + page.limit)
    return JsonReply(items[: page.limit], headers=headers)


def contains(value: Any, expected: Any) -> bool:
    """Return whether `value` contains `expected` at every level, like PostgreSQL's `@>`.

    An `expected` of None is contained in everything.
    """
    if expected is None:
        return True
    if not isinstance(expected, Mapping):
        return _matches(value, expected)
    return isinstance(value, Mapping) and all(
        name in value and _matches(value[name], part) for name, part in expected.items()
    )


def _matches(value: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping):
        return contains(value, expected)
    if isinstance(expected, list):
        return isinstance(value, list) and all(
            any(_matches(item, part) for item in value) for part in expected
        )
    return bool(value == expected)
