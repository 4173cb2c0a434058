"""Speaking times and start times of an ad (A-R5, A-R6, A-R7)."""

import pytest

from callsheet.state.ads.timeline import PAUSE_S, build_timeline, speaking_time_s, words_that_fit
from callsheet.state.errors import Invalid


def track(i, text="one two three four five", **more):
    before = "start" if i == 0 else f"track-{i - 1}"
    return {"id": f"track-{i}", "voiceId": "v", "text": text, "playAfter": before, "overlap": 0, **more}


def effect(kind="end", duration=2.0, **more):
    placement = {"type": kind, **({"index": more.pop("index")} if "index" in more else {})}
    return {"description": f"{kind} sound", "placement": placement, "duration": duration, **more}


def timeline(tracks, effects=(), language="english", spot_s=30.0, music=None):
    return build_timeline(tracks, effects, language=language, spot_s=spot_s, music=music)


def spans(result, stream="voices"):
    return [(span["start"], span["end"]) for span in result[stream]]


def test_text_with_spaces_between_words_is_timed_by_its_words():
    assert speaking_time_s("one two three four five", "english") == 2.0
    assert speaking_time_s("jeden dwa trzy cztery pięć", "polish") > 2.0


def test_thai_and_chinese_text_is_timed_by_its_characters():
    """They have no spaces between words; tone marks and vowels above take no time."""
    assert speaking_time_s("กาแฟ", "thai") == round(4 / 13, 3)
    assert speaking_time_s("ที่", "thai") == round(1 / 13, 3)
    assert speaking_time_s("咖啡", "chinese") == round(2 / 4.3, 3)


def test_latin_words_in_thai_text_are_timed_as_english_words():
    assert speaking_time_s("กาแฟ Doi Chang", "thai") == pytest.approx(4 / 13 + 2 / 2.5, abs=0.001)


def test_the_words_that_fit_leave_time_for_effects_at_the_start_and_the_end():
    """A-R5, A-R6: a script of that many words in sentences of twelve fits, and one more sentence does not."""
    effects = [effect("start", 2.0), effect("end", 3.0), effect("afterVoice", 9.0, index=0)]
    count, unit = words_that_fit("english", 20.0, effects)
    assert (words_that_fit("english", 15.0), words_that_fit("english", 3.0, effects)) == (
        (count, unit),
        (0, "words"),
    )
    text = " ".join(f"word{'.' * (n % 12 == 0)}" for n in range(1, count + 1))
    assert timeline([track(0, text)], effects[:2], spot_s=20.0)["fits"]
    assert not timeline([track(0, f"{text} word word word")], effects[:2], spot_s=20.0)["fits"]
    assert words_that_fit("thai", 10.0)[1] == "characters"


def test_a_voice_at_double_speed_takes_half_the_time():
    assert speaking_time_s("one two three four five", "english", 2.0) == 1.0


def test_each_sentence_but_the_last_is_followed_by_a_pause():
    assert speaking_time_s("One two. Three four! Five", "english") == pytest.approx(2.0 + 2 * PAUSE_S)
    assert speaking_time_s("One two three four five...", "english") == 2.0


def test_digits_take_the_time_of_their_names():
    assert speaking_time_s("call 0800 123 456", "english") > speaking_time_s(
        "call us today please", "english"
    )


def test_a_very_long_word_takes_longer_than_a_short_one():
    assert speaking_time_s("Rindfleischetikettierungsgesetz", "german") > speaking_time_s("Kaffee", "german")


def test_punctuation_and_emoji_take_no_time():
    assert speaking_time_s("— … 🎧 !", "english") == 0.0


def test_an_unknown_language_is_timed_as_english():
    assert speaking_time_s("one two three", "klingon") == speaking_time_s("one two three", "english")


def test_tracks_follow_one_another():
    assert spans(timeline([track(0), track(1), track(2)])) == [(0, 2), (2, 4), (4, 6)]


def test_a_positive_overlap_starts_earlier_and_a_negative_one_leaves_a_gap():
    """A-R6: start = end(previous) - overlap, never before 0."""
    assert spans(timeline([track(0), track(1, overlap=0.5)])) == [(0, 2), (1.5, 3.5)]
    assert spans(timeline([track(0), track(1, overlap=-0.5)])) == [(0, 2), (2.5, 4.5)]
    assert spans(timeline([track(0), track(1, overlap=60)])) == [(0, 2), (0, 2)]
    assert spans(timeline([track(0, overlap=-1)])) == [(1, 3)]


