"""A narration changed by hand: what is not named is the same, and sentences keep the facts they say."""

import time
from contextlib import suppress

import pytest

from callsheet.state.errors import Invalid, Missing
from callsheet.state.lessons import narration
from callsheet.state.lessons.narration import Narration, Sentence, place_segments, slots
from callsheet.state.lessons.narration_edits import SegmentEdit, apply_edits, restore_segments

LINES = {
    "hook": [Sentence(text="Look at this leaf! It eats light.", factIds=("f1",)), Sentence(text="How?")],
    "concept_introduction": [Sentence(text="Plants make sugar from light.", factIds=("f2",))],
    "process_explanation": [Sentence(text="Water comes up from the roots.", factIds=("f3",))],
    "conclusion": [Sentence(text="That is all.")],
}


def told(seconds: int = 60, language: str = "english") -> Narration:
    segments = tuple(place_segments(slot, LINES[slot.type], language) for slot in slots(seconds, language))
    return Narration(
        total_duration=seconds,
        reading_level="4.5",
        key_terms_count=0,
        segments=segments,
        topic="Leaves",
        language=language,
    )


def said(text: str, segment: str = "hook") -> list[tuple[str, tuple[str, ...]]]:
    """The sentences of a segment that says this, each with its facts."""
    made = apply_edits(told(), [SegmentEdit(id=segment, narration=text)])
    return [(sentence.text, sentence.factIds) for sentence in made.segment(segment).sentences]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Look at this leaf! It eats light. How?",
            [("Look at this leaf! It eats light.", ("f1",)), ("How?", ())],
        ),
        (
            "How? Look at this leaf! It eats light.",
            [("How?", ()), ("Look at this leaf! It eats light.", ("f1",))],
        ),
        (
            "Look at this big leaf! It eats light.",
            [("Look at this big leaf!", ("f1",)), ("It eats light.", ("f1",))],
        ),
        ('He said: "Look!" Then he left.', [('He said: "Look!"', ()), ("Then he left.", ())]),
        ("  Something   else. ", [("Something else.", ())]),
        ("看这片叶子！它吃光。", [("看这片叶子！", ()), ("它吃光。", ())]),
    ],
)
def test_new_words_are_sentences_that_say_what_the_old_ones_like_them_said(text, sentences):
    assert said(text) == sentences


def test_a_segment_with_a_blank_sentence_can_be_edited():
    blank = place_segments(slots(60, "english")[0], [Sentence(text=" "), Sentence(text="How?")], "english")
    edited = apply_edits(told().with_segments([blank]), [SegmentEdit(id="hook", narration="How? Like this.")])
    assert [sentence.text for sentence in edited.segment("hook").sentences] == ["How?", "Like this."]


def test_the_other_segments_are_the_same_to_the_byte():
    before = told()
    made = apply_edits(
        before, [SegmentEdit(id="hook", narration="Hello there.", key_concepts=["leaf", "Leaf"])]
    )
    assert [segment.model_dump_json() for segment in made.segments[1:]] == [
        segment.model_dump_json() for segment in before.segments[1:]
    ]
    assert (made.segment("hook").key_concepts, made.key_terms_count) == (("leaf", "Leaf"), 1)
    assert (made.segment("hook").start_time, made.segment("hook").duration) == (0, 10)


def test_what_is_shown_can_change_without_the_words():
    shown = apply_edits(
        told(), [SegmentEdit(id="conclusion", visual_guidance="A sunset", educational_purpose="Rest")]
    )
    assert shown.segment("conclusion").narration == "That is all."
    assert shown.segment("conclusion").visual_guidance == "A sunset"
    assert shown.segment("conclusion").educational_purpose == "Rest"


@pytest.mark.parametrize(
    ("edits", "error"),
    [
        ([], Invalid),
        ([SegmentEdit(id="nobody")], Missing),
        ([SegmentEdit(id="hook"), SegmentEdit(id="hook")], Invalid),
        ([SegmentEdit(id="hook", narration=" ")], Invalid),
        ([SegmentEdit(id="hook", narration="word " * 23)], Invalid),
    ],
)
def test_what_cannot_be_is_refused(edits, error):
    with pytest.raises(error):
        apply_edits(told(), edits)


def test_single_segments_come_back_only_where_they_have_the_same_room():
    """B44."""
    now = apply_edits(
        told(), [SegmentEdit(id="hook", narration="Hello."), SegmentEdit(id="conclusion", narration="Bye.")]
    )
    back = restore_segments(now, told(), ["hook"])
    assert back.segment("hook") == told().segment("hook")
    assert back.segment("conclusion").narration == "Bye."
    assert restore_segments(now, told(), []) == told()
    with pytest.raises(Invalid, match="90 s of english"):
        restore_segments(now, told(90), ["hook"])
    with pytest.raises(Missing):
        restore_segments(now, told(), ["nobody"])
    assert restore_segments(now, told(90), []).total_duration == 90
    assert narration.clamp_length(1) == 15


@pytest.mark.parametrize("text", ["a" * 19_990, "ab " * 6_660, "a" + ". b" * 6_600])
def test_a_long_text_is_compared_with_a_long_word_in_a_moment(text):
    before = apply_edits(told(), [SegmentEdit(id="hook", narration="a" * 20_000)])
    began = time.process_time()
    with suppress(Invalid):
        apply_edits(before, [SegmentEdit(id="hook", narration=f"{text}x")])
    assert time.process_time() - began < 5
