"""Manual edits of a narration by segment; everything else stays the same."""

import difflib
import re
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.errors import Invalid
from callsheet.state.lessons import narration
from callsheet.state.lessons.narration import Narration, Segment, Sentence

_SENTENCE_BREAK: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[.!?…][\"'”’)])\s+|(?<=[。！？])")
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
    slots = {slot.type: slot for slot in narration.slots(before.total_duration, before.language)}
    new: dict[str, Segment] = {}
    for edit in edits:
        old = before.segment(edit.id)
        if old.id in new:
            raise Invalid(f"segment {old.id!r} is named twice", remedy="send one edit for each segment")
        changes = edit.model_dump(exclude_none=True, exclude={"id", "narration"})
        unchanged = {name: getattr(old, name) for name in ("id", "visual_guidance", "key_concepts")}
        unchanged["educational_purpose"] = old.educational_purpose
        sentences = _split_sentences(edit.narration, old) if edit.narration is not None else old.sentences
        new[old.id] = narration.place_segments(
            slots[old.type], sentences, before.language, **{**unchanged, **changes}
        )
    return before.with_segments(new.values())


def restore_segments(current: Narration, earlier: Narration, segments: Sequence[str]) -> Narration:
    """Return the narration with these segments restored from an earlier one; all of it if none are named.

    Raises `Invalid` if single segments do not fit because length or language differ.
    """
    if not segments:
        return earlier
    if (current.total_duration, current.language) != (earlier.total_duration, earlier.language):
        raise Invalid(
            f"that narration has {earlier.total_duration} s of {earlier.language}, and this one "
            f"{current.total_duration} s of {current.language}",
            remedy="restore all of it",
        )
    return current.with_segments([earlier.segment(name) for name in segments])


def _split_sentences(text: str, old: Segment) -> Sequence[Sentence]:
    # A blank sentence would match everywhere, and the loop would not end.
    written = [sentence for sentence in old.sentences if sentence.text.strip()]
    rest, sentences = " ".join(text.split()), list[Sentence]()
    while rest:
        kept = next(
            (sentence for sentence in written if _starts_with(rest, " ".join(sentence.text.split()))),
            None,
        )
        part = " ".join(kept.text.split()) if kept else _SENTENCE_BREAK.split(rest, maxsplit=1)[0]
        facts = _similar_facts(part, old) if not kept and len(sentences) < _MAX_COMPARED else ()
        sentences.append(kept or Sentence(text=part, factIds=facts))
        rest = rest[len(part) :].lstrip()
    if not sentences:
        raise Invalid(f"segment {old.id!r} would be empty", remedy="write at least one sentence")
    return tuple(sentences)


def _starts_with(rest: str, sentence: str) -> bool:
    """Return whether the text continues with this whole sentence."""
    return rest.startswith(sentence) and not rest[len(sentence) : len(sentence) + 1].isalnum()


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
