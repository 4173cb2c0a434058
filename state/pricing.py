"""Model prices in US dollars per million tokens, and the cost of used tokens (B58, B-R1)."""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from callsheet.state.errors import Invalid

ANY: Final = "*"
"""Entry for every model without one of its own."""
_MILLION: Final = 1_000_000
_DIGITS: Final = 8


class Price(NamedTuple):
    """US dollars per million tokens read, and written."""

    read: float
    written: float


PRICES: Final[Mapping[str, Price]] = {
    "offline": Price(0.0, 0.0),
    "gpt-4o-mini": Price(0.15, 0.60),
    ANY: Price(0.15, 0.60),
}
"""Reference prices; an operator's prices override them."""


def parse_prices(prices: Mapping[str, Any]) -> Mapping[str, Price]:
    """Return the reference prices overridden by `{"model": [read, written]}`, with `*` for all others.

    Raises `Invalid` naming the model with the wrong price.
    """
    return {**PRICES, **{name: _price(name, amounts) for name, amounts in prices.items()}}


def price(model: str, table: Mapping[str, Price] = PRICES) -> Price:
    """Return the price of the longest entry that `model` begins with, else the `*` entry."""
    prefixes = [name for name in table if name != ANY and model.startswith(name)]
    return table[max(prefixes, key=len, default=ANY)]


def cost(model: str, read: int, written: int, table: Mapping[str, Price] = PRICES) -> float:
    """Return the cost of these tokens in US dollars."""
    rates = price(model, table)
    return round((read * rates.read + written * rates.written) / _MILLION, _DIGITS)


def _price(name: str, amounts: Any) -> Price:
    fits = isinstance(amounts, list) and len(amounts) == len(Price._fields)
    if not fits or not all(_is_price(one) for one in amounts):
        raise Invalid(
            f"the price of {name!r} is {amounts!r:.80}, not two numbers of dollars",
            remedy='write {"gpt-4o-mini": [0.15, 0.60]}: US dollars per million tokens read, and written',
        )
    return Price(*(float(one) for one in amounts))


def _is_price(amount: Any) -> bool:
    return isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount < math.inf
