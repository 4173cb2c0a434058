"""Questions about an ad library, answered with the campaigns that prove the answer.

START → planner → tool_executor → planner … → summarizer → END

The model searches with one tool and answers by another; code looks every claim up before it is sent.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from langchain_core.messages import AnyMessage, ToolMessage
from langgraph.graph import END, START, StateGraph

from callsheet.graphs.loop import after_approval, after_tools
from callsheet.nodes.approval import approval_node
from callsheet.nodes.campaigns.planning import CampaignPlanning, answer_messages
from callsheet.nodes.planner import planner_node
from callsheet.nodes.summarizer import summarizer_node
from callsheet.nodes.tool_executor import tool_executor_node
from callsheet.nodes.workflow import ArtefactSpec, ModelView, TurnRules, WorkflowSpec
from callsheet.state.campaigns.workflow import CampaignState, LastResult
from callsheet.state.context import Context
from callsheet.state.plan import Plan, StepResult
from callsheet.state.workflow import DraftMade
from callsheet.tools import REGISTRY
from callsheet.tools.campaigns.search import BASE

MAX_RESULTS: Final = 1_000
"""Tokens of earlier results that are sent on; more are left out after their turn."""


class QuestionModelView(ModelView[CampaignState]):
    """The filters of the page."""

    def facts(self, state: CampaignState) -> Mapping[str, str]:
        """Return the filters of the page."""
        base = state.get("base_filters")
        return {BASE: json.dumps(base)} if base else {}


class QuestionTurnRules(TurnRules[CampaignState]):
    """Searches leave campaigns, counts and filters in the state."""

    def after_plan(
        self, state: CampaignState, drafts: Sequence[DraftMade], results: Sequence[StepResult]
    ) -> Mapping[str, Any]:
        """Return the campaigns, counts and filters of the searches."""
        del drafts
        searches = [one for one in results if "count" in one["output"]]
        earlier = [one for one in state.get("results", ()) if "count" in one["output"]]
        changed: dict[str, Any] = {} if earlier else {"aggregation": None}
        has_campaigns = any(one["output"]["count"] for one in earlier)
        for one in searches:
            output = one["output"]
            if output["campaigns"] or not has_campaigns:
                # Of the campaigns that are shown: those of a later search without any stay.
                changed["detected_filters"] = output["detectedFilters"]
            if "aggregation" in output:
                changed["aggregation"] = output["aggregation"]
            if output["campaigns"]:
                has_campaigns = True
                changed["result"] = LastResult(
                    source=output["by"],
                    total=output["count"],
                    campaigns=output["campaigns"],
                    query=output["query"],
                    filters=output["detectedFilters"],
                    aggregation=output.get("aggregation"),
                )
        return changed

    def answer_messages(self, plan: Plan, results: Sequence[StepResult]) -> list[AnyMessage]:
        """Return search results without the whole campaigns."""
        del plan
        return answer_messages(results)


class CampaignSearch(WorkflowSpec[CampaignState]):
    """Questions about an ad library."""

    name = "campaign_search"
    title = "campaign questions"
    about = "Questions about an ad library, answered with the campaigns that prove each statement."
    examples = ("what is the most common channel", "compare travel campaigns by channel")
    state = CampaignState
    artefact = ArtefactSpec("question")
    view = QuestionModelView()
    turn = QuestionTurnRules(max_rounds=5, max_results=MAX_RESULTS)

    def build(self) -> StateGraph[CampaignState, Context]:
        """Return the graph's builder."""
        builder = StateGraph(CampaignState, context_schema=Context)
        builder.add_node("planner", planner_node(self, CampaignPlanning()), input_schema=CampaignState)
        builder.add_node("approval", approval_node(self), input_schema=CampaignState)
        builder.add_node("tool_executor", tool_executor_node(self), input_schema=CampaignState)
        builder.add_node("summarizer", summarizer_node(self), input_schema=CampaignState)
        builder.add_edge(START, "planner")
        builder.add_conditional_edges("planner", after_planner)
        builder.add_conditional_edges("approval", after_approval)
        builder.add_conditional_edges("tool_executor", after_tools)
        builder.add_edge("summarizer", END)
        return builder


def after_planner(state: CampaignState) -> Literal["tool_executor", "planner", "summarizer"]:
    """Return the next node: the planner again for an answer that was sent back.

    Searches change nothing, so nobody approves them; approval holds a paused plan.
    """
    if state.get("plan"):
        return "tool_executor"
    return "planner" if isinstance(state["messages"][-1], ToolMessage) else "summarizer"


WORKFLOW: Final = CampaignSearch(REGISTRY.of("campaign"))
graph = WORKFLOW.graph
