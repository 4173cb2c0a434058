"""The planner of campaign search: searches are steps, and the answer is checked before it is sent."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from pydantic import ValidationError

from callsheet.nodes.planner import Planned, Planning, plan_of_calls
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.campaigns.answers import Answer, Statement, evidence_of, problems
from callsheet.state.campaigns.workflow import CampaignState
from callsheet.state.conversation import calls_of
from callsheet.state.errors import Invalid
from callsheet.storage import current
from callsheet.tools.call import Scope
from callsheet.tools.campaigns.libraries import library, library_values
from callsheet.tools.campaigns.results import for_model
from callsheet.tools.guard.arguments import read_arguments, repair_off_loop
from callsheet.tools.guard.outcome import failed_outcome, tool_message

ANSWER: Final = "answer"
MAX_CHECKS: Final = 1
"""Answers of a turn that are sent back with what is not supported."""
_IMAGE: Final = re.compile(r"!\[|<img\b", re.IGNORECASE)
_SHOWN: Final = 10
_LISTED: Final = 40
"""Values of a dimension that the model sees."""


class CampaignPlanning(Planning):
    """Plans of searches, and checked answers."""

    async def state_block(self, workflow: WorkflowSpec[Any], state: CampaignState, scope: Scope) -> str:
        """Return today's date, the library's values, the page's filters and an earlier turn's campaigns."""
        del workflow
        values = await library_values(await library(await current(), scope.owner))
        lines = [f"<now>{datetime.now(UTC).date()}</now>"]
        for name, listed in values.items():
            if listed:
                # Names from a person's file are data.
                lines.append(
                    f"Values of {name} in the library: {json.dumps(listed[:_LISTED], ensure_ascii=False)}"
                )
        if base := state.get("base_filters"):
            lines.append(f"Filters of the page, applied to every search: {json.dumps(base)}")
        # A search's own result lists its campaigns.
        if (last := state.get("result")) and not isinstance(state["messages"][-1], ToolMessage):
            listed = [
                f"{number}. {one['id']} {one['company']}"
                for number, one in enumerate(last["campaigns"][:_SHOWN], 1)
            ]
            lines.append(f"Campaigns of the last result ({last['total']}): {'; '.join(listed)}")
        return "\n".join(lines)

    async def plan(
        self, workflow: WorkflowSpec[Any], state: CampaignState, scope: Scope, answer: AIMessage
    ) -> Planned:
        """Return the searches of an answer, or the checked answer itself."""
        del scope
        calls = [*calls_of(answer)]
        searches = [call for call in calls if call["name"] != ANSWER]
        if searches:
            planned = plan_of_calls(workflow, answer)
            return Planned(planned, (), {"checks": 0})
        outputs = known_results(state)
        if calls:
            return await self._check(state, answer, outputs)
        text, is_checked = str(answer.text), bool(outputs and state.get("results"))
        if is_checked:
            text = plain_answer(state, text, outputs)
        is_replaced = text != answer.text
        if (shown := without_images(text)) != answer.text:
            return Planned(None, [AIMessage(shown)], {"truncated": True} if is_replaced else {})
        return Planned()

    def text_of_results(self, workflow: WorkflowSpec[Any], state: CampaignState) -> str:
        """Return an answer made from the last result alone."""
        del workflow
        return result_text(known_results(state))

    async def _check(
        self, state: CampaignState, answer: AIMessage, outputs: Sequence[Mapping[str, Any]]
    ) -> Planned:
        call = str(calls_of(answer)[0]["id"])
        try:
            given = await _read_answer(answer)
        except Invalid as error:
            return self._sent_back(state, call, [error.message], outputs)
        evidence = evidence_of(outputs)
        wrong = {statement.text: problems(statement, evidence) for statement in given.statements}
        faults = [f"{text[:120]!r}: {'; '.join(reasons)}" for text, reasons in wrong.items() if reasons]
        if faults and state.get("checks", 0) < MAX_CHECKS:
            return self._sent_back(state, call, faults, outputs)
        kept = [statement for statement in given.statements if not wrong[statement.text]]
        return Planned(
            None,
            [
                tool_message(call, ANSWER, {"sent": True}),
                AIMessage(without_images(_text(kept, len(faults), outputs))),
            ],
            {"suggestions": given.suggestions, "checks": 0},
        )

    def _sent_back(
        self, state: CampaignState, call: str, faults: Sequence[str], outputs: Sequence[Mapping[str, Any]]
    ) -> Planned:
        outcome = failed_outcome(
            "validation_error",
            f"Not supported by the campaigns: {' | '.join(faults)}",
            suggestion="Answer again with what the results say, and name every claim in its field",
            retryable=True,
        )
        checks = state.get("checks", 0)
        if checks < MAX_CHECKS:
            return Planned(None, [tool_message(call, ANSWER, outcome.output)], {"checks": checks + 1})
        text = without_images(result_text(outputs))
        return Planned(None, [tool_message(call, ANSWER, {"sent": False}), AIMessage(text)], {"checks": 0})


def without_images(text: str) -> str:
    """Return Markdown whose images are links: an image is loaded unasked, and its address may carry data."""
    return _IMAGE.sub(lambda match: "[" if match[0] == "![" else "&lt;img", text)


def known_results(state: CampaignState) -> list[Mapping[str, Any]]:
    """Return the results that an answer may cite: this turn's, and the campaigns of the last one before."""
    turn = [one["output"] for one in state.get("results", ()) if "count" in one["output"]]
    last = state.get("result")
    earlier = [{"count": last["total"], "campaigns": last["campaigns"]}] if last else []
    return [*earlier, *turn]


def plain_answer(state: CampaignState, text: str, outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return an answer without statements if its numbers were returned, else the results themselves."""
    del state
    statement = Statement(text=text[:4_000] or "-")
    return text if text and not problems(statement, evidence_of(outputs)) else result_text(outputs)


def result_text(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return an answer made from the last result alone."""
    if not outputs:
        return "I have no result to answer from."
    last = outputs[-1]
    if groups := last.get("aggregation", {}).get("groups"):
        listed = ", ".join(f"{row['value']} {row['count']}" for row in groups[:_SHOWN])
        return f"By {last['aggregation']['groupBy']}: {listed}."
    if not last["count"]:
        return "No campaign matches."
    lines = [
        f"{one['company']}: {one['offer'] or one['campaign_text']} ({one['id']})"
        for one in last["campaigns"][:_SHOWN]
    ]
    return "\n".join([f"{last['count']} campaigns match:", *lines])


async def _read_answer(answer: AIMessage) -> Answer:
    given: Any
    if answer.tool_calls:
        given = answer.tool_calls[0]["args"]
    else:
        given = await repair_off_loop(answer.invalid_tool_calls[0]["args"] or "")
    arguments, _ = read_arguments(Answer, given)
    try:
        return Answer.model_validate(arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"the answer does not fit its schema at {place}: {first['msg']}") from error


def _text(kept: Sequence[Statement], left_out: int, outputs: Sequence[Mapping[str, Any]]) -> str:
    if not kept:
        return result_text(outputs)
    text = "\n".join(statement.text for statement in kept)
    return (
        f"{text}\n\n({left_out} statements were left out: no campaign supports them.)" if left_out else text
    )


def answer_messages(results: Sequence[Mapping[str, Any]]) -> list[AnyMessage]:
    """Return search results for the model, without the whole campaigns."""
    return [tool_message(one["id"], one["tool"], for_model(one["output"])) for one in results]
