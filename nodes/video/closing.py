"""The end of a video's plan: one answer to the call that submitted it, and the measured durations."""

from collections.abc import Mapping
from typing import Any

from callsheet import storage
from callsheet.nodes.tool_executor import PlanClosing
from callsheet.nodes.video.planning import SUBMIT, plan_output
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.live_plan import Execution
from callsheet.state.video.project import VideoState
from callsheet.storage.redis.connection import Storage
from callsheet.storage.video import settings
from callsheet.tools.call import Scope
from callsheet.tools.guard.outcome import tool_message


class SceneClosing(PlanClosing):
    """Ends plans for a project's scenes."""

    async def close(
        self, workflow: WorkflowSpec[Any], state: VideoState, scope: Scope, record: Execution
    ) -> Mapping[str, Any]:
        """Return the answer to the model's call, and count how long the steps took."""
        del workflow
        if record["task"] == scope.task:
            await _measure(await storage.current(), scope, record)
        plan = state["plan"]
        open_call = plan.get("call") if plan and not state.get("decided") else None
        return {"messages": [tool_message(open_call, SUBMIT, plan_output(record))] if open_call else []}


async def _measure(opened: Storage, scope: Scope, record: Execution) -> None:
    """Count how long the steps took, for later estimates."""
    for one in record["steps"]:
        if one["status"] == "completed" and one["started_ms"]:
            seconds = (one["ended_ms"] - one["started_ms"]) / 1000
            await settings.add_duration(opened, scope.owner, one["step"]["tool"], seconds)
