"""The times, word budgets and facts of a narration (B11-B17, B22, B-R8, B-R9)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.state.errors import Invalid, Missing
from callsheet.state.lessons.narration import (
    KINDS,
    PURPOSES,
    Narration,
    Sentence,
    budget,
    clamp_length,
    join_sentences,
    key_terms,
    length,
    length_words,
    place_segments,
    slots,
)


def narration_of(total_s=60, language="english", **facts):
    """Return a narration whose segments say the facts given by segment."""
    segments = tuple(
        place_segments(
            slot,
            [
                Sentence(text="Well then."),
                *(Sentence(text=f"Say {fact}.", factIds=(fact,)) for fact in facts.get(slot.type, ())),
            ],
            language,
            key_concepts=tuple(facts.get(slot.type, ())),
        )
        for slot in slots(total_s, language)
    )
    return Narration(
        total_duration=total_s,
        reading_level="4.5",
        key_terms_count=key_terms(segments),
        segments=segments,
        topic="Candles",
        language=language,
    )


def test_a_minute_is_divided_into_four_segments_with_times_and_budgets():
    """B13, B-R9."""
    assert [(slot.type, slot.start_time, slot.duration, slot.budget) for slot in slots(60, "english")] == [
        ("hook", 0, 10, 22),
        ("concept_introduction", 10, 15, 33),
        ("process_explanation", 25, 20, 44),
        ("conclusion", 45, 15, 33),
    ]


def test_the_segments_of_a_narration_of_any_length_leave_no_gap():
    """B-R8."""
    for total_s in range(15, 601):
        segment_slots = slots(total_s, "english")
        assert segment_slots[0].start_time == 0
        assert all(
            slot.start_time + slot.duration == next_slot.start_time
            for slot, next_slot in pairwise(segment_slots)
        )
        assert (
            sum(slot.duration for slot in segment_slots)
            == total_s
            == segment_slots[-1].start_time + segment_slots[-1].duration
        )
        assert all(slot.budget <= slot.duration * 2.2 + 1e-9 for slot in segment_slots)
        for slot, share in zip(segment_slots, (1 / 6, 1 / 4, 1 / 3, 1 / 4), strict=True):
            assert abs(slot.duration / total_s - share) <= 0.25 / total_s


@pytest.mark.parametrize(("wish_s", "expected_s"), [(60, 60), (3, 15), (9999, 600), (90.4, 90), (-5, 15)])
def test_a_length_is_limited_to_between_15_seconds_and_10_minutes(wish_s, expected_s):
    """B-R8."""
    assert clamp_length(wish_s) == expected_s


def test_text_without_spaces_between_words_is_counted_in_characters():
    assert budget(10, "english") == budget(10, "spanish") == budget(10, "klingon") == 22
    assert budget(10, "chinese") == 37
    assert length("大熊猫，吃竹子。", "chinese") == 6
    assert length("A candle – burns.", "english") == 3
    assert join_sentences([Sentence(text="大。"), Sentence(text="小。")], "chinese") == "大。小。"


def test_a_segment_with_more_words_than_fit_its_time_is_refused():
    """B-R9."""
    slot = slots(60, "english")[0]
    segment = place_segments(slot, [Sentence(text="word " * 21 + "end.")], "english")
    assert length(segment.narration, "english") == 22
    assert (segment.educational_purpose, segment.id) == (PURPOSES["hook"], "hook")
    with pytest.raises(Invalid, match="has 23 words, and 10 s allow 22"):
        place_segments(slot, [Sentence(text="word " * 22 + "end.")], "english")


def test_the_facts_of_a_narration_are_those_of_its_sentences():
    """B22."""
    narration = narration_of(hook=["a"], conclusion=["b", "a"])
    assert narration.facts == {"a", "b"}


def test_the_segments_that_say_a_fact_are_listed():
    narration = narration_of(hook=["a"], conclusion=["b", "a"])
    assert narration.says("a") == ["hook", "conclusion"]
    assert narration.says("b") == ["conclusion"]
    assert narration.says("nothing") == []


@given(st.sampled_from(KINDS))
def test_a_changed_segment_leaves_every_byte_of_the_others(kind):
    before = narration_of(hook=["a"], process_explanation=["b"])
    changed = before.segment(kind).model_copy(update={"narration": "New.", "key_concepts": ("x", "A", "y")})
    after = before.with_segments([changed])
    assert after.segment(kind) == changed
    for other in KINDS:
        if other != kind:
            assert after.segment(other).model_dump_json() == before.segment(other).model_dump_json()
    assert after.key_terms_count == len({"x", "a", "y"} | {"a", "b"} - set(before.segment(kind).key_concepts))


def test_a_request_for_an_unknown_segment_raises_missing():
    with pytest.raises(Missing, match="no segment 'middle'"):
        narration_of().segment("middle")


def test_the_length_is_one_sentence_before_and_after_the_sound_was_measured() -> None:
    assert length_words(60, 38.2) == "planned for 60 s, about 38 s of it spoken, by estimate"
    measured = "planned for 90 s; the sound lasts 34.3 s, 28.9 s of it spoken (measured)"
    assert length_words(90, 28.9, 34.3) == measured
