"""The hand-off of an ad: script, cue sheet and VAST."""

import csv
import io
from xml.etree import ElementTree as ET

from callsheet.state.ads import ad, handoff

STREAMS = {
    "voices": {
        "voiceTracks": ad.track_list(
            [
                {"voiceId": "openai/alloy@english", "text": "=Bread *now*, | hot"},
                {"voiceId": "b", "text": "Come."},
            ]
        )
    },
    "music": ad.music_bed("warm guitar", "loudly", 10.0),
    "sfx": {"soundFxPrompts": ad.effect_list([{"description": "bell", "placement": {"type": "start"}}], 2)},
}
TIMELINE = ad.timeline(STREAMS, language="english", spot_s=10.0)


def test_the_script_has_every_part_with_its_time() -> None:
    text = handoff.script("Bread", ["Ad ad_1."], STREAMS, TIMELINE)
    assert "**0:03.0–" in text
    assert "=Bread \\*now\\*, \\| hot" in text
    assert "**Music** warm guitar" in text
    assert "effect** bell" in text
    assert "times estimated" in text
    assert text.startswith("# Bread\n\nAd ad\\_1.\n\n")
    assert handoff.script("ad-1", (), {}, ad.timeline({}, language="english", spot_s=10)).startswith("# ad-1")


def test_the_cue_sheet_is_in_the_order_of_time_and_runs_no_formula() -> None:
    rows = list(csv.reader(io.StringIO(handoff.cue_sheet(STREAMS, TIMELINE, ad.mixer(STREAMS)))))
    assert rows[0][:3] == ["start", "end", "part"]
    assert [row[2] for row in rows[1:]] == ["music", "effect", "voice", "voice"]
    assert rows[3][4] == "'=Bread *now*, | hot"
    assert [row[5] for row in rows[1:]] == ["-12", "-3", "0", "0"]
    assert (
        len(
            list(
                csv.reader(
                    io.StringIO(handoff.cue_sheet({}, ad.timeline({}, language="english", spot_s=9), {}))
                )
            )
        )
        == 1
    )


def test_vast_names_the_file_and_escapes_what_it_is_given() -> None:
    document = handoff.vast("ad-1", 'a"<b>', "https://cdn.example/a.mp3?x=1&y=2", "audio/mpeg", 83.25)
    root = ET.fromstring(document)
    names = {"v": "http://www.iab.com/VAST"}
    media = root.find(".//v:MediaFile", names)
    assert media is not None
    assert (media.text, media.get("type")) == ("https://cdn.example/a.mp3?x=1&y=2", "audio/mpeg")
    assert [one.text for one in root.findall(".//v:Duration", names)] == ["00:01:23.250"]
    assert [one.text for one in root.findall(".//v:AdTitle", names)] == ['a"<b>']
