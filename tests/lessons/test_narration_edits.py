"""Edits of a narration by hand: everything else stays, and sentences keep their facts."""

import time
from contextlib import suppress

import pytest

from callsheet.state.errors import Invalid, Missing
from callsheet.state.lessons import narration
from callsheet.state.lessons.narration import (
    Narration,
    SegmentEdit,
    Sentence,
    apply_edits,
    place_segments,
    restore_segments,
    slots,
)

LINES = {
    "hook": [Sentence(text="Look at this leaf! It eats light.", factIds=("f1",)), Sentence(text="How?")],
    "concept_introduction": [Sentence(text="Plants make sugar from light.", factIds=("f2",))],
    "process_explanation": [Sentence(text="Water comes up from the roots.", factIds=("f3",))],
    "conclusion": [Sentence(text="That is all.")],
}


def leaf_narration(seconds: int = 60, language: str = "english") -> Narration:
    segments = tuple(place_segments(slot, LINES[slot.type], language) for slot in slots(seconds, language))
    return Narration(
        total_duration=seconds,
        reading_level="4.5",
        key_terms_count=0,
        segments=segments,
        topic="Leaves",
        language=language,
    )


def edited_sentences(text: str, segment: str = "hook") -> list[tuple[str, tuple[str, ...]]]:
    """Return the sentences of a segment after its text is edited, each with its facts."""
    edited = apply_edits(leaf_narration(), [SegmentEdit(id=segment, narration=text)])
    return [(sentence.text, sentence.factIds) for sentence in edited.segment(segment).sentences]


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
def test_edited_sentences_keep_the_facts_of_the_sentences_they_resemble(text, sentences):
    assert edited_sentences(text) == sentences


def test_a_segment_with_a_blank_sentence_can_be_edited():
    blank = place_segments(slots(60, "english")[0], [Sentence(text=" "), Sentence(text="How?")], "english")
    edited = apply_edits(
        leaf_narration().with_segments([blank]), [SegmentEdit(id="hook", narration="How? Like this.")]
    )
    assert [sentence.text for sentence in edited.segment("hook").sentences] == ["How?", "Like this."]


def test_an_edit_leaves_every_byte_of_the_other_segments():
    before = leaf_narration()
    edited = apply_edits(
        before, [SegmentEdit(id="hook", narration="Hello there.", key_concepts=["leaf", "Leaf"])]
    )
    assert [segment.model_dump_json() for segment in edited.segments[1:]] == [
        segment.model_dump_json() for segment in before.segments[1:]
    ]
    assert (edited.segment("hook").key_concepts, edited.key_terms_count) == (("leaf", "Leaf"), 1)
    assert (edited.segment("hook").start_time, edited.segment("hook").duration) == (0, 10)


def test_visual_guidance_and_purpose_can_change_without_the_text():
    edited = apply_edits(
        leaf_narration(),
        [SegmentEdit(id="conclusion", visual_guidance="A sunset", educational_purpose="Rest")],
    )
    assert edited.segment("conclusion").narration == "That is all."
    assert edited.segment("conclusion").visual_guidance == "A sunset"
    assert edited.segment("conclusion").educational_purpose == "Rest"


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
def test_an_empty_duplicate_unknown_or_too_long_edit_is_refused(edits, error):
    with pytest.raises(error):
        apply_edits(leaf_narration(), edits)


def test_single_segments_are_restored_only_from_a_narration_of_the_same_length():
    """B44."""
    current = apply_edits(
        leaf_narration(),
        [SegmentEdit(id="hook", narration="Hello."), SegmentEdit(id="conclusion", narration="Bye.")],
    )
    restored = restore_segments(current, leaf_narration(), ["hook"])
    assert restored.segment("hook") == leaf_narration().segment("hook")
    assert restored.segment("conclusion").narration == "Bye."
    assert restore_segments(current, leaf_narration(), []) == leaf_narration()
    with pytest.raises(Invalid, match="90 s of english"):
        restore_segments(current, leaf_narration(90), ["hook"])
    with pytest.raises(Missing):
        restore_segments(current, leaf_narration(), ["nobody"])
    assert restore_segments(current, leaf_narration(90), []).total_duration == 90
    assert narration.clamp_length(1) == 15


