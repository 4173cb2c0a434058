"""What every body on the wire has in common."""

from typing import Any

from pydantic import BaseModel, Field, model_validator


class Body(BaseModel):
    """A body in which null says no more than leaving the field out, as LangGraph's clients mean it.

    Fields there are none of are passed over.
    """

    @model_validator(mode="before")
    @classmethod
    def _said(cls, told: Any) -> Any:
        return (
            {name: one for name, one in told.items() if one is not None} if isinstance(told, dict) else told
        )


class Page(Body):
    """Which part of a list."""

    limit: int = Field(10, ge=1, le=1_000)
    offset: int = Field(0, ge=0, le=10_000_000)
