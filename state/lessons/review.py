"""Parsing of a person's answer to the review of a narration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from callsheet.state.approvals import SCHEMA as DECISIONS
from callsheet.state.approvals import consent, parse_decision
from callsheet.state.errors import Invalid
from callsheet.state.lessons.narration import SegmentEdit

REQUEST: Final = "review_narration"
"""Name of the question's action."""
_EDITS: Final = TypeAdapter(list[SegmentEdit])
SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        DECISIONS,
        {
            "type": "object",
            "required": ["segments"],
            "properties": {"segments": {"type": "array", "minItems": 1, "items": {"type": "object"}}},
        },
        {"type": "string", "description": "yes, or the changes you want"},
    ]
}
"""JSON Schema of the answer."""


@dataclass(frozen=True)
class Approved:
    """Approval, with edits to apply first."""

    edits: tuple[SegmentEdit, ...] = ()


@dataclass(frozen=True)
class Wish:
    """Request for a change."""

    text: str


def read(answer: Any) -> Approved | Wish:
    """Return the parsed answer; raises `Invalid` for an answer of no accepted form."""
    if isinstance(answer, str):
        return _read_text(answer)
    decision = parse_decision(answer, REQUEST)
    if decision is None:
        return _parse_edits(answer)
    if decision.kind == "approve":
        return Approved()
    return _parse_edits(decision.args) if decision.kind == "edit" else _read_text(decision.message)


def _read_text(text: str) -> Approved | Wish:
    if not text.strip():
        raise Invalid("the answer is empty", remedy="approve, or describe the changes you want")
    if text.strip()[:1] in {"[", "{"}:
        try:
            return read(json.loads(text))
        except json.JSONDecodeError:
            return Wish(text)
    return Approved() if consent(text) else Wish(text)


def _parse_edits(answer: Any) -> Approved:
    segments = answer.get("segments") if isinstance(answer, Mapping) else None
    if isinstance(segments, str):
        # Cards that can edit only text send lists as JSON.
        segments = json.loads(segments) if segments.strip()[:1] == "[" else None
    if not isinstance(segments, Sequence) or not segments:
        raise Invalid(
            f"the answer {str(answer)[:200]!r} is not an answer about the narration",
            remedy='send "yes", {"segments": [{"id": "hook", "narration": "…"}]}, or the changes you want',
        )
    try:
        return Approved(tuple(_EDITS.validate_python(segments)))
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in detail["loc"])
        raise Invalid(f"segments.{path}: {detail['msg']}", remedy="give id and narration") from error
