"""Model prices in US dollars per million tokens, and the cost of used tokens.

`prices.json` has the vendors' list prices, each with the day it was read and its page. An operator's prices
override them. The cost of a model without a price is unknown, which is None and not zero.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple

from callsheet.state.errors import Invalid

ANY: Final = "*"
"""Entry of an operator's prices for every model without one of its own."""
_MILLION: Final = 1_000_000
_DIGITS: Final = 8
_DATED: Final = re.compile(r"-20\d\d-\d\d-\d\d\Z")


class Price(NamedTuple):
    """US dollars per million tokens."""

    input: float
    output: float
    cached: float
    """Input tokens that the vendor read from its prompt cache."""


def _list_prices() -> dict[str, Price]:
    text = files("callsheet.state").joinpath("prices.json").read_text("utf-8")
    entries = json.loads(text).items()
    return {name: Price(entry["input"], entry["output"], entry["cached"]) for name, entry in entries}


PRICES: Final[Mapping[str, Price]] = {"offline": Price(0.0, 0.0, 0.0), **_list_prices()}
"""List prices by model."""


def parse_prices(prices: Mapping[str, Any]) -> Mapping[str, Price]:
    """Return the list prices overridden by `{"model": [input, output]}` or `[input, output, cached]`.

    The entry `*` is for all other models. Raises `Invalid` naming the model with the wrong price.
    """
    return {**PRICES, **{name: _price(name, amounts) for name, amounts in prices.items()}}


def price(model: str, table: Mapping[str, Price] = PRICES) -> Price | None:
    """Return the price of a model or of its dated version, else the `*` entry; None if it is unknown."""
    return table.get(model) or table.get(_DATED.sub("", model)) or table.get(ANY)


def cost(
    model: str,
    input_tokens: int,
    output_tokens: int,
    *,
    cached: int = 0,
    table: Mapping[str, Price] = PRICES,
) -> float | None:
    """Return the cost of these tokens in US dollars; `cached` is a part of the input. None if unknown."""
    rates = price(model, table)
    if rates is None:
        return None
    dollars = (input_tokens - cached) * rates.input + cached * rates.cached + output_tokens * rates.output
    return round(dollars / _MILLION, _DIGITS)


def total(costs: Iterable[float | None]) -> float | None:
    """Return the sum; None if one of the costs is unknown."""
    known = list(costs)
    return None if None in known else round(sum(cost for cost in known if cost), _DIGITS)


def _price(name: str, amounts: Any) -> Price:
    fits = isinstance(amounts, list) and len(amounts) in {2, 3}
    if not fits or not all(_is_price(one) for one in amounts):
        raise Invalid(
            f"the price of {name!r} is {amounts!r:.80}, not two or three numbers of dollars",
            remedy='write {"gpt-4o-mini": [0.15, 0.60, 0.075]}: US dollars per million tokens of input, '
            "output and cached input",
        )
    return Price(*(float(one) for one in amounts), *([float(amounts[0])] if len(amounts) == 2 else ()))  # noqa: PLR2004


def _is_price(amount: Any) -> bool:
    return isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount < math.inf
