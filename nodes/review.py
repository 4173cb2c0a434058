"""Asks a person whether a narration is right, where the caller wants that (B49, B-R16).

Nothing is written before the answer. What shall be different goes to the model as a message, and the next
narration is asked about again.
"""

from typing import Any, Final

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.runtime import Runtime
from langgraph.types import interrupt

import storage
from nodes.node import Node, Subject
from nodes.selection import decision, refused
from state import narration_edits, review
from state.context import Context
from state.decisions import ALLOWED
from state.errors import Invalid, Missing
from state.lesson_workflow import LessonState
from state.narration import Narration
from state.review import REQUEST, SCHEMA, Wish
from state.versions import Version
from storage.artefacts import Artefact

_EFFECT: Final = "Approving ends the lesson's script; anything you want different is written again first."


def reviewing(subject: Subject) -> Node[LessonState]:
    """Return the node that asks for a narration's approval."""

    async def review_narration(state: LessonState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        scope = subject.scope(state, runtime)
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        newest = (await artefact.tip("narration")).newest
        if newest is None:
            return {"reviewing": False, "plan": None}
        last = state["messages"][-1]
        heard = last.text if isinstance(last, HumanMessage) else None
        answer = interrupt(question(newest, state.get("problem", ""))) if heard is None else heard
        try:
            read = review.read(answer)
            if isinstance(read, Wish):
                said = [] if heard else [HumanMessage(read.text, id=f"{scope.task}:said")]
                return {"messages": said, "plan": None, "problem": ""}
            calls: list[tuple[str, dict[str, Any]]] = [("verifyNarrationTool", {})]
            if read.edits:
                narration_edits.edited(Narration.model_validate(newest.data), read.edits)
                edits = [one.model_dump(exclude_none=True) for one in read.edits]
                calls.insert(0, ("editNarrationTool", {"edits": edits}))
        except (Invalid, Missing) as error:
            return refused(error)
        made = decision(subject, scope.task, "The narration is right.", calls)
        return {**made, "messages": [AIMessage(**made["messages"][0])], "reviewing": False}

    return review_narration


def question(made: Version, problem: str = "") -> dict[str, Any]:
    """Return the interrupt's value, in the shape stock agent interfaces render."""
    segments = made.data["segments"]
    shown = [{name: one[name] for name in ("id", "narration", "visual_guidance")} for one in segments]
    asked = f"Is this narration about {made.data['topic']} right? {_EFFECT}"
    told = f"{problem}\n\n{asked}" if problem else asked
    return {
        "action_requests": [{"name": REQUEST, "args": {"segments": shown}, "description": told}],
        "review_configs": [{"action_name": REQUEST, "allowed_decisions": [*ALLOWED]}],
        "type": REQUEST,
        "narration": made.data,
        "version": made.id,
        "problem": problem,
        "effect": _EFFECT,
        "response_schema": SCHEMA,
        "examples": ["yes", {"decisions": [{"type": "reject", "message": "make the hook shorter"}]}],
    }
