"""The filterable values of all campaigns as arrays in memory: filters, order and groups."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VALUE_PROPS, VISUAL_STYLES
from callsheet.state.campaigns.filters import Filters, Values
from callsheet.storage.campaigns.index import Group, GroupBy, SortBy
from callsheet.storage.campaigns.rows import NONE, Row, bits, sort_groups

Array = NDArray[Any]
Mask = NDArray[np.bool_]

_TYPES: Final = {
    "alive": "bool",
    "channel": "int8",
    "company": "int32",
    "brand": "int32",
    "product": "int32",
    "value_props": "uint8",
    "sentiment": "int8",
    "visual_style": "int8",
    "has_offer": "bool",
    "day": "int32",
    "spend": "float64",
    "volume": "float64",
}
_ENUMS: Final[Mapping[str, Sequence[str]]] = {
    "channel": CHANNELS,
    "sentiment": SENTIMENTS,
    "visual_style": VISUAL_STYLES,
}
_FIRST_CAPACITY: Final = 1024
_UNIX_EPOCH: Final = date(1970, 1, 1).toordinal()


class _Names:
    """Texts by code, and codes by text without case."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._folded: dict[str, list[int]] = {}

    def code(self, text: str) -> int:
        """Return the code of a text, a new one if needed; NONE for no text."""
        if not text:
            return NONE
        if text not in self._codes:
            self._codes[text] = len(self.texts)
            self._folded.setdefault(text.casefold(), []).append(len(self.texts))
            self.texts.append(text)
        return self._codes[text]

    def codes(self, texts: Sequence[str]) -> list[int]:
        """Return the codes of all texts that differ from these in case alone."""
        return [code for text in texts for code in self._folded.get(text.strip().casefold(), ())]

    def ranks(self) -> list[int]:
        """Return the position of each code in the order of the alphabet."""
        order = sorted(range(len(self.texts)), key=lambda code: self.texts[code].casefold())
        ranks = [0] * len(order)
        for rank, code in enumerate(order):
            ranks[code] = rank
        return ranks


