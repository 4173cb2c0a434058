"""Request bodies of the wire: common fields, paging and metadata matching."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from callsheet.server.ads.bodies import Whole
from callsheet.server.langgraph.shapes import WireJsonReply

_NULL: Final = {"type": "null"}


def _nullable(schema: dict[str, Any]) -> None:
    """Say of every field that may be left out that it may be null, too."""
    for name, field in schema.get("properties", {}).items():
        if name not in schema.get("required", ()) and _NULL not in field.get("anyOf", ()):
            said = {key: field.pop(key) for key in ("title", "description", "default") if key in field}
            schema["properties"][name] = {"anyOf": [field, _NULL], **said}


class Body(BaseModel):
    """A body in which null says no more than leaving the field out, as LangGraph's clients mean it.

    Fields there are none of are passed over.
    """

    model_config = ConfigDict(extra="ignore", json_schema_extra=_nullable)

    @model_validator(mode="before")
    @classmethod
    def _said(cls, told: Any) -> Any:
        return (
            {name: one for name, one in told.items() if one is not None} if isinstance(told, dict) else told
        )


class Page(Body):
    """Which part of a list."""

    limit: Whole = Field(10, ge=1, le=1_000)
    offset: Whole = Field(0, ge=0, le=10_000_000)


def page_reply(found: Sequence[Any], page: Page) -> WireJsonReply:
    """Return the reply with a page; `found` has one entry more than fits where there is a next page.

    `X-Pagination-Total` is how many are known of, as LangGraph's server tells it: one more than what was
    shown so far, where there are more.
    """
    shown = found[: page.limit]
    headers = {"X-Pagination-Total": str(page.offset + len(found))}
    if len(found) > page.limit:
        headers["X-Pagination-Next"] = str(page.offset + page.limit)
    return WireJsonReply(shown, headers=headers)


def contains(value: Any, wanted: Any) -> bool:
    """Return whether `value` has all of `wanted` in it, at every level, as PostgreSQL's `@>` understands it.

    None wants nothing.
    """
    if wanted is None:
        return True
    if not isinstance(wanted, Mapping):
        return _has(value, wanted)
    return isinstance(value, Mapping) and all(
        name in value and _has(value[name], one) for name, one in wanted.items()
    )


def _has(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return contains(value, wanted)
    if isinstance(wanted, list):
        return isinstance(value, list) and all(any(_has(one, want) for one in value) for want in wanted)
    return bool(value == wanted)
