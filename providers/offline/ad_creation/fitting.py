"""Choosing what is said so that it fits: which pieces, in which wording, on how many tracks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from providers.offline.ad_creation.pitch import Piece
from state.timeline import PAUSE_S, spoken_s

Chosen = tuple[Piece, str]
"""A piece and the wording it gets."""
_STEPS = 160
"""Into how many ticks the seconds are cut when combinations are counted."""
_FULL = 0.5
"""How far into the window fillers are added while they fit."""
_APT = 8
"""The fillers that suit best; the rest are only taken where time is left empty."""
_FILLER_WEIGHT = 4
"""What a filler counts for where every combination is compared."""
_WORDINGS = 3
_GLUED = frozenset({"until", "again"})
"""Beats that stay on the track of what comes before them."""
_OWN_HOOK = 3
_EARLY = 0.25
"""How much of a track's share may be missing when the next begins."""


@dataclass(frozen=True)
class Window:
    """The seconds that may be spoken, and the language that says how long a line takes."""

    language: str
    low: float
    high: float

    def less(self, used: float) -> "Window":
        """Return what is left of the window after `used` seconds."""
        return Window(self.language, self.low - used, self.high - used)

    def of(self, chosen: Sequence[Chosen]) -> float:
        """Return the seconds of what was chosen."""
        return sum(line_s(text, self.language) for _, text in chosen)

    def holds(self, chosen: Sequence[Chosen]) -> bool:
        """Whether what was chosen fills the window and does not pass it."""
        return self.low <= self.of(chosen) <= self.high


def breath_s(language: str) -> float:
    """Return the breath after a line; Thai runs its phrases together."""
    return 0.0 if language == "thai" else PAUSE_S


@lru_cache(maxsize=8192)
def line_s(line: str, language: str) -> float:
    """Return the seconds a line adds to a track: its words and the breath after it."""
    return spoken_s(line, language) + breath_s(language)


def fitted(material: Sequence[Piece], window: Window) -> list[Chosen]:
    """Return what is said, in order, within the window where that is possible.

    What weighs most stays when there is no room; what weighs nothing only fills.
    """
    core = _core([piece for piece in material if piece.weight], window)
    said = {text for _, text in core}
    spare = [
        (piece, piece.wordings[0]) for piece in material if not piece.weight and piece.wordings[0] not in said
    ]
    chosen = [*core, *_fillers(spare, window.less(window.of(core)))]
    if not window.holds(chosen):
        chosen = _compared(material, window) or chosen
    if not chosen and material:
        heaviest = max(material, key=lambda piece: piece.weight)
        chosen = [(heaviest, _shortest(heaviest, window.language))]
    return sorted(chosen, key=lambda one: one[0].order)


def _shortest(piece: Piece, language: str) -> str:
    return min(piece.wordings, key=lambda text: line_s(text, language))


def _core(heavy: Sequence[Piece], window: Window) -> list[Chosen]:
    """Return the weighty pieces in their preferred wording, shorter or fewer where they do not fit."""
    chosen: list[Chosen] = []
    used = 0.0
    ranked = sorted(heavy, key=lambda piece: (-piece.weight, piece.order))
    short = [line_s(_shortest(piece, window.language), window.language) for piece in ranked]
    later = list(accumulate(reversed([*short, 0.0])))[::-1]
    for index, piece in enumerate(ranked):
        room = window.high - used
        needed = later[index + 1] if later[0] <= window.high else 0.0
        text = _wording(piece, window.language, room - needed) or _wording(piece, window.language, room)
        if text:
            chosen.append((piece, text))
            used += line_s(text, window.language)
    return chosen


def _wording(piece: Piece, language: str, room: float) -> str | None:
    return next((text for text in piece.wordings if line_s(text, language) <= room), None)


def _fillers(spare: Sequence[Chosen], window: Window) -> list[Chosen]:
    """Return fillers that bring the time into the window, the first ones preferred."""
    taken: list[Chosen] = []
    used = 0.0
    enough = window.low + _FULL * (window.high - window.low)
    for index, one in enumerate(spare):
        if used >= (enough if index < _APT else window.low):
            break
        cost = line_s(one[1], window.language)
        if used + cost <= window.high:
            taken.append(one)
            used += cost
    return taken if used >= window.low else _summed(spare, window, taken)


def _summed(spare: Sequence[Chosen], window: Window, best: list[Chosen]) -> list[Chosen]:
    """Return a combination of fillers within the window; else the fullest one, else `best`."""
    tick = max(window.high / _STEPS, 1e-6)
    sums: dict[int, tuple[int, ...]] = {0: ()}
    for index, (_, text) in enumerate(spare):
        ticks = int(line_s(text, window.language) / tick) + 1
        for total, members in list(sums.items()):
            if total + ticks <= _STEPS and total + ticks not in sums:
                sums[total + ticks] = (*members, index)
        if max(sums) * tick >= window.low:
            break
    combined = [spare[index] for index in sums[max(sums)]]
    return combined if window.of(combined) > window.of(best) else best


@dataclass(frozen=True)
class _Sum:
    """A combination and what it is worth."""

    worth: float
    chosen: tuple[Chosen, ...]


def _compared(material: Sequence[Piece], window: Window) -> list[Chosen]:
    """Return the worthiest combination of pieces and wordings within the window, or none.

    Only for a spot so short that the core alone decides; a longer one is short of material instead.
    """
    if window.high > _SHORT_S:
        return []
    tick = window.high / _STEPS
    sums: dict[int, _Sum] = {0: _Sum(0.0, ())}
    fillers = [piece for piece in material if not piece.weight][:_COMPARED]
    for piece in (*(piece for piece in material if piece.weight), *fillers):
        sums = _joined(sums, piece, tick, window.language)
    within = [one for total, one in sums.items() if total * tick >= window.low and window.holds(one.chosen)]
    return list(max(within, key=lambda one: one.worth).chosen) if within else []


def _joined(sums: Mapping[int, _Sum], piece: Piece, tick: float, language: str) -> dict[int, _Sum]:
    """Return `sums` with those that say `piece` too, in one of its wordings."""
    costs = [(int(line_s(text, language) / tick) + 1, text) for text in piece.wordings[:_WORDINGS]]
    joined = dict(sums)
    for total, one in sums.items():
        for rank, (ticks, text) in enumerate(costs):
            reached, worth = total + ticks, one.worth + (piece.weight or _FILLER_WEIGHT) - rank
            if reached <= _STEPS and (reached not in joined or joined[reached].worth < worth):
                joined[reached] = _Sum(worth, (*one.chosen, (piece, text)))
    return joined


_SHORT_S = 20.0
_COMPARED = 12
"""How many fillers are weighed in every combination."""


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
