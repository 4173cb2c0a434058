"""The planner's question to a model, and the gate behind every answer: only a whole answer is planned.

Overflow is compacted, and an outage passes to another provider. An answer that was cut off is continued or
asked for again, an empty one too, and none is carried out in part. The further questions go to the model
alone and are not stored.
"""

import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from callsheet import providers
from callsheet.nodes.flat_calls import ask_flat, remember_tools_alone
from callsheet.providers.routing import Route, RoutingRequest, input_budget, outages, route
from callsheet.providers.thinking import without_unopened_thought
from callsheet.state.answers import has_written_call, kept_answer, sum_of_usage, verdict
from callsheet.state.context import Context
from callsheet.state.errors import (
    CallsheetError,
    ContextOverflow,
    Fenced,
    RequestRejected,
    StorageDown,
    Unavailable,
    UnusableAnswer,
)
from callsheet.state.model_input import fit_conversation
from callsheet.state.tokens import estimate_messages, estimate_tools
from callsheet.state.workflow import Usage
from callsheet.tools.call import Scope
from callsheet.tools.models.calls import call_model

_log = logging.getLogger(__name__)
_RUN_PREFIX: Final = "lc_run--"
Ask = Callable[[Route, BaseChatModel], Awaitable[tuple[Route, AIMessage]]]


def routing_request(context: Context, scope: Scope) -> RoutingRequest:
    """Return what decides on the provider that answers a run."""
    return RoutingRequest(
        provider=context.get("model") or context.get("provider", ""),
        language=scope.facts.get("language", ""),
        complexity=context.get("complexity", ""),
        budget=context.get("budget", ""),
    )


async def ask_model(
    request: RoutingRequest,
    sent: Sequence[AnyMessage],
    *,
    tools: Sequence[dict[str, Any]],
    choice: Any,
    is_hidden: bool = False,
    flat_examples: Sequence[AnyMessage] | None = None,
) -> tuple[Route, AIMessage]:
    """Return the model's answer with the route to it; a hidden one is not streamed to readers.

    Flat tools, which have examples or an empty list of them, are called by one JSON object where the model's
    server keeps answers to a schema.

    Where a provider fails and the caller named none, the next one with a key answers instead. Raises the
    first provider's error once nobody can: the offline model never stands in for a vendor whose key is set.
    """
    config: RunnableConfig = {"tags": ["nostream"]} if is_hidden else {}
    usual = partial(_answer, sent=sent, tools=tools, choice=choice, config=config)

    async def ask(chosen: Route, model: BaseChatModel) -> tuple[Route, AIMessage]:
        if flat_examples is None:
            return await usual(chosen, model)
        spent = estimate_tools(tools) + estimate_messages(flat_examples)
        shown = fit_conversation(sent, chosen.input_budget - spent)
        try:
            flat = await ask_flat(model, shown, tools, flat_examples)
        except RequestRejected:
            refuses, flat = True, None
        else:
            refuses = False
        answered = (chosen, flat) if flat else await usual(chosen, model)
        if refuses:
            remember_tools_alone(model)
        return answered

    return await _with_failover(request, ask)


async def ask_plainly(request: RoutingRequest, sent: Sequence[AnyMessage]) -> tuple[Route, AIMessage]:
    """Return the model's answer in text, which nobody watches; raises as `ask_model`."""

    async def ask(chosen: Route, model: BaseChatModel) -> tuple[Route, AIMessage]:
        invoke = partial(model.ainvoke, list(sent), {"tags": ["nostream"]})
        return chosen, await call_model(model, sent, invoke)

    return await _with_failover(request, ask)


async def _with_failover(request: RoutingRequest, ask: Ask) -> tuple[Route, AIMessage]:
    available = providers.with_key(os.environ)
    failures: dict[str, Unavailable] = {}
    while True:
        chosen = route(request, available, failed=outages().current())
        if chosen.provider in failures:
            raise next(iter(failures.values()))
        try:
            model = await providers.load_off_loop(chosen.spec)
            return await ask(replace(chosen, input_budget=input_budget(model)), model)
        except (StorageDown, UnusableAnswer):
            raise
        except Unavailable as error:
            outages().report(chosen.provider, error)
            failures[chosen.provider] = error
            if request.provider:
                raise


