"""A person's decisions about proposed actions.

About one action they come as LangChain's cards or Agent Inbox's cards send them: LangChain uses `approve`,
`edit`, `reject` and `respond`; Agent Inbox uses `accept`, `edit`, `ignore` and `response`, in a list of one.
About the steps of a plan they are `approve`, `edit`, `skip` and `reject`, one for each step or one for all.
A plain yes or no counts in words; anything else that a person writes is for the model.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from callsheet.state.errors import Invalid

_YES_WORDS: Final = (
    "yes|yep|yeah|y|ok|okay|sure|go ahead|do it|do that|delete it|remove it|confirm|approve|accept|si|claro|"
    "vale|adelante|sim|pode|oui|d'accord|vas-y|ja|klar|gerne|mach das|tak|dobrze|ano|jo|da|ya|boleh|có|vâng|"
    "đồng ý|ใช่|ได้|ตกลง|是|是的|好|好的|可以|行|对|嗯"
)
_NO_WORDS: Final = (
    "no|nope|nah|n|don't|do not|cancel|reject|stop|keep it|leave it|never mind|não|non|nein|lieber nicht|nie|"
    "ne|nu|tidak|jangan|không|đừng|ไม่|ไม่ได้|ไม่ต้อง|不|不是|不要|不行|不可以|别"
)
_YES: Final = frozenset(_YES_WORDS.split("|"))
_NO: Final = frozenset(_NO_WORDS.split("|"))
_POLITE: Final = re.compile(
    r"\b(?:please|thanks|thank you|por favor|gracias|obrigad[oa]|merci|bitte|danke|proszę|prosim|te rog)\b"
    r"|(?:ครับ|ค่ะ|คะ|ạ|谢谢|请|吧)"
)
_PARTS: Final = re.compile(r"[.,!;。，！\n\N{THUMBS UP SIGN}]+")
_LONGEST: Final = 60
"""Maximum characters of a plain answer."""


def consent(text: str) -> bool | None:
    """Return True for a plain yes, False for a plain no, and None for any other text."""
    if len(text) > _LONGEST:
        return None
    plain = unicodedata.normalize("NFC", text.replace("’", "'").casefold()).replace("í", "i")
    parts = {" ".join(part.split()) for part in _PARTS.split(_POLITE.sub("", plain))} - {""}
    if not parts:
        return None
    return True if parts <= _YES else False if parts <= _NO else None


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
PLAN_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["decisions"],
    "properties": {
        "decisions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"enum": ["approve", "edit", "skip", "reject"]},
                    "edited_action": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "args": {"type": "object"}},
                    },
                    "message": {"type": "string"},
                },
            },
        },
        "leaveOut": {"type": "array", "items": {"type": "string"}},
    },
}
"""JSON Schema of the answer about a plan: one decision per action request, in order, or one for all.

`leaveOut` has ids of `steps` that are not carried out, as `skip` says of one.
"""
_PLAN_KINDS: Final = ("approve", "edit", "skip", "reject")
_SHOWN: Final = 20
"""Steps that a sentence names."""
_SHOWN_CHARS: Final = 120
"""Characters of a step that a sentence shows."""
_EDIT_NAMES: Final = ("edited_action", "editedAction")
_EDIT_REMEDY: Final = 'send {"type": "edit", "edited_action": {"name": …, "args": {…}}} with all its args'


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


def step_request(params: Mapping[str, Any]) -> str:
    """Return a step's request, or the values that it sets instead of one; empty for neither."""
    if prompt := params.get("prompt"):
        return str(prompt)
    seconds, order = params.get("durationSeconds"), params.get("sceneIds")
    values = [f"{seconds:g} s"] if isinstance(seconds, int | float) else []
    values += [str(params["versionId"])] if params.get("versionId") else []
    return ", ".join([*values, *map(str, order)] if isinstance(order, list) else values)


def step_words(display: str, about: str) -> str:
    """Return a step as people read it: its title, and its target or request where the title lacks it.

    Several lines stand below the title.
    """
    if about.casefold() in display.casefold():
        return display
    return f"{display}:\n{about}" if "\n" in about else f"{display}: {about}"


def steps_in_words(steps: Sequence[str]) -> str:
    """Return the titles of steps after a colon, each numbered in its own line where there are several."""
    titles = [one.partition(":\n")[0] for one in steps[:_SHOWN]]
    shown = [one if len(one) <= _SHOWN_CHARS else f"{one[:_SHOWN_CHARS]}…" for one in titles]
    if len(shown) == 1:
        return f": {shown[0]}."
    more = [f"and {len(steps) - _SHOWN} more"] if len(steps) > _SHOWN else []
    return "\n".join([":", *(f"{number}. {one}" for number, one in enumerate(shown, 1)), *more])


def approval_sentence(steps: Sequence[str]) -> str:
    """Return the question about a plan whose steps are described so."""
    wait = "1 step waits" if len(steps) == 1 else f"{len(steps)} steps wait"
    return f"{wait} for your approval{steps_in_words(steps)}"


def paused_sentence(steps: Sequence[str]) -> str:
    """Return that a plan is paused, and its pending steps."""
    counted = "1 step is" if len(steps) == 1 else f"{len(steps)} steps are"
    return f"The plan is paused, and {counted} pending{steps_in_words(steps) if steps else '.'}"


