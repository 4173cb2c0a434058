"""The data of an ad's three streams (A14-A20, A35, A-R4, A-R5, A-R18)."""

import pytest

from callsheet.state.ads import ad
from callsheet.state.errors import Invalid

TRACKS = ad.track_list([{"voiceId": "a", "text": "One two."}, {"voiceId": "b", "text": "Three."}])
MUSIC = ad.music_bed("warm bossa nova with brushed drums and a lot of room to breathe", "loudly", 30.0)


def test_tracks_get_default_ids_order_overlap_and_speed():
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
    ("placement", "expected"),
    [
        (None, "end"),
        ({"type": "end"}, "end"),
        ({"type": "start"}, "start"),
        ({"type": "beforeVoices"}, "start"),
        ({"type": "withFirstVoice"}, "start"),
        ({"type": "afterVoice", "index": 1}, "track-1"),
    ],
)
def test_play_after_of_an_effect_follows_from_its_placement(placement, expected):
    """A17, A-R5."""
    [effect] = ad.effect_list([{"description": "bell", **({"placement": placement} if placement else {})}], 2)
    assert (effect["playAfter"], effect["duration"], effect["overlap"]) == (expected, 3.0, 0.0)


@pytest.mark.parametrize(
    ("index", "tracks", "valid_range"), [(2, 2, "0 to 1"), (None, 2, "0 to 1"), (0, 0, "empty")]
)
def test_an_effect_after_an_unknown_voice_is_refused_with_the_valid_range(index, tracks, valid_range):
    """A-R5."""
    placement = {"type": "afterVoice", **({} if index is None else {"index": index})}
    with pytest.raises(Invalid, match=valid_range):
        ad.effect_list([{"description": "bell", "placement": placement}], tracks)


def test_music_has_its_provider_under_both_field_names():
    """A15, A-R18."""
    assert MUSIC["musicProvider"] == MUSIC["provider"] == "loudly"


def test_a_stream_has_a_one_line_summary():
    """A20."""
    assert ad.summary("voices", {"voiceTracks": TRACKS}) == "2 voice tracks"
    assert ad.summary("music", MUSIC) == 'loudly - "warm bossa nova with brushed drums and a lot of ro..."'
    assert ad.summary("sfx", {"soundFxPrompts": [{}]}) == "1 sound effects"


def test_a_timeline_is_built_from_the_streams_that_exist():
    timeline = ad.timeline({"voices": {"voiceTracks": TRACKS}, "music": MUSIC}, language="english", spot_s=30)
    assert [span["id"] for span in timeline["voices"]] == ["track-0", "track-1"]
    assert timeline["music"]["end"] == 30
    assert ad.timeline({}, language="english", spot_s=30)["voices"] == []


def test_a_mixer_has_a_gain_for_every_track_and_keeps_a_persons_settings():
    """A35."""
    mixer = ad.mixer({"voices": {"voiceTracks": TRACKS}})
    assert mixer["voices"] == {"track-0": 0.0, "track-1": 0.0}
    assert mixer["music"]["duckingDb"] < 0
    settings = {"voices": {"track-0": 2.5, "track-9": 1.0}, "music": {"volumeDb": -20.0}}
    merged = ad.mixer({"voices": {"voiceTracks": TRACKS}}, settings)
    assert merged["voices"] == {"track-0": 2.5, "track-1": 0.0}
    assert (merged["music"]["volumeDb"], merged["music"]["duckingDb"]) == (-20.0, -9.0)
