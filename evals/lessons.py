"""Tasks of lessons: the tools that are called, the facts that are chosen, and the narration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

from langchain_core.messages import AIMessage, HumanMessage

from callsheet.graphs import fact_narration
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import languages
from callsheet.state.lessons import narration
from callsheet.state.lessons.facts import Fact, fact_id, find_passage
from callsheet.state.lessons.narration import KINDS, Narration, Sentence
from callsheet.state.lessons.proof import ProofContext, says_nothing, sentence_problem, untold_facts
from callsheet.state.owners import LOCAL
from callsheet.state.versions import MODEL
from callsheet.storage.artefacts.artefacts import NewVersion
from callsheet.tools.lessons.sources import pasted_source
from evals import turns
from evals.session import TaskSession
from evals.tasks import CASES
from evals.turns import PlayedTurn, lacks, unless

FIELDS: Final = ("before", "facts")
STREAMS: Final = ("student", "source", "facts", "confirmed", "narration")
_GIVEN: Final[Mapping[str, Sequence[str]]] = {
    "new": (),
    "uploaded": ("source",),
    "choice": ("source", "facts"),
    "confirmed": ("student", "source", "facts", "confirmed"),
    "narration": STREAMS,
}
"""Streams that there are in each state of a lesson."""


@dataclass(frozen=True)
class LessonArtefact:
    """A lesson's newest versions and their number, by stream."""

    data: Mapping[str, Mapping[str, Any]]
    counts: Mapping[str, int]

    def facts(self, stream: str) -> list[Fact]:
        """Return the facts of a stream."""
        return [Fact.model_validate(one) for one in self.data.get(stream, {}).get("facts", ())]

    @property
    def narration(self) -> Narration | None:
        """The newest narration."""
        data = self.data.get("narration")
        return Narration.model_validate(data) if data else None


LessonTurn = PlayedTurn[LessonArtefact]


class LessonSession(TaskSession[LessonArtefact]):
    """A lesson, and the conversation about it."""

    workflow: ClassVar[WorkflowSpec[Any]] = fact_narration.WORKFLOW

    async def prepare(self) -> Mapping[str, Any]:
        """Bring the lesson into the case's state."""
        state = self.task.given["before"]
        await self.artefact.open(owner=LOCAL, thread=self.thread, facts={})
        given = turns.known(state, _GIVEN)
        if not given:
            return {}
        data = _lesson(self.task.given["facts"])
        for stream in given:
            author = LOCAL if stream in {"student", "source"} else MODEL
            await self.artefact.create_version(NewVersion(stream, data[stream], author, "given"))
        said = [HumanMessage("Here is the material."), AIMessage("I have found the facts.")]
        waiting = {"choice": "v1"} if state == "choice" else {}
        await self.graph.aupdate_state(self.config, {"messages": said, **waiting}, as_node="summarizer")
        return {}

    async def look(self) -> LessonArtefact:
        """Return the lesson as it is now."""
        streams = await self.artefact.streams(STREAMS)
        newest = {name: stream.newest() for name, stream in streams.items()}
        return LessonArtefact(
            {name: version.data for name, version in newest.items() if version},
            {name: len(stream.versions) for name, stream in streams.items()},
        )

    def answer(self, question: Mapping[str, Any]) -> Any:
        """Leave the question open: the person writes messages."""
        del question


