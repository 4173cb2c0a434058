"""What every body on the wire has in common."""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from server.api.bodies import Whole

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
