"""A narration as a person changes it by hand, segment by segment; what is not named stays the same."""

import difflib
import re
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.errors import Invalid
from callsheet.state.lessons import narration
from callsheet.state.lessons.narration import Narration, Segment, Sentence

_PARTS: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[.!?…][\"'”’)])\s+|(?<=[。！？])")
_ALIKE: Final = 0.5
"""How much of a sentence has to be the same for it to say the same facts."""


class SegmentEdit(BaseModel):
    """What is to be different in one segment."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(max_length=80, description="The segment's id, or its type")
    narration: str | None = Field(None, min_length=1, max_length=20_000, description="All that is spoken")
    visual_guidance: str | None = Field(None, max_length=1_000)
    key_concepts: list[str] | None = Field(None, max_length=40)
    educational_purpose: str | None = Field(None, max_length=500)


def apply_edits(before: Narration, edits: Sequence[SegmentEdit]) -> Narration:
    """Return the narration with these edits; other segments are the same to the byte.

    A sentence that is much as it was says the facts it said. Raises `Missing` for a segment that is not
    there, and `Invalid` for no edit, two of one segment, and words that have no room (B-R9).
    """
    if not edits:
        raise Invalid("there is nothing to change", remedy="name the segments that shall be different")
    slots = {slot.type: slot for slot in narration.slots(before.total_duration, before.language)}
    new: dict[str, Segment] = {}
    for edit in edits:
        old = before.segment(edit.id)
        if old.id in new:
            raise Invalid(f"segment {old.id!r} is named twice", remedy="send one edit for each segment")
        shown = edit.model_dump(exclude_none=True, exclude={"id", "narration"})
        kept = {name: getattr(old, name) for name in ("id", "visual_guidance", "key_concepts")}
        kept["educational_purpose"] = old.educational_purpose
        said = _sentences(edit.narration, old) if edit.narration is not None else old.sentences
        new[old.id] = narration.place_segments(slots[old.type], said, before.language, **{**kept, **shown})
    return before.with_segments(new.values())


def restore_segments(now: Narration, then: Narration, segments: Sequence[str]) -> Narration:
    """Return the narration with these segments as they were; without any, all of it as it was.

    Raises `Invalid` where single segments do not fit, because the whole was of another length or language.
    """
    if not segments:
        return then
    if (now.total_duration, now.language) != (then.total_duration, then.language):
        raise Invalid(
            f"that narration has {then.total_duration} s of {then.language}, and this one "
            f"{now.total_duration} s of {now.language}",
            remedy="restore all of it",
        )
    return now.with_segments([then.segment(name) for name in segments])


def _sentences(text: str, old: Segment) -> Sequence[Sentence]:
    rest, made = " ".join(text.split()), list[Sentence]()
    while rest:
        kept = next((one for one in old.sentences if _begins(rest, " ".join(one.text.split()))), None)
        part = " ".join(kept.text.split()) if kept else _PARTS.split(rest, maxsplit=1)[0]
        made.append(kept or Sentence(text=part, factIds=_facts(part, old)))
        rest = rest[len(part) :].lstrip()
    if not made:
        raise Invalid(f"segment {old.id!r} would say nothing", remedy="write at least one sentence")
    return tuple(made)


def _begins(rest: str, told: str) -> bool:
    """Whether the text goes on with an old sentence, which may be several to a grammarian."""
    return rest.startswith(told) and not rest[len(told) : len(told) + 1].isalnum()


def _facts(part: str, old: Segment) -> tuple[str, ...]:
    """Return the facts of the old sentence that a new one is most like; none where it is like none."""
    scored = [
        (difflib.SequenceMatcher(None, one.text, part, autojunk=False).ratio(), one) for one in old.sentences
    ]
    ratio, most = max(scored, key=lambda pair: pair[0])
    return most.factIds if ratio >= _ALIKE else ()
