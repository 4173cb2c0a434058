"""What models cost (B58, B-R1): US dollars for a million tokens, by model, and the sum of what was used."""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from callsheet.state.errors import Invalid

ANY: Final = "*"
"""Stands for every model that is not named."""
_MILLION: Final = 1_000_000
_DIGITS: Final = 8


class Price(NamedTuple):
    """What a million tokens cost, in US dollars."""

    read: float
    written: float


PRICES: Final[Mapping[str, Price]] = {
    "offline": Price(0.0, 0.0),
    "gpt-4o-mini": Price(0.15, 0.60),
    ANY: Price(0.15, 0.60),
}
"""The reference prices; an operator's go before them."""


def parse_prices(prices: Mapping[str, Any]) -> Mapping[str, Price]:
    """Return the table with what an operator wrote: `{"model": [read, written]}`, `*` for all others.

    Raises `Invalid` naming the model whose price is none.
    """
    return {**PRICES, **{name: _price(name, amounts) for name, amounts in prices.items()}}


def price(model: str, table: Mapping[str, Price] = PRICES) -> Price:
    """Return a model's price: its own, else that of the longest name its own begins with, else any's."""
    prefixes = [name for name in table if name != ANY and model.startswith(name)]
    return table[max(prefixes, key=len, default=ANY)]


def cost(model: str, read: int, written: int, table: Mapping[str, Price] = PRICES) -> float:
    """Return what so many tokens cost, in US dollars."""
    rates = price(model, table)
    return round((read * rates.read + written * rates.written) / _MILLION, _DIGITS)


def _price(name: str, amounts: Any) -> Price:
    fits = isinstance(amounts, list) and len(amounts) == len(Price._fields)
    if not fits or not all(_is_price(one) for one in amounts):
        raise Invalid(
            f"the price of {name!r} is {amounts!r:.80}, not two numbers of dollars",
            remedy='write {"gpt-4o-mini": [0.15, 0.60]}: for a million tokens read, and written',
        )
    return Price(*(float(one) for one in amounts))


def _is_price(amount: Any) -> bool:
    return isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount < math.inf
