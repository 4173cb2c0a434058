"""A person's decision about one proposed action, as LangChain's cards or Agent Inbox's cards send it.

LangChain uses `approve`, `edit`, `reject` and `respond`; Agent Inbox uses `accept`, `edit`, `ignore` and
`response`, in a list of one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from callsheet.state.errors import Invalid

Kind = Literal["approve", "edit", "reject", "respond"]
_KINDS: Final[Mapping[str, Kind]] = {
    "approve": "approve",
    "accept": "approve",
    "edit": "edit",
    "reject": "reject",
    "ignore": "reject",
    "respond": "respond",
    "response": "respond",
}
ALLOWED: Final = ("approve", "edit", "reject", "respond")
"""Decisions that a card may offer."""
_FIELDS: Final = {
    "type": {"enum": [*ALLOWED]},
    "edited_action": {"type": "object"},
    "message": {"type": "string"},
}
_DECISION: Final = {"type": "object", "required": ["type"], "properties": _FIELDS}
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["decisions"],
    "properties": {"decisions": {"type": "array", "minItems": 1, "maxItems": 1, "items": _DECISION}},
}
"""JSON Schema of the answer."""


@dataclass(frozen=True)
class Decision:
    """One decision, with the edited arguments or the message."""

    kind: Kind
    args: Mapping[str, Any] = field(default_factory=dict)
    """The edited action's arguments; empty for other kinds."""
    message: str = ""


def parse_decision(answer: Any, action: str) -> Decision | None:
    """Return the decision about `action`, or None when `answer` is not a decision.

    Raises `Invalid` for an unknown kind of decision, and for an edit of another action.
    """
    if isinstance(answer, bool):
        return Decision("approve" if answer else "reject")
    decision = _single(answer)
    if decision is None:
        return None
    kind, arguments = _KINDS.get(str(decision.get("type"))), decision.get("args")
    if kind is None:
        raise _unknown_decision(decision)
    if kind != "edit":
        message = decision.get("message") or (arguments if isinstance(arguments, str) else "")
        return Decision(kind, message=str(message))
    action_edit = decision.get("edited_action", arguments)
    args = action_edit.get("args") if isinstance(action_edit, Mapping) else None
    if not isinstance(args, Mapping) or action_edit.get("name", action_edit.get("action", action)) != action:
        raise _unknown_decision(decision)
    return Decision(kind, args)


def _single(answer: Any) -> Mapping[str, Any] | None:
    decisions = answer.get("decisions", [answer]) if isinstance(answer, Mapping) else answer
    if not isinstance(decisions, list) or len(decisions) != 1 or not isinstance(decisions[0], Mapping):
        return None
    decision: Mapping[str, Any] = decisions[0]
    return decision if "type" in decision else None


def _unknown_decision(decision: Mapping[str, Any]) -> Invalid:
    return Invalid(
        f"the decision {str(decision)[:200]!r} is not one of the expected kinds",
        remedy='send {"decisions": [{"type": "approve"}]}, or with edit, reject or respond as the type',
    )