def test_two_tracks_after_the_same_one_sound_together():
    """A-R7."""
    tracks = [track(0), track(1), track(2, playAfter="track-0")]
    assert spans(timeline(tracks)) == [(0, 2), (2, 4), (2, 4)]
    assert timeline(tracks)["durationSeconds"] == 4


@pytest.mark.parametrize("after", ["track-1", "track-2", "track-9", "end", "", "Track-0"])
def test_a_track_after_itself_a_later_or_an_unknown_one_is_refused(after):
    """A-R7: no cycle can arise."""
    with pytest.raises(Invalid, match="not 'start' or an earlier track") as error:
        timeline([track(0), track(1, playAfter=after), track(2)])
    assert error.value.remedy == "use one of 'start', 'track-0'"


def test_effects_at_the_start_come_before_the_voices_one_after_another():
    """A-R5: start is sequential."""
    result = timeline([track(0)], [effect("start", 1.5), effect("beforeVoices", 0.5)])
    assert spans(result, "sfx") == [(0, 1.5), (1.5, 2.0)]
    assert spans(result) == [(2, 4)]


def test_an_effect_with_the_first_voice_sounds_under_it():
    result = timeline([track(0)], [effect("start", 1), effect("withFirstVoice", 3)])
    assert spans(result, "sfx") == [(0, 1), (1, 4)]
    assert spans(result) == [(1, 3)]


def test_effects_at_the_end_follow_the_last_voice_one_after_another():
    result = timeline([track(0)], [effect("end", 1), effect("end", 2)])
    assert spans(result, "sfx") == [(2, 3), (3, 5)]
    assert result["durationSeconds"] == 5


def test_an_effect_after_a_voice_starts_when_that_voice_ends():
    result = timeline([track(0), track(1)], [effect("afterVoice", 1, index=0)])
    assert spans(result, "sfx") == [(2, 3)]
    assert spans(result) == [(0, 2), (2, 4)]


def test_an_effect_after_a_removed_voice_follows_the_last_voice():
    assert spans(timeline([track(0)], [effect("afterVoice", 1, index=4)]), "sfx") == [(2, 3)]
    assert spans(timeline([], [effect("afterVoice", 1, index=4)]), "sfx") == [(0, 1)]


def test_an_overlap_moves_an_effect_too():
    assert spans(timeline([track(0)], [effect("end", 1, overlap=0.5)]), "sfx") == [(1.5, 2.5)]


def test_an_ad_fits_when_everything_ends_within_the_spot():
    """A second of silence, half of it at each end, is part of the spot."""
    assert timeline([track(0)], spot_s=3.0)["fits"]
    assert timeline([track(0)], spot_s=3.0)["overSeconds"] == 0
    over = timeline([track(0)], spot_s=2.5)
    assert (over["fits"], over["overSeconds"], over["durationSeconds"]) == (False, 0.5, 2.0)
    assert not timeline([track(0)], [effect("end", 3)], spot_s=5.5)["fits"]


def test_music_without_a_duration_lasts_as_long_as_the_spot():
    assert timeline([track(0)], music={"duration": 12})["music"] == {"start": 0.0, "end": 12.0}
    assert timeline([track(0)], music={})["music"] == {"start": 0.0, "end": 30.0}
    assert "music" not in timeline([track(0)])


def test_an_empty_ad_takes_no_time_and_fits():
    assert timeline([])["durationSeconds"] == 0
    assert timeline([])["fits"]


def test_rendered_speech_gives_a_track_its_measured_length():
    tracks = [track(0), track(1)]
    assert timeline(tracks)["timing"] == timeline([])["timing"] == "estimated"
    result = build_timeline(tracks, (), language="english", spot_s=30.0, speech_s={"track-0": 3.5})
    assert (result["timing"], spans(result)) == ("estimated", [(0.0, 3.5), (3.5, 5.5)])
    speech_s = {"track-0": 3.5, "track-1": 1.0}
    result = build_timeline(tracks, (), language="english", spot_s=30.0, speech_s=speech_s)
    assert (result["timing"], spans(result)) == ("measured", [(0.0, 3.5), (3.5, 4.5)])
