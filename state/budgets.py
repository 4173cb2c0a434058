"""Budgets of model calls in US dollars: per turn, per thread, and per owner and day."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from callsheet.state.errors import BudgetUsedUp, CallsheetError, Invalid

RAISE_BUDGET: Final = "raise_budget"
"""Type of the question, and name of its action."""
_PLACES = 4
BudgetName = Literal["turn", "thread", "day"]
"""`day` is an owner's day in UTC."""


@dataclass(frozen=True)
class Budgets:
    """Caps in US dollars; None for no cap."""

    turn: float | None = None
    thread: float | None = None
    day: float | None = None

    def __bool__(self) -> bool:
        """Return True if there is a cap."""
        return any(getattr(self, one.name) is not None for one in fields(self))


@dataclass(frozen=True)
class OverBudget:
    """A budget that the next model call could exceed."""

    budget: BudgetName
    spent: float
    """US dollars spent and reserved."""
    estimate: float
    """Most that the call can cost, in US dollars."""
    cap: float
    settled: float = 0.0
    """US dollars spent alone."""
    ends: str = ""
    """Time at which the budget begins again, in ISO 8601; empty for a turn or thread."""

    @property
    def is_reserved(self) -> bool:
        """True if only the reservations of calls in progress stand in the way; they mostly cost less."""
        return self.settled + self.estimate <= self.cap

    def question(self, problem: str = "") -> dict[str, Any]:
        """Return the value of the interrupt that asks a person to raise the budget.

        `problem` says why the last answer was refused.
        """
        args: dict[str, Any] = {
            "budget": self.budget,
            "spent": self.spent,
            "estimate": self.estimate,
            "cap": self.cap,
        }
        args |= {"ends": self.ends} if self.ends else {}
        return {
            "action_requests": [
                {"name": RAISE_BUDGET, "args": args, "description": f"{problem}\n\n{self._text()}".strip()}
            ],
            "review_configs": [
                {"action_name": RAISE_BUDGET, "allowed_decisions": ["approve", "edit", "reject"]}
            ],
            "type": RAISE_BUDGET,
            **args,
            "problem": problem,
            "examples": [
                {"decisions": [{"type": "approve"}]},
                {
                    "decisions": [
                        {"type": "edit", "edited_action": {"name": RAISE_BUDGET, "args": {"cap": 1.5}}}
                    ]
                },
                {"decisions": [{"type": "reject"}]},
            ],
        }

    def _text(self) -> str:
        text = (
            f"This is not finished: the next model call may cost {_dollars(self.estimate)}. The budget of "
            f"this {self.budget} is {_dollars(self.cap)}, of which {_dollars(self.spent)} is spent. "
        )
        if self.ends:
            text += f"It begins again at {self.ends}; only the operator can raise it. "
            return f"{text}Try again then, or stop?"
        return f"{text}Raise the budget, or stop here?"

    def refusal(self) -> BudgetUsedUp:
        """Return the error of a request that was to begin; of an owner's day, which no answer raises."""
        spent = "spent or reserved by calls in progress" if self.is_reserved else "spent"
        soon = "in a minute, when these have ended, or " if self.is_reserved else ""
        details = {"budget": self.budget, "capUsd": self.cap, "spentUsd": self.spent}
        return BudgetUsedUp(
            f"the budget of this {self.budget} is used up: of {_dollars(self.cap)}, {_dollars(self.spent)} "
            f"is {spent}, and the first model call may cost {_dollars(self.estimate)}. Nothing was done.",
            remedy=f"Send the request again {soon}after {self.ends}, when the budget begins again; until "
            "then only the operator can raise it (CALLSHEET_BUDGETS)",
            details={**details, "estimateUsd": self.estimate, "ends": self.ends},
        )

    def raised_cap(self, answer: Any) -> float | None:
        """Return the cap that an answer to the question sets; None if the person declines.

        An approval adds the cap once more, or the estimate if that is larger. Raises `Invalid` for any other
        answer, and for a cap that is too low for the call.
        """
        if answer is False:
            return None
        decision = _decision(answer)
        if decision["type"] == "reject":
            return None
        approved = max(self.cap * 2, self.spent + self.estimate)
        if decision["type"] == "approve":
            return approved
        cap = (decision.get("edited_action") or {}).get("args", {}).get("cap")
        if not _is_amount(cap) or cap < self.spent + self.estimate:
            raise Invalid(
                f"the cap {cap!r} is too low for a call that may cost {_dollars(self.estimate)}",
                remedy=f"send at least {_enough(self.spent + self.estimate)}, or decline",
            )
        return float(cap)


def _places(amount: float) -> int:
    """Return the decimal places that show an amount: four, or two digits of one that is smaller."""
    return max(_PLACES, 1 - math.floor(math.log10(amount))) if amount > 0 else _PLACES


def _dollars(amount: float) -> str:
    return f"${amount:.{_places(amount)}f}"


def _enough(amount: float) -> str:
    """Return the amount, rounded up."""
    scale = 10 ** _places(amount)
    return f"{math.ceil(amount * scale) / scale:.{_places(amount)}f}"


class BudgetExceeded(CallsheetError):
    """A model call could exceed a budget; nothing was sent. A person decides whether the budget is raised."""

    def __init__(self, over: OverBudget) -> None:
        super().__init__(
            f"the model call may cost {_dollars(over.estimate)}; "
            f"of the {over.budget}'s {_dollars(over.cap)}, {_dollars(over.spent)} is spent",
            remedy="raise the budget, or stop here",
        )
        self.over = over


def parse_budgets(amounts: Mapping[str, Any]) -> Budgets:
    """Parse `{"turn": dollars, "thread": dollars, "day": dollars}`; raises `Invalid` naming the wrong one."""
    known = [one.name for one in fields(Budgets)]
    for name, amount in amounts.items():
        if name not in known or not _is_amount(amount):
            raise Invalid(
                f"the budget {name!r} is {amount!r:.80}",
                remedy=f'give {", ".join(known)} in US dollars, such as {{"turn": 0.05}}',
            )
    return Budgets(**{name: float(amount) for name, amount in amounts.items()})


def _decision(answer: Any) -> Mapping[str, Any]:
    if answer is True:
        return {"type": "approve"}
    listed = answer.get("decisions") if isinstance(answer, Mapping) else None
    first = listed[0] if isinstance(listed, list) and len(listed) == 1 else None
    if not isinstance(first, Mapping) or first.get("type") not in {"approve", "edit", "reject"}:
        raise Invalid(
            f"the answer {str(answer)[:200]!r} holds no decision",
            remedy='send {"decisions": [{"type": "approve"}]}, or edit or reject',
        )
    return first


def _is_amount(amount: Any) -> bool:
    return isinstance(amount, int | float) and not isinstance(amount, bool) and 0 < amount < math.inf
