"""A draft of a narration's script, and what is wrong with it: as a whole, and sentence by sentence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from callsheet.state.lessons import narration
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.narration import Kind, Sentence, Slot
from callsheet.state.lessons.proof import ProofContext, says_nothing, sentence_problem, untold_facts
from callsheet.tools.lessons.forms import NarrationScript, WrittenSegment

TOLERANCE: Final = Fraction(11, 10)
"""A segment may be this much longer than its budget, with a warning."""
_WEIGHTS: Final = {"segment": 1000, "fact": 20, "sentence": 5}
"""Cost of a segment without words, an untold fact and a wrong sentence, in words over the budget."""


@dataclass(frozen=True)
class Assignment:
    """Segments to write, and the facts for them."""

    slots: tuple[tuple[Slot, tuple[str, ...] | None], ...]
    """The segments to write, each with the ids of its facts; None leaves them to the model."""
    facts: Mapping[str, Fact]
    """The facts that may be used, by id."""
    background: ProofContext

    @property
    def language(self) -> str:
        """The narration's."""
        return self.background.language

    def facts_of(self, kind: Kind) -> Mapping[str, Fact]:
        """Return the facts that a segment may name: its own, or all if it has none."""
        own = next((ids for slot, ids in self.slots if slot.type == kind), None)
        return {one: fact for one, fact in self.facts.items() if not own or one in own}

    def facts_to_tell(self) -> Mapping[str, Fact]:
        """Return the facts that have to be told."""
        if any(ids is None for _, ids in self.slots):
            return self.facts
        named = {one for _, ids in self.slots for one in ids or ()}
        return {one: fact for one, fact in self.facts.items() if one in named}


@dataclass(frozen=True)
class WrongSentence:
    """A sentence that its facts do not prove."""

    kind: Kind
    at: int
    """Its index within the segment."""
    reason: str
    sure: bool
    """False if it may be right, so that it is not left out."""


@dataclass(frozen=True)
class ScriptDraft:
    """A script as a model wrote it."""

    segments: Mapping[Kind, WrittenSegment]
    sentences: Mapping[Kind, tuple[Sentence, ...]]
    notes: tuple[str, ...] = ()

    def with_sentences(self, kind: Kind, sentences: Sequence[Sentence]) -> "ScriptDraft":
        """Return the draft with other sentences in one segment."""
        return replace(self, sentences={**self.sentences, kind: tuple(sentences)})


def read_draft(script: NarrationScript, assignment: Assignment, before: ScriptDraft | None) -> ScriptDraft:
    """Return the segments of a script that were asked for; missing ones are those of the draft before."""
    given = {segment.type: segment for segment in reversed(script.segments)}
    segments: dict[Kind, WrittenSegment] = {}
    sentences: dict[Kind, tuple[Sentence, ...]] = {}
    for slot, _ in assignment.slots:
        if written := given.get(slot.type):
            segments[slot.type] = written
            sentences[slot.type] = tuple(
                Sentence(text=one.text, factIds=tuple(one.factIds)) for one in written.sentences
            )
        elif before and slot.type in before.segments:
            segments[slot.type] = before.segments[slot.type]
            sentences[slot.type] = before.sentences[slot.type]
    return ScriptDraft(segments, sentences, tuple(script.notes))


def wrong_sentences(draft: ScriptDraft, assignment: Assignment) -> list[WrongSentence]:
    """Return the sentences that are not proven by the facts they name."""
    return [
        WrongSentence(kind, at, problem.reason, problem.sure)
        for kind, sentences in draft.sentences.items()
        for at, sentence in enumerate(sentences)
        if (problem := sentence_problem(sentence, assignment.facts_of(kind), assignment.background))
    ]


def empty_claims(draft: ScriptDraft, assignment: Assignment) -> Iterator[tuple[Kind, str]]:
    """Yield the sentences, each with its segment, that say nothing of the facts they name."""
    wrong = {(each.kind, each.at) for each in wrong_sentences(draft, assignment)}
    for kind, sentences in draft.sentences.items():
        for at, sentence in enumerate(sentences):
            nothing = says_nothing(sentence, assignment.facts_of(kind), assignment.background)
            if nothing and (kind, at) not in wrong:
                yield kind, sentence.text


def untold_ids(draft: ScriptDraft, assignment: Assignment) -> list[str]:
    """Return the ids of the facts that are to be told and are not."""
    every = [one for sentences in draft.sentences.values() for one in sentences]
    return untold_facts(every, assignment.facts_to_tell(), assignment.background)


def script_problems(draft: ScriptDraft, assignment: Assignment) -> Iterator[str]:
    """Yield what is wrong with a draft as a whole, as instructions for the model."""
    for slot, _ in assignment.slots:
        if slot.type not in draft.segments:
            yield f"the segment {slot.type} is missing"
            continue
        size = segment_length(draft, slot, assignment)
        if not size:
            yield f"{slot.type} says nothing"
        if size > slot.budget * TOLERANCE:
            yield f"{slot.type} says {size} words, but has room for {slot.budget}"
        if not draft.segments[slot.type].visual_guidance.strip():
            yield f"{slot.type} has no visual_guidance"
    if untold := untold_ids(draft, assignment):
        yield f"no sentence that names these facts says them: {', '.join(untold)}"


def penalty(draft: ScriptDraft, assignment: Assignment) -> int:
    """Return how far a draft is from what was asked for, in words over the budget; 0 is best."""
    missing = sum(not segment_length(draft, slot, assignment) for slot, _ in assignment.slots)
    over = sum(max(0, segment_length(draft, slot, assignment) - slot.budget) for slot, _ in assignment.slots)
    untold, wrong = untold_ids(draft, assignment), wrong_sentences(draft, assignment)
    unseen = sum(not segment.visual_guidance.strip() for segment in draft.segments.values())
    return (
        over
        + unseen
        + _WEIGHTS["segment"] * missing
        + _WEIGHTS["fact"] * len(untold)
        + _WEIGHTS["sentence"] * len(wrong)
    )


def segment_length(draft: ScriptDraft, slot: Slot, assignment: Assignment) -> int:
    """Return the length of a segment in the unit of its budget; 0 if it is missing."""
    sentences = draft.sentences.get(slot.type, ())
    return sum(narration.length(one.text, assignment.language) for one in sentences)
