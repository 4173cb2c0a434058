"""Facts out of a material, by a model; what the material does not say is left out, whoever proposed it."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.language_models import BaseChatModel

from state.facts import MOST, Fact, distinct, fact_id, located, shortfall
from state.languages import detected
from tools.lesson_forms import FACTS_PROMPT, FactSheet, FoundFact
from tools.structured import Filled, fill_in, model_for

WINDOW: Final = 60_000
"""Characters a model reads at once: what 20 pages hold."""
Report = Callable[[int, int], None]
"""Is told how many parts of how many are read."""


@dataclass(frozen=True)
class Extraction:
    """What was found in a material."""

    topic: str
    objective: str
    language: str
    facts: tuple[Fact, ...]
    warnings: tuple[str, ...]
    cost: float
    """US dollars."""
    duration: float
    """Seconds."""
    cached: bool = False
    """Whether it was found before, and is remembered (B63)."""


@dataclass(frozen=True)
class Wish:
    """What is wanted beside the facts of the material."""

    guidance: str = ""
    """What the person wants more of, in their words."""
    avoid: tuple[str, ...] = ()
    """Passages that were proposed before."""


async def facts_of(
    text: str, *, model: str = "", wish: Wish | None = None, report: Report = lambda _done, _of: None
) -> Extraction:
    """Return the facts of a material, in its order; every one with the passage that says it.

    A long material is read in parts of `WINDOW` characters. Raises what the provider raises.
    """
    language = detected(text) or "english"
    parts = windows(text)
    filled: list[Filled[FactSheet]] = []
    chosen = model_for(model, language)
    for number, (_, part) in enumerate(parts):
        report(number, len(parts))
        filled.append(await _read(chosen, part, language, wish or Wish()))
    report(len(parts), len(parts))
    facts, unsaid = _checked(filled, parts)
    kept = _best(facts, len(parts))
    first = filled[0].form
    return Extraction(
        topic=first.topic,
        objective=first.learningObjective,
        language=language,
        facts=tuple(kept),
        warnings=(*shortfall(kept), *_told(unsaid, sum(one.form.leftOut for one in filled))),
        cost=round(sum(one.cost for one in filled), 8),
        duration=round(sum(one.duration for one in filled), 3),
    )


def windows(text: str) -> list[tuple[int, str]]:
    """Return the text in parts of at most `WINDOW` characters, each with its place, cut between sentences."""
    parts: list[tuple[int, str]] = []
    at = 0
    while len(text) - at > WINDOW:
        breaks = [found.end() for found in re.finditer(r"\n\n|(?<=[.!?。])\s", text[at : at + WINDOW])]
        size = breaks[-1] if breaks else WINDOW
        parts.append((at, text[at : at + size]))
        at += size
    return [*parts, (at, text[at:])]


async def _read(model: BaseChatModel, part: str, language: str, wish: Wish) -> Filled[FactSheet]:
    request = {"material": part, "language": language, "guidance": wish.guidance, "avoid": wish.avoid}
    return await fill_in(model, FactSheet, FACTS_PROMPT, request)


def _checked(
    filled: Sequence[Filled[FactSheet]], parts: Sequence[tuple[int, str]]
) -> tuple[list[Fact], list[str]]:
    """Return the facts that the material says, and the concepts of those it does not."""
    said: list[Fact] = []
    unsaid: list[str] = []
    for one, (at, part) in zip(filled, parts, strict=True):
        for found in one.form.facts:
            fact = _placed(found, part, at)
            if fact:
                said.append(fact)
            else:
                unsaid.append(found.concept)
    return distinct(said), unsaid


def _placed(found: FoundFact, part: str, at: int) -> Fact | None:
    passage = located(found.quote, part)
    if passage is None:
        return None
    source = passage.model_copy(update={"start": passage.start + at, "end": passage.end + at})
    return Fact(
        id=fact_id(found.concept, source.quote),
        concept=found.concept,
        details=found.details,
        confidence=found.confidence,
        source=source,
    )


def _best(facts: Sequence[Fact], parts: int) -> list[Fact]:
    """Return the 15 surest facts in the order of the material, not all of them from one part of it."""
    share = math.ceil(MOST / parts) + 1
    heard: dict[int, int] = {}
    surest = sorted(facts, key=lambda fact: -fact.confidence)
    kept: list[Fact] = []
    for fact in surest:
        part = (fact.source.start if fact.source else 0) // WINDOW
        heard[part] = heard.get(part, 0) + 1
        if heard[part] <= share and len(kept) < MOST:
            kept.append(fact)
    return sorted(kept, key=lambda fact: fact.source.start if fact.source else 0)


def _told(unsaid: Sequence[str], orders: int) -> list[str]:
    told = []
    if unsaid:
        told.append(f"left out, because the material does not say it: {', '.join(unsaid)}")
    if orders:
        told.append(f"left out {orders} passage{'s' * (orders > 1)} that would give a model orders")
    return told
