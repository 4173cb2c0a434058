"""Tasks of lessons: called tools, chosen facts, and the narration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

from langchain_core.messages import AIMessage, HumanMessage

from callsheet.graphs import fact_narration
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import languages
from callsheet.state.claims import states
from callsheet.state.lessons import narration
from callsheet.state.lessons.facts import Fact, fact_id, find_passage
from callsheet.state.lessons.narration import KINDS, Narration, SegmentEdit, Sentence, apply_edits
from callsheet.state.lessons.proof import ProofContext, says_nothing, sentence_problem, untold_facts
from callsheet.state.owners import LOCAL
from callsheet.state.versions import MODEL
from callsheet.storage.artefacts.artefacts import NewVersion
from callsheet.tools.lessons.sources import pasted_source
from evals import turns
from evals.session import EvalSession
from evals.tasks import CASES, Task, entry_named
from evals.turns import EvalTurn, Outcome, lacks, unless
from evals.wording import affirms, word_variety

FIELDS: Final = ("before", "facts")
STREAMS: Final = ("student", "source", "facts", "confirmed", "narration")
_STREAMS_BY_STATE: Final[Mapping[str, Sequence[str]]] = {
    "new": (),
    "uploaded": ("source",),
    "choice": ("source", "facts"),
    "confirmed": ("student", "source", "facts", "confirmed"),
    "narration": STREAMS,
}
"""The streams that exist in each state of a lesson."""


@dataclass(frozen=True)
class EvaluatedLesson:
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

    @property
    def full_text(self) -> str:
        """The words of the newest narration; empty if there is none."""
        return " ".join(one.narration for one in self.narration.segments) if self.narration else ""


LessonTurn = EvalTurn[EvaluatedLesson]


class LessonSession(EvalSession[EvaluatedLesson]):
    """A lesson, and the conversation about it."""

    workflow: ClassVar[WorkflowSpec[Any]] = fact_narration.WORKFLOW
    subject: ClassVar[str] = "lesson material facts student age narration segment choose choice seconds pupil"

    async def prepare(self) -> Mapping[str, Any]:
        """Bring the lesson into the case's state."""
        state = self.task.setup["before"]
        await self.artefact.open(owner=LOCAL, thread=self.thread, facts={})
        streams = streams_of(state)
        if not streams:
            return {}
        data = given_lesson(self.task.setup["facts"])
        for stream in streams:
            author = LOCAL if stream in {"student", "source"} else MODEL
            await self.artefact.create_version(NewVersion(stream, data[stream], author, "given"))
        messages = [HumanMessage("Here is the material."), AIMessage("I have found the facts.")]
        waiting = {"choice": "v1"} if state == "choice" else {}
        await self.graph.aupdate_state(self.config, {"messages": messages, **waiting}, as_node="summarizer")
        return {}

    async def read_artefact(self) -> EvaluatedLesson:
        """Return the lesson as it is now."""
        streams = await self.artefact.streams(STREAMS)
        newest = {name: stream.newest() for name, stream in streams.items()}
        return EvaluatedLesson(
            {name: version.data for name, version in newest.items() if version},
            {name: len(stream.versions) for name, stream in streams.items()},
        )

    async def edit(self, change: Any) -> Mapping[str, Any]:
        """Change the student, or texts of segments, as the person's own versions."""
        side = await self.read_artefact()
        if "student" in change:
            data = {**side.data.get("student", {}), **change["student"]}
            await self.artefact.create_version(NewVersion("student", data, LOCAL, "by hand"))
        if "narration" in change and side.narration:
            wanted = [SegmentEdit(id=name, narration=text) for name, text in change["narration"].items()]
            new = apply_edits(side.narration, wanted).model_dump(mode="json")
            await self.artefact.create_version(NewVersion("narration", new, LOCAL, "by hand"))
        return {}

    @classmethod
    def words_of(cls, task: Task, side: EvaluatedLesson) -> str:
        """Return the facts and the narration."""
        del task
        return "\n".join([_facts_text(side), side.full_text])

    def answer(self, question: Mapping[str, Any]) -> Any:
        """Leave the question open: the person writes messages."""
        del question


