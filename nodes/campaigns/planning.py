"""The planner of campaign search: searches are steps, and the answer is checked before it is sent."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from pydantic import ValidationError

from callsheet.nodes.planner import Planned, Planning, plan_of_calls
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.campaigns.answers import (
    MAX_STATEMENTS,
    MAX_TEXT,
    Answer,
    Statement,
    is_supported_question,
    problems_of,
)
from callsheet.state.campaigns.counting import match_words
from callsheet.state.campaigns.evidence import evidence_of
from callsheet.state.campaigns.workflow import EXTENT, CampaignState, SearchExtent
from callsheet.state.conversation import calls_of
from callsheet.state.errors import Invalid
from callsheet.state.languages import detect
from callsheet.state.sentences import sentence_spans
from callsheet.storage import current
from callsheet.tools.call import Scope
from callsheet.tools.campaigns.libraries import library, library_values
from callsheet.tools.campaigns.results import ABSENT, NO_OFFERS, for_model
from callsheet.tools.guard.arguments import read_arguments, repair_off_loop
from callsheet.tools.guard.outcome import failed_outcome, tool_message

ANSWER: Final = "answer"
MAX_CHECKS: Final = 1
"""Answers of a turn that are sent back with what is not supported."""
MAX_CHECKED: Final = 100
"""Sentences of an answer in plain text that are checked; further ones are left out."""
_TOO_LONG: Final = f"an answer has at most {MAX_CHECKED} sentences"
_IMAGE: Final = re.compile(r"!\[|<img\b", re.IGNORECASE)
_SHOWN: Final = 10
_OFFER: Final = 60
"""Characters of an offer in the state block."""
_LISTED: Final = 40
"""Values of a dimension that the model sees."""


class CampaignPlanning(Planning):
    """Plans of searches, and checked answers."""

    is_checked: ClassVar[bool] = True

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
                f"{number}. {one['id']} {one['company']}: {one['offer'][:_OFFER] or 'no offer'}"
                for number, one in enumerate(last["campaigns"][:_SHOWN], 1)
            ]
            count = "the nearest in meaning" if last["source"] == "meaning" else last["total"]
            lines.append(f"Campaigns of the last result ({count}): {'; '.join(listed)}")
        return "\n".join(lines)

    async def plan(
        self, workflow: WorkflowSpec[Any], state: CampaignState, scope: Scope, answer: AIMessage
    ) -> Planned:
        """Return the searches of an answer, or the checked answer itself."""
        del scope
        calls = [*calls_of(answer)]
        searches = [call for call in calls if call["name"] != ANSWER]
        if searches:
            return Planned(plan_of_calls(workflow, answer), _without_words(answer), {"checks": 0})
        outputs = known_results(state)
        if calls:
            try:
                given = await _read_answer(answer)
            except Invalid as error:
                sent_back = self._sent_back(state, str(calls[0]["id"]), [error.message], outputs)
                return sent_back._replace(messages=[*_without_words(answer), *sent_back.messages])
            checked = self._check(state, answer, given.statements, outputs, given.suggestions)
            return checked._replace(messages=[*_without_words(answer), *checked.messages])
        if not str(answer.text).strip() or answer.additional_kwargs.get("refusal"):
            return Planned()
        return self._check(state, answer, _statements(str(answer.text)), outputs)

    def text_of_results(self, workflow: WorkflowSpec[Any], state: CampaignState) -> str:
        """Return an answer made from the last result alone."""
        del workflow
        extent, text = _search_extent(state), result_text(known_results(state))
        return f"{text}\n\n{extent['text']}" if extent else text

    def _check(
        self,
        state: CampaignState,
        answer: AIMessage,
        statements: Sequence[Statement],
        outputs: Sequence[Mapping[str, Any]],
        suggestions: Sequence[str] = (),
    ) -> Planned:
        """Return an answer whose statements the results prove; the first other one goes back to the model."""
        evidence = evidence_of(outputs)
        wrong = problems_of(statements[:MAX_CHECKED], evidence)
        wrong += [[_TOO_LONG]] * len(statements[MAX_CHECKED:])
        faults = [
            f"{statement.text[:120]!r}: {'; '.join(reasons)}"
            for statement, reasons in zip(statements, wrong, strict=True)
            if reasons
        ]
        calls = calls_of(answer)
        if faults and state.get("checks", 0) < MAX_CHECKS:
            if calls:
                return self._sent_back(state, str(calls[0]["id"]), faults, outputs)
            call = _as_call(answer, statements)
            sent_back = self._sent_back(state, str(calls_of(call)[0]["id"]), faults, outputs)
            return sent_back._replace(messages=[call, *sent_back.messages])
        kept = [one for one, reasons in zip(statements, wrong, strict=True) if not reasons]
        if not calls:
            checked = _text(kept, len(faults), outputs) if faults else str(answer.text)
            # With the same id it takes the place of what the model wrote.
            complete = _with_extent(answer, without_images(checked), state)
            shown = [] if complete == answer else [complete]
            return Planned(None, shown, {"checks": 0, **({"truncated": True} if faults else {})})
        text = without_images(_text(kept, len(faults), outputs))
        questions = [one for one in suggestions if is_supported_question(one, evidence)]
        sent = tool_message(str(calls[0]["id"]), ANSWER, {"sent": True})
        messages: list[AnyMessage] = [sent, _with_extent(AIMessage(text), text, state)]
        return Planned(None, messages, {"suggestions": questions, "checks": 0})

    def _sent_back(
        self, state: CampaignState, call: str, faults: Sequence[str], outputs: Sequence[Mapping[str, Any]]
    ) -> Planned:
        outcome = failed_outcome(
            "validation_error",
            f"Not supported by the campaigns: {' | '.join(faults[:MAX_STATEMENTS])}",
            suggestion="Search for what is missing, or answer again with what the results say",
            retryable=True,
        )
        checks = state.get("checks", 0)
        if checks < MAX_CHECKS:
            return Planned(None, [tool_message(call, ANSWER, outcome.output)], {"checks": checks + 1})
        text = without_images(result_text(outputs))
        message = _with_extent(AIMessage(text), text, state)
        return Planned(None, [tool_message(call, ANSWER, {"sent": False}), message], {"checks": 0})


def _without_words(answer: AIMessage) -> list[AIMessage]:
    """Return the message without words beside its calls, which nothing checks; none if it has no words."""
    return [answer.model_copy(update={"content": ""})] if str(answer.text) else []


def _statements(text: str) -> list[Statement]:
    """Return an answer in plain text as statements, a sentence or a part of a very long one each."""
    starts = [start for start, _ in sentence_spans(text)] or [0]
    ends = [*starts[1:], len(text)]
    sentences = [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    return [Statement(text=part) for one in sentences for part in _parts(one, MAX_TEXT) if part]


def _parts(sentence: str, size: int) -> Iterator[str]:
    """Yield a text in parts of at most so many characters, cut at blanks where it has some."""
    while len(sentence) > size:
        cut = sentence.rfind(" ", 0, size) + 1 or size
        yield sentence[:cut].strip()
        sentence = sentence[cut:]
    yield sentence


def _as_call(answer: AIMessage, statements: Sequence[Statement]) -> AIMessage:
    """Return a plain text as the call of `answer` that it should have been, so that it can be sent back."""
    args = {"statements": [{"text": one.text} for one in statements]}
    call = ToolCall(name=ANSWER, args=args, id=f"answer_{answer.id}", type="tool_call")
    return answer.model_copy(update={"content": "", "tool_calls": [call]})


def without_images(text: str) -> str:
    """Return Markdown whose images are links: an image is loaded unasked, and its address may carry data."""
    return _IMAGE.sub(lambda match: "[" if match[0] == "![" else "&lt;img", text)


def known_results(state: CampaignState) -> list[Mapping[str, Any]]:
    """Return the results that an answer may cite: this turn's, and the last one with campaigns before."""
    turn: list[Mapping[str, Any]] = [
        one["output"] for one in state.get("results", ()) if "count" in one["output"]
    ]
    last = state.get("result")
    if not last:
        return turn
    earlier = {
        "by": last["source"],
        "query": last.get("query", ""),
        "count": last["total"],
        "campaigns": last["campaigns"],
        "detectedFilters": last.get("filters", {}),
        "aggregation": last.get("aggregation") or {},
    }
    return [earlier, *turn]


