"""Which fact is told in which segment, and in which of its wordings, so that every segment fits its time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from providers.offline.fact_narration.phrases import Phrases
from state.narration import KINDS, Kind, Sentence, length

_TELLING: tuple[Kind, ...] = KINDS[1:]
"""The hook asks; the others tell."""
_ROOM_FOR_PHRASES = 0.35
"""Part of a segment's room, beside its facts at their shortest, that phrases around them may take."""


@dataclass(frozen=True)
class Telling:
    """A fact and the ways to say it."""

    id: str
    concept: str
    ways: tuple[str, ...]
    """From the longest to the shortest."""

    def least(self, language: str) -> int:
        """Return the length of its shortest wording."""
        return length(self.ways[-1], language)


@dataclass
class Page:
    """One segment being written."""

    type: Kind
    budget: int
    language: str
    said: Phrases
    told: dict[str, int] = field(default_factory=dict)
    """Fact id to the place of its wording."""
    named: list[Telling] = field(default_factory=list)
    """Facts there is no room to tell: they are only named."""
    before: tuple[Sentence, ...] = ()
    after: tuple[Sentence, ...] = ()

    def sentences(self, facts: Mapping[str, Telling]) -> tuple[Sentence, ...]:
        """Return what the segment says, in order."""
        told = [Sentence(text=facts[one].ways[way], factIds=(one,)) for one, way in self.told.items()]
        return (*self.before, *told, *self._naming(), *self.after)

    def size(self, facts: Mapping[str, Telling]) -> int:
        """Return how long that is."""
        return sum(length(one.text, self.language) for one in self.sentences(facts))

    def _naming(self) -> tuple[Sentence, ...]:
        if not self.named:
            return ()
        ways = self.said.ways("named", concepts=self.said.listed([one.concept for one in self.named]))
        return (Sentence(text=ways[-1], factIds=tuple(one.id for one in self.named)),)


def spread(facts: Sequence[Telling], budgets: Mapping[Kind, int], language: str) -> dict[Kind, list[Telling]]:
    """Return which facts each telling segment gets: in order, each as much as it has room for."""
    kinds = [kind for kind in _TELLING if kind in budgets] or list(budgets)
    kinds = kinds[: len(facts)]
    room = sum(budgets[kind] for kind in kinds)
    whole = sum(one.least(language) for one in facts) or 1
    given: dict[Kind, list[Telling]] = {kind: [] for kind in budgets}
    passed = 0.0
    for one in facts:
        middle = (passed + one.least(language) / 2) / whole * room
        passed += one.least(language)
        ends = 0
        for kind in kinds:
            ends += budgets[kind]
            if middle <= ends:
                break
        given[kind].append(one)
    return given


def fitted(page: Page, facts: Sequence[Telling], known: Mapping[str, Telling]) -> list[Telling]:
    """Put the facts on the page at their shortest, or by name; return those there is no room for at all."""
    page.told = {one.id: len(one.ways) - 1 for one in facts}
    while page.told and page.size(known) > page.budget:
        longest = max(page.told, key=lambda one: known[one].least(page.language))
        del page.told[longest]
        page.named.append(known[longest])
    left: list[Telling] = []
    while page.named and page.size(known) > page.budget:
        left.append(page.named.pop())
    return left


def told(page: Page, one: Telling, known: Mapping[str, Telling]) -> bool:
    """Put a fact on the page at its shortest; return whether there was room."""
    if page.type == "hook":
        return False
    page.told[one.id] = len(one.ways) - 1
    page.told = dict(sorted(page.told.items(), key=lambda pair: list(known).index(pair[0])))
    if page.size(known) <= page.budget:
        return True
    del page.told[one.id]
    return False


def name(page: Page, one: Telling, known: Mapping[str, Telling]) -> bool:
    """Name a fact on the page; return whether there was room."""
    page.named.append(one)
    if page.size(known) <= page.budget:
        return True
    page.named.pop()
    return False


def framed(
    page: Page, ways: Iterable[tuple[Sequence[Sentence], Sequence[Sentence]]], known: Mapping[str, Telling]
) -> None:
    """Give the page the first of the phrases before and after its facts that leave the facts their room."""
    spare = page.budget - page.size(known)
    told = bool(page.told or page.named)
    most = max(int(page.budget * _ROOM_FOR_PHRASES), 1) if told else spare
    for before, after in ways:
        size = sum(length(one.text, page.language) for one in (*before, *after))
        if size <= min(spare, most):
            page.before, page.after = tuple(before), tuple(after)
            return


def grown(page: Page, known: Mapping[str, Telling], taken: set[str]) -> None:
    """Tell the facts at greater length while the page has room; no wording of `taken` is said again."""
    growing = True
    while growing:
        growing = False
        for one in sorted(page.told, key=lambda one: length(known[one].ways[page.told[one]], page.language)):
            growing = _one_longer(page, one, known, taken) or growing
    taken |= {known[one].ways[way] for one, way in page.told.items()}


def _one_longer(page: Page, one: str, known: Mapping[str, Telling], taken: set[str]) -> bool:
    kept = page.told[one]
    for way in range(kept - 1, -1, -1):
        page.told[one] = way
        if known[one].ways[way] not in taken and page.size(known) <= page.budget:
            return True
    page.told[one] = kept
    return False
