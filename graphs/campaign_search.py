"""Questions about an ad library, answered with the campaigns that prove the answer.

START → planner → tool_executor → planner … → summarizer → END

The model searches with one tool and answers by another; code looks every claim up before it is sent.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from langchain_core.messages import AnyMessage, ToolMessage
from langgraph.graph import END, START, StateGraph

from callsheet import storage
from callsheet.graphs.loop import after_approval, after_tools
from callsheet.nodes.approval import approval_node
from callsheet.nodes.campaigns.planning import CampaignPlanning, answer_messages
from callsheet.nodes.lean import LeanTool, choice, text
from callsheet.nodes.planner import planner_node
from callsheet.nodes.summarizer import summarizer_node
from callsheet.nodes.tool_executor import tool_executor_node
from callsheet.nodes.workflow import ArtefactSpec, LeanProfile, ModelView, TurnRules, WorkflowSpec
from callsheet.state.campaigns.campaign import Sentiment
from callsheet.state.campaigns.workflow import CampaignState, LastResult
from callsheet.state.context import Context
from callsheet.state.plan import Plan, StepResult
from callsheet.state.workflow import DraftMade
from callsheet.storage.campaigns.index import GroupBy
from callsheet.tools import REGISTRY
from callsheet.tools.call import Scope
from callsheet.tools.campaigns.libraries import library, library_values
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


class LeanQuestions(LeanProfile):
    """A search by one value of each kind, and one by meaning."""

    async def tools(self, state: CampaignState, scope: Scope) -> list[LeanTool]:
        """Return the tools, with the values of the owner's library."""
        del state
        values = await library_values(await library(await storage.current(), scope.owner))
        fields = {
            "company": text("Name of a company, or any"),
            **{name: choice([_ANY, *values[name][:_LISTED]]) for name in ("channel", "value_prop")},
            "sentiment": choice([_ANY, *get_args(Sentiment)]),
            "month": text("Such as 2026-03, or any"),
            "words": text("Words that the copy has; empty for none"),
            "count_by": choice([_NOTHING, *get_args(GroupBy)]),
        }
        idea = {"idea": text("The idea, in a few words")}
        return [
            LeanTool("search", "Find or count campaigns.", fields, _SEARCH, _searching),
            LeanTool("search_ideas", "Find campaigns near to an idea.", idea, _SEARCH, _by_meaning),
        ]


_SEARCH: Final = "search"
_ANY: Final = "any"
_NOTHING: Final = "nothing"
_LISTED: Final = 40
"""Values of a dimension that a small model chooses from."""


def _searching(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a search; groups are counted by filters alone."""
    named = {
        name: given[name]
        for name in ("company", "channel", "value_prop", "sentiment")
        if str(given.get(name, "")).strip().casefold() not in {"", _ANY}
    }
    month = str(given.get("month", "")).strip()
    dated = {} if month.casefold() in {"", _ANY} else {"date_range": month}
    words = str(given.get("words", "")).strip()
    groups = given.get("count_by", _NOTHING)
    if groups != _NOTHING:
        return {"by": "filter", "group_by": groups, **named, **dated}
    kind = {"by": "words", "query": words} if words else {"by": "filter"}
    return {**kind, **named, **dated}


def _by_meaning(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"by": "meaning", "query": given.get("idea")}


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
    lean = LeanQuestions()

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
