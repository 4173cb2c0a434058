"""The one way a model is called: estimate, reserve, wait for the vendor's limits, call, settle.

A node names the account that pays; its tools and their tasks inherit it. Every call is recorded with the
usage that the vendor reports. The offline model is free and is not recorded.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables.config import ensure_config

from callsheet import storage
from callsheet.state import pricing
from callsheet.state.budgets import BudgetExceeded
from callsheet.storage import spending
from callsheet.storage.redis import keys
from callsheet.storage.spending import Account, ModelUsage, VendorLimits
from callsheet.tools.guard.deadline import current_deadline
from callsheet.tools.guard.tool_environment import current_tool_environment

OUTPUT_TOKENS: Final = 4_096
"""Most output tokens that are expected of a call whose model has no limit set."""
LEASE_S: Final = keys.VENDOR_CALL_LEASE_S
"""Lifetime of a reservation; longer than a call with its retries takes."""
_RESERVATION_PATIENCE_S: Final = 10.0
"""Seconds that a call waits for others to be settled, if the budget suffices without their reservations."""
_RESERVATION_POLL_S: Final = 0.2
UNKNOWN_MODEL: Final = "other"
"""Label of a model without a price, so that callers cannot make up labels."""


_account: ContextVar[Account | None] = ContextVar("account", default=None)


_collected: ContextVar[list[ModelUsage] | None] = ContextVar("collected", default=None)


@contextmanager
def collect_usage() -> Iterator[list[ModelUsage]]:
    """Yield a list that gets the usage of each model call of this task, and of the tasks it starts.

    A failed call has no tokens and no cost.
    """
    used: list[ModelUsage] = []
    token = _collected.set(used)
    try:
        yield used
    finally:
        _collected.reset(token)


@contextmanager
def charge(account: Account) -> Iterator[None]:
    """Charge the model calls of this task, and of the tasks it starts, to `account`."""
    token = _account.set(account)
    try:
        yield
    finally:
        _account.reset(token)


async def call_model(
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    invoke: Callable[[], Awaitable[AIMessage]],
    tools: Sequence[dict[str, Any]] = (),
) -> AIMessage:
    """Return what `invoke` returns: the answer of `model` to `messages`, with `tools` offered.

    Waits while only reservations of other calls exceed a budget. A tool's time does not pass while it waits,
    and grows with the time-out of the model's provider. Raises `BudgetExceeded` before anything is sent, and
    what `invoke` raises.
    """
    deadline = current_deadline()
    if deadline and isinstance(timeout_s := getattr(model, "request_timeout", None), int | float):
        deadline.allow(timeout_s)
    account = _account.get()
    name = str(getattr(model, "model_name", ""))
    if account is None or not name:
        return await invoke()
    account = await spending.with_redis_day(await storage.current(), account)
    call = _charged_call(model, account, name, _estimate_tokens(messages, tools))
    queue = deadline.pause if deadline else nullcontext
    with queue():
        await call.reserve()
    began = time.monotonic()
    usage, outcome = None, "failed"
    try:
        with queue():
            await call.admit()
        outcome = "cut"
        answer = await invoke()
    except Exception:
        outcome = "failed"
        raise
    else:
        usage, outcome = _usage(name, messages, answer), "ok"
        return answer
    finally:
        await call.settle(outcome, usage, time.monotonic() - began)


@dataclass(frozen=True)
class _Charged:
    account: Account
    id: str
    model: str
    limits: VendorLimits
    input_tokens: int
    """Estimate."""
    output_tokens: int
    """Most that is expected."""
    purpose: str
    """Graph and node that call the model."""

    async def admit(self) -> None:
        if self.limits:
            opened = await storage.current()
            await spending.admit_call(opened, self.limits, self.id, self.input_tokens, LEASE_S)

    async def reserve(self) -> None:
        opened = await storage.current()
        tool_environment = current_tool_environment()
        budgets = tool_environment.policy.budgets
        patience_ends_s = time.monotonic() + _RESERVATION_PATIENCE_S
        while True:
            estimate = (await self._estimate()).cost if budgets else 0.0
            over = await spending.reserve(opened, self.account, self.id, estimate, budgets, LEASE_S)
            if over is None:
                return
            if not over.is_reserved or time.monotonic() >= patience_ends_s:
                tool_environment.counters.count_budget_refusal(over.budget)
                raise BudgetExceeded(over)
            await asyncio.sleep(_RESERVATION_POLL_S)

    async def settle(self, outcome: str, usage: ModelUsage | None, took_s: float) -> None:
        """Replace the reservation by the usage; a call that was cut is charged at its estimate."""
        if outcome == "cut":
            usage = replace(await self._estimate(), estimated=1)
        if (collected := _collected.get()) is not None:
            collected.append(usage or ModelUsage(calls=1))
        tool_environment = current_tool_environment()
        name = self.model if tool_environment.policy.prices.get(self.model) else UNKNOWN_MODEL
        tool_environment.counters.count_model_call(name, outcome, took_s, usage or ModelUsage())
        opened = await storage.current()
        await spending.settle(opened, self.account, self.id, self.model, usage)
        if usage and outcome == "ok":
            ratio = usage.input / max(1, self.input_tokens)
            await spending.observe(opened, self.account, self.purpose, self.model, ratio, usage.output)
        if self.limits:
            used = usage.input + usage.output if usage else self.input_tokens
            await spending.release_call(opened, self.limits, self.id, self.input_tokens, used)

    async def _estimate(self) -> ModelUsage:
        seen = await spending.read_expectation(
            await storage.current(), self.account, self.purpose, self.model
        )
        read, written = seen.expect(self.input_tokens, self.output_tokens)
        cost = _cost(self.model, read, written)
        return ModelUsage(calls=1, input=read, output=written, cost=cost or 0.0, unpriced=int(cost is None))


def _charged_call(model: BaseChatModel, account: Account, name: str, input_tokens: int) -> _Charged:
    output = getattr(model, "max_tokens", None) or OUTPUT_TOKENS
    return _Charged(account, uuid.uuid4().hex, name, _limits(model), input_tokens, output, _purpose())


def _purpose() -> str:
    """Return the graph and the node that call the model; empty outside of a graph."""
    config = ensure_config()
    graph = config.get("configurable", {}).get("graph_id", "")
    return f"{graph}/{config.get('metadata', {}).get('langgraph_node', '')}"


def _limits(model: BaseChatModel) -> VendorLimits:
    return VendorLimits(
        str(getattr(model, "vendor", "") or getattr(model, "title", "")),
        calls=getattr(model, "concurrency", 0),
        tokens_per_minute=getattr(model, "tokens_per_minute", 0),
        patience_s=getattr(model, "patience_s", 60.0),
    )


def _usage(model: str, messages: Sequence[BaseMessage], answer: AIMessage) -> ModelUsage:
    """Return the usage that the vendor reports, or an estimate if it reports none."""
    used = answer.usage_metadata
    read = used["input_tokens"] if used else count_tokens_approximately(messages)
    written = used["output_tokens"] if used else count_tokens_approximately([answer])
    cached = used.get("input_token_details", {}).get("cache_read", 0) if used else 0
    cost = _cost(model, read, written, cached)
    return ModelUsage(
        calls=1,
        input=read,
        output=written,
        cached=cached,
        cost=cost or 0.0,
        unpriced=int(cost is None),
    )


def _estimate_tokens(messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]) -> int:
    """Return the expected tokens; a text in a script of three bytes a character takes three times as many."""
    text = "".join(message.text for message in messages)
    bytes_per_char = len(text.encode("utf-8", "replace")) / max(1, len(text))
    return int(count_tokens_approximately(messages, tools=[*tools]) * bytes_per_char)


def _cost(model: str, read: int, written: int, cached: int = 0) -> float | None:
    return pricing.cost(model, read, written, cached=cached, table=current_tool_environment().policy.prices)
