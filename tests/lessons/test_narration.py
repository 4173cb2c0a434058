"""The times, budgets and facts of a narration (B11-B17, B22, B-R8, B-R9)."""

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
    place_segments,
    slots,
)


def told(total_s=60, language="english", **facts):
    """A narration whose segments say the facts given by segment."""
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


def test_a_minute_is_the_four_segments_in_order():
    """B13, B-R9."""
    assert [(slot.type, slot.start_time, slot.duration, slot.budget) for slot in slots(60, "english")] == [
        ("hook", 0, 10, 22),
        ("concept_introduction", 10, 15, 33),
        ("process_explanation", 25, 20, 44),
        ("conclusion", 45, 15, 33),
    ]


def test_the_segments_of_any_length_touch_and_add_up_exactly():
    """B-R8."""
    for total_s in range(15, 601):
        made = slots(total_s, "english")
        assert made[0].start_time == 0
        assert all(one.start_time + one.duration == after.start_time for one, after in pairwise(made))
        assert sum(slot.duration for slot in made) == total_s == made[-1].start_time + made[-1].duration
        assert all(slot.budget <= slot.duration * 2.2 + 1e-9 for slot in made)
        for slot, part in zip(made, (1 / 6, 1 / 4, 1 / 3, 1 / 4), strict=True):
            assert abs(slot.duration / total_s - part) <= 0.25 / total_s


@pytest.mark.parametrize(("asked", "made"), [(60, 60), (3, 15), (9999, 600), (90.4, 90), (-5, 15)])
def test_a_length_is_kept_between_a_quarter_minute_and_ten(asked, made):
    """B-R8."""
    assert clamp_length(asked) == made


def test_scripts_without_blanks_are_counted_in_characters():
    assert budget(10, "english") == budget(10, "spanish") == budget(10, "klingon") == 22
    assert budget(10, "chinese") == 37
    assert length("大熊猫，吃竹子。", "chinese") == 6
    assert length("A candle – burns.", "english") == 3
    assert join_sentences([Sentence(text="大。"), Sentence(text="小。")], "chinese") == "大。小。"


def test_a_segment_with_more_words_than_its_time_is_refused():
    """B-R9."""
    slot = slots(60, "english")[0]
    fits = place_segments(slot, [Sentence(text="word " * 21 + "end.")], "english")
    assert length(fits.narration, "english") == 22
    assert (fits.educational_purpose, fits.id) == (PURPOSES["hook"], "hook")
    with pytest.raises(Invalid, match="has 23 words, and 10 s allow 22"):
        place_segments(slot, [Sentence(text="word " * 22 + "end.")], "english")


def test_the_facts_of_a_narration_are_those_of_its_sentences():
    """B22."""
    narration = told(hook=["a"], conclusion=["b", "a"])
    assert narration.facts == {"a", "b"}


def test_a_fact_leads_to_the_segments_that_say_it():
    narration = told(hook=["a"], conclusion=["b", "a"])
    assert narration.says("a") == ["hook", "conclusion"]
    assert narration.says("b") == ["conclusion"]
    assert narration.says("nothing") == []


@given(st.sampled_from(KINDS))
def test_a_changed_segment_leaves_the_others_byte_for_byte(kind):
    before = told(hook=["a"], process_explanation=["b"])
    changed = before.segment(kind).model_copy(update={"narration": "New.", "key_concepts": ("x", "A", "y")})
    after = before.with_segments([changed])
    assert after.segment(kind) == changed
    for other in KINDS:
        if other != kind:
            assert after.segment(other).model_dump_json() == before.segment(other).model_dump_json()
    assert after.key_terms_count == len({"x", "a", "y"} | {"a", "b"} - set(before.segment(kind).key_concepts))


def test_an_unknown_segment_is_missing():
    with pytest.raises(Missing, match="no segment 'middle'"):
        told().segment("middle")
