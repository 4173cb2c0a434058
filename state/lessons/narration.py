"""A narration: four timed segments of sentences, each linked to the facts it states; and edits by segment."""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, count, pairwise
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.differences import Difference, compare
from callsheet.state.errors import Invalid, Missing
from callsheet.state.languages import find
from callsheet.state.lessons import student
from callsheet.state.read_aloud import text_aloud
from callsheet.state.sentences import sentence_spans

Kind = Literal["hook", "concept_introduction", "process_explanation", "conclusion"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
PURPOSES: Final[Mapping[Kind, str]] = {
    "hook": "Capture attention and awaken curiosity",
    "concept_introduction": "Introduce the main ideas and define their terms",
    "process_explanation": "Explain how and why, step by step",
    "conclusion": "Tie the ideas together so that they are remembered",
}


def kind_name(kind: str) -> str:
    """Return the name of a kind of segment as people are shown it."""
    return kind.replace("_", " ")


SHORTEST_S: Final = 15
LONGEST_S: Final = 600
DEFAULT_S: Final = 60
_WORDS_PER_S: Final = Fraction(22, 10)
"""Maximum speaking rate, slower than an ad's."""
_STARTS: Final = (Fraction(0), Fraction(1, 6), Fraction(5, 12), Fraction(3, 4), Fraction(1))
_FILLED: Final = 0.8
"""Share of its length that the words of a narration take at least where nothing is missing."""
_NAMED: Final = 3
"""Untold facts that a warning names."""
_GRID: Final = 4
"""Times are rounded to quarter seconds, which binary floats add exactly."""


class Sentence(BaseModel):
    """One spoken sentence."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    text: str = Field(min_length=1)
    factIds: tuple[str, ...] = ()  # noqa: N815 -- the wire's name
    """Ids of the facts it states; empty for a greeting, a question or a transition."""


class Segment(BaseModel):
    """One segment."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    id: str
    type: Kind
    start_time: float
    """Seconds from the beginning."""
    duration: float
    """Seconds."""
    speech_duration: float = 0.0
    """Seconds that its words take at the lesson's speaking rate; 0 where it was not measured."""
    narration: str
    """Text of all sentences."""
    visual_guidance: str
    key_concepts: tuple[str, ...]
    educational_purpose: str
    sentences: tuple[Sentence, ...]

    @property
    def facts(self) -> frozenset[str]:
        """Ids of the facts it states."""
        return frozenset(fact for sentence in self.sentences for fact in sentence.factIds)


class Readability(BaseModel):
    """Measured reading difficulty."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    formula: str
    grade: float
    """US school grade."""
    within: bool
    """True if at most one grade above the requested level."""


OWN: Final = "ownSegments"
"""Key of a version's data: ids of the segments that a person wrote or restored."""
WISHED: Final = "wishedSegments"
"""Key of a version's data: ids of the segments that were written again alone at a person's wish."""
OWN_WORDS: Final = "ownWords"
"""Key of a version's data: the earlier version that has a person's words which were written again."""
LOST: Final = "written again although"
"""Beginning of a warning about a person's segments that were written again, with the version before."""
_GRADES_OVER: Final = 1.0
_HARDER: Final = "the words are of grade"


def own_segments(
    data: Mapping[str, Any],
    by_hand: Sequence[str] = (),
    *,
    wished: Sequence[str] = (),
    rewritten: Sequence[str] = (),
) -> dict[str, list[str]]:
    """Return the entries of a version's data on the person's own segments, after these changes."""
    own = [one for one in data.get(OWN, ()) if one not in {*by_hand, *wished, *rewritten}]
    wishes = [one for one in data.get(WISHED, ()) if one not in {*by_hand, *wished, *rewritten}]
    return {OWN: [*own, *by_hand], WISHED: [*wishes, *wished]}


def _still_true(warnings: Sequence[str], reworded: Mapping[Kind, str]) -> tuple[str, ...]:
    """Return the warnings of a narration after a person has given these segments other words."""
    names, kept = {kind_name(kind): text for kind, text in reworded.items()}, list[str]()
    for warning in warnings:
        reason, _, rest = warning.partition(": ")
        listed, _, version = rest.partition("; ")
        lost = [name for name in listed.split(", ") if name not in names]
        if not reason.startswith(LOST):
            kept += [] if any(_is_over(warning, name, text) for name, text in names.items()) else [warning]
        elif lost:
            kept.append(f"{reason}: {', '.join(lost)}; {version}")
    return tuple(kept)


def _is_over(warning: str, name: str, text: str) -> bool:
    """Return True for a warning about words that a segment does not have any more."""
    quoted = warning.partition("“")[2].partition("”")[0]
    return warning.startswith(f"the {name} is too long") or (
        warning.startswith(f"check the {name}: ") and quoted not in text
    )


def length_words(planned_s: float, speech_s: float, sound_s: float | None = None) -> str:
    """Return the length of a narration in words: as planned, with its speech by estimate or its sound."""
    planned = f"planned for {planned_s:g} s"
    if sound_s is None:
        return f"{planned}, about {speech_s:.0f} s of it spoken, by estimate"
    return f"{planned}; the sound lasts {sound_s:.1f} s, {speech_s:.1f} s of it spoken (measured)"


def reading_levels(target: str, measured: float | None) -> str:
    """Return both reading levels in words; a language without a reliable formula has no measured one."""
    grade = "not measured" if measured is None else f"measured grade {measured:g}"
    return f"reading level: target grade {target}, {grade}"


class Narration(BaseModel):
    """A complete narration."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    total_duration: int
    """Seconds."""
    reading_level: str = Field(pattern=r"^[0-9]+([.][0-9]+)?$")
    """Target school grade, as text."""
    key_terms_count: int
    segments: tuple[Segment, ...]
    topic: str
    language: str
    """English name, lower case."""
    readability: Readability | None = None
    """None if the language has no reliable formula."""
    warnings: tuple[str, ...] = ()

    def segment(self, segment_id: str) -> Segment:
        """Return the segment with this id or type; raises `Missing` if there is none."""
        for segment in self.segments:
            if segment_id in {segment.id, segment.type}:
                return segment
        known = ", ".join(segment.id for segment in self.segments)
        raise Missing(f"the narration has no segment {segment_id!r}", remedy=f"use one of {known}")

    @property
    def level_words(self) -> str:
        """The target and the measured reading level."""
        return reading_levels(self.reading_level, self.readability.grade if self.readability else None)

    def length_words(self, words_per_s: float | None = None) -> str:
        """Return its planned length, with that of its speech by estimate: at this rate, or at a lesson's."""
        pace = words_per_s / float(_WORDS_PER_S) if words_per_s else 1.0
        return length_words(self.total_duration, self.speech_s / pace)

    @property
    def speech_s(self) -> float:
        """Seconds that its words take at the lesson's speaking rate."""
        return sum(segment.speech_duration for segment in self.segments)

    def untold_warning(self, facts: Iterable[tuple[str, str]]) -> list[str]:
        """Return the warning on chosen facts (id, concept) that are untold though there is room."""
        untold = [concept for fact, concept in facts if fact not in self.facts]
        if not untold or self.speech_s > _FILLED * self.total_duration:
            return []
        more = f" and {len(untold) - _NAMED} more" * (len(untold) > _NAMED)
        problem = "the narration is much shorter than planned, and it does not tell"
        remedy = (
            "say “choose the facts again” and choose the same ones, and segments with room will tell them"
        )
        return [f"{problem} {', '.join(untold[:_NAMED])}{more}: {remedy}"]

    @property
    def facts(self) -> frozenset[str]:
        """Ids of the facts it states."""
        return frozenset(fact for segment in self.segments for fact in segment.facts)

    def empty_segments(self) -> list[str]:
        """Return the ids of the segments that say nothing."""
        return [segment.id for segment in self.segments if not any(map(str.isalnum, segment.narration))]

    def says(self, fact: str) -> list[str]:
        """Return the ids of the segments that state a fact, to rewrite when it is removed."""
        return [segment.id for segment in self.segments if fact in segment.facts]

    def with_segments(self, changed: Iterable[Segment]) -> "Narration":
        """Return the narration with these segments replacing those with the same ids."""
        new = {segment.id: segment for segment in changed}
        segments = tuple(new.get(segment.id, segment) for segment in self.segments)
        update = {"segments": segments, "key_terms_count": key_terms(segments)}
        return self.model_copy(update=update).with_readability(self.warnings)

    def with_times(self, slots: Iterable["Slot"]) -> "Narration":
        """Return the narration with its segments at the times of these slots."""
        times = {slot.type: {"start_time": slot.start_time, "duration": slot.duration} for slot in slots}
        segments = tuple(one.model_copy(update=times[one.type]) for one in self.segments)
        return self.model_copy(update={"segments": segments})

    def with_readability(self, notes: Sequence[str]) -> "Narration":
        """Return the narration with these warnings and its words' reading level, if there is a formula."""
        level = self.reading_level
        kept = [note for note in notes if not note.startswith(_HARDER)]
        if self.language != "english":
            return self.model_copy(update={"readability": None, "warnings": tuple(kept)})
        grade = student.grade(" ".join(segment.narration for segment in self.segments))
        within = grade <= float(level) + _GRADES_OVER
        if not within:
            kept.append(f"{_HARDER} {grade:g}, harder than {level}: the facts have no easier ones")
        measured = Readability(formula=student.FORMULA, grade=grade, within=within)
        return self.model_copy(update={"readability": measured, "warnings": tuple(kept)})


class Slot(NamedTuple):
    """Time and text budget of a segment."""

    type: Kind
    start_time: float
    duration: float
    budget: int
    """Maximum words, or characters in a script without spaces."""


def clamp_length(target_s: float) -> int:
    """Return `target_s` as whole seconds from 15 to 600."""
    return max(SHORTEST_S, min(LONGEST_S, round(target_s)))


def slots(total_s: int, language: str, kept: Mapping[Kind, int] | None = None) -> tuple[Slot, ...]:
    """Return the four segments' slots: 1/6, 1/4, 1/3 and 1/4 of the length.

    Those `kept`, each with the length of its words, get no more seconds than these need; the rest is shared.
    """
    times = [float(Fraction(round(total_s * part * _GRID), _GRID)) for part in _STARTS]
    usual = dict(zip(KINDS, (end - start for start, end in pairwise(times)), strict=True))
    lasts = {kind: min(usual[kind], _seconds_for(size, language)) for kind, size in (kept or {}).items()}
    others = {kind: seconds for kind, seconds in usual.items() if kind not in lasts}
    rest = total_s - sum(lasts.values())
    while others:
        kind, weight = next(iter(others.items()))
        lasts[kind] = round(rest * weight / sum(others.values()) * _GRID) / _GRID
        rest -= lasts[kind]
        del others[kind]
    return _consecutive(lasts, language)


def slots_of(narration: Narration, reworded: Collection[Kind] = ()) -> tuple[Slot, ...]:
    """Return the slots of a narration's segments; those `reworded` get their usual seconds if free.

    Others give up what they have beyond their usual seconds and those that their words need.
    """
    language = narration.language
    usual = {slot.type: slot.duration for slot in slots(narration.total_duration, language)}
    lasts = {segment.type: segment.duration for segment in narration.segments}
    for kind in reworded:
        for one in narration.segments:
            least = max(usual[one.type], _seconds_for(length(one.narration, language), language))
            spare = 0.0 if one.type in reworded else max(0.0, lasts[one.type] - least)
            moved = min(spare, max(0.0, usual[kind] - lasts[kind]))
            lasts[one.type] -= moved
            lasts[kind] += moved
    return _consecutive(lasts, language)


def _consecutive(lasts: Mapping[Kind, float], language: str) -> tuple[Slot, ...]:
    starts = accumulate((lasts[kind] for kind in KINDS), initial=0.0)
    return tuple(
        Slot(kind, start, lasts[kind], budget(lasts[kind], language))
        for kind, start in zip(KINDS, starts, strict=False)
    )


def _seconds_for(size: int, language: str) -> float:
    """Return the least seconds, on the grid, whose budget has this size."""
    quarters = size * _GRID * _GRID * LONGEST_S // budget(_GRID * LONGEST_S, language)
    return next(seconds for at in count(quarters) if budget(seconds := at / _GRID, language) >= size)


def budget(duration_s: float, language: str) -> int:
    """Return the maximum words for a duration, or characters in a script without spaces."""
    spec = find(language)
    if spec is None or spec.unit == "word":
        return int(Fraction(duration_s) * _WORDS_PER_S)
    # The ratio of words per second in a lesson to those in an English ad: 2.2 / 2.5.
    return int(duration_s * spec.rate * 0.88)


def length(text: str, language: str) -> int:
    """Return the length of a text as it is read aloud, in the unit of `budget`."""
    spec = find(language)
    aloud = text_aloud(text, language)
    if spec is None or spec.unit == "word":
        return sum(any(char.isalnum() for char in word) for word in aloud.split())
    return sum(char.isalnum() for char in aloud)


def speech_s(text: str, language: str) -> float:
    """Return the seconds in which a text is spoken, at the rate of `budget`."""
    return round(length(text, language) / (budget(_GRID * LONGEST_S, language) / (_GRID * LONGEST_S)), 1)


def join_sentences(sentences: Sequence[Sentence], language: str) -> str:
    """Return the sentences as one text, without spaces in scripts that have none."""
    spec = find(language)
    blank = "" if spec and spec.name in {"chinese", "cantonese", "japanese"} else " "
    return blank.join(sentence.text for sentence in sentences)


def key_terms(segments: Iterable[Segment]) -> int:
    """Return the number of distinct key concepts."""
    return len({concept.casefold() for segment in segments for concept in segment.key_concepts})


def place_segments(slot: Slot, sentences: Sequence[Sentence], language: str, **fields: object) -> Segment:
    """Return the segment with these sentences in its slot; `fields` sets further fields.

    Raises `Invalid` for more words than the slot's budget.
    """
    word_count = length(join_sentences(sentences, language), language)
    if word_count > slot.budget:
        raise Invalid(
            f"segment {slot.type!r} has {word_count} words, and {slot.duration:g} s allow {slot.budget}",
            remedy="shorten it, or request a longer narration",
        )
    return build_segment(slot, sentences, language, **fields)


def build_segment(slot: Slot, sentences: Sequence[Sentence], language: str, **fields: object) -> Segment:
    """Return the segment with these sentences in its slot, however long they are."""
    data = {
        "id": slot.type,
        "visual_guidance": "",
        "key_concepts": (),
        "educational_purpose": PURPOSES[slot.type],
        **fields,
        "type": slot.type,
        "start_time": slot.start_time,
        "duration": slot.duration,
        "speech_duration": speech_s(join_sentences(sentences, language), language),
        "narration": join_sentences(sentences, language),
        "sentences": tuple(sentences),
    }
    return Segment.model_validate(data)


_READ: Final = ("topic", "language", "total_duration", "reading_level", "warnings")
_READ_IN_SEGMENTS: Final = ("id", "narration", "visual_guidance", "key_concepts")


def script_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return the differences of what a person reads and hears; ids, marks and times follow from it."""
    old, new = (
        {
            **{name: data[name] for name in _READ if name in data},
            "segments": [{name: one.get(name) for name in _READ_IN_SEGMENTS} for one in data["segments"]],
        }
        for data in (before, after)
    )
    return [Difference(**{**one, "text": _in_words(one)}) for one in compare(old, new)]


def _in_words(difference: Difference) -> str:
    """Return a difference in one line, with the name of its segment in place of a path."""
    path = difference["path"]
    name = path.removeprefix("segments.").removesuffix(".narration").replace(".", ", ")
    return difference["text"].replace(path, kind_name(name), 1)


_MIN_SIMILARITY: Final = 0.5
_MAX_COMPARED: Final = 40
"""Sentences of a segment that are compared for similarity, which takes quadratic time."""
_COMPARED_CHARS: Final = 200
"""Characters of a sentence that are compared."""
"""Minimum similarity to an old sentence for keeping its facts."""


class SegmentEdit(BaseModel):
    """Changes to one segment."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(max_length=80, description="The segment's id, or its type")
    narration: str | None = Field(None, min_length=1, max_length=20_000, description="All that is spoken")
    visual_guidance: str | None = Field(None, max_length=1_000)
    key_concepts: list[str] | None = Field(None, max_length=40)
    educational_purpose: str | None = Field(None, max_length=500)


def apply_edits(before: Narration, edits: Sequence[SegmentEdit]) -> Narration:
    """Return the narration with these edits; other segments stay identical.

    A sentence similar to an old one keeps its facts. Raises `Missing` for an unknown segment, and `Invalid`
    for no edit, two edits of one segment, or too many words.
    """
    if not edits:
        raise Invalid("there is nothing to change", remedy="name the segments to change")
    reworded = [before.segment(edit.id).type for edit in edits if edit.narration is not None]
    by_type = {slot.type: slot for slot in slots_of(before, reworded)}
    new: dict[str, Segment] = {}
    for edit in edits:
        old = before.segment(edit.id)
        if old.id in new:
            raise Invalid(f"segment {old.id!r} is named twice", remedy="send one edit for each segment")
        changes = edit.model_dump(exclude_none=True, exclude={"id", "narration"})
        unchanged = {name: getattr(old, name) for name in ("id", "visual_guidance", "key_concepts")}
        unchanged["educational_purpose"] = old.educational_purpose
        parts = old.sentences
        if edit.narration is not None:
            parts = _split_sentences(edit.narration, old, before.language)
        new[old.id] = place_segments(by_type[old.type], parts, before.language, **{**unchanged, **changes})
    words = {one.type: one.narration for one in new.values() if one.type in reworded}
    left = before.model_copy(update={"warnings": _still_true(before.warnings, words)})
    return left.with_segments(new.values()).with_times(by_type.values())


def restore_segments(current: Narration, earlier: Narration, segments: Sequence[str]) -> Narration:
    """Return the narration with these segments restored from an earlier one; all of it if none are named.

    Raises `Invalid` if single segments do not fit: length or language differ, or others have their seconds.
    """
    if not segments:
        return earlier
    if (current.total_duration, current.language) != (earlier.total_duration, earlier.language):
        raise Invalid(
            f"that narration has {earlier.total_duration} s of {earlier.language}, and this one "
            f"{current.total_duration} s of {current.language}",
            remedy="restore all of it",
        )
    restored = [earlier.segment(name) for name in segments]
    times = {slot.type: slot for slot in slots_of(current, [one.type for one in restored])}
    for one in restored:
        slot, size = times[one.type], length(one.narration, current.language)
        if slot.duration < one.duration and size > slot.budget:
            raise Invalid(
                f"segment {one.type!r} has {size} words, and {slot.duration:g} s allow {slot.budget}",
                remedy="restore all of it",
            )
    left = _still_true(current.warnings, {one.type: one.narration for one in restored})
    return current.model_copy(update={"warnings": left}).with_segments(restored).with_times(times.values())


def _split_sentences(text: str, old: Segment, language: str) -> tuple[Sentence, ...]:
    # A blank sentence would match everywhere, and the loop would not end.
    written = [sentence for sentence in old.sentences if sentence.text.strip()]
    flat, at, parts = " ".join(text.split()), 0, list[Sentence]()
    ends = [end for _, end in sentence_spans(flat, language)]
    while at < len(flat):
        kept = next((one for one in written if _continues_with(flat, at, " ".join(one.text.split()))), None)
        end = next((end for end in ends if end > at), len(flat))
        part = " ".join(kept.text.split()) if kept else flat[at:end]
        facts = _similar_facts(part, old) if not kept and len(parts) < _MAX_COMPARED else ()
        parts.append(kept or Sentence(text=part, factIds=facts))
        at += len(part)
        at += len(flat[at : at + 1]) - len(flat[at : at + 1].lstrip())
    if not parts:
        raise Invalid(f"segment {old.id!r} would be empty", remedy="write at least one sentence")
    return tuple(parts)


def _continues_with(text: str, at: int, sentence: str) -> bool:
    """Return whether the text continues with this whole sentence."""
    end = at + len(sentence)
    return text.startswith(sentence, at) and not text[end : end + 1].isalnum()


def _similar_facts(part: str, old: Segment) -> tuple[str, ...]:
    """Return the facts of the most similar old sentence, or none if no sentence is similar."""
    scored = [
        (_similarity(sentence.text[:_COMPARED_CHARS], part[:_COMPARED_CHARS]), sentence)
        for sentence in old.sentences[:_MAX_COMPARED]
    ]
    ratio, most = max(scored, key=lambda pair: pair[0])
    return most.factIds if ratio >= _MIN_SIMILARITY else ()


def _similarity(old: str, new: str) -> float:
    return difflib.SequenceMatcher(None, old, new, autojunk=False).ratio()