class Columns:
    """Rows by number. A changed campaign gets a new row and its old one is dead; no number is used again."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._row_by_id: dict[str, int] = {}
        self._arrays: dict[str, Array] = {
            name: np.zeros(_FIRST_CAPACITY, dtype) for name, dtype in _TYPES.items()
        }
        self._companies, self._products = _Names(), _Names()

    def __len__(self) -> int:
        """Return the number of rows, dead ones included."""
        return len(self.ids)

    @property
    def count(self) -> int:
        """Number of campaigns."""
        return len(self._row_by_id)

    def row(self, campaign_id: str) -> int | None:
        """Return the row of a campaign, or None."""
        return self._row_by_id.get(campaign_id)

    def __getitem__(self, name: str) -> Array:
        """Return a column without its unused capacity."""
        return self._arrays[name][: len(self.ids)]

    def append(self, entries: Sequence[tuple[str, Row | None]]) -> None:
        """Add rows by id, each in place of an earlier one with its id; None deletes the campaign."""
        first = len(self.ids)
        self._reserve(first + len(entries))
        numbers = [first + i for i, (_, row) in enumerate(entries) if row]
        rows = [row for _, row in entries if row]
        for name in _TYPES:
            if name != "alive":
                self._arrays[name][numbers] = self._column_values(name, rows)
        self.ids += [each for each, _ in entries]
        for number, (each, row) in enumerate(entries, first):
            self._replace(each, number if row else None)

    def mask(self, filters: Filters) -> Mask:
        """Return True for every row that meets all conditions."""
        mask: Mask = self["alive"].copy()
        for condition in self._matching(filters):
            mask &= condition
        for condition in self._matching(filters.exclude):
            mask &= ~condition
        if filters.has_offer is not None:
            mask &= self["has_offer"] == filters.has_offer
        if filters.date_range and filters.date_range.start:
            mask &= self["day"] >= filters.date_range.start.toordinal()
        if filters.date_range and filters.date_range.end:
            mask &= self["day"] <= filters.date_range.end.toordinal()
        return mask

    def page(self, mask: Mask, sort: SortBy, offset: int, limit: int) -> list[int]:
        """Return rows of `mask` in order; campaigns that are equal in it by id. None comes last."""
        rows = np.flatnonzero(mask)
        end = min(offset + limit, len(rows))
        if offset >= end:
            return []
        order = self._order(sort)[rows]
        if end < len(rows):
            # Only rows up to the last one of the page are sorted.
            last = np.partition(order, end - 1)[end - 1]
            rows, order = rows[order <= last], order[order <= last]
        ranked = sorted(zip(order.tolist(), rows.tolist(), strict=True), key=lambda pair: self._rank(*pair))
        return [row for _, row in ranked[offset:end]]

    def group(self, mask: Mask, by: GroupBy) -> tuple[Group, ...]:
        """Return counts, spend and volume by value; a campaign without a value is in no group."""
        rows = np.flatnonzero(mask)
        return sort_groups(self._groups(rows, by), by)

    def newest(self) -> date | None:
        """Return the newest capture date."""
        days = self["day"][self["alive"]]
        return date.fromordinal(int(days.max())) if len(days) else None

    def _replace(self, campaign_id: str, row: int | None) -> None:
        alive = self._arrays["alive"]
        if (earlier := self._row_by_id.pop(campaign_id, None)) is not None:
            alive[earlier] = False
        if row is not None:
            self._row_by_id[campaign_id] = row
            alive[row] = True

    def _reserve(self, size: int) -> None:
        for name, array in self._arrays.items():
            if size > len(array):
                grown = np.zeros(max(size, 2 * len(array)), array.dtype)
                grown[: len(array)] = array
                self._arrays[name] = grown

    def _column_values(self, name: str, rows: Sequence[Row]) -> list[Any]:
        values = [getattr(row, name) for row in rows]
        if name in {"company", "brand"}:
            return [self._companies.code(value) for value in values]
        if name == "product":
            return [self._products.code(value) for value in values]
        return [float("nan") if value is None else value for value in values]

    def _matching(self, values: Values) -> Iterator[Mask]:
        """Yield, for each dimension that has values, the rows with any of them."""
        for name, enum in _ENUMS.items():
            if chosen := getattr(values, name):
                yield np.isin(self[name], [enum.index(value) for value in chosen])
        if values.value_prop:
            yield (self["value_props"] & bits(VALUE_PROPS, values.value_prop)) != 0
        if values.company:
            codes = self._companies.codes(values.company)
            yield np.isin(self["company"], codes) | np.isin(self["brand"], codes)
        if values.product:
            yield np.isin(self["product"], self._products.codes(values.product))

    def _order(self, sort: SortBy) -> Array:
        """Return a number for each row, smaller for what comes first."""
        order: Array
        if sort == "company":
            order = np.array([*self._companies.ranks(), 0])[self["company"]]
        elif sort in {"newest", "oldest"}:
            order = self["day"] if sort == "oldest" else -self["day"]
        else:
            order = np.nan_to_num(-self[sort], nan=np.inf)
        return order

    def _rank(self, order: float, row: int) -> tuple[float, str]:
        return order, self.ids[row]

    def _groups(self, rows: Array, by: GroupBy) -> Iterator[Group]:
        if by == "value_prop":
            for bit, value in enumerate(VALUE_PROPS):
                yield from self._sums(rows[(self["value_props"][rows] >> bit) & 1 == 1], None, [value])
        elif by == "month":
            months = self["day"][rows].astype("int64") - _UNIX_EPOCH
            months = months.astype("datetime64[D]").astype("datetime64[M]")
            names, codes = np.unique(months, return_inverse=True)
            yield from self._sums(rows, codes, names.astype(str).tolist())
        else:
            codes = self[by][rows]
            texts = _ENUMS.get(by) or (self._companies if by == "company" else self._products).texts
            yield from self._sums(rows[codes != NONE], codes[codes != NONE], texts)

    def _sums(self, rows: Array, codes: Array | None, texts: Sequence[str]) -> Iterator[Group]:
        """Yield a group for each text, by its code; all rows are of the first one without codes."""
        codes = np.zeros(len(rows), "int64") if codes is None else codes
        counts = np.bincount(codes)
        spend = np.bincount(codes, np.nan_to_num(self["spend"][rows]))
        volume = np.bincount(codes, np.nan_to_num(self["volume"][rows]))
        for code in np.flatnonzero(counts).tolist():
            yield Group(texts[code], int(counts[code]), round(float(spend[code]), 2), int(volume[code]))
