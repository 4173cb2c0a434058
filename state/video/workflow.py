"""State of `scene_edit`."""

from typing import NotRequired

from callsheet.state.workflow import Workflow


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
