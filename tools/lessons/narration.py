"""Narrations written by a model from chosen facts; each segment must fit its time and its facts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.state import pricing
from callsheet.state.errors import Invalid, Unavailable
from callsheet.state.lessons import narration, student
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.narration import Kind, Narration, Readability, Segment, Sentence, Slot
from callsheet.tools.lessons.forms import SCRIPT_PROMPT, NarrationScript, WrittenSegment
from callsheet.tools.structured import FilledForm, fill_in, model_for

MAX_DRAFTS: Final = 2
"""Drafts that a model may write before its narration is given up."""
_GRADES_OVER: Final = 1.0


@dataclass(frozen=True)
class NarrationBrief:
    """A narration to write, with its audience."""

    topic: str
    facts: tuple[Fact, ...]
    total_s: int
    level: float
    """US school grade."""
    interests: tuple[str, ...]
    language: str
    subject: str = "general"
    """The school subject (B-R12)."""
    guidance: str = ""
    style: str = ""
    """Visual guidance for the student's way of learning (B64)."""


@dataclass(frozen=True)
class WrittenNarration:
    """A narration with its cost and duration."""

    narration: Narration
    changed: tuple[str, ...]
    """Ids of the changed segments; the others are the same to the byte."""
    cost: float | None
    """US dollars; None if the price is unknown."""
    duration: float
    """Seconds."""


async def write_narration(
    brief: NarrationBrief, *, model: str = "", earlier: Narration | None = None, only: Iterable[str] = ()
) -> WrittenNarration:
    """Return a narration of exactly the brief's facts, each segment within its time.

    With an `earlier` one, only the segments in `only` and those with dropped facts are rewritten. Raises
    `Invalid` for facts without room, `Unavailable` if the model fails, and the provider's errors.
    """
    if not brief.facts:
        raise Invalid("there are no facts to narrate", remedy="choose at least one fact")
    plan = _full_plan(brief) if earlier is None else _partial_plan(brief, earlier, list(only))
    if earlier is not None and not plan:
        return WrittenNarration(earlier, (), 0.0, 0.0)
    chosen = model_for(model, brief.language)
    cost: float | None = 0.0
    duration = 0.0
    problems: list[str] = []
    for _ in range(MAX_DRAFTS):
        filled = await fill_in(
            chosen, NarrationScript, SCRIPT_PROMPT, _request(brief, plan, problems, earlier)
        )
        cost, duration = pricing.total((cost, filled.cost)), duration + filled.duration
        problems = list(_problems(brief, plan, filled.form))
        if not problems:
            assembled = _assemble(brief, plan, filled, earlier)
            before = earlier.segments if earlier else ()
            changed = tuple(segment.id for segment in assembled.segments if segment not in before)
            return WrittenNarration(assembled, changed, cost, round(duration, 3))
    raise Unavailable(
        f"the model's narration cannot be used: {'; '.join(problems)}"[:500],
        remedy="try again, choose fewer facts, or ask for a longer narration",
    )


SlotPlan = Sequence[tuple[Slot, tuple[str, ...] | None]]
"""The segments to write, each with its facts; None leaves them to the model."""


def _full_plan(brief: NarrationBrief) -> SlotPlan:
    return [(slot, None) for slot in narration.slots(brief.total_s, brief.language)]


def _partial_plan(brief: NarrationBrief, earlier: Narration, only: Sequence[str]) -> SlotPlan:
    """Return the segments to rewrite, each with its remaining facts and new ones."""
    fact_ids = [fact.id for fact in brief.facts]
    removed = earlier.facts - set(fact_ids)
    kinds = {earlier.segment(name).type for name in only}
    kinds |= {segment.type for segment in earlier.segments if segment.facts & removed}
    new = [fact_id for fact_id in fact_ids if fact_id not in earlier.facts]
    if new and not kinds:
        kinds = {"process_explanation"}
    assigned = {
        segment.type: [fact_id for fact_id in fact_ids if fact_id in segment.facts]
        for segment in earlier.segments
        if segment.type in kinds
    }
    for number, fact_id in enumerate(new):
        list(assigned.values())[-1 - number % len(assigned)].append(fact_id)
    slots = narration.slots(earlier.total_duration, earlier.language)
    return [(slot, tuple(assigned[slot.type])) for slot in slots if slot.type in assigned]