def test_a_short_segment_gets_its_usual_time_back_where_its_new_words_need_it() -> None:
    """Others give up what they had gained, but not what their own words need."""
    before = leaf_narration().with_times(slots(60, "english", {"hook": 8}))
    assert durations(before) == [3.75, 17, 22.5, 16.75]
    assert [one.start_time for one in before.segments] == [0, 3.75, 20.75, 43.25]
    shown = apply_edits(before, [SegmentEdit(id="hook", visual_guidance="A leaf")])
    assert shown.segments[1:] == before.segments[1:]
    long_hook = SegmentEdit(id="hook", narration="word " * 22)
    assert durations(apply_edits(before, [long_hook])) == [10, 15, 20, 15]
    filled = apply_edits(before, [SegmentEdit(id="process_explanation", narration="word " * 49)])
    assert durations(filled) == durations(before)
    with pytest.raises(Invalid, match=r"22 words, and 7.5 s allow 16"):
        apply_edits(filled, [long_hook])
    earlier = apply_edits(leaf_narration(), [long_hook])
    with pytest.raises(Invalid, match="22 words"):
        restore_segments(filled, earlier, ["hook"])
    assert restore_segments(before, earlier, ["hook"]).segments[0] == earlier.segments[0]


def test_the_seconds_of_a_kept_segment_have_room_for_its_words_in_any_script() -> None:
    for language, size in (("english", 5), ("chinese", 11), ("thai", 20)):
        seconds = slots(90, language, {"hook": size})[0].duration
        assert narration.budget(seconds, language) >= size > narration.budget(seconds - 0.25, language)


def durations(edited: Narration) -> list[float]:
    return [one.duration for one in edited.segments]


@pytest.mark.parametrize("text", ["a" * 19_990, "ab " * 6_660, "a" + ". b" * 6_600])
def test_an_edit_of_a_very_long_text_takes_under_five_seconds(text):
    before = apply_edits(leaf_narration(), [SegmentEdit(id="hook", narration="a" * 20_000)])
    start = time.process_time()
    with suppress(Invalid):
        apply_edits(before, [SegmentEdit(id="hook", narration=f"{text}x")])
    assert time.process_time() - start < 5


def test_a_narrations_length_is_planned_with_its_speech_by_estimate_or_measured():
    planned = "planned for 60 s, about 38 s of it spoken, by estimate"
    assert narration.length_words(60.0, 38.4) == planned
    measured = "planned for 60 s; the sound lasts 42.1 s, 38.4 s of it spoken (measured)"
    assert narration.length_words(60.0, 38.44, 42.06) == measured


def test_a_warning_about_lost_words_goes_once_the_person_has_given_the_segments_words_again():
    lost = "written again although you had changed it: hook, concept introduction; v2 has your words"
    current = leaf_narration().model_copy(update={"warnings": ("the conclusion is too long", lost)})
    edited = apply_edits(current, [SegmentEdit(id="hook", narration="Why?")])
    rest = "written again although you had changed it: concept introduction; v2 has your words"
    assert edited.warnings == ("the conclusion is too long", rest)
    assert apply_edits(current, [SegmentEdit(id="hook", visual_guidance="a leaf")]).warnings[1] == lost
    restored = restore_segments(edited, leaf_narration(), ["concept_introduction"])
    assert restored.warnings == ("the conclusion is too long",)


def test_a_warning_about_words_goes_with_the_words():
    warnings = (
        "check the hook: “How?” says nothing of the facts it names",
        "check the hook: “It eats light.” says nothing of the facts it names",
        "the hook is too long: 30 words, and 10 s have room for 22",
        "the narration does not tell the fact “Roots”",
    )
    current = leaf_narration().model_copy(update={"warnings": warnings})
    edited = apply_edits(current, [SegmentEdit(id="hook", narration="It eats light.")])
    assert edited.warnings == (warnings[1], warnings[3])
