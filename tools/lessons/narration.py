"""A narration out of chosen facts, by a model; what does not fit its time or its facts is not accepted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.state.errors import Invalid, Unavailable
from callsheet.state.lessons import narration, student
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.narration import Kind, Narration, Readability, Segment, Sentence, Slot
from callsheet.tools.lessons.forms import SCRIPT_PROMPT, NarrationScript, WrittenSegment
from callsheet.tools.structured import FilledForm, fill_in, model_for

MAX_DRAFTS: Final = 2
"""How often a model may correct itself before its narration is given up."""
_GRADES_OVER: Final = 1.0


@dataclass(frozen=True)
class NarrationOrder:
    """What is to be narrated, for whom."""

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
    """What is shown for how the student learns best (B64)."""


@dataclass(frozen=True)
class WrittenNarration:
    """A narration and what it took."""

    narration: Narration
    changed: tuple[str, ...]
    """Ids of the segments that are new; the others are what they were, to the byte."""
    cost: float
    """US dollars."""
    duration: float
    """Seconds."""


async def write_narration(
    order: NarrationOrder, *, model: str = "", earlier: Narration | None = None, only: Iterable[str] = ()
) -> WrittenNarration:
    """Return a narration that says every fact of the order and no other, each segment within its time.

    With an `earlier` one only those segments are written again that `only` names, and those that say what is
    no longer to be said. Raises `Invalid` for facts that have no room, `Unavailable` where the model does not
    manage, and what the provider raises.
    """
    if not order.facts:
        raise Invalid("there are no facts to tell", remedy="choose at least one fact")
    plan = _whole(order) if earlier is None else _parts(order, earlier, list(only))
    if earlier is not None and not plan:
        return WrittenNarration(earlier, (), 0.0, 0.0)
    chosen = model_for(model, order.language)
    cost = duration = 0.0
    problems: list[str] = []
    for _ in range(MAX_DRAFTS):
        filled = await fill_in(
            chosen, NarrationScript, SCRIPT_PROMPT, _request(order, plan, problems, earlier)
        )
        cost, duration = cost + filled.cost, duration + filled.duration
        problems = list(_problems(order, plan, filled.form))
        if not problems:
            made = _made(order, plan, filled, earlier)
            return WrittenNarration(made, _changed(made, earlier), round(cost, 8), round(duration, 3))
    raise Unavailable(
        f"the model's narration cannot be used: {'; '.join(problems)}"[:500],
        remedy="try again, choose fewer facts, or ask for a longer narration",
    )


def _changed(made: Narration, earlier: Narration | None) -> tuple[str, ...]:
    """Return the segments that are not what they were, to the byte."""
    before = earlier.segments if earlier else ()
    return tuple(one.id for one in made.segments if one not in before)


SlotPlan = Sequence[tuple[Slot, tuple[str, ...] | None]]
"""The segments to write, each with the facts it has to say; None leaves them to the model."""


def _whole(order: NarrationOrder) -> SlotPlan:
    return [(slot, None) for slot in narration.slots(order.total_s, order.language)]


def _parts(order: NarrationOrder, earlier: Narration, only: Sequence[str]) -> SlotPlan:
    """Return the segments to write again, each with the facts it said and still shall, and the new ones."""
    wanted = [fact.id for fact in order.facts]
    gone = earlier.facts - set(wanted)
    asked = {earlier.segment(name).type for name in only}
    asked |= {segment.type for segment in earlier.segments if segment.facts & gone}
    new = [one for one in wanted if one not in earlier.facts]
    if new and not asked:
        asked = {"process_explanation"}
    shares = {
        segment.type: [one for one in wanted if one in segment.facts]
        for segment in earlier.segments
        if segment.type in asked
    }
    for number, one in enumerate(new):
        list(shares.values())[-1 - number % len(shares)].append(one)
    slots = narration.slots(earlier.total_duration, earlier.language)
    return [(slot, tuple(shares[slot.type])) for slot in slots if slot.type in shares]


def _request(
    order: NarrationOrder, plan: SlotPlan, problems: Sequence[str], earlier: Narration | None
) -> Mapping[str, Any]:
    return {
        "topic": order.topic,
        "subject": order.subject,
        "language": order.language,
        "level": order.level,
        "interests": order.interests,
        "facts": [
            {"id": fact.id, "concept": fact.concept, "details": fact.details} for fact in _told(order, plan)
        ],
        "segments": [
            {"type": slot.type, "seconds": slot.duration, "budget": slot.budget, "facts": facts}
            | ({"was": earlier.segment(slot.type).narration} if earlier else {})
            for slot, facts in plan
        ],
        "guidance": order.guidance,
        "style": order.style,
        "problems": problems,
    }


def _told(order: NarrationOrder, plan: SlotPlan) -> list[Fact]:
    """Return the facts that may be spoken of: a segment without any of its own may come back to all."""
    named = _named(plan)
    everything = any(not facts for _, facts in plan)
    return [fact for fact in order.facts if everything or fact.id in named]


def _named(plan: SlotPlan) -> set[str]:
    return {one for _, facts in plan for one in facts or ()}


def _problems(order: NarrationOrder, plan: SlotPlan, script: NarrationScript) -> Iterable[str]:
    """Yield what is wrong with a script, in words that the model can act on."""
    kinds: list[Kind] = [slot.type for slot, _ in plan]
    if [segment.type for segment in script.segments] != kinds:
        yield f"the segments are {[segment.type for segment in script.segments]}, and shall be {kinds}"
        return
    allowed = {fact.id for fact in _told(order, plan)}
    wanted = allowed if any(facts is None for _, facts in plan) else _named(plan)
    said: set[str] = set()
    for (slot, facts), segment in zip(plan, script.segments, strict=True):
        ids = {one for sentence in segment.sentences for one in sentence.factIds}
        spoken = sum(narration.length(one.text, order.language) for one in segment.sentences)
        if spoken > slot.budget:
            yield f"{slot.type} says {spoken} words, and has room for {slot.budget}"
        if facts and ids - set(facts):
            yield f"{slot.type} says {sorted(ids - set(facts))}, which are not its facts"
        said |= ids
    if said - allowed:
        yield f"{sorted(said - allowed)} are no facts that were chosen"
    if wanted - said:
        yield f"these facts are not said: {sorted(wanted - said)}"


def _made(
    order: NarrationOrder, plan: SlotPlan, filled: FilledForm[NarrationScript], earlier: Narration | None
) -> Narration:
    segments = [
        _segment(slot, written, order.language)
        for (slot, _), written in zip(plan, filled.form.segments, strict=True)
    ]
    if earlier is not None:
        whole = earlier.with_segments(segments)
    else:
        whole = Narration(
            total_duration=order.total_s,
            reading_level=f"{order.level:g}",
            key_terms_count=narration.key_terms(segments),
            segments=tuple(segments),
            topic=order.topic,
            language=order.language,
        )
    return _measured(whole, order.level, filled.form.notes)


def _segment(slot: Slot, written: WrittenSegment, language: str) -> Segment:
    return narration.place_segments(
        slot,
        [Sentence(text=one.text, factIds=tuple(one.factIds)) for one in written.sentences],
        language,
        visual_guidance=written.visual_guidance,
        key_concepts=tuple(dict.fromkeys(written.key_concepts)),
        educational_purpose=written.educational_purpose,
    )


def _measured(made: Narration, level: float, notes: Sequence[str]) -> Narration:
    """Return the narration with how hard its words are, where there is a formula for its language."""
    if made.language != "english":
        return made.model_copy(update={"readability": None, "warnings": tuple(notes)})
    grade = student.grade(" ".join(segment.narration for segment in made.segments))
    measured = Readability(formula=student.FORMULA, grade=grade, within=grade <= level + _GRADES_OVER)
    harder = f"the words are of grade {grade:g}, harder than {level:g}: the facts have no easier ones"
    warnings = tuple(notes) if measured.within else (*notes, harder)
    return made.model_copy(update={"readability": measured, "warnings": warnings})
