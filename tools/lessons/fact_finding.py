"""Facts out of a material, by a model; a fact that the material does not hold is left out."""

import hashlib
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from langchain_core.language_models import BaseChatModel

from callsheet import storage
from callsheet.state.languages import detect
from callsheet.state.lessons.facts import MOST, Fact, distinct, fact_id, located, shortfall
from callsheet.state.plan import canonical_json
from callsheet.storage.artefacts import extraction_cache
from callsheet.tools import structured
from callsheet.tools.guard.call import Call
from callsheet.tools.lessons.forms import FACTS_PROMPT, FactSheet, FoundFact
from callsheet.tools.lessons.sources import Source
from callsheet.tools.structured import FilledForm, fill_in, model_for

WINDOW_CHARS: Final = 60_000
"""Characters a model reads at once: what 20 pages hold."""
OnProgress = Callable[[int, int], None]
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
class ExtractionWish:
    """What is wanted beside the facts of the material."""

    guidance: str = ""
    """What the person wants more of, in their words."""
    avoid: tuple[str, ...] = ()
    """Passages that were proposed before."""


async def extract_facts(
    text: str,
    *,
    model: str = "",
    wish: ExtractionWish | None = None,
    report: OnProgress = lambda _done, _of: None,
) -> Extraction:
    """Return the facts of a material, in its order; every one with the passage that says it.

    A long material is read in parts of `WINDOW_CHARS` characters. Raises what the provider raises.
    """
    language = detect(text) or "english"
    parts = split_windows(text)
    filled: list[FilledForm[FactSheet]] = []
    chosen = model_for(model, language)
    for number, (_, part) in enumerate(parts):
        report(number, len(parts))
        filled.append(await _read(chosen, part, language, wish or ExtractionWish()))
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


def split_windows(text: str) -> list[tuple[int, str]]:
    """Return the text in parts of at most `WINDOW_CHARS` characters, with offsets, cut between sentences."""
    parts: list[tuple[int, str]] = []
    at = 0
    while len(text) - at > WINDOW_CHARS:
        breaks = [found.end() for found in re.finditer(r"\n\n|(?<=[.!?。])\s", text[at : at + WINDOW_CHARS])]
        size = breaks[-1] if breaks else WINDOW_CHARS
        parts.append((at, text[at : at + size]))
        at += size
    return [*parts, (at, text[at:])]


async def _read(
    model: BaseChatModel, part: str, language: str, wish: ExtractionWish
) -> FilledForm[FactSheet]:
    request = {"material": part, "language": language, "guidance": wish.guidance, "avoid": wish.avoid}
    return await fill_in(model, FactSheet, FACTS_PROMPT, request)


def _checked(
    filled: Sequence[FilledForm[FactSheet]], parts: Sequence[tuple[int, str]]
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
        part = (fact.source.start if fact.source else 0) // WINDOW_CHARS
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


async def extract_facts_cached(
    source: Source, wish: ExtractionWish, call: Call, report: OnProgress
) -> Extraction:
    """Return the facts of a material, found now or, by the same model and for the same wish, before.

    Raises what `extract_facts` raises. What was found before costs nothing.
    """
    began = time.monotonic()
    opened, owner, model = await storage.current(), call.scope.owner, call.scope.model
    spec = structured.model_name(model, detect(source.text) or "english")
    words = canonical_json([source.digest, spec, asdict(wish)])
    question = hashlib.blake2b(words.encode(), digest_size=16).hexdigest()
    known = await extraction_cache.get(opened, owner, question)
    if known:
        return replace(_extraction(known), cost=0.0, duration=round(time.monotonic() - began, 3), cached=True)
    found = await extract_facts(source.text, model=model, wish=wish, report=report)
    if found.facts:
        facts = [fact.model_dump() for fact in found.facts]
        await extraction_cache.put(opened, owner, question, {**asdict(found), "facts": facts})
    return found


def _extraction(known: Mapping[str, Any]) -> Extraction:
    facts = tuple(Fact.model_validate(one) for one in known["facts"])
    return Extraction(**{**known, "facts": facts, "warnings": tuple(known["warnings"])})