@cache
def _lesson(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return every stream of a lesson about a list of facts."""
    known = turns.known(name, json.loads((CASES / "fact_narration_facts.json").read_text("utf-8")))
    text = " ".join(details for _, details in known)
    source = pasted_source(text, name)
    facts = [
        Fact(id=fact_id(concept, details), concept=concept, details=details, confidence=0.9)
        for concept, details in known
    ]
    kept = [
        fact.model_copy(update={"source": find_passage(fact.details, source.text)}).model_dump()
        for fact in facts
    ]
    shared = {"topic": name, "learningObjective": f"Tell what {name} is about.", "language": "english"}
    told = json.loads((CASES / "fact_narration_scripts.json").read_text("utf-8"))
    script = {"narration": _narration(name, told[name], facts)} if name in told else {}
    return {
        "student": {"child_age": "10", "child_interest": "soccer"},
        "source": source.data(),
        "facts": {**shared, "facts": kept, "warnings": [], "earlier": [], "source": source.reference(None)},
        "confirmed": {"facts": kept},
        **script,
    }


def _narration(topic: str, told: Mapping[str, Any], facts: Sequence[Fact]) -> Mapping[str, Any]:
    """Return a narration of sentences that name their facts by number."""
    segments = tuple(
        narration.build_segment(
            slot,
            [
                Sentence(text=text, factIds=tuple(facts[number - 1].id for number in numbers))
                for text, numbers in told[slot.type]
            ],
            "english",
            visual_guidance="A drawing of it.",
        )
        for slot in narration.slots(narration.DEFAULT_S, "english")
    )
    made = Narration(
        total_duration=narration.DEFAULT_S,
        reading_level="4.5",
        key_terms_count=0,
        segments=segments,
        topic=topic,
        language="english",
    )
    return made.model_dump(mode="json")


def made(wanted: Sequence[str], turn: LessonTurn) -> str:
    """Compare the streams with a new version; every other one is the same to the byte."""
    new = {name for name in STREAMS if turn.after.counts[name] > turn.before.counts[name]}
    return unless(new == {*wanted}, f"new versions of {sorted(new) or 'nothing'}")


def student(wanted: Mapping[str, str], turn: LessonTurn) -> str:
    """Find texts in what is noted of the student."""
    actual = turn.after.data.get("student", {})
    wrong = {name for name, text in wanted.items() if lacks(str(actual.get(name) or ""), text)}
    return unless(not wrong, f"noted is {dict(actual)}")


def facts_min(wanted: int, turn: LessonTurn) -> str:
    """Count the proposed facts, each of them proven by the material."""
    actual = len(turn.after.facts("facts"))
    return unless(actual >= wanted, f"{actual} facts")


def facts_say(wanted: Sequence[str], turn: LessonTurn) -> str:
    """Find each text in the proposed facts."""
    missing = lacks(_facts_text(turn), wanted)
    return unless(not missing, f"no fact says {missing!r}")


def facts_say_not(wanted: Sequence[str], turn: LessonTurn) -> str:
    """Find none of the texts in the proposed facts."""
    return unless(not turns.has_any(_facts_text(turn), wanted), f"a fact says one of {wanted}")


def _facts_text(turn: LessonTurn) -> str:
    return "\n".join(f"{fact.concept} {fact.details}" for fact in turn.after.facts("facts"))


def chosen(wanted: Sequence[int], turn: LessonTurn) -> str:
    """Compare the facts that are chosen with those proposed, by number; others need `added`."""
    proposed = [fact.id for fact in turn.before.facts("facts")]
    confirmed = [fact.id for fact in turn.after.facts("confirmed")]
    numbers = [proposed.index(one) + 1 for one in confirmed if one in proposed]
    extra = sum(one not in proposed for one in confirmed) - len(turn.expect.get("added", ()))
    return unless(
        sorted(numbers) == sorted(wanted) and not extra, f"chosen are {numbers}, and {extra} others"
    )


def added(wanted: Sequence[str], turn: LessonTurn) -> str:
    """Find facts of the person's own among the chosen ones."""
    proposed = {fact.id for fact in turn.before.facts("facts")}
    own = " ".join(fact.details for fact in turn.after.facts("confirmed") if fact.id not in proposed)
    return unless(not lacks(own, wanted), f"added are {own or 'none'!r}")


def talk(wanted: bool, turn: LessonTurn) -> str:
    """Look that nothing was chosen, the question is still open, and there is an answer."""
    waits = (
        bool(turn.state.get("choice")) and turn.after.counts["confirmed"] == turn.before.counts["confirmed"]
    )
    return unless((waits and bool(turn.reply)) == wanted, "something was chosen, or the question is closed")


def proven(wanted: bool, turn: LessonTurn) -> str:
    """Prove each sentence of the narration by its facts; none was left out, and every fact is told."""
    del wanted
    told = turn.after.narration
    if told is None:
        return "there is no narration"
    facts = {fact.id: fact for fact in turn.after.facts("confirmed") or turn.after.facts("facts")}
    given = turn.after.data.get("student", {})
    known = [
        told.topic,
        *turn.said,
        str(given.get("child_interest") or ""),
        str(given.get("child_age") or ""),
    ]
    background = ProofContext(tuple(known), tuple(facts.values()), told.language)
    sentences = [one for segment in told.segments for one in segment.sentences]
    wrong = [
        f"“{one.text}” {problem.reason}"
        for one in sentences
        if (problem := sentence_problem(one, facts, background)) and problem.sure
    ]
    wrong += [
        f"“{one.text}” says nothing of the facts it names"
        for one in sentences
        if says_nothing(one, facts, background)
    ]
    wrong += [warning for warning in told.warnings if warning.startswith("left out of the ")]
    wrong += [f"“{facts[one].concept}” is not told" for one in untold_facts(sentences, facts, background)]
    return "; ".join(wrong)[:500]


def segments(wanted: Sequence[str], turn: LessonTurn) -> str:
    """Compare the segments that changed; every other one is the same to the byte."""
    old, new = turn.before.narration, turn.after.narration
    if old is None or new is None:
        return "there are no two narrations"
    changed = {kind for kind in KINDS if old.segment(kind) != new.segment(kind)}
    return unless(changed == {*wanted}, f"changed {sorted(changed) or 'none'}")


def length_s(wanted: int, turn: LessonTurn) -> str:
    """Compare the narration's length in seconds."""
    actual = turn.after.narration.total_duration if turn.after.narration else 0
    return unless(actual == wanted, f"lasts {actual} s")


def shorter(wanted: bool, turn: LessonTurn) -> str:
    """Compare the narration's length with that before."""
    old, new = (side.narration.total_duration if side.narration else 0 for side in (turn.before, turn.after))
    return unless((0 < new < old) == wanted, f"{old} → {new} s")


def fits(wanted: bool, turn: LessonTurn) -> str:
    """Compare the words of every segment with its time."""
    told = turn.after.narration
    slots = narration.slots(told.total_duration, told.language) if told else ()
    wrong = [
        slot.type
        for slot in slots
        if told and narration.length(told.segment(slot.type).narration, told.language) > slot.budget
    ]
    return unless((bool(slots) and not wrong) == wanted, f"too long: {', '.join(wrong) or 'no narration'}")


def level_within(wanted: bool, turn: LessonTurn) -> str:
    """Compare the grade of the words with the student's, to one grade."""
    actual = turn.after.narration.readability if turn.after.narration else None
    grade = f"{actual.grade:g}" if actual else "not known"
    return unless(actual and actual.within == wanted, f"the grade is {grade}")


def language(wanted: str, turn: LessonTurn) -> str:
    """Compare the language of the narration, or of the facts before there is one."""
    told = turn.after.narration
    text = " ".join(one.narration for one in told.segments) if told else _facts_text(turn)
    actual = languages.detect(text)
    return unless(actual == wanted, f"it is in {actual}")


def tells(wanted: Sequence[str], turn: LessonTurn) -> str:
    """Find each text in the narration."""
    told = turn.after.narration
    missing = lacks(" ".join(one.narration for one in told.segments) if told else "", wanted)
    return unless(not missing, f"the narration does not say {missing!r}")


def product(turn: LessonTurn) -> str:
    """Return the narration, if the turn wrote one."""
    told = turn.after.narration
    if told is None or turn.after.counts["narration"] == turn.before.counts["narration"]:
        return ""
    facts = "\n".join(f"Fact: {fact.concept}: {fact.details}" for fact in turn.after.facts("confirmed"))
    return "\n".join([facts, *(f"{one.type}: {one.narration}" for one in told.segments)])


CHECKS: Final = turns.table(
    *(made, student, facts_min, facts_say, facts_say_not, chosen, added, talk, proven, segments),
    *(length_s, shorter, fits, level_within, language, tells),
)