def streams_of(state: str) -> Sequence[str]:
    """Return the streams that exist in a state of a lesson."""
    streams: Sequence[str] = entry_named(state, _STREAMS_BY_STATE)
    return streams


@cache
def given_lesson(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return every stream of a lesson about a list of facts."""
    sentences = entry_named(name, json.loads((CASES / "fact_narration_facts.json").read_text("utf-8")))
    text = " ".join(details for _, details in sentences)
    source = pasted_source(text, name)
    facts = [
        Fact(id=fact_id(concept, details), concept=concept, details=details, confidence=0.9)
        for concept, details in sentences
    ]
    with_sources = [
        fact.model_copy(update={"source": find_passage(fact.details, source.text)}).model_dump()
        for fact in facts
    ]
    shared = {"topic": name, "learningObjective": f"Tell what {name} is about.", "language": "english"}
    scripts = json.loads((CASES / "fact_narration_scripts.json").read_text("utf-8"))
    script = {"narration": _narration(name, scripts[name], facts)} if name in scripts else {}
    return {
        "student": {"child_age": "10", "child_interest": "soccer"},
        "source": source.data(),
        "facts": {
            **shared,
            "facts": with_sources,
            "warnings": [],
            "earlier": [],
            "source": source.reference(None),
        },
        "confirmed": {"facts": with_sources},
        **script,
    }


def _narration(topic: str, script: Mapping[str, Any], facts: Sequence[Fact]) -> Mapping[str, Any]:
    """Return a narration of sentences that name their facts by number."""
    segments = tuple(
        narration.build_segment(
            slot,
            [
                Sentence(text=text, factIds=tuple(facts[number - 1].id for number in numbers))
                for text, numbers in script[slot.type]
            ],
            "english",
            visual_guidance="A drawing of it.",
        )
        for slot in narration.slots(narration.DEFAULT_S, "english")
    )
    new = Narration(
        total_duration=narration.DEFAULT_S,
        reading_level="4.5",
        key_terms_count=0,
        segments=segments,
        topic=topic,
        language="english",
    )
    return new.model_dump(mode="json")


def new_versions(expected: Sequence[str], turn: LessonTurn) -> str:
    """Check which streams have a new version; others have none but the material, which code stores."""
    new = {name for name in STREAMS if turn.after.counts[name] > turn.before.counts[name]}
    return unless(new ^ {*expected} <= {"source"}, f"new versions of {sorted(new) or 'nothing'}")


def student(expected: Mapping[str, str], turn: LessonTurn) -> str:
    """Check the stored age and interest of the student."""
    actual = turn.after.data.get("student", {})
    wrong = {name for name, text in expected.items() if not affirms(str(actual.get(name) or ""), text)}
    return unless(not wrong, f"noted is {dict(actual)}")


def facts_min(expected: int, turn: LessonTurn) -> str:
    """Check the least number of proposed facts."""
    actual = len(turn.after.facts("facts"))
    return unless(actual >= expected, f"{actual} facts")


def facts_say(expected: Sequence[str], turn: LessonTurn) -> str:
    """Check that the proposed facts have each text."""
    missing = lacks(_facts_text(turn.after), expected)
    return unless(not missing, f"no fact says {missing!r}")


def facts_say_not(expected: Sequence[str], turn: LessonTurn) -> str:
    """Check that the proposed facts have none of the texts."""
    return unless(not turns.has_any(_facts_text(turn.after), expected), f"a fact says one of {expected}")


def _facts_text(side: EvaluatedLesson) -> str:
    return "\n".join(f"{fact.concept} {fact.details}" for fact in side.facts("facts"))


def about_facts(expected: Sequence[int], turn: LessonTurn) -> Outcome:
    """Check that the reply has content of the proposed facts, by number; a judge reads a short one."""
    proposed = turn.before.facts("facts")
    missing = [proposed[at - 1] for at in expected if not _states(turn.reply, proposed[at - 1])]
    if not missing:
        return ""
    names = ", ".join(f"“{one.concept}”" for one in missing)
    return turns.about(turn, [one.details for one in missing], f"the facts {names}") or f"nothing of {names}"


def _states(reply: str, fact: Fact) -> bool:
    return states(reply, fact.concept, fact.details)


def chosen_facts(expected: Sequence[int], turn: LessonTurn) -> str:
    """Check the numbers of the chosen facts; facts that were not proposed need `added_facts`."""
    proposed = [fact.id for fact in turn.before.facts("facts")]
    confirmed = [fact.id for fact in turn.after.facts("confirmed")]
    numbers = [proposed.index(one) + 1 for one in confirmed if one in proposed]
    extra = sum(one not in proposed for one in confirmed) - len(turn.expect.get("added_facts", ()))
    return unless(
        sorted(numbers) == sorted(expected) and not extra, f"chosen are {numbers}, and {extra} others"
    )


def added_facts(expected: Sequence[str], turn: LessonTurn) -> str:
    """Check the chosen facts that the person added."""
    proposed = {fact.id for fact in turn.before.facts("facts")}
    own = " ".join(fact.details for fact in turn.after.facts("confirmed") if fact.id not in proposed)
    return unless(not lacks(own, expected), f"added are {own or 'none'!r}")


def talk(expected: bool, turn: LessonTurn) -> Outcome:
    """Check that nothing was chosen, the question is still open, and the reply is on topic."""
    waits = (
        bool(turn.state.get("choice")) and turn.after.counts["confirmed"] == turn.before.counts["confirmed"]
    )
    if waits != expected:
        return "something was chosen, or the question is closed"
    return turns.on_topic(expected=True, turn=turn)


def proven(expected: bool, turn: LessonTurn) -> str:
    """Check that facts prove each sentence, no sentence was left out, and every fact is in the narration."""
    del expected
    newest = turn.after.narration
    if newest is None:
        return "there is no narration"
    facts = {fact.id: fact for fact in turn.after.facts("confirmed") or turn.after.facts("facts")}
    student = turn.after.data.get("student", {})
    background_texts = [
        newest.topic,
        *turn.messages,
        str(student.get("child_interest") or ""),
        str(student.get("child_age") or ""),
    ]
    background = ProofContext(tuple(background_texts), tuple(facts.values()), newest.language)
    sentences = [one for segment in newest.segments for one in segment.sentences]
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
    wrong += [warning for warning in newest.warnings if warning.startswith("left out of the ")]
    wrong += [f"“{facts[one].concept}” is not told" for one in untold_facts(sentences, facts, background)]
    return "; ".join(wrong)[:500]


def segments(expected: Sequence[str], turn: LessonTurn) -> str:
    """Check which segments changed; every other one must be identical."""
    old, new = turn.before.narration, turn.after.narration
    if old is None or new is None:
        return "there are no two narrations"
    changed = {kind for kind in KINDS if old.segment(kind) != new.segment(kind)}
    return unless(changed == {*expected}, f"changed {sorted(changed) or 'none'}")


def easier(expected: Sequence[str], turn: LessonTurn) -> str:
    """Check that segments have shorter sentences or shorter words than before, and neither longer."""
    old, new = turn.before.narration, turn.after.narration
    if old is None or new is None:
        return "there are no two narrations"
    for kind in expected:
        (sentence, word), (new_sentence, new_word) = (_load(one, kind) for one in (old, new))
        is_longer = new_sentence > sentence or new_word > word * _SAME
        if is_longer or (new_sentence == sentence and new_word >= word):
            return f"{kind}: {sentence:.1f} → {new_sentence:.1f} words, {word:.1f} → {new_word:.1f} letters"
    return ""


_SAME: Final = 1.1
"""Most letters of a word, of those before, that count as no more."""


def _load(script: Narration, kind: str) -> tuple[float, float]:
    """Return the mean words of a segment's sentences, and the mean letters of its words."""
    texts = [one.text for one in script.segment(kind).sentences]
    words = [word for text in texts for word in text.split()]
    return len(words) / max(1, len(texts)), sum(map(str.isalpha, "".join(words))) / max(1, len(words))


def length_s(expected: int, turn: LessonTurn) -> str:
    """Check the narration's length in seconds."""
    actual = turn.after.narration.total_duration if turn.after.narration else 0
    return unless(actual == expected, f"lasts {actual} s")


def shorter(expected: bool, turn: LessonTurn) -> str:
    """Check whether the narration is shorter than before."""
    old, new = (side.narration.total_duration if side.narration else 0 for side in (turn.before, turn.after))
    return unless((0 < new <= old * turns.FEWER) == expected, f"{old} → {new} s")


def fits(expected: bool, turn: LessonTurn) -> str:
    """Check whether the words of every segment fit into its time."""
    newest = turn.after.narration
    slots = narration.slots_of(newest) if newest else ()
    wrong = [
        slot.type
        for slot in slots
        if newest and narration.length(newest.segment(slot.type).narration, newest.language) > slot.budget
    ]
    return unless((bool(slots) and not wrong) == expected, f"too long: {', '.join(wrong) or 'no narration'}")


def fills(expected: float, turn: LessonTurn) -> str:
    """Check the least share of the narration's time that its words fill."""
    newest = turn.after.narration
    if newest is None:
        return "there is no narration"
    most = sum(slot.budget for slot in narration.slots(newest.total_duration, newest.language))
    actual = narration.length(turn.after.full_text, newest.language) / most
    return unless(actual >= expected, f"the words fill {actual:.0%} of {newest.total_duration} s")


def variety(expected: float, turn: LessonTurn) -> str:
    """Check the least share of distinct words of the narration, which filler does not have."""
    actual = word_variety(turn.after.full_text)
    return unless(actual >= expected, f"{actual:.0%} of the words are distinct")


def level_within(expected: bool, turn: LessonTurn) -> str:
    """Check whether the reading level fits the student's, to one grade."""
    actual = turn.after.narration.readability if turn.after.narration else None
    grade = f"{actual.grade:g}" if actual else "not known"
    return unless(actual and actual.within == expected, f"the grade is {grade}")


def language(expected: str, turn: LessonTurn) -> str:
    """Check the language of the narration, or of the facts if there is no narration yet."""
    newest = turn.after.narration
    actual = languages.detect(turn.after.full_text if newest else _facts_text(turn.after))
    return unless(actual == expected, f"it is in {actual}")


def tells(expected: Sequence[str], turn: LessonTurn) -> str:
    """Check that the narration has each text."""
    missing = lacks(turn.after.full_text, expected)
    return unless(not missing, f"the narration does not say {missing!r}")


def product(turn: LessonTurn) -> str:
    """Return the narration, if the turn wrote one."""
    newest = turn.after.narration
    if newest is None or turn.after.counts["narration"] == turn.before.counts["narration"]:
        return ""
    facts = "\n".join(f"Fact: {fact.concept}: {fact.details}" for fact in turn.after.facts("confirmed"))
    return "\n".join([facts, *(f"{one.type}: {one.narration}" for one in newest.segments)])


CHECKS: Final = turns.table(
    *(
        new_versions,
        student,
        facts_min,
        facts_say,
        facts_say_not,
        chosen_facts,
        added_facts,
        about_facts,
        talk,
        proven,
        segments,
    ),
    *(easier, length_s, shorter, fits, fills, variety, level_within, language, tells),
)
