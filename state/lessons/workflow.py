"""State of the `fact_narration` workflow."""

from typing import Any, Literal, NotRequired

from callsheet.state.lessons.images import CHOICE_DONE
from callsheet.state.workflow import Workflow


class LessonState(Workflow):
    """State of a conversation about one lesson, whose id is the thread's."""

    subject: NotRequired[str]
    """School subject; `general` by default."""
    choice: NotRequired[str | None]
    """Version of the proposed facts that await a choice, or None."""
    review: NotRequired[bool]
    """True if each narration needs a person's approval; False by default."""
    reviewing: NotRequired[bool]
    """True while the newest narration awaits approval."""
    images: NotRequired[bool]
    """True if images are searched and offered after a narration; False by default."""
    picturing: NotRequired[str]
    """Version of the images that await a choice; `wanted` before the search, `over` afterwards."""
    chosen: NotRequired[dict[str, Any] | None]
    """Choice of facts that the model recorded, until its narration is planned."""
    materials: NotRequired[dict[str, str]]
    """Ids of the materials that long messages are stored as, by message."""
    problem: NotRequired[str]
    """Error in the last answer to the open question; empty if there was none."""


def pending_question(
    state: LessonState,
) -> Literal["select_facts", "review_narration", "select_images"] | None:
    """Return the first pending question; a search for images counts as one."""
    if state.get("choice"):
        return "select_facts"
    if state.get("reviewing"):
        return "review_narration"
    return "select_images" if state.get("picturing", CHOICE_DONE) not in {"", CHOICE_DONE} else None
