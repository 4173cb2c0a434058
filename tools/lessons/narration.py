"""Narrations written by a model from chosen facts, checked and repaired sentence by sentence.

A draft that is wrong as a whole is asked for once more, with the draft and its problems. A sentence that its
facts do not prove is asked for alone. If that fails, it is left out with a note; where it may be right, or is
the last of its segment, it stays with a warning. The best draft with warnings beats no narration.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from langchain_core.language_models import BaseChatModel

from callsheet.state import pricing
from callsheet.state.errors import Invalid, Unavailable
from callsheet.state.lessons import narration, student
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.narration import Kind, Narration, Segment, Sentence, Slot, kind_name
from callsheet.state.lessons.proof import ProofContext, proven_ids, sentence_problem
from callsheet.state.sentences import split_sentences
from callsheet.tools.lessons.forms import (
    SCRIPT_PROMPT,
    SENTENCES_PROMPT,
    NarrationScript,
    RepairedSentence,
    SentenceRepairs,
)
from callsheet.tools.lessons.script_draft import (
    TOLERANCE,
    Assignment,
    ScriptDraft,
    WrongSentence,
    empty_claims,
    penalty,
    read_draft,
    script_problems,
    segment_length,
    untold_ids,
    wrong_sentences,
)
from callsheet.tools.models.structured import FilledForm, Form, fill_in, model_for

MAX_DRAFTS: Final = 2
"""Drafts that a model may write; the better one is used."""
_AIM: Final = 0.8
"""Share of a segment's budget that a model is asked for, since models count badly."""


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
    """The school subject."""
    guidance: str = ""
    style: str = ""
    """Visual guidance for the student's way of learning."""
    age: int | None = None
    """The student's, in years."""
    same_language: bool = True
    """False if the facts are in another language than the narration."""


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
    brief: NarrationBrief,
    *,
    model: str = "",
    earlier: Narration | None = None,
    only: Iterable[str] = (),
    keep: Sequence[Segment] = (),
    spread: bool = False,
) -> WrittenNarration:
    """Return a narration of the brief's facts alone, each segment within its time or with a warning.

    With an `earlier` one, only the segments in `only` and those with dropped facts are rewritten, and if new
    facts are to `spread`, those with room for them; without, or where no segment has room, all but those to
    `keep`, which get the times of the new length. Raises `Invalid` for facts without room, `Unavailable` if
    the model fails, and the provider's errors.
    """
    if not brief.facts:
        raise Invalid("there are no facts to narrate", remedy="choose at least one fact")
    plan = _partial_plan(brief, earlier, list(only), keep if spread else None) if earlier else None
    if plan is None:
        earlier, plan = None, _full_plan(brief, keep)
    if earlier is not None and not plan:
        return WrittenNarration(earlier, (), 0.0, 0.0)
    assignment = _assignment(brief, plan, frozenset(fact for one in keep for fact in one.facts))
    writer = _Writer(await model_for(model, brief.language), brief, assignment, earlier)
    draft = await writer.repair(await writer.draft())
    kept = _with_new_times(brief, keep)
    assembled = _assemble(brief, writer, draft, kept)
    before = earlier.segments if earlier else kept
    written = {slot.type for slot, _ in plan}
    changed = tuple(one.id for one in assembled.segments if one.type in written and one not in before)
    cost = pricing.total(one.cost for one in writer.filled)
    return WrittenNarration(assembled, changed, cost, round(sum(one.duration for one in writer.filled), 3))


SlotPlan = Sequence[tuple[Slot, tuple[str, ...] | None]]
"""The segments to write, each with its facts; None leaves them to the model."""


def _assignment(brief: NarrationBrief, plan: SlotPlan, elsewhere: frozenset[str]) -> Assignment:
    """Return what a draft has to do; a segment without facts may use all that are not told `elsewhere`."""
    named = {one for _, facts in plan for one in facts or ()}
    everything = any(not facts for _, facts in plan)
    untold = [fact for fact in brief.facts if fact.id not in elsewhere] or brief.facts
    usable = {fact.id: fact for fact in untold if everything or fact.id in named}
    age = "" if brief.age is None else str(brief.age)
    known = (brief.topic, *brief.interests, age, brief.guidance)
    background = ProofContext(known, brief.facts, brief.language, brief.same_language)
    return Assignment(tuple(plan), usable, background)