def _with_extent(answer: AIMessage, text: str, state: CampaignState) -> AIMessage:
    """Return an answer with this text, and the extent of its last search as data beside it.

    A text in English has it as words, too; in another language those would be a second one.
    """
    extent = _search_extent(state)
    if extent is None:
        return answer if text == answer.text else answer.model_copy(update={"content": text})
    is_english = detect(text) in {None, "english"}
    content = f"{text}\n\n{extent['text']}" if is_english else text
    kwargs = {**answer.additional_kwargs, EXTENT: extent}
    return answer.model_copy(update={"content": content, "additional_kwargs": kwargs})


def _search_extent(state: CampaignState) -> SearchExtent | None:
    """Return the extent of the turn's last search, where it is not all that a reader may think."""
    outputs = [one["output"] for one in state.get("results", ()) if "count" in one["output"]]
    if not outputs or not (text := _search_note(outputs[-1])):
        return None
    last = outputs[-1]
    return SearchExtent(
        by=last["by"],
        filters=[*last["detectedFilters"]],
        absentValues=[*last.get(ABSENT, ())],
        noOffers=bool(last.get(NO_OFFERS)),
        text=text,
    )


def _search_note(output: Mapping[str, Any]) -> str:
    by, names = output["by"], [name.replace("_", " ") for name in output["detectedFilters"]]
    looked = {
        "words": "Searched the copy only, not the offers.",
        "offers": "Searched the offers only, not the copy.",
    }
    if by == "filter" and names:
        looked[by] = f"Searched by {', '.join(names)}."
    absent = " ".join(output.get(ABSENT, ()))
    if output["count"] and by != "words":
        return absent
    lacks = "No campaign of this library has an offer." if output.get(NO_OFFERS) else ""
    return " ".join(filter(None, (looked.get(by, ""), absent, lacks)))


def result_text(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return an answer made from the last result alone."""
    if not outputs:
        return "I have no result to answer from. Ask me to search for it."
    last = outputs[-1]
    if groups := (last.get("aggregation") or {}).get("groups"):
        listed = ", ".join(f"{row['value']} {row['count']}" for row in groups[:_SHOWN])
        return f"By {last['aggregation']['groupBy']}: {listed}."
    if not last["count"]:
        return "No campaign matches."
    lines = [
        f"{one['company']}: {one['offer'] or one['campaign_text']} ({one['id']})"
        for one in last["campaigns"][:_SHOWN]
    ]
    first = "The nearest in meaning" if last.get("by") == "meaning" else match_words(last["count"])
    return "\n".join([f"{first}:", *lines])


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
    return f"{text}\n\n({left_out} statements were left out: no result proves them.)" if left_out else text


def answer_messages(results: Sequence[Mapping[str, Any]]) -> list[AnyMessage]:
    """Return search results for the model, without the whole campaigns."""
    return [tool_message(one["id"], one["tool"], for_model(one["output"])) for one in results]
