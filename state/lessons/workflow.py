"""What `fact_narration` remembers of a conversation about a lesson."""

from typing import NotRequired

from callsheet.state.workflow import Workflow


class LessonState(Workflow):
    """A conversation about one lesson, which is the thread's own (B23, X5)."""

    subject: NotRequired[str]
    """The school subject, `general` where none is given (B-R12)."""
    choice: NotRequired[str | None]
    """Version of the proposed facts that wait for a person's choice, or None."""
    review: NotRequired[bool]
    """Whether a person is asked to approve each narration (B-R16); not unless it is given."""
    reviewing: NotRequired[bool]
    """Whether the newest narration waits for that."""
    images: NotRequired[bool]
    """Whether images are looked for once a narration stands, to choose among (B62); not unless given."""
    picturing: NotRequired[str]
    """Version of the images that wait for a choice; `wanted` before they were looked for, `over` after."""
    problem: NotRequired[str]
    """What was wrong with the last answer to the question that waits; empty where nothing was."""
