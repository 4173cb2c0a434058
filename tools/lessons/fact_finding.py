"""Extraction of facts by a model; a fact that the material does not prove is asked for again or left out.

A fact has a quote of the material to itself, and its details have no number or name that the material lacks.
Where they may say something else than the quote, the fact has a warning and little confidence.
"""

import hashlib
import math
import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from langchain_core.language_models import BaseChatModel

from callsheet import storage
from callsheet.providers.routing import input_budget
from callsheet.state import pricing
from callsheet.state.claims import Evidence, Unproven, share, unproven_claims
from callsheet.state.errors import ContextOverflow, Unavailable
from callsheet.state.languages import detect, stated_name
from callsheet.state.lessons.facts import MAX_FACTS, Fact, Passage, distinct, fact_id, find_passage, shortfall
from callsheet.state.plan import canonical_json
from callsheet.state.tokens import estimate_text, fitting_length
from callsheet.storage.artefacts import extraction_cache
from callsheet.tools.call import Call
from callsheet.tools.guard.sandbox import OnProgress
from callsheet.tools.lessons.forms import FACTS_PROMPT, FactSheet, FoundFact
from callsheet.tools.lessons.sources import Source
from callsheet.tools.models import structured
from callsheet.tools.models.structured import FilledForm, fill_in, model_for

WINDOW_CHARS: Final = 60_000
"""Most characters a model reads at once, about 20 pages."""
_RESERVE: Final = 6_000
"""Tokens of prompt, form, facts and corrections beside the material; in a small window, two thirds of it."""
_LEAST_CHARS: Final = 500
"""Characters of a part that is not cut again where the model cannot read it."""
_MIN_SHARE: Final = 0.3
"""Least share of the details' words that a quote has which surely says the same."""
_DOUBTFUL: Final = 0.5
"""Most confidence in a fact that the quote may not say."""
_SAME_PASSAGE: Final = 0.8
"""Two quotes with this share of their characters in common are the same."""


@dataclass(frozen=True)
class Extraction:
    """The facts of a material."""

    topic: str
    objective: str
    language: str
    """English name, lower case; empty if it is unknown."""
    facts: tuple[Fact, ...]
    warnings: tuple[str, ...]
    cost: float | None
    """US dollars."""
    duration: float
    """Seconds."""
    cached: bool = False
    """True if it came from the cache."""


@dataclass(frozen=True)
class ExtractionPreferences:
    """Wishes for an extraction."""

    guidance: str = ""
    """Subject that the person wants, in their words."""
    avoid: tuple[str, ...] = ()
    """Passages proposed before."""
    age: int | None = None
    """The student's, in years."""
    level: float | None = None
    """US school grade."""


