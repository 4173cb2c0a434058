"""A person's answer to the question whether a narration is right (B49, B-R16)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from callsheet.state.approvals import SCHEMA as DECISIONS
from callsheet.state.approvals import parse_decision
from callsheet.state.errors import Invalid
from callsheet.state.lessons.narration_edits import SegmentEdit
from callsheet.state.lessons.selection_words import is_plain_yes

REQUEST: Final = "review_narration"
"""Name of the one action that the question asks about."""
_EDITS: Final = TypeAdapter(list[SegmentEdit])
SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        DECISIONS,
        {
            "type": "object",
            "required": ["segments"],
            "properties": {"segments": {"type": "array", "minItems": 1, "items": {"type": "object"}}},
        },
        {"type": "string", "description": "yes, or what shall be different"},
    ]
}
"""What an answer looks like."""


@dataclass(frozen=True)
class Approved:
    """It is right as it is, or as it is edited here."""

    edits: tuple[SegmentEdit, ...] = ()


@dataclass(frozen=True)
class Wish:
    """Something shall be different."""

    text: str


def read(answer: Any) -> Approved | Wish:
    """Return what an answer says of a narration; raises `Invalid`, with what is wrong, for what is none."""
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
        raise Invalid("nothing is said of what shall be different", remedy="say it, or approve")
    if text.strip()[:1] in {"[", "{"}:
        try:
            return read(json.loads(text))
        except json.JSONDecodeError:
            return Wish(text)
    return Approved() if is_plain_yes(text) else Wish(text)


def _parse_edits(answer: Any) -> Approved:
    segments = answer.get("segments") if isinstance(answer, Mapping) else None
    if isinstance(segments, str):
        # Cards that edit texts only send what else there is as JSON.
        segments = json.loads(segments) if segments.strip()[:1] == "[" else None
    if not isinstance(segments, Sequence) or not segments:
        raise Invalid(
            f"the answer {str(answer)[:200]!r} says nothing of the narration",
            remedy='send "yes", {"segments": [{"id": "hook", "narration": "…"}]}, or what shall be different',
        )
    try:
        return Approved(tuple(_EDITS.validate_python(segments)))
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in detail["loc"])
        raise Invalid(f"segments.{path}: {detail['msg']}", remedy="give id and narration") from error
