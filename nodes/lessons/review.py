"""Asks a person to approve a narration, if the caller wants that.

A wish goes to the model as a message, and the next narration is asked about again.
"""

from typing import Any, Final

from callsheet.nodes.question import AnswerSession, Calls, Interrupt, refusal_update
from callsheet.state.errors import Invalid, Missing
from callsheet.state.lessons import narration, review
from callsheet.state.lessons.lesson import LessonState
from callsheet.state.lessons.narration import Narration
from callsheet.state.lessons.review import REQUEST, SCHEMA, Approved, Wish
from callsheet.state.versions import Version

_EFFECT: Final = "Approving finishes the script; ask for changes and it is rewritten first."


async def ask(session: AnswerSession, state: LessonState) -> dict[str, Any]:
    """Ask whether the newest narration is right."""
    del state
    newest = await session.newest("narration")
    if newest is None:
        return {"reviewing": False, "plan": None}
    answer = session.answer(review_question(newest), narration=newest.data, version=newest.id)
    return await answer_update(session, answer)


async def answer_update(session: AnswerSession, answer: Any) -> dict[str, Any]:
    """Return the update of an answer: the plan of an approval, a refusal, or neither for a wish."""
    newest = await session.newest("narration")
    if newest is None:
        return session.chat_update(str(answer))
    try:
        read = review.read(answer)
        if isinstance(read, Wish):
            return session.chat_update(read.text)
        calls = _calls(read, newest)
    except (Invalid, Missing) as error:
        return refusal_update(error)
    return {**session.decision_update("The narration is right.", calls), "reviewing": False}


def _calls(read: Approved, newest: Version) -> Calls:
    """Return the calls of an approval; raises as `narration_edits.apply_edits`."""
    approved: tuple[str, dict[str, Any]] = ("verifyNarrationTool", {})
    if not read.edits:
        return [approved]
    narration.apply_edits(Narration.model_validate(newest.data), read.edits)
    edits = [one.model_dump(exclude_none=True) for one in read.edits]
    return [("editNarrationTool", {"edits": edits}), approved]


def review_question(narration: Version) -> Interrupt:
    """Return the question about a narration."""
    segments = narration.data["segments"]
    return Interrupt(
        REQUEST,
        {
            "segments": [
                {name: one[name] for name in ("id", "narration", "visual_guidance")} for one in segments
            ]
        },
        f"Is this narration about {narration.data['topic']} right?",
        _EFFECT,
        SCHEMA,
        ["yes", {"decisions": [{"type": "reject", "message": "make the hook shorter"}]}],
    )