async def extract_facts(
    text: str,
    *,
    model: str = "",
    preferences: ExtractionPreferences | None = None,
    report: OnProgress = lambda _done, _of: None,
) -> Extraction:
    """Return the facts of a material in the order to teach them, each with its quote.

    A long material is read in parts that the model can read. Raises what the provider raises.
    """
    language = detect(text) or ""
    chosen = await model_for(model, language)
    budget = input_budget(chosen)
    parts = _split_windows(text, max(budget // 3, budget - _RESERVE))
    reader = _MaterialReader(chosen, language, preferences or ExtractionPreferences())
    for number, (at, part) in enumerate(parts):
        report(number, len(parts))
        await reader.read(part, at)
    report(len(parts), len(parts))
    kept = _select_best(distinct(reader.facts), sorted(reader.starts))
    first = reader.filled[0].form
    return Extraction(
        topic=first.topic,
        objective=first.learningObjective,
        language=reader.language,
        facts=tuple(kept),
        warnings=(*shortfall(kept), *reader.warnings()),
        cost=pricing.total(one.cost for one in reader.filled),
        duration=round(sum(one.duration for one in reader.filled), 3),
    )


def _split_windows(text: str, tokens: int) -> list[tuple[int, str]]:
    """Return (offset, text) parts of at most `tokens` tokens and `WINDOW_CHARS` characters.

    They are cut between paragraphs, else between sentences.
    """
    parts: list[tuple[int, str]] = []
    at = 0
    while (fitting := max(1, fitting_length(text[at : at + WINDOW_CHARS], tokens))) < len(text) - at:
        size = _break_before(text[at : at + fitting])
        parts.append((at, text[at : at + size]))
        at += size
    return [*parts, (at, text[at:])]


def _break_before(text: str) -> int:
    """Return the place of the last paragraph's end in the second half, else of the last sentence's."""
    for pattern in (r"\n\n", r"(?<=[.!?])\s|(?<=[。！？])"):
        ends = [match.end() for match in re.finditer(pattern, text)]
        if ends and ends[-1] > len(text) // 2:
            return ends[-1]
    return len(text)


@dataclass
class _MaterialReader:
    """The reading of a material, part by part."""

    model: BaseChatModel
    language: str
    preferences: ExtractionPreferences
    filled: list[FilledForm[FactSheet]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Offset of each part that was read."""
    facts: list[Fact] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    """By concept, the reason."""
    doubtful: dict[str, str] = field(default_factory=dict)
    """By concept, the reason."""

    async def read(self, part: str, offset: int) -> None:
        """Add the facts of a part, or of its halves if it is too long for the model.

        Those that it does not prove are asked for once more.
        """
        request = self._request(part)
        try:
            sheet = await fill_in(self.model, FactSheet, FACTS_PROMPT, request)
        except ContextOverflow:
            if len(part) < 2 * _LEAST_CHARS:
                raise
            for at, half in _split_windows(part, estimate_text(part) * 2 // 3):
                await self.read(half, offset + at)
            return
        if not self.filled:
            self.language = stated_name(sheet.form.language) or self.language
        self.filled.append(sheet)
        self.starts.append(offset)
        review = _Review(part, offset, self.language)
        review.add(sheet.form.facts)
        if review.dropped:
            earlier = [(sheet.form, _correction(review.dropped))]
            try:
                again = await fill_in(self.model, FactSheet, FACTS_PROMPT, request, earlier)
            except (Unavailable, ContextOverflow):
                # The proven facts are worth more than those that could not be asked for.
                again = None
            if again:
                self.filled.append(again)
                review.add(again.form.facts)
        order = [proposal.concept for proposal in sheet.form.facts]
        place = {concept: at for at, concept in reversed([*enumerate(order)])}
        self.facts += sorted(review.facts, key=lambda fact: place.get(fact.concept, len(order)))
        self.dropped |= review.dropped
        self.doubtful |= review.doubtful

    def _request(self, part: str) -> dict[str, Any]:
        wishes = self.preferences
        student = {"age": wishes.age, "level": wishes.level}
        return {
            "material": part,
            "language": self.language or "the material's language",
            "guidance": wishes.guidance,
            "avoid": wishes.avoid,
            **{name: value for name, value in student.items() if value is not None},
        }

    def warnings(self) -> list[str]:
        """Return what was left out and what is to be checked, and why."""
        lines = [*_by_reason("left out", self.dropped), *_by_reason("check", self.doubtful)]
        orders = sum(one.form.leftOut for one in self.filled)
        if orders:
            lines.append(f"left out {orders} passage{'s' * (orders > 1)} that would give a model orders")
        return lines


def _by_reason(action: str, reasons: Mapping[str, str]) -> list[str]:
    return [
        f"{action} {', '.join(one for one, why in reasons.items() if why == reason)}: {reason}"
        for reason in dict.fromkeys(reasons.values())
    ]


def _correction(dropped: Mapping[str, str]) -> str:
    """Return the wish for the facts that were left out."""
    lines = "\n".join(f"- {concept}: {reason}" for concept, reason in dropped.items())
    return (
        f"These facts were left out:\n{lines}\n"
        "Answer with a FactSheet that has only these facts, corrected, under the same concepts. Each quote "
        "is one unbroken passage of the material, copied character by character, without an ellipsis. Leave "
        "out a fact that the material does not say."
    )


@dataclass
class _Review:
    """The check of the facts that a model proposes from one part of the material."""

    part: str
    offset: int
    language: str
    facts: list[Fact] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    """By concept, the reason."""
    doubtful: dict[str, str] = field(default_factory=dict)
    """By concept, the reason."""

    def add(self, proposals: Sequence[FoundFact]) -> None:
        """Add the facts that are not wrong; one of the same concept takes the place of a dropped one."""
        for proposal in proposals:
            passage = find_passage(proposal.quote, self.part)
            if passage is None:
                self.dropped[proposal.concept] = "the quote is not in the material word for word"
                continue
            unproven = self._unproven(proposal, passage)
            if reason := self._problem(proposal, passage, unproven.wrong):
                self.dropped[proposal.concept] = reason
                continue
            self.dropped.pop(proposal.concept, None)
            doubt = self._doubt(proposal, passage, unproven.doubtful)
            if doubt:
                self.doubtful[proposal.concept] = doubt
            self.facts.append(_fact(proposal, passage, self.offset, _DOUBTFUL if doubt else 1.0))

    def _unproven(self, proposal: FoundFact, passage: Passage) -> Unproven:
        evidence = Evidence((passage.quote,), (self.part, proposal.concept), language=self.language)
        return unproven_claims(proposal.details, evidence)

    def _problem(self, proposal: FoundFact, passage: Passage, wrong: Sequence[str]) -> str:
        """Return why a proposal is no fact of the material; empty if it is one."""
        user = next((fact.concept for fact in self.facts if self._is_used(passage, fact)), "")
        if user and user != proposal.concept:
            return f"the quote already proves {user}"
        return f"the details say {', '.join(wrong)}, which the material does not say" if wrong else ""

    def _doubt(self, proposal: FoundFact, passage: Passage, doubtful: Sequence[str]) -> str:
        """Return why a fact is to be checked; empty if it is proven."""
        if doubtful:
            return f"the details say {', '.join(doubtful)}, which the material may not say"
        if share(proposal.details, f"{proposal.concept} {passage.quote}") < _MIN_SHARE:
            return "the details use other words than the quote"
        return ""

    def _is_used(self, passage: Passage, fact: Fact) -> bool:
        """Return True if a fact has the same passage, but for a few characters."""
        if fact.source is None:
            return False
        start, end = fact.source.start - self.offset, fact.source.end - self.offset
        common = min(end, passage.end) - max(start, passage.start)
        return common >= _SAME_PASSAGE * max(end - start, passage.end - passage.start)


def _fact(proposal: FoundFact, passage: Passage, offset: int, most: float) -> Fact:
    source = passage.model_copy(update={"start": passage.start + offset, "end": passage.end + offset})
    return Fact(
        id=fact_id(proposal.concept, source.quote),
        concept=proposal.concept,
        details=proposal.details,
        confidence=min(proposal.confidence, most),
        source=source,
    )


def _select_best(facts: Sequence[Fact], starts: Sequence[int]) -> list[Fact]:
    """Return the 15 most confident facts in their order, spread over the parts of the material."""
    limit = math.ceil(MAX_FACTS / len(starts)) + 1
    counts: Counter[int] = Counter()
    selected: set[str] = set()
    for fact in sorted(facts, key=lambda fact: -fact.confidence):
        part = bisect_right(starts, fact.source.start if fact.source else 0)
        counts[part] += 1
        if counts[part] <= limit and len(selected) < MAX_FACTS:
            selected.add(fact.id)
    return [fact for fact in facts if fact.id in selected]


async def extract_facts_cached(
    source: Source, preferences: ExtractionPreferences, call: Call, report: OnProgress
) -> Extraction:
    """Return the facts of a material, from the cache for the same owner, model and preferences.

    Raises as `extract_facts`. A cached result costs nothing.
    """
    began = time.monotonic()
    opened, owner, model = await storage.current(), call.scope.owner, call.scope.model
    spec = structured.model_name(model, detect(source.text) or "")
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
