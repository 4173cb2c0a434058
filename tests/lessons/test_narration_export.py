"""Export of a narration as Markdown, SRT, WebVTT and JSON."""

import json
import re
from html import escape
from itertools import pairwise

import html5lib
import pytest

from callsheet.state.errors import Invalid
from callsheet.state.lessons.narration import (
    Narration,
    SegmentEdit,
    Sentence,
    apply_edits,
    place_segments,
    slots,
)
from callsheet.state.lessons.narration_export import cues, export
from tests.lessons.test_narration import narration_of

LONG = Sentence(
    text="A plant takes in water through its roots and carbon dioxide from the air through tiny holes called "
    "stomata, all day long, and makes sugar."
)


def two_minute_narration(*sentences, language="english", **fields):
    segments = tuple(place_segments(slot, sentences, language, **fields) for slot in slots(120, language))
    return Narration(
        total_duration=120,
        reading_level="6.5",
        key_terms_count=0,
        segments=segments,
        topic="Plants <b>&</b> *light*",
        language=language,
    )


@pytest.mark.parametrize(
    "narration", [narration_of(hook=["a"]), two_minute_narration(LONG, Sentence(text="So be it."))]
)
def test_cues_cover_all_of_the_narration_without_a_gap(narration):
    cue_list = cues(narration)
    assert cue_list[0].start_ms == 0
    assert cue_list[-1].end_ms == narration.total_duration * 1000
    for cue, next_cue in pairwise(cue_list):
        assert cue.start_ms < cue.end_ms == next_cue.start_ms
    for segment in narration.segments:
        assert segment.start_time * 1000 in {cue.start_ms for cue in cue_list}


def test_a_cue_has_at_most_two_lines_and_the_cues_hold_every_word():
    narration = two_minute_narration(LONG)
    cue_list = cues(narration)
    for cue in cue_list:
        assert len(cue.text.splitlines()) <= 2
        assert max(map(len, cue.text.splitlines())) <= 42
    text = " ".join(" ".join(cue.text.split()) for cue in cue_list)
    assert text == " ".join(segment.narration for segment in narration.segments)


def test_lines_of_wide_characters_are_half_as_long():
    narration = two_minute_narration(
        Sentence(text="大熊猫是生活在中国西南部山区的一种哺乳动物，它们每天要吃竹子。"), language="chinese"
    )
    assert max(len(line) for cue in cues(narration) for line in cue.text.splitlines()) <= 21


def test_srt_has_numbered_cues_and_times_with_commas():
    text = export(narration_of(hook=["a"]), "srt")
    blocks = text.strip().split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == [str(i) for i in range(1, len(blocks) + 1)]
    assert blocks[0].splitlines()[1].startswith("00:00:00,000 --> 00:00:0")
    assert blocks[-1].splitlines()[1].endswith("00:01:00,000")


def test_webvtt_has_its_header_and_escapes_tags():
    text = export(two_minute_narration(Sentence(text="<i>1 & 2</i> --> 3")), "vtt")
    assert text.startswith("WEBVTT\n\nNOTE\nTimes for which the narration was written\n\n00:00:00.000 --> ")
    assert "&lt;i&gt;1 &amp; 2&lt;/i&gt; --&gt; 3" in text
    assert len(re.findall(r"^\d\d:\d\d:\d\d\.\d{3} --> \d\d:\d\d:\d\d\.\d{3}$", text, re.MULTILINE)) == 4


def test_srt_contains_no_tags():
    assert "<i>" not in export(two_minute_narration(Sentence(text="<i>Now</i> then")), "srt")


def test_markdown_shows_times_and_guidance_and_escapes_markup():
    text = export(
        two_minute_narration(LONG, visual_guidance="Show <script>x</script>", key_concepts=("Leaf",)), "md"
    )
    assert "## Hook (0:00–0:20)" in text
    assert "## Conclusion (1:30–2:00)" in text
    assert "*Key concepts:* Leaf" in text
    assert "<script" not in text.replace("\\<", "")
    assert text.splitlines()[0] == r"# Plants \<b\>&\</b\> \*light\*"


def test_exported_json_is_read_back_as_the_same_narration():
    narration = narration_of(hook=["a"])
    assert Narration.model_validate_json(export(narration, "json")) == narration
    assert json.loads(export(narration, "json"))["reading_level"] == "4.5"


def test_an_unknown_format_is_refused():
    with pytest.raises(Invalid, match=r"'docx'"):
        export(narration_of(), "docx")


def test_subtitles_keep_an_abbreviation_and_an_ordinal_number_with_the_next_word() -> None:
    """Neither lines nor cues end with "Dr." or "am 3."."""
    text = (
        "The tall old lighthouse was drawn by Dr. Lee, and then it was rebuilt by Prof. Vale on the 3. May."
    )
    for pad in range(30):
        narration = two_minute_narration(Sentence(text="A" * pad + " " + text if pad else text))
        lines = [line for cue in cues(narration) for line in cue.text.splitlines()]
        assert not [line for line in lines if line.endswith(("Dr.", "Prof.", "3."))]


