"""What the three streams of an ad hold (A14-A20, A35, A-R4, A-R5, A-R18)."""

import pytest

from callsheet.state.ads import ad
from callsheet.state.errors import Invalid

TRACKS = ad.track_list([{"voiceId": "a", "text": "One two."}, {"voiceId": "b", "text": "Three."}])
MUSIC = ad.music_bed("warm bossa nova with brushed drums and a lot of room to breathe", "loudly", 30.0)


def test_tracks_are_stored_with_their_defaults():
    """A14."""
    assert TRACKS == [
        {
            "id": "track-0",
            "voiceId": "a",
            "text": "One two.",
            "playAfter": "start",
            "overlap": 0.0,
            "speed": 1.0,
        },
        {
            "id": "track-1",
            "voiceId": "b",
            "text": "Three.",
            "playAfter": "track-0",
            "overlap": 0.0,
            "speed": 1.0,
        },
    ]
    [track] = ad.track_list(
        [{"voiceId": "a", "text": "x", "playAfter": "start", "overlap": -0.5, "speed": 0.8}]
    )
    assert (track["overlap"], track["speed"]) == (-0.5, 0.8)


@pytest.mark.parametrize(
    ("placement", "after"),
    [
        (None, "end"),
        ({"type": "end"}, "end"),
        ({"type": "start"}, "start"),
        ({"type": "beforeVoices"}, "start"),
        ({"type": "withFirstVoice"}, "start"),
        ({"type": "afterVoice", "index": 1}, "track-1"),
    ],
)
def test_where_an_effect_plays_follows_from_its_placement(placement, after):
    """A17, A-R5."""
    [effect] = ad.effect_list([{"description": "bell", **({"placement": placement} if placement else {})}], 2)
    assert (effect["playAfter"], effect["duration"], effect["overlap"]) == (after, 3.0, 0.0)


@pytest.mark.parametrize(
    ("index", "tracks", "known"), [(2, 2, "0 to 1"), (None, 2, "0 to 1"), (0, 0, "empty")]
)
def test_an_effect_after_a_voice_that_is_not_there_is_refused_with_the_valid_range(index, tracks, known):
    """A-R5."""
    placement = {"type": "afterVoice", **({} if index is None else {"index": index})}
    with pytest.raises(Invalid, match=known):
        ad.effect_list([{"description": "bell", "placement": placement}], tracks)


def test_music_names_its_provider_both_ways():
    """A15, A-R18."""
    assert MUSIC["musicProvider"] == MUSIC["provider"] == "loudly"


def test_streams_are_summed_up_in_a_line():
    """A20."""
    assert ad.summary("voices", {"voiceTracks": TRACKS}) == "2 voice tracks"
    assert ad.summary("music", MUSIC) == 'loudly - "warm bossa nova with brushed drums and a lot of ro..."'
    assert ad.summary("sfx", {"soundFxPrompts": [{}]}) == "1 sound effects"


def test_an_ad_is_placed_in_time_from_the_streams_it_has():
    whole = ad.timeline({"voices": {"voiceTracks": TRACKS}, "music": MUSIC}, language="english", spot_s=30)
    assert [span["id"] for span in whole["voices"]] == ["track-0", "track-1"]
    assert whole["music"]["end"] == 30
    assert ad.timeline({}, language="english", spot_s=30)["voices"] == []


def test_the_mixer_has_a_gain_for_every_track_and_keeps_what_a_person_set():
    """A35."""
    first = ad.mixer({"voices": {"voiceTracks": TRACKS}})
    assert first["voices"] == {"track-0": 0.0, "track-1": 0.0}
    assert first["music"]["duckingDb"] < 0
    kept = {"voices": {"track-0": 2.5, "track-9": 1.0}, "music": {"volumeDb": -20.0}}
    again = ad.mixer({"voices": {"voiceTracks": TRACKS}}, kept)
    assert again["voices"] == {"track-0": 2.5, "track-1": 0.0}
    assert (again["music"]["volumeDb"], again["music"]["duckingDb"]) == (-20.0, -9.0)
