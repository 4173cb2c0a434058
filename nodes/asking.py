"""The planner's question to a model: overflow is compacted, and an outage passes to another provider."""

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage

from callsheet import providers
from callsheet.providers.outages import outages
from callsheet.providers.routing import Route, RoutingRequest, route
from callsheet.providers.windows import input_budget
from callsheet.state.context import Context
from callsheet.state.errors import ContextOverflow, StorageDown, Unavailable
from callsheet.state.shortening import fit_conversation
from callsheet.state.tokens import estimate_messages, estimate_tools
from callsheet.tools.call import Scope
from callsheet.tools.models.calls import call_model

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
    request: RoutingRequest, sent: Sequence[AnyMessage], *, tools: Sequence[dict[str, Any]], choice: Any
) -> tuple[Route, AIMessage]:
    """Return the model's answer with the route to it.

    Where a provider fails and the caller named none, the next one with a key answers instead. Raises the
    first provider's error once nobody can: the offline model never stands in for a vendor whose key is set.
    """
    return await _with_failover(request, partial(_answer, sent=sent, tools=tools, choice=choice))


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
        except StorageDown:
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
) -> tuple[Route, AIMessage]:
    """Return the answer to the conversation, or to as much of it as the model can read.

    Where the vendor refuses what should fit, the route's budget is what it accepts.
    """
    # Always as a stream, so that words reach every reader as they come; the offline model has none.
    stream = {} if chosen.provider == providers.OFFLINE else {"stream": True}
    bound = model.bind_tools(tools, tool_choice=choice, **stream)
    tool_tokens = estimate_tools(tools)
    limit = chosen.input_budget - tool_tokens
    shown = fit_conversation(sent, limit)
    try:
        return chosen, await call_model(model, shown, partial(bound.ainvoke, shown), tools)
    except ContextOverflow:
        # Estimates are wrong by a third, and a window may be smaller than its setting.
        shorter = fit_conversation(sent, min(limit, estimate_messages(shown)) // 2)
        if shorter == shown:
            raise
        answer = await call_model(model, shorter, partial(bound.ainvoke, shorter), tools)
        return replace(chosen, input_budget=estimate_messages(shorter) + tool_tokens), answer