def test_no_sentence_of_an_edited_narration_ends_with_an_abbreviation() -> None:
    """An abbreviation ends none, in the language of the narration."""
    before = two_minute_narration(Sentence(text="So be it."), language="german")
    text = "Der Turm wurde am 3. Mai von Dr. Berg gebaut. Im 12. Jahrhundert lebten dort z. B. Händler."
    after = apply_edits(before, [SegmentEdit(id=before.segments[0].id, narration=text)])
    assert [one.text for one in after.segments[0].sentences] == [
        "Der Turm wurde am 3. Mai von Dr. Berg gebaut.",
        "Im 12. Jahrhundert lebten dort z. B. Händler.",
    ]


def test_cues_of_a_rendered_narration_follow_its_sentences_and_are_short():
    narration = two_minute_narration(LONG, Sentence(text="So be it."))
    count = sum(len(segment.sentences) for segment in narration.segments)
    times = [(10.0 * i + 1, 10.0 * i + 10) for i in range(count)]
    cue_list = cues(narration, times)
    assert cue_list[0].start_ms == 1000
    assert all(0 < cue.end_ms - cue.start_ms <= 7000 for cue in cue_list)
    assert all(len(line) <= 42 for cue in cue_list for line in cue.text.split("\n"))
    assert {cue.start_ms for cue in cue_list} >= {round(start * 1000) for start, _ in times}
    assert "00:00:01,000 --> " in export(narration, "srt", times)
    assert "00:00:01.000 --> " in export(narration, "vtt", times)
    assert cues(narration, [(start, start + 60) for start, _ in times])[0].text.count("\n") == 0


def test_no_cue_is_a_flash_where_it_can_be_joined() -> None:
    """The last word of a sentence has no cue of its own, and a short sentence shares one."""
    text = "Most of the salt of the world is used in factories for chemicals, and only six % of it is eaten."
    narration = two_minute_narration(Sentence(text="Yes."), Sentence(text="So it is."), Sentence(text=text))
    times = [
        span for at in range(0, 80, 20) for span in ((at, at + 0.4), (at + 0.8, at + 1.6), (at + 2, at + 7))
    ]
    for cue_list in (cues(narration, times), cues(narration)):
        assert all(cue.end_ms - cue.start_ms >= 1_000 for cue in cue_list)
        assert all(len(line) <= 42 for cue in cue_list for line in cue.text.split("\n"))
    first, *others = cues(narration, times)[:3]
    assert (first.text, first.start_ms, first.end_ms) == ("Yes. So it is.", 0, 1_600)
    assert [one.text.split()[-1] for one in others] == ["factories", "eaten."]


def test_markdown_and_slides_have_the_times_of_the_sound() -> None:
    narration = two_minute_narration(Sentence(text="So be it."))
    times = [(0.5, 3.46), (4.4, 9.0), (10.0, 61.2), (62.0, 70.0)]
    text = export(narration, "md", times, "planned for 120 s; the sound lasts 71.2 s")
    assert "planned for 120 s; the sound lasts 71.2 s ·" in text
    assert re.findall(r"^## .*\((.*)\)$", text, re.MULTILINE) == [
        "0:00–0:03",
        "0:04–0:09",
        "0:10–1:01",
        "1:02–1:10",
    ]
    assert re.findall(r"<summary>(.*?)</summary>", export(narration, "slides", times)) == [
        "3 s",
        "4.6 s",
        "51.2 s",
        "8 s",
    ]
    assert "0:20–0:50" in export(narration, "md")


def test_slides_are_valid_html_with_a_slide_for_each_segment_and_no_scripts():
    narration = two_minute_narration(
        LONG, key_concepts=("Stomata <i>", "Sugar"), visual_guidance="A leaf & its holes"
    )
    page = export(narration, "slides")
    document = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    sections = document.findall(".//section")
    assert len(sections) == 1 + len(narration.segments)
    assert document.findtext(".//h1") == narration.topic
    assert [one.findtext("h2") for one in sections[1:]] == ["Stomata <i>"] * 4
    assert sections[1].findtext("ul/li") == "Sugar"
    notes = [one.text for one in sections[1].findall("details/p")]
    assert notes == [narration.segments[0].narration, "A leaf & its holes"]
    assert not document.findall(".//script")
    targets = {link.get("href") for link in document.findall(".//a")}
    assert targets == {f"#{one.get('id')}" for one in sections}
    arabic = export(narration.model_copy(update={"language": "arabic"}), "slides")
    assert '<html lang="ar" dir="rtl">' in arabic


def test_a_slide_without_concepts_and_guidance_has_its_title_alone():
    narration = two_minute_narration(Sentence(text="So be it."))
    empty = narration.segments[0].model_copy(update={"narration": ""})
    page = export(narration.model_copy(update={"segments": (empty,)}), "slides")
    assert f"<h2>{escape(narration.topic)}</h2>" in page
    assert "Hook" not in page
    assert "<details" not in page