@dataclass
class _Writer:
    """The writing of one narration."""

    model: BaseChatModel
    brief: NarrationBrief
    assignment: Assignment
    earlier: Narration | None
    filled: list[FilledForm[Any]] = field(default_factory=list)
    """All answers, which are paid for."""
    notes: list[str] = field(default_factory=list)
    """Sentences that were left out, or that stay although they are not proven."""

    async def draft(self) -> ScriptDraft:
        """Return the better of at most `MAX_DRAFTS` drafts; raise `Unavailable` if a segment is missing."""
        best: ScriptDraft | None = None
        latest: ScriptDraft | None = None
        problems: list[str] = []
        for number in range(MAX_DRAFTS):
            try:
                script = await self._fill_in(NarrationScript, SCRIPT_PROMPT, self._request(problems, latest))
            except Unavailable:
                if best is None or number == 0:
                    raise
                break
            latest = read_draft(script, self.assignment, latest)
            if best is None or penalty(latest, self.assignment) < penalty(best, self.assignment):
                best = latest
            problems = list(script_problems(latest, self.assignment))
            if not problems:
                break
            problems += [_place(wrong, latest) for wrong in wrong_sentences(latest, self.assignment)]
        if best is None or len(best.segments) < len(self.assignment.slots):
            raise Unavailable(
                f"the model's narration cannot be used: {'; '.join(problems)}"[:500],
                remedy="try again, choose fewer facts, or ask for a longer narration",
            )
        return best

    async def repair(self, draft: ScriptDraft) -> ScriptDraft:
        """Return the draft with each wrong sentence corrected by the model, or else left out or noted."""
        wrong = wrong_sentences(draft, self.assignment)
        if not wrong:
            return draft
        try:
            form = await self._fill_in(SentenceRepairs, SENTENCES_PROMPT, self._repair_request(draft, wrong))
            repairs = {one.index: one for one in form.sentences}
        except Unavailable:
            repairs = {}
        corrected = {
            index: self._corrected_sentence(each, repairs.get(index)) for index, each in enumerate(wrong)
        }
        for kind in dict.fromkeys(each.kind for each in wrong):
            new = {each.at: corrected[index] or each for index, each in enumerate(wrong) if each.kind == kind}
            draft = draft.with_sentences(kind, self._repaired_segment(draft.sentences[kind], new))
        return draft

    def _repaired_segment(
        self, sentences: Sequence[Sentence], new: Mapping[int, Sentence | WrongSentence]
    ) -> list[Sentence]:
        """Return a segment's sentences without the wrong ones, but never without any."""
        failed = {at: one for at, one in new.items() if isinstance(one, WrongSentence)}
        lost = {at for at, wrong in failed.items() if wrong.sure}
        if len(lost) == len(sentences):
            lost.remove(max(lost))
        for at, wrong in failed.items():
            action = "left out of" if at in lost else "check"
            self.notes.append(f"{action} the {kind_name(wrong.kind)}: “{sentences[at].text}” {wrong.reason}")
        corrected = {at: one for at, one in new.items() if isinstance(one, Sentence)}
        return [corrected.get(at, one) for at, one in enumerate(sentences) if at not in lost]

    def _corrected_sentence(self, wrong: WrongSentence, repair: RepairedSentence | None) -> Sentence | None:
        """Return the corrected sentence; None if there is none or it is not proven either."""
        if not (repair and repair.text.strip()):
            return None
        sentence = Sentence(text=repair.text, factIds=tuple(repair.factIds))
        facts = self.assignment.facts_of(wrong.kind)
        return None if sentence_problem(sentence, facts, self.assignment.background) else sentence

    async def _fill_in(self, form: type[Form], prompt: str, request: Mapping[str, Any]) -> Form:
        filled = await fill_in(self.model, form, prompt, request)
        self.filled.append(filled)
        return filled.form

    def _audience(self) -> dict[str, Any]:
        brief = self.brief
        return {
            "language": brief.language or "the language of the facts",
            "age": brief.age,
            "level": brief.level,
            "reads_like": student.reading_style(brief.level),
            "facts": [
                {"id": fact.id, "concept": fact.concept, "details": fact.details}
                for fact in self.assignment.facts.values()
            ],
        }

    def _request(self, problems: Sequence[str], draft: ScriptDraft | None) -> Mapping[str, Any]:
        brief = self.brief
        kinds = {slot.type for slot, _ in self.assignment.slots}
        return self._audience() | {
            "topic": brief.topic,
            "subject": brief.subject,
            "interests": brief.interests,
            "segments": [
                {
                    "type": slot.type,
                    "seconds": slot.duration,
                    "words": max(1, int(slot.budget * _AIM)),
                    "budget": slot.budget,
                    "facts": facts,
                    **_surroundings(slot.type, self.earlier, kinds),
                }
                for slot, facts in self.assignment.slots
            ],
            "guidance": brief.guidance,
            "style": brief.style,
            "problems": problems,
            **({"draft": [one.model_dump() for one in draft.segments.values()]} if draft else {}),
        }

    def _repair_request(self, draft: ScriptDraft, wrong: Sequence[WrongSentence]) -> Mapping[str, Any]:
        entries = []
        slots = {slot.type: slot for slot, _ in self.assignment.slots}
        for index, each in enumerate(wrong):
            sentences = draft.sentences[each.kind]
            room = slots[each.kind].budget - segment_length(draft, slots[each.kind], self.assignment)
            size = narration.length(sentences[each.at].text, self.brief.language)
            entries.append(
                {
                    "index": index,
                    "segment": each.kind,
                    "text": sentences[each.at].text,
                    "factIds": sentences[each.at].factIds,
                    "problem": f"it {each.reason}",
                    "before": sentences[each.at - 1].text if each.at else "",
                    "after": sentences[each.at + 1].text if each.at + 1 < len(sentences) else "",
                    "facts": list(self.assignment.facts_of(each.kind)),
                    "words": max(size + room, size // 2, 1),
                }
            )
        return self._audience() | {"sentences": entries}


def _place(wrong: WrongSentence, draft: ScriptDraft) -> str:
    return f"{wrong.kind}: “{draft.sentences[wrong.kind][wrong.at].text}” {wrong.reason}"


def _surroundings(kind: str, earlier: Narration | None, rewritten: Iterable[str]) -> dict[str, str]:
    """Return what a segment said until now, and what its neighbours say that stay."""
    if earlier is None:
        return {}
    segments = earlier.segments
    at = next(index for index, segment in enumerate(segments) if segment.type == kind)
    result = {"was": segments[at].narration}
    for name, neighbour in (("before", at - 1), ("after", at + 1)):
        if 0 <= neighbour < len(segments) and segments[neighbour].type not in rewritten:
            result[name] = segments[neighbour].narration
    return result


def _full_plan(brief: NarrationBrief, keep: Sequence[Segment]) -> SlotPlan:
    kinds = {segment.type for segment in keep}
    return [(slot, None) for slot in _slots_around(brief, keep) if slot.type not in kinds]


def _slots_around(brief: NarrationBrief, keep: Sequence[Segment]) -> Sequence[Slot]:
    sizes = {one.type: narration.length(one.narration, brief.language) for one in keep}
    return narration.slots(brief.total_s, brief.language, sizes)


def _with_new_times(brief: NarrationBrief, keep: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the segments with the same words in the times of the brief's length."""
    slots = {slot.type: slot for slot in _slots_around(brief, keep)}
    times = {kind: {"start_time": slot.start_time, "duration": slot.duration} for kind, slot in slots.items()}
    return tuple(segment.model_copy(update=times[segment.type]) for segment in keep)


def _partial_plan(
    brief: NarrationBrief, earlier: Narration, only: Sequence[str], keep: Sequence[Segment] | None
) -> SlotPlan | None:
    """Return the segments to rewrite, each with its remaining facts and new ones; None if these have no room.

    With segments to `keep`, new facts go to any other segment with room, else to those that are rewritten.
    """
    fact_ids = [fact.id for fact in brief.facts]
    removed = earlier.facts - set(fact_ids)
    kinds = {earlier.segment(name).type for name in only}
    kinds |= {segment.type for segment in earlier.segments if segment.facts & removed}
    new = [fact_id for fact_id in fact_ids if fact_id not in earlier.facts]
    if new and not kinds and keep is None:
        kinds = {"process_explanation"}
    assigned = {
        segment.type: [fact_id for fact_id in fact_ids if fact_id in segment.facts]
        for segment in earlier.segments
        if segment.type in kinds
    }
    if keep is not None:
        own = {segment.type for segment in keep}
        free = [slot for slot in narration.slots_of(earlier) if slot.type not in own and slot.type != "hook"]
        if not _spread_facts(brief, earlier, free, assigned):
            return None
    else:
        for number, fact_id in enumerate(new):
            list(assigned.values())[-1 - number % len(assigned)].append(fact_id)
    slots = narration.slots_of(earlier, assigned)
    return [(slot, tuple(assigned[slot.type])) for slot in slots if slot.type in assigned]


def _spread_facts(
    brief: NarrationBrief, earlier: Narration, free: Sequence[Slot], assigned: dict[Kind, list[str]]
) -> bool:
    """Give each fact that no segment states to the free one with the most room; return whether all have room.

    A fact takes at least its first sentence, and stays in the segment that says the most about it.
    """
    least = {
        fact.id: narration.length(split_sentences(fact.details, brief.language)[0], brief.language)
        for fact in brief.facts
    }
    homes = {one: _home(earlier, one) for one in least if one in earlier.facts}
    of_home = {slot.type: [one for one, home in homes.items() if home == slot.type] for slot in free}
    room = {slot.type: slot.budget - sum(least[one] for one in of_home[slot.type]) for slot in free}
    for new in sorted(least.keys() - homes.keys(), key=lambda one: -least[one]):
        kind = max(room, key=lambda one: room[one], default=None)
        if kind is None or room[kind] < least[new]:
            return False
        room[kind] -= least[new]
        ids = {*assigned.get(kind, of_home[kind]), new}
        assigned[kind] = [fact.id for fact in brief.facts if fact.id in ids]
    return True


def _home(earlier: Narration, fact_id: str) -> Kind:
    """Return the segment with the longest sentence about a fact; another one may just name it."""
    sizes = [
        (len(sentence.text), segment.type)
        for segment in earlier.segments
        for sentence in segment.sentences
        if fact_id in sentence.factIds
    ]
    return max(sizes, key=itemgetter(0))[1]


def _assemble(
    brief: NarrationBrief, writer: _Writer, draft: ScriptDraft, kept: Sequence[Segment]
) -> Narration:
    segments = [_segment(slot, draft, writer.assignment) for slot, _ in writer.assignment.slots]
    if writer.earlier is not None:
        times = narration.slots_of(writer.earlier, [segment.type for segment in segments])
        assembled = writer.earlier.with_segments(segments).with_times(times)
    else:
        segments = sorted([*segments, *kept], key=lambda segment: segment.start_time)
        assembled = Narration(
            total_duration=brief.total_s,
            reading_level=f"{brief.level:g}",
            key_terms_count=narration.key_terms(segments),
            segments=tuple(segments),
            topic=brief.topic,
            language=brief.language,
        )
    notes = [*draft.notes, *writer.notes, *_warnings(draft, writer.assignment)]
    return assembled.with_readability(notes)


def _segment(slot: Slot, draft: ScriptDraft, assignment: Assignment) -> Segment:
    """Return a segment of a draft; a sentence keeps only the facts that it says."""
    written, facts = draft.segments[slot.type], assignment.facts_of(slot.type)
    return narration.build_segment(
        slot,
        [
            Sentence(text=sentence.text, factIds=proven_ids(sentence, facts, assignment.background))
            for sentence in draft.sentences[slot.type]
        ],
        assignment.language,
        visual_guidance=written.visual_guidance,
        key_concepts=tuple(dict.fromkeys(written.key_concepts)),
        educational_purpose=written.educational_purpose,
    )


def _warnings(draft: ScriptDraft, assignment: Assignment) -> Iterable[str]:
    """Yield what the teacher should know about a draft that is used although it is not as asked for."""
    for slot, _ in assignment.slots:
        size = segment_length(draft, slot, assignment)
        if size > slot.budget:
            far = " by far" * (size > slot.budget * TOLERANCE)
            room = f"{slot.duration:g} s have room for {slot.budget}"
            yield f"the {kind_name(slot.type)} is too long{far}: {size} words, and {room}"
        if not draft.segments[slot.type].visual_guidance.strip():
            yield f"the {kind_name(slot.type)} has no visual guidance"
    for kind, text in empty_claims(draft, assignment):
        yield f"check the {kind_name(kind)}: “{text}” says nothing of the facts it names"
    for one in untold_ids(draft, assignment):
        yield f"the narration does not tell the fact “{assignment.facts[one].concept}”"
