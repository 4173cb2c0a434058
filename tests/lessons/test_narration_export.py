"""A narration as Markdown, SRT, WebVTT and JSON."""

import json
import re
from itertools import pairwise

import pytest

from callsheet.state.errors import Invalid
from callsheet.state.lessons.narration import Narration, Sentence, place_segments, slots
from callsheet.state.lessons.narration_export import cues, export
from tests.lessons.test_narration import told

LONG = Sentence(
    text="A plant takes in water through its roots and carbon dioxide from the air through tiny holes called "
    "stomata, all day long, and makes sugar."
)


def narrated(*sentences, language="english", **shown):
    segments = tuple(place_segments(slot, sentences, language, **shown) for slot in slots(120, language))
    return Narration(
        total_duration=120,
        reading_level="6.5",
        key_terms_count=0,
        segments=segments,
        topic="Plants <b>&</b> *light*",
        language=language,
    )


@pytest.mark.parametrize("narration", [told(hook=["a"]), narrated(LONG, Sentence(text="So be it."))])
def test_cues_cover_the_whole_narration_without_a_gap(narration):
    shown = cues(narration)
    assert shown[0].start_ms == 0
    assert shown[-1].end_ms == narration.total_duration * 1000
    for one, after in pairwise(shown):
        assert one.start_ms < one.end_ms == after.start_ms
    for segment in narration.segments:
        assert segment.start_time * 1000 in {cue.start_ms for cue in shown}


def test_a_cue_has_two_lines_at_most_and_no_word_is_lost():
    narration = narrated(LONG)
    shown = cues(narration)
    for cue in shown:
        assert len(cue.text.splitlines()) <= 2
        assert max(map(len, cue.text.splitlines())) <= 42
    spoken = " ".join(" ".join(cue.text.split()) for cue in shown)
    assert spoken == " ".join(segment.narration for segment in narration.segments)


def test_wide_letters_make_shorter_lines():
    narration = narrated(
        Sentence(text="大熊猫是生活在中国西南部山区的一种哺乳动物，它们每天要吃竹子。"), language="chinese"
    )
    assert max(len(line) for cue in cues(narration) for line in cue.text.splitlines()) <= 21


def test_srt_is_numbered_with_commas_in_its_times():
    text = export(told(hook=["a"]), "srt")
    blocks = text.strip().split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == [str(i) for i in range(1, len(blocks) + 1)]
    assert blocks[0].splitlines()[1].startswith("00:00:00,000 --> 00:00:0")
    assert blocks[-1].splitlines()[1].endswith("00:01:00,000")


def test_webvtt_has_its_head_and_escapes_what_it_would_read_as_tags():
    text = export(narrated(Sentence(text="<i>1 & 2</i> --> 3")), "vtt")
    assert text.startswith("WEBVTT\n\n00:00:00.000 --> ")
    assert "&lt;i&gt;1 &amp; 2&lt;/i&gt; --&gt; 3" in text
    assert len(re.findall(r"^\d\d:\d\d:\d\d\.\d{3} --> \d\d:\d\d:\d\d\.\d{3}$", text, re.MULTILINE)) == 4


def test_srt_holds_no_tags():
    assert "<i>" not in export(narrated(Sentence(text="<i>Now</i> then")), "srt")


def test_markdown_shows_times_and_guidance_and_runs_nothing():
    text = export(narrated(LONG, visual_guidance="Show <script>x</script>", key_concepts=("Leaf",)), "md")
    assert "## Hook (0:00–0:20)" in text
    assert "## Conclusion (1:30–2:00)" in text
    assert "*Key concepts:* Leaf" in text
    assert "<script" not in text.replace("\\<", "")
    assert text.splitlines()[0] == r"# Plants \<b\>&\</b\> \*light\*"


def test_json_is_the_narration_again():
    narration = told(hook=["a"])
    assert Narration.model_validate_json(export(narration, "json")) == narration
    assert json.loads(export(narration, "json"))["reading_level"] == "4.5"


def test_another_form_is_refused():
    with pytest.raises(Invalid, match=r"'docx'"):
        export(told(), "docx")
