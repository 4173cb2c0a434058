"""State of `scene_edit`."""

from typing import NotRequired

from typing_extensions import TypedDict

from callsheet.state.workflow import Workflow


class Repetition(TypedDict):
    """A person's request to do a step of an ended execution again."""

    step: str
    """Its id."""
    completed: bool
    """True if it is completed and repeated, False if it failed and is retried."""
    generation: int
    """Repetitions of the step when the person asked; if there are more now, it was done again already."""


class VideoState(Workflow):
    """Keys of a conversation about a video project."""

    project_id: NotRequired[str]
    """Id of the project; the thread's where absent."""
    scene_ids: NotRequired[list[str]]
    """Scenes that the person attached to the newest message."""
    execution: NotRequired[str]
    """Id of the newest plan."""
    replans: NotRequired[int]
    """Plans of this turn that could not be carried out."""
    again: NotRequired[Repetition | None]
    """Step to do again; None once it is."""
    decision: NotRequired[str]
    """Id of the message by which a person decided a plan without a model."""
