"""Extraction of facts by a model; a fact whose quote is not in the material is left out."""

import hashlib
import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from langchain_core.language_models import BaseChatModel

from callsheet import storage
from callsheet.state import pricing
from callsheet.state.languages import detect
from callsheet.state.lessons.facts import MAX_FACTS, Fact, distinct, fact_id, find_passage, shortfall
from callsheet.state.plan import canonical_json
from callsheet.storage.artefacts import extraction_cache
from callsheet.tools import structured
from callsheet.tools.guard.call import Call
from callsheet.tools.guard.sandbox import OnProgress
from callsheet.tools.lessons.forms import FACTS_PROMPT, FactSheet, FoundFact
from callsheet.tools.lessons.sources import Source
from callsheet.tools.structured import FilledForm, fill_in, model_for

WINDOW_CHARS: Final = 60_000
"""Characters a model reads at once, about 20 pages."""


@dataclass(frozen=True)
class Extraction:
    """The facts of a material."""

    topic: str
    objective: str
    language: str
    facts: tuple[Fact, ...]
    warnings: tuple[str, ...]
    cost: float | None
    """US dollars."""
    duration: float
    """Seconds."""
    cached: bool = False
    """True if it came from the cache (B63)."""


@dataclass(frozen=True)
class ExtractionPreferences:
    """Wishes for an extraction."""

    guidance: str = ""
    """Subject that the person wants, in their words."""
    avoid: tuple[str, ...] = ()
    """Passages proposed before."""


async def extract_facts(
    text: str,
    *,
    model: str = "",
    preferences: ExtractionPreferences | None = None,
    report: OnProgress = lambda _done, _of: None,
) -> Extraction:
    """Return the facts of a material in its order, each with its quote.

    A long material is read in parts of `WINDOW_CHARS` characters. Raises what the provider raises.
    """
    language = detect(text) or "english"
    parts = split_windows(text)
    filled: list[FilledForm[FactSheet]] = []
    chosen = model_for(model, language)
    for number, (_, part) in enumerate(parts):
        report(number, len(parts))
        filled.append(await _read(chosen, part, language, preferences or ExtractionPreferences()))
    report(len(parts), len(parts))
    facts, unverified = _partition_supported(filled, parts)
    kept = _select_best(facts, len(parts))
    first = filled[0].form
    return Extraction(
        topic=first.topic,
        objective=first.learningObjective,
        language=language,
        facts=tuple(kept),
        warnings=(*shortfall(kept), *_warnings(unverified, sum(one.form.leftOut for one in filled))),
        cost=pricing.total(one.cost for one in filled),
        duration=round(sum(one.duration for one in filled), 3),
    )


def split_windows(text: str) -> list[tuple[int, str]]:
    """Return (offset, text) parts of at most `WINDOW_CHARS` characters, cut between sentences."""
    parts: list[tuple[int, str]] = []
    at = 0
    while len(text) - at > WINDOW_CHARS:
        breaks = [match.end() for match in re.finditer(r"\n\n|(?<=[.!?。])\s", text[at : at + WINDOW_CHARS])]
        size = breaks[-1] if breaks else WINDOW_CHARS
        parts.append((at, text[at : at + size]))
        at += size
    return [*parts, (at, text[at:])]


async def _read(
    model: BaseChatModel, part: str, language: str, preferences: ExtractionPreferences
) -> FilledForm[FactSheet]:
    request = {
        "material": part,
        "language": language,
        "guidance": preferences.guidance,
        "avoid": preferences.avoid,
    }
    return await fill_in(model, FactSheet, FACTS_PROMPT, request)


def _partition_supported(
    filled: Sequence[FilledForm[FactSheet]], parts: Sequence[tuple[int, str]]
) -> tuple[list[Fact], list[str]]:
    """Return the facts whose quotes are in the material, and the concepts of the others."""
    verified: list[Fact] = []
    unverified: list[str] = []
    for one, (at, part) in zip(filled, parts, strict=True):
        for proposal in one.form.facts:
            fact = _verified_fact(proposal, part, at)
            if fact:
                verified.append(fact)
            else:
                unverified.append(proposal.concept)
    return distinct(verified), unverified


def _verified_fact(proposal: FoundFact, part: str, offset: int) -> Fact | None:
    passage = find_passage(proposal.quote, part)
    if passage is None:
        return None
    source = passage.model_copy(update={"start": passage.start + offset, "end": passage.end + offset})
    return Fact(
        id=fact_id(proposal.concept, source.quote),
        concept=proposal.concept,
        details=proposal.details,
        confidence=proposal.confidence,
        source=source,
    )


def _select_best(facts: Sequence[Fact], parts: int) -> list[Fact]:
    """Return the 15 most confident facts in the order of the material, spread over its parts."""
    limit = math.ceil(MAX_FACTS / parts) + 1
    counts: Counter[int] = Counter()
    selected: list[Fact] = []
    for fact in sorted(facts, key=lambda fact: -fact.confidence):
        part = _start(fact) // WINDOW_CHARS
        counts[part] += 1
        if counts[part] <= limit and len(selected) < MAX_FACTS:
            selected.append(fact)
    return sorted(selected, key=_start)


def _start(fact: Fact) -> int:
    return fact.source.start if fact.source else 0


def _warnings(unsaid: Sequence[str], orders: int) -> list[str]:
    warnings = []
    if unsaid:
        warnings.append(f"left out, because the material does not say it: {', '.join(unsaid)}")
    if orders:
        warnings.append(f"left out {orders} passage{'s' * (orders > 1)} that would give a model orders")
    return warnings


async def extract_facts_cached(
    source: Source, preferences: ExtractionPreferences, call: Call, report: OnProgress
) -> Extraction:
    """Return the facts of a material, from the cache for the same owner, model and preferences.

    Raises as `extract_facts`. A cached result costs nothing.
    """
    began = time.monotonic()
    opened, owner, model = await storage.current(), call.scope.owner, call.scope.model
    spec = structured.model_name(model, detect(source.text) or "english")
    key_parts = canonical_json([source.digest, spec, asdict(preferences)])
    cache_key = hashlib.blake2b(key_parts.encode(), digest_size=16).hexdigest()
    cached = await extraction_cache.get(opened, owner, cache_key)
    if cached:
        return replace(
            _from_cache(cached), cost=0.0, duration=round(time.monotonic() - began, 3), cached=True
        )
    extraction = await extract_facts(source.text, model=model, preferences=preferences, report=report)
    if extraction.facts:
        facts = [fact.model_dump() for fact in extraction.facts]
        await extraction_cache.put(opened, owner, cache_key, {**asdict(extraction), "facts": facts})
    return extraction


def _from_cache(known: Mapping[str, Any]) -> Extraction:
    facts = tuple(Fact.model_validate(one) for one in known["facts"])
    return Extraction(**{**known, "facts": facts, "warnings": tuple(known["warnings"])})
