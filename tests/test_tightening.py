"""Scripts that are too long are tightened until they fit, gently."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.state.ads.ad import track_list
from callsheet.state.ads.tightening import sentences, tighten
from callsheet.state.ads.timeline import build_timeline


def tracks(*texts, **more):
    return track_list([{"voiceId": "v", "text": text, **more} for text in texts])


def test_what_fits_is_left_alone():
    wanted = tracks("One two three.", "Four five.", overlap=-0.5)
    assert tighten(wanted, language="english", spot_s=10) == (wanted, [])


def test_pauses_go_first():
    made, notes = tighten(tracks("One two.", "Three four.", overlap=-1.0), language="english", spot_s=2.0)
    assert notes == ["closed the pauses"]
    assert [track["overlap"] for track in made] == [0, 0]
    assert [track["speed"] for track in made] == [1, 1]


def test_then_the_pace_rises_by_a_tenth_and_no_word_is_lost():
    made, notes = tighten(tracks("One two three four five."), language="english", spot_s=1.8)
    assert notes == ["raised the pace by a tenth"]
    assert made[0]["speed"] == 1.1
    assert made[0]["text"] == "One two three four five."


def test_then_sentences_in_the_middle_go_and_the_first_and_last_stay():
    text = "First we greet you. " + "Then we say more and more about it all. " * 6 + "Call us today!"
    made, notes = tighten(tracks(text), language="english", spot_s=5)
    assert made[0]["text"].startswith("First we greet you.")
    assert made[0]["text"].endswith("Call us today!")
    assert notes[-1].startswith("left out ")
    assert build_timeline(made, [], language="english", spot_s=5)["fits"]


def test_one_sentence_too_many_is_counted_as_one():
    text = "We greet you. We tell you something more about it here. Call us today!"
    _, notes = tighten(tracks(text), language="english", spot_s=3.5)
    assert notes == ["raised the pace by a tenth", "left out 1 sentence"]


def test_a_single_endless_sentence_is_shortened_at_its_clauses_and_then_its_words():
    made, notes = tighten(
        tracks("Fresh bread every morning, from six o'clock on, in all our shops!"),
        language="english",
        spot_s=2.5,
    )
    assert notes[-1] == "shortened the longest sentences"
    assert made[0]["text"].startswith("Fresh bread every morning")
    assert made[0]["text"].endswith("!")


def test_a_script_without_spaces_is_shortened_too():
    made, _ = tighten(tracks("กาแฟ" * 100), language="thai", spot_s=5)
    assert build_timeline(made, [], language="thai", spot_s=5)["fits"]


def test_effects_take_their_share_of_the_spot():
    lead = [{"description": "x", "placement": {"type": "start"}, "duration": 3.0}]
    made, _ = tighten(tracks("One two three four five."), language="english", spot_s=4.9, effects=lead)
    assert made[0]["speed"] > 1


def test_effects_that_cannot_fit_without_any_track_change_nothing():
    """No track can be shortened, which must not be an error."""
    effects = [{"description": "bell", "placement": {"type": "end"}, "duration": 20.0, "overlap": 0.0}]
    assert tighten([], language="english", spot_s=10, effects=effects) == ([], [])


def test_what_cannot_fit_at_all_is_left_with_its_first_words():
    lead = [{"description": "x", "placement": {"type": "start"}, "duration": 9.0}]
    made, notes = tighten(tracks("One two three."), language="english", spot_s=5, effects=lead)
    assert made[0]["text"]
    assert notes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two! Three?", 3),
        ("It costs 2.50 a cup. Come in.", 2),
        ("你好。来吧！", 2),
        ("no end", 1),
        ("…", 1),
    ],
)
def test_a_text_is_cut_into_its_sentences(text, count):
    found = sentences(text)
    assert len(found) == count
    assert "".join(found) == text


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=400), min_size=1, max_size=4),
    st.floats(0.5, 60),
)
def test_any_script_comes_to_an_end_with_every_track_still_there(texts, spot_s):
    made, _ = tighten(tracks(*texts), language="english", spot_s=spot_s)
    assert [track["id"] for track in made] == [f"track-{i}" for i in range(len(texts))]
