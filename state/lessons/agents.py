"""Results of a lesson's two agents in API form."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from callsheet.state.plan import StepResult

AGENTS: Final[Mapping[str, str]] = {
    "extractFactsTool": "FactExtractionAgent",
    "generateNarrationTool": "NarrativeBuilderAgent",
}
"""Names of the agents, by the tool that runs them."""


class AgentResult(TypedDict):
    """Result of one agent."""

    agent: str
    success: bool
    data: dict[str, Any]
    """`{facts, message, topic, learningObjective}`, or `{script}`; empty on failure."""
    cost: float | None
    """US dollars; 0 on failure."""
    duration: float
    """Seconds."""
    error: NotRequired[str]


def results(steps: Iterable[StepResult]) -> list[AgentResult]:
    """Return the results of the steps run by agents, in order."""
    return [_result(step) for step in steps if step["tool"] in AGENTS]


def _result(step: StepResult) -> AgentResult:
    agent, output = AGENTS[step["tool"]], step["output"]
    if step["status"] != "completed":
        error = str(output.get("error") or "the step was not executed")
        return AgentResult(
            agent=agent, success=False, data={}, cost=0.0, duration=step["duration_s"], error=error
        )
    if "narration" in output:
        data = {"script": output["narration"]}
    else:
        names = ("facts", "message", "topic", "learningObjective")
        data = {name: output[name] for name in names if name in output}
    cost, duration_s = output.get("cost", 0.0), float(output.get("duration", step["duration_s"]))
    return AgentResult(agent=agent, success=True, data=data, cost=cost, duration=duration_s)
