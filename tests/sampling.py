"""Which rows of a long table run where time matters: a third of them, and another third for the next test."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pytest

SHARE = 3
"""One row of so many runs; a table of no more rows than this runs whole."""


def left(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The tests left to `--slow`: of each table in a file marked `table`, two thirds, always the same.

    Three tests on the same rows have every row between them, and a table of two sides that are longer than
    this has every value of either.
    """
    files: dict[object, dict[int, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.get_closest_marker("table") and hasattr(item, "callspec"):
            files[item.path][item.location[1] or 0].append(item)
    for tables in files.values():
        for place, line in enumerate(sorted(tables)):
            yield from _left(tables[line], place)


def _left(table: Sequence[pytest.Item], place: int) -> Iterator[pytest.Item]:
    rows = [_row(item) for item in table]
    if len(set(rows)) > SHARE:
        yield from (item for item, row in zip(table, rows, strict=True) if (row + place) % SHARE)


def _row(item: pytest.Item) -> int:
    """The place of a row, counted along both sides where there are two."""
    sides = (mark.args[0] for mark in item.iter_markers("parametrize"))
    names = (side.split(",")[0].strip() if isinstance(side, str) else side[0] for side in sides)
    indices: dict[str, int] = item.callspec.indices  # type: ignore[attr-defined]  # of those with parameters
    return sum(indices[name] for name in names)
