"""Choosing what is said so that it fits: which pieces, in which wording, on how many tracks."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from providers.offline.pitch import Piece
from state.timeline import PAUSE_S, spoken_s

Chosen = tuple[Piece, str]
"""A piece and the wording it gets."""
_TICK_S = 0.05
_GLUED = frozenset({"until", "again"})
"""Beats that stay on the track of what comes before them."""


def line_s(line: str, language: str) -> float:
    """Return the seconds a line adds to a track: its words and the breath after it."""
    breath = 0.0 if language == "thai" else PAUSE_S
    return spoken_s(line, language) + breath


def fitted(material: Sequence[Piece], *, language: str, low: float, high: float) -> list[Chosen]:
    """Return what is said, in order, taking between `low` and `high` seconds where that is possible.

    What weighs most stays when there is no room; what weighs nothing only fills.
    """
    core = _core([piece for piece in material if piece.weight], language, high)
    used = sum(line_s(text, language) for _, text in core)
    said = {text for _, text in core}
    spare = [(piece, text) for piece in material for text in _extras(piece) if text not in said]
    chosen = [*core, *_fillers(spare, language, low - used, high - used)]
    if not chosen and material:
        heaviest = max(material, key=lambda piece: piece.weight)
        chosen = [(heaviest, _shortest(heaviest, language))]
    return sorted(chosen, key=lambda one: one[0].order)


def _extras(piece: Piece) -> Sequence[str]:
    return piece.wordings[:1] if piece.weight == 0 else ()


def _shortest(piece: Piece, language: str) -> str:
    return min(piece.wordings, key=lambda text: line_s(text, language))


def _core(heavy: Sequence[Piece], language: str, high: float) -> list[Chosen]:
    """Return the weighty pieces in their preferred wording, shorter or fewer where they do not fit."""
    chosen: list[Chosen] = []
    used = 0.0
    ranked = sorted(heavy, key=lambda piece: (-piece.weight, piece.order))
    short = [line_s(_shortest(piece, language), language) for piece in ranked]
    later = list(accumulate(reversed([*short, 0.0])))[::-1]
    for index, piece in enumerate(ranked):
        room = high - used
        needed = later[index + 1] if later[0] <= high else 0.0
        text = _wording(piece, language, room - needed) or _wording(piece, language, room)
        if text:
            chosen.append((piece, text))
            used += line_s(text, language)
    return chosen


def _wording(piece: Piece, language: str, room: float) -> str | None:
    return next((text for text in piece.wordings if line_s(text, language) <= room), None)


def _fillers(spare: Sequence[Chosen], language: str, low: float, high: float) -> list[Chosen]:
    """Return fillers that bring the time between `low` and `high`, the first ones preferred."""
    taken: list[Chosen] = []
    used = 0.0
    for one in spare:
        if used >= low:
            break
        cost = line_s(one[1], language)
        if used + cost <= high:
            taken.append(one)
            used += cost
    return taken if used >= low else _exact(spare, language, low, high, taken)


def _exact(
    spare: Sequence[Chosen], language: str, low: float, high: float, best: list[Chosen]
) -> list[Chosen]:
    """Return a combination within the window, found tick by tick; else the fullest one, else `best`."""
    sums: dict[int, tuple[int, ...]] = {0: ()}
    top = int(high / _TICK_S)
    for index, (_, text) in enumerate(spare):
        ticks = int(line_s(text, language) / _TICK_S) + 1
        for total, members in list(sums.items()):
            reached = total + ticks
            if reached <= top and reached not in sums:
                sums[reached] = (*members, index)
        if max(sums) * _TICK_S >= low:
            break
    fullest = max(sums)
    current = sum(line_s(text, language) for _, text in best)
    return [spare[index] for index in sums[fullest]] if fullest * _TICK_S > current else best


def grouped(chosen: Sequence[Chosen], count: int, language: str) -> list[list[str]]:
    """Return the texts on at most `count` tracks of about equal length; a hook stands alone when it can."""
    if count >= _OWN_HOOK and len(chosen) > 1 and chosen[0][0].beat == "hook":
        return [[chosen[0][1]], *grouped(chosen[1:], count - 1, language)]
    total = sum(line_s(text, language) for _, text in chosen)
    groups: list[list[str]] = []
    spent = 0.0
    for piece, text in chosen:
        due = min(int(spent / total * count + _EARLY), count - 1) if total else 0
        if not groups or (due >= len(groups) and piece.beat not in _GLUED):
            groups.append([])
        groups[-1].append(text)
        spent += line_s(text, language)
    return groups


_OWN_HOOK = 3
_EARLY = 0.25
"""How much of a track's share may be missing when the next begins."""
__all__ = ["Chosen", "fitted", "grouped", "line_s", "replace"]
