"""Pauses a node that could exceed a budget, until a person raises the budget or stops the turn."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from langgraph.config import get_config
from langgraph.types import interrupt

from callsheet import storage
from callsheet.nodes.node import RESUMES_KEY
from callsheet.state.budgets import BudgetExceeded, OverBudget
from callsheet.state.errors import Invalid
from callsheet.storage import spending
from callsheet.storage.spending import Account
from callsheet.tools.models.calls import charge

Result = TypeVar("Result")
STOPPED: Final = "I stopped here, because the budget was not raised. What was made until now is kept."


class Declined(Exception):
    """The budget was not raised."""


def _ask(over: OverBudget) -> float | None:
    """Return the cap that a person sets, or None; a wrong answer is refused, and the question asked again."""
    problem = ""
    while True:
        try:
            return over.raised_cap(interrupt(over.question(problem)))
        except Invalid as error:
            problem = f"{error.message}: {error.remedy}"


async def _has_paid(account: Account) -> bool:
    """Return whether the turn has paid for a model call."""
    return bool(await spending.read_usage(await storage.current(), account, "turn"))


async def within_budget(
    account: Account,
    work: Callable[[], Awaitable[Result]],
    stopped: str | None = None,
    *,
    begins: bool = False,
) -> Result:
    """Return the result of `work`; ask a person once if it could exceed a budget, and then do it again.

    What `work` did before has receipts and is not repeated. Raises `Declined` if the person declines, if the
    raised budget does not suffice either, and for the turn `stopped`, in which a person declined before; and
    `BudgetUsedUp` for the owner's day where `work` begins a turn, in which nothing was done yet. A run that
    brings an answer is not refused: LangGraph keeps the answer with the question, so it would be lost.
    """
    if stopped == account.turn:
        raise Declined
    try:
        with charge(account):
            return await work()
    except BudgetExceeded as exceeded:
        is_new = begins and not get_config()["configurable"].get(RESUMES_KEY)
        if is_new and exceeded.over.budget == "day" and not await _has_paid(account):
            raise exceeded.over.refusal() from exceeded
        cap = _ask(exceeded.over)
        if cap is None:
            raise Declined from None
        if exceeded.over.budget != "day":
            await spending.raise_budget(await storage.current(), account, exceeded.over.budget, cap)
    try:
        with charge(account):
            return await work()
    except BudgetExceeded:
        raise Declined from None
