"""Questions to people in words, whatever shape the value of an interrupt has."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from callsheet.state.approvals import PLAN_SCHEMA

Kind = Literal["interrupt", "plan", "paused"]
ANSWERED: Final = "answered"
"""Key of the states in which a message may answer a question: the id of the newest one that did."""
_PAUSED: Final = "paused"
_CHOICE_FIELDS: Final = ("choices", "options", "facts")
"""Fields in which a question lists what can be chosen."""


def answer_in_words(values: Any) -> str:
    """Return the newest message of a state if it answered a question; else empty."""
    # The page of help loads this module, and no LangChain.
    from callsheet.state.conversation import newest_request, turn_id  # noqa: PLC0415

    answered = values.get(ANSWERED) if isinstance(values, Mapping) else None
    messages = values.get("messages") or () if answered else ()
    return newest_request(messages) if answered and answered == turn_id(messages) else ""


def sentence(value: Any) -> str:
    """Return the question itself: descriptions of its actions, its message, or its value as JSON.

    The problem of the last answer is no part of it.
    """
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if kind(value) == "plan" and value.get("message"):
        return str(value["message"])
    actions = _action_words(value)
    words = value.get("message") or value.get("question") or value.get("title")
    return "; ".join(actions) or str(words or json.dumps(value, ensure_ascii=False))


def full_text(value: Mapping[str, Any]) -> str:
    """Return all that a person must read of a question, steps of a plan numbered; empty for none."""
    actions = [str(one.get("description") or one.get("name", "")) for one in _actions(value)]
    if len(actions) > 1 and kind(value) == "plan" and value.get("message"):
        opening = str(value["message"]).partition("\n")[0]
        steps = [f"{at}. {one}" for at, one in enumerate(_action_words(value), 1)]
        return "\n".join([f"{_problem(value)}{opening}", *steps])
    return "\n".join(actions) or str(value.get("message") or "")


def kind(value: Any) -> Kind:
    """Return the kind of a question: about a plan, about a paused plan, or any other."""
    if not isinstance(value, Mapping):
        return "interrupt"
    if value.get("type") == _PAUSED and "executionId" in value:
        return "paused"
    return "plan" if value.get("response_schema") == PLAN_SCHEMA else "interrupt"


def changes(value: Any) -> list[str]:
    """Return what would happen with a yes, one change a line; empty if the question does not say."""
    if not isinstance(value, Mapping):
        return []
    if kind(value) == "plan":
        return _action_words(value)
    if kind(value) == "paused":
        return [str(step) for step in value.get("steps", ())]
    effect = value.get("effect")
    return [str(effect)] if effect else []


def choices(value: Any) -> list[Any]:
    """Return what can be chosen; empty if the question lists nothing."""
    if isinstance(value, Mapping):
        for name in _CHOICE_FIELDS:
            if isinstance(value.get(name), list):
                return list(value[name])
    return []


def response_schema(value: Any) -> Mapping[str, Any] | None:
    """Return the JSON Schema of the answer; None for any answer."""
    schema = value.get("response_schema") if isinstance(value, Mapping) else None
    return schema if isinstance(schema, Mapping) else None


def asks_again(value: Any) -> bool:
    """Return True for a question that names the problem of the last answer: its node checks answers itself.

    Such a node also reads words and the answers of stock cards, and asks again after any other answer.
    """
    return isinstance(value, Mapping) and "problem" in value


def _action_words(value: Mapping[str, Any]) -> list[str]:
    """Return the descriptions of the actions, without the problem of the last answer before the first."""
    problem = _problem(value)
    return [str(one.get("description") or one.get("name")).removeprefix(problem) for one in _actions(value)]


def _problem(value: Mapping[str, Any]) -> str:
    """Return why the last answer was refused, as it stands before a description; empty for no reason."""
    return f"{value['problem']}\n\n" if value.get("problem") else ""


def _actions(value: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    actions = value.get("action_requests")
    return [one for one in actions if isinstance(one, Mapping)] if isinstance(actions, list) else []