def check_answer(question: Any, answer: Any) -> None:
    """Raise `Invalid` if the question is about a plan, and the answer holds no valid decisions about it."""
    if isinstance(question, Mapping) and question.get("response_schema") == PLAN_SCHEMA:
        plan_decisions(answer, question)


def plan_decisions(answer: Any, question: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return one decision per action of the question about a plan; a single one, or a bare word, is for all.

    A decision of type `edit` has the `args` of its `edited_action`; words that are no plain yes or no are a
    rejection with `words`; a step that is left out has `skip`. Raises `Invalid` for anything else.
    """
    if isinstance(answer, str | bool):
        answer = {"decisions": [_decision_of_text(answer)]}
    listed = answer.get("decisions") if isinstance(answer, Mapping) else None
    if not isinstance(listed, list) or not all(
        isinstance(item, Mapping) and item.get("type") in _PLAN_KINDS for item in listed
    ):
        raise Invalid(
            f"the answer {str(answer)[:200]!r} holds no decisions",
            remedy='send {"decisions": [{"type": "approve"}]}, or edit, skip or reject',
        )
    actions: Sequence[Mapping[str, Any]] = question["action_requests"]
    count = len(actions)
    if len(listed) not in {1, count}:
        raise Invalid(
            f"{len(listed)} decisions were sent for {count} action{'s' * (count != 1)}",
            remedy="send one for each, or one for all" if count != 1 else "send one decision",
        )
    if len(listed) < count and listed[0]["type"] == "edit":
        raise Invalid(f"one edit was sent for {count} actions", remedy="send one decision for each")
    given = listed if len(listed) == count else listed * count
    schemas = {one["action_name"]: one.get("args_schema", {}) for one in question["review_configs"]}
    decisions = [
        _plan_decision(decision, action, schemas[action["name"]])
        for decision, action in zip(given, actions, strict=True)
    ]
    return _leave_out(decisions, answer.get("leaveOut") or [], question)


def _leave_out(
    decisions: Sequence[Mapping[str, Any]], names: Any, question: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return the decisions with those about these steps replaced by `skip`."""
    steps = question.get("steps", ())
    if not isinstance(names, list) or not all(name in [*steps] for name in names):
        raise Invalid(
            f"leaveOut has {str(names)[:200]}, and not all are steps in question",
            remedy=f"send ids of these steps: {', '.join(steps)}",
        )
    chosen = [
        {"type": "skip"} if names and steps[place] in names else decision
        for place, decision in enumerate(decisions)
    ]
    kinds = [one["type"] for one in chosen]
    if "skip" in kinds and "reject" in kinds:
        raise Invalid(
            "one rejection ends the whole plan, and no step can be left out of it",
            remedy="leave out what is not wanted, and approve the rest; or reject alone",
        )
    if kinds.count("skip") == question.get("plan_steps"):
        raise Invalid("every step of the plan is left out", remedy="reject the plan instead")
    return chosen


def _decision_of_text(answer: str | bool) -> dict[str, Any]:  # noqa: FBT001 -- a person's answer may be just true or false
    if answer is True or consent(str(answer)):
        return {"type": "approve"}
    refused = answer is False or consent(str(answer)) is False
    return {"type": "reject", "message": ""} if refused else {"type": "reject", "words": answer}


def _plan_decision(
    decision: Mapping[str, Any], shown: Mapping[str, Any], schema: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the decision about an action as it was shown, an edit with its `args`."""
    tool = shown["name"]
    edits = [decision[name] for name in _EDIT_NAMES if decision.get(name) is not None]
    if decision["type"] == "edit":
        return {"type": "edit", "args": _edited_args(edits, shown, schema)}
    if edits:
        raise Invalid(
            f"the decision {decision['type']!r} about {tool!r} has an edited_action",
            remedy="leave it out, or send the type edit",
        )
    return decision


def _edited_args(edits: Sequence[Any], shown: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an edit; raise `Invalid` for another tool, and unknown or missing arguments."""
    tool, edit = shown["name"], edits[0] if len(edits) == 1 else None
    args = edit.get("args") if isinstance(edit, Mapping) else None
    if not isinstance(edit, Mapping) or not isinstance(args, Mapping):
        raise Invalid(f"the edit of {tool!r} has no edited_action with args", remedy=_EDIT_REMEDY)
    if edit.get("name", tool) != tool:
        raise Invalid(
            f"the edit of {tool!r} names the tool {str(edit['name'])[:80]!r}",
            remedy="change the args only, or reject and say what you want instead",
        )
    # A tool drops arguments that it does not know: the call would be another one than the person meant.
    known = {**schema.get("properties", {}), **shown["args"]}
    if unknown := [name for name in args if name not in known]:
        raise Invalid(
            f"the edit of {tool!r} has the argument {str(unknown[0])[:80]!r}, which the tool has not",
            remedy=f"use {', '.join(known)}" if known else "send no args, or reject",
        )
    if missing := [name for name in schema.get("required", ()) if name not in args]:
        raise Invalid(f"the edit of {tool!r} has no {missing[0]!r}", remedy=_EDIT_REMEDY)
    return dict(args)
