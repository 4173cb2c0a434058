"""A list as pieces of an append-only log: which elements it is made of, without the elements.

A piece `(first, count)` stands for the elements at `first`, `first + 1` … of the log. The written form is
`0:121,130:4`; in a list that is about to be stored `@0:2` counts from wherever its new elements will land.
"""

from collections.abc import Iterable
from typing import Final

Piece = tuple[int, int]
"""First position and number of elements."""

MOST_PIECES: Final = 64
"""A list in more pieces than this is written anew: reading it would cost more than storing it again."""

NEW: Final = 1 << 40
"""Positions from here on are those of elements not yet in the log, in the order they will be appended."""


def pieces(positions: Iterable[int]) -> list[Piece]:
    """The fewest pieces that give `positions`, in order."""
    found: list[Piece] = []
    first = following = -1
    for position in positions:
        if position != following:
            if first >= 0:
                found.append((first, following - first))
            first = position
        following = position + 1
    if first >= 0:
        found.append((first, following - first))
    return found


def written(table: Iterable[Piece]) -> bytes:
    """The table as the server keeps it; pieces of `NEW` elements are marked with `@`."""
    return b",".join(
        b"@%d:%d" % (first - NEW, count) if first >= NEW else b"%d:%d" % (first, count)
        for first, count in table
    )


def positions(text: bytes) -> list[int]:
    """The positions that a stored table stands for; an empty table stands for none."""
    found: list[int] = []
    for piece in text.split(b",") if text else ():
        first, count = piece.split(b":")
        found.extend(range(int(first), int(first) + int(count)))
    return found


def landed(drafted: Iterable[int], start: int) -> list[int]:
    """Drafted positions once the new elements were appended at `start`."""
    return [position - NEW + start if position >= NEW else position for position in drafted]


def covering(table: Iterable[Piece], piece: Piece) -> tuple[Piece, ...]:
    """The table, sorted and without overlaps or seams, extended by `piece`."""
    found: list[Piece] = []
    for first, count in sorted((*table, piece)):
        if found and first <= found[-1][0] + found[-1][1]:
            start, length = found[-1]
            found[-1] = (start, max(length, first + count - start))
        elif count:
            found.append((first, count))
    return tuple(found)