def _request(
    brief: NarrationBrief, plan: SlotPlan, problems: Sequence[str], earlier: Narration | None
) -> Mapping[str, Any]:
    return {
        "topic": brief.topic,
        "subject": brief.subject,
        "language": brief.language,
        "level": brief.level,
        "interests": brief.interests,
        "facts": [
            {"id": fact.id, "concept": fact.concept, "details": fact.details}
            for fact in _usable_facts(brief, plan)
        ],
        "segments": [
            {"type": slot.type, "seconds": slot.duration, "budget": slot.budget, "facts": facts}
            | ({"was": earlier.segment(slot.type).narration} if earlier else {})
            for slot, facts in plan
        ],
        "guidance": brief.guidance,
        "style": brief.style,
        "problems": problems,
    }


def _usable_facts(brief: NarrationBrief, plan: SlotPlan) -> list[Fact]:
    """Return the facts that may be used: a segment without facts of its own may use all."""
    named = _planned_fact_ids(plan)
    everything = any(not facts for _, facts in plan)
    return [fact for fact in brief.facts if everything or fact.id in named]


def _planned_fact_ids(plan: SlotPlan) -> set[str]:
    return {one for _, facts in plan for one in facts or ()}


def _problems(brief: NarrationBrief, plan: SlotPlan, script: NarrationScript) -> Iterable[str]:
    """Yield the problems of a script, as instructions for the model."""
    kinds: list[Kind] = [slot.type for slot, _ in plan]
    if [segment.type for segment in script.segments] != kinds:
        yield f"the segments are {[segment.type for segment in script.segments]}, but must be {kinds}"
        return
    allowed = {fact.id for fact in _usable_facts(brief, plan)}
    wanted = allowed if any(facts is None for _, facts in plan) else _planned_fact_ids(plan)
    used: set[str] = set()
    for (slot, facts), segment in zip(plan, script.segments, strict=True):
        ids = {one for sentence in segment.sentences for one in sentence.factIds}
        length = sum(narration.length(one.text, brief.language) for one in segment.sentences)
        if length > slot.budget:
            yield f"{slot.type} says {length} words, but has room for {slot.budget}"
        if facts and ids - set(facts):
            yield f"{slot.type} says {sorted(ids - set(facts))}, which are not its facts"
        used |= ids
    if used - allowed:
        yield f"{sorted(used - allowed)} are not among the chosen facts"
    if wanted - used:
        yield f"these facts are not said: {sorted(wanted - used)}"


def _assemble(
    brief: NarrationBrief, plan: SlotPlan, filled: FilledForm[NarrationScript], earlier: Narration | None
) -> Narration:
    segments = [
        _segment(slot, written, brief.language)
        for (slot, _), written in zip(plan, filled.form.segments, strict=True)
    ]
    if earlier is not None:
        assembled = earlier.with_segments(segments)
    else:
        assembled = Narration(
            total_duration=brief.total_s,
            reading_level=f"{brief.level:g}",
            key_terms_count=narration.key_terms(segments),
            segments=tuple(segments),
            topic=brief.topic,
            language=brief.language,
        )
    return _with_readability(assembled, brief.level, filled.form.notes)


def _segment(slot: Slot, written: WrittenSegment, language: str) -> Segment:
    return narration.place_segments(
        slot,
        [Sentence(text=one.text, factIds=tuple(one.factIds)) for one in written.sentences],
        language,
        visual_guidance=written.visual_guidance,
        key_concepts=tuple(dict.fromkeys(written.key_concepts)),
        educational_purpose=written.educational_purpose,
    )


def _with_readability(narration_: Narration, level: float, notes: Sequence[str]) -> Narration:
    """Return the narration with its reading level, if there is a formula for its language."""
    if narration_.language != "english":
        return narration_.model_copy(update={"readability": None, "warnings": tuple(notes)})
    grade = student.grade(" ".join(segment.narration for segment in narration_.segments))
    measured = Readability(formula=student.FORMULA, grade=grade, within=grade <= level + _GRADES_OVER)
    harder = f"the words are of grade {grade:g}, harder than {level:g}: the facts have no easier ones"
    warnings = tuple(notes) if measured.within else (*notes, harder)
    return narration_.model_copy(update={"readability": measured, "warnings": warnings})