async def _answer(
    chosen: Route,
    model: BaseChatModel,
    *,
    sent: Sequence[AnyMessage],
    tools: Sequence[dict[str, Any]],
    choice: Any,
    config: RunnableConfig,
) -> tuple[Route, AIMessage]:
    """Return the answer to the conversation, or to as much of it as the model can read.

    Where the vendor refuses what should fit, the route's budget is what it accepts.
    """
    # Always as a stream, so that words reach every reader as they come; the offline model has none.
    stream = {} if chosen.provider == providers.OFFLINE else {"stream": True}
    bound = model.bind_tools(tools, tool_choice=choice, **stream)
    tool_tokens = estimate_tools(tools)
    limit = chosen.input_budget - tool_tokens
    config = {**config, **_same_run(sent)}
    shown = fit_conversation(sent, limit)
    try:
        return chosen, await call_model(model, shown, partial(bound.ainvoke, shown, config), tools)
    except ContextOverflow:
        # Estimates are wrong by a third, and a window may be smaller than its setting.
        shorter = fit_conversation(sent, min(limit, estimate_messages(shown)) // 2)
        if shorter == shown:
            raise
        answer = await call_model(model, shorter, partial(bound.ainvoke, shorter, config), tools)
        return replace(chosen, input_budget=estimate_messages(shorter) + tool_tokens), answer


def _same_run(sent: Sequence[AnyMessage]) -> RunnableConfig:
    """Return the run of the answer that `sent` asks to continue: its words are streamed as one message.

    LangChain makes the ids of streamed messages from those of their runs.
    """
    partial_answer = sent[-2] if len(sent) > 1 and sent[-1].text == _CONTINUE else None
    run = (
        str(partial_answer.id).removeprefix(_RUN_PREFIX)
        if partial_answer and str(partial_answer.id).startswith(_RUN_PREFIX)
        else ""
    )
    return {"run_id": uuid.UUID(run)} if run else {}


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
    "The model's answer was cut off at its length limit, so none of its calls was carried out. Ask for less "
    "at once, or raise the limit of output tokens."
)
_FILTERED: Final = (
    "The model's provider stopped its answer because of its content policy, so none of its calls was "
    "carried out."
)

Send = Callable[[Sequence[AnyMessage]], Awaitable[tuple[Route, AIMessage]]]
"""Sends a conversation and returns the answer with the route to it."""


@dataclass(frozen=True)
class GatedAnswer:
    """An answer that may be planned."""

    route: Route
    message: AIMessage
    usage: Usage
    """Tokens of all answers of the round."""
    nudged: bool = False
    """True if the model was asked for what its first answer lacked."""
    withdrawn: Sequence[str] = ()
    """Ids of the round's other answers, whose words may have been streamed, too."""


class Lack(NamedTuple):
    """A request for what an answer lacks."""

    request: str = ""
    """Message to the model; empty for nothing."""
    words: str = ""
    """The answer's words."""


async def ask_through_gate(
    ask: Send,
    sent: Sequence[AnyMessage],
    history: Sequence[AnyMessage],
    tools: Collection[str],
    missing: Callable[[Route, AIMessage], Lack] | None,
) -> GatedAnswer:
    """Return a whole answer to `sent`, after at most `MAX_ANSWERS` answers.

    `missing` returns what a whole answer still lacks, which is requested once. An empty answer to that leaves
    the first one, and so does a failure: its words have been streamed. Raises what `ask` raises before.
    """
    answers: list[AIMessage] = []
    stale: list[str] = []  # Ids of answers that were stored under another one.
    text, request, wish = "", list(sent), ""
    while (reply := await (_ask_once_more(ask, request) if wish else ask(request))) is not None:
        route, received = reply
        answer = kept_answer(without_unopened_thought(received), history, tools)
        answers.append(answer)
        stale += [str(received.id)] if answer.id != received.id else []
        last = len(answers) == MAX_ANSWERS
        if verdict(answer) == "cut text":
            text += answer.text
        lack = Lack()
        if len(answers) == 1 and missing and verdict(answer) == "whole":
            written = has_written_call(answer, tools)
            lack = Lack(_WRITTEN, answer.text) if written else missing(route, answer)
            wish = "" if written else lack.request
        partial_answer = AIMessage(text, id=answers[0].id)
        more = [] if last else _next_request(answer, partial_answer, lack, is_first=len(answers) == 1)
        if not more:
            break
        request = [*sent, *more]
    usage = Usage(**sum_of_usage(answers))  # type: ignore[typeddict-item]
    keeps_first = wish and (reply is None or verdict(answers[-1]) == "empty")
    message = answers[0] if keeps_first else _final(answers, text)
    # The parts of a continued text are in the message.
    stale += [str(one.id) for one in answers if one.id and one.id != message.id and not text]
    return GatedAnswer(route, message, usage, nudged=bool(wish), withdrawn=stale)


def _next_request(
    answer: AIMessage, partial_answer: AIMessage, lack: Lack, *, is_first: bool
) -> list[AnyMessage]:
    """Return the messages that ask for the rest of an answer; none for one that is whole or hopeless.

    `partial_answer` has the words so far.
    """
    match verdict(answer):
        case "cut text":
            return [partial_answer, HumanMessage(_CONTINUE)]
        case "cut calls":
            return [HumanMessage(_SHORTER)]
        case "empty" if is_first:
            return [HumanMessage(_NUDGE)]
        case "whole" if lack.request:
            return [AIMessage(lack.words), HumanMessage(lack.request)]
    return []


async def _ask_once_more(ask: Send, request: Sequence[AnyMessage]) -> tuple[Route, AIMessage] | None:
    """Return the answer to a request for what an answer lacks; None if it fails: the first one stands."""
    try:
        return await ask(request)
    except (StorageDown, Fenced):
        raise
    except CallsheetError as error:
        _log.warning("the request for what an answer lacks failed: %s", type(error).__name__)
        return None


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
