"""The one tool that the planner's model of videos is offered."""

from typing import Any, Final

from callsheet.state.errors import Broken
from callsheet.state.video.plan import SubmittedPlan
from callsheet.tools.call import Call
from callsheet.tools.registry import tool


@tool(schema=SubmittedPlan, display="Planning")
async def submit_plan(args: SubmittedPlan, call: Call) -> dict[str, Any]:
    """Submit the whole plan of edits for what the person asked. Its steps run at once where they can.

    Tools of steps: editScene, addScene, deleteScene (can be restored), restoreScene, restoreVersion,
    trimScene, reorderScenes, duplicateScene, addAudio, contextGatherer.
    """
    del args, call
    # The planner turns the call into steps; the guard never gets it.
    raise Broken("submit_plan was called as a tool", remedy="let the planner of scene_edit read it")


TOOLS: Final = (submit_plan,)
