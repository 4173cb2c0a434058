"""Gate behind every answer of the planner's model: only a whole answer is planned.

An answer that was cut off is continued or asked for again, an empty one too, and none is carried out in part.
The further questions go to the model alone and are not stored.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from callsheet.providers.routing import Route
from callsheet.state.answers import has_written_call, kept_answer, sum_of_usage, verdict
from callsheet.state.workflow import Usage

MAX_ANSWERS: Final = 3
"""Answers of one round."""
_CONTINUE: Final = (
    "You were cut off at the length limit. Continue exactly where you stopped, and repeat nothing."
)
_SHORTER: Final = (
    "Your last answer was cut off at the length limit before its tool calls were complete, and nothing was "
    "carried out. Call again, with shorter arguments or fewer calls at once."
)
_WRITTEN: Final = (
    "You wrote a tool call as text, so nothing was carried out. Call the tool now, with nothing beside the "
    "call; or answer the person without it."
)
_NUDGE: Final = "You sent nothing. Answer the person, or call a tool."
_STILL_CUT: Final = "(The model's answer was cut off at its length limit.)"
_NOT_CALLED: Final = (
    "The model's answer was cut off at its length limit, so nothing was carried out. Ask for less at "
    "once, or raise the limit of output tokens."
)
_FILTERED: Final = (
    "The model's provider stopped the answer because of its content policy. Nothing was carried out."
)

Ask = Callable[[Sequence[AnyMessage]], Awaitable[tuple[Route, AIMessage]]]
"""Sends a conversation and returns the answer with the route to it."""


@dataclass(frozen=True)
class GatedAnswer:
    """An answer that may be planned."""

    route: Route
    message: AIMessage
    usage: Usage
    """Tokens of all answers of the round."""


async def ask_through_gate(
    ask: Ask,
    sent: Sequence[AnyMessage],
    history: Sequence[AnyMessage],
    tools: Collection[str],
    missing: Callable[[AIMessage], str] | None,
) -> GatedAnswer:
    """Return a whole answer to `sent`, after at most `MAX_ANSWERS` answers.

    `missing` returns what a whole answer still lacks, as a request to the model that is sent once; empty for
    nothing. Raises what `ask` raises.
    """
    answers: list[AIMessage] = []
    text, request = "", list(sent)
    while True:
        route, received = await ask(request)
        answer = kept_answer(received, history, tools)
        answers.append(answer)
        last = len(answers) == MAX_ANSWERS
        match verdict(answer):
            case "cut text":
                text += answer.text
                if last:
                    break
                request = [*sent, AIMessage(text), HumanMessage(_CONTINUE)]
            case "cut calls" if not last:
                request = [*sent, HumanMessage(_SHORTER)]
            case "empty" if len(answers) == 1:
                request = [*sent, HumanMessage(_NUDGE)]
            case "whole" if missing and len(answers) == 1 and (wish := _wish(answer, tools, missing)):
                request = [*sent, AIMessage(answer.text), HumanMessage(wish)]
            case _:
                break
    return GatedAnswer(route, _final(answers, text), Usage(**sum_of_usage(answers)))  # type: ignore[typeddict-item]


def _wish(answer: AIMessage, tools: Collection[str], missing: Callable[[AIMessage], str]) -> str:
    """Return what a whole answer still lacks, as a request to the model; empty for nothing."""
    return _WRITTEN if has_written_call(answer, tools) else missing(answer)


def _final(answers: Sequence[AIMessage], text: str) -> AIMessage:
    """Return the message that the answers of a round amount to; it has the id of the first one."""
    last = answers[-1]
    replaced = {
        "cut text": f"{text}\n\n{_STILL_CUT}",
        "cut calls": _NOT_CALLED,
        "filtered": _FILTERED,
        "refused": last.text or str(last.additional_kwargs.get("refusal")),
    }.get(verdict(last))
    if replaced is not None:
        return _without_calls(last, replaced, answers[0].id)
    if text:
        return last.model_copy(update={"content": text + last.text, "id": answers[0].id})
    return last


def _without_calls(answer: AIMessage, text: str, name: str | None) -> AIMessage:
    return AIMessage(
        text,
        id=name,
        response_metadata=answer.response_metadata,
        additional_kwargs={key: value for key, value in answer.additional_kwargs.items() if key == "refusal"},
    )
