"""The state block: the current artefact in a few lines after the last message (A64, A66)."""

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from callsheet.graphs import page_builder
from callsheet.state.ads import ad as ads
from callsheet.state.ads.timeline import speaking_time_s, words_that_fit
from callsheet.state.lessons.outline import outline as lesson
from callsheet.state.owners import LOCAL
from callsheet.state.pages.edits import create
from callsheet.state.pages.history import STARTER
from callsheet.state.pages.page import Element, Page
from callsheet.state.pages.page import outline as page
from callsheet.state.state_block import AIM, MOST, fit, split_block, with_state_block
from callsheet.state.tokens import estimate_text
from callsheet.state.versions import Version
from callsheet.state.video.project import Order, scene_line
from callsheet.state.video.project import state_block as video
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.checkpoints import RedisSaver
from tests.doubles.chat_double import ChatDouble, Say

NEW = {"type": "text", "content": "x"}
CONFIG: RunnableConfig = {"configurable": {"thread_id": "kopi"}}


def version(stream: str, data: Mapping[str, Any], by: str = "llm") -> Version:
    return Version("v2", stream, data, created_ms=0, created_by=by, parent="v1", batch="run")


def track(number: int, text: str, **changes: Any) -> dict[str, Any]:
    play_after = f"track-{number - 1}" if number else "start"
    fields = {"id": f"track-{number}", "voiceId": "a/b", "text": text, "playAfter": play_after}
    return {**fields, "overlap": 0.0, "speed": 1.0, **changes}


def page_lines(page_value: Page, selected: str = "", locked: Collection[str] = ()) -> list[str]:
    return fit(page(page_value, selected=selected, locked=locked)).splitlines()


def test_the_block_of_an_ad_has_a_line_for_each_track_and_effect():
    tracks = [track(0, "Hello."), track(1, "Hi there.", playAfter="start", overlap=0.5, speed=1.2)]
    effects = [
        {"description": "bell", "placement": {"type": "start"}, "duration": 1.5},
        {"description": "door", "placement": {"type": "afterVoice", "index": 0}, "duration": 2.0},
    ]
    music = {"musicProvider": "loudly", "musicPrompt": "calm folk", "duration": 20.0}
    newest = {
        "voices": version("voices", {"voiceTracks": tracks}),
        "music": version("music", music, by="anna"),
        "sfx": version("sfx", {"soundFxPrompts": effects}),
    }
    lines = ads.stream_lines(newest, {"voices": "v2", "music": "v1"}, frozenset({"sfx"}))
    assert fit(lines).splitlines() == [
        "voices v2 (active):",
        "- track-0 a/b: Hello.",
        "- track-1 a/b (after start, overlap 0.5 s, speed 1.2): Hi there.",
        "music v2 (made by the person): loudly, 20 s, calm folk",
        "sfx v2 (locked):",
        "- start, 1.5 s: bell",
        "- afterVoice 0, 2 s: door",
    ]


def test_the_tracks_of_a_very_long_script_are_cut():
    newest = {"voices": version("voices", {"voiceTracks": [track(0, "word " * 900), track(1, "End.")]})}
    lines = fit(ads.stream_lines(newest, {}, frozenset())).splitlines()
    assert lines[1].endswith("… (get_current_state has it all)")
    assert lines[2].endswith("End.")
    assert MOST - 30 < estimate_text("\n".join(lines)) <= MOST


def test_the_number_of_words_that_fit_matches_the_timeline():
    """A-R6: one rule times the script and sets the budget."""
    for language in ("english", "polish", "chinese", "nonsense"):
        count, unit = words_that_fit(language, 30)
        sentence = 12 if unit == "words" else 20
        word = "słowo" if unit == "words" else "字"
        glue = " " if unit == "words" else ""
        text = "".join(
            glue.join([word] * min(sentence, count - at)) + ". " for at in range(0, count, sentence)
        )
        assert 27 <= speaking_time_s(text, language) <= 30
    assert ads.heading(30, "english", "US") == (
        "Spot: 30 s, english, market US. About 68 words fit, without effects."
    )


def test_the_block_of_a_page_is_a_tree_with_selection_and_locks():
    """C26: "this" is marked."""
    lines = page_lines(STARTER, selected="heading-1", locked={"section-1"})
    assert lines[0] == "page (no title, no description)"
    assert "  section-1 [Hero] (locked)" in lines
    assert '    heading-1 "Say what you offer in one line" (selected by the person)' in lines
    assert any(line.strip().startswith('text-2 "Then say') and line.endswith('…"') for line in lines)
    assert estimate_text("\n".join(lines)) < 400
    item = Element(id="extra", type="text", content="x")
    root = STARTER.root.model_copy(update={"children": (item,)})
    assert page_lines(STARTER.model_copy(update={"root": root})) == [
        "page (no title, no description)",
        '  extra text "x"',
    ]


def test_the_block_of_a_large_page_has_the_upper_levels():
    large = STARTER
    for _ in range(180):
        large, _ = create(large, "section-2", NEW, "inside")
    lines = page_lines(large, selected="text-60")
    assert any("more elements: list_elements with parentId shows them." in line for line in lines)
    assert any("text-60" in line and line.endswith("(selected by the person)") for line in lines)
    assert {"  section-1 [Hero]", "  footer-1 [Footer]"} <= {*lines}
    assert estimate_text("\n".join(lines)) <= MOST


def test_the_block_of_a_lesson_has_student_material_facts_and_narration():
    """B51: the ids that a choice names."""
    facts = [{"id": "f-a", "concept": "Heat", "details": "It rises."}]
    others = [*facts, {"id": "f-z", "concept": "Rain", "details": "It falls."}]
    earlier = [{"id": "f-s", "concept": "Snow", "details": "It melts."}]
    segment = {"id": "hook", "duration": 10.0, "narration": "w " * 200}
    newest = {
        "student": version("student", {"child_age": "10", "child_interest": "soccer"}),
        "source": version("source", {"name": "water.pdf", "text": "Water rises."}),
        "facts": version("facts", {"topic": "water", "facts": facts, "earlier": earlier}),
        "confirmed": version("confirmed", {"facts": others}),
        "narration": version(
            "narration",
            {
                "total_duration": 60,
                "language": "english",
                "reading_level": "4.5",
                "segments": [segment],
                "warnings": ["the hook has no visual guidance"],
            },
            by="anna",
        ),
    }
    assert lesson(newest, choosing=True, reviewing=True).splitlines() == [
        "Student: age 10, likes soccer",
        "Material source-2: water.pdf, 12 characters, begins: Water rises.",
        "Facts v2 about water:",
        "1. f-a Heat (chosen): It rises.",
        "2. f-s Snow (from the person or an earlier proposal)",
        "3. f-z Rain (chosen, from the person or an earlier proposal)",
        "Narration v2, changed by the person: 60 s, english, reading level 4.5",
        f"- hook, 10 s: {('w ' * 200)[:160]}…",
        "Warning: the hook has no visual guidance",
        "Open question: the person is asked which facts the lesson tells.",
        "Open question: the person is asked whether the narration is right.",
    ]
    assert lesson({}, choosing=False, reviewing=False) == "Student: nothing known yet"
    assert "Snow" not in lesson(newest, choosing=False, reviewing=True)
    assert "It rises" not in lesson({"facts": newest["facts"]}, choosing=False, reviewing=False)


@pytest.mark.parametrize("word", ["rises ", "水"])
def test_the_block_of_a_large_lesson_keeps_every_facts_id_within_the_limit(word: str):
    """A66, B51: details and beginnings are shortened first, whatever the script."""
    facts = [{"id": f"f-{n}", "concept": f"Heat {n}", "details": word * 80} for n in range(15)]
    segments = [{"id": f"s{n}", "duration": 10.0, "narration": word * 90} for n in range(4)]
    narration = {"total_duration": 60, "language": "english", "reading_level": "4.5", "segments": segments}
    newest = {
        "source": version("source", {"name": "water.pdf", "text": word * 90}),
        "facts": version("facts", {"topic": "water", "facts": facts}),
        "confirmed": version("confirmed", {"facts": facts[:2]}),
        "narration": version("narration", narration),
    }
    block = lesson(newest, choosing=True, reviewing=False)
    assert estimate_text(block) <= MOST
    assert [n for n in range(15) if f"{n + 1}. f-{n} Heat {n}" not in block] == []
    assert estimate_text(lesson(newest, choosing=False, reviewing=False)) <= AIM


def test_the_last_of_very_many_facts_are_left_out():
    facts = [{"id": f"f-{n}", "concept": "水" * 30, "details": "x"} for n in range(40)]
    block = lesson(
        {"facts": version("facts", {"topic": "water", "facts": facts})}, choosing=True, reviewing=False
    )
    assert estimate_text(block) <= MOST
    assert re.search(r"\n… \d+ more facts\nOpen question", block)


def test_the_block_of_a_large_video_has_a_line_for_each_scene():
    """A66: plans name scenes by their ids; contents and preferences are shortened."""
    scene = {"name": "One", "durationInFrames": 90, "elements": [{"kind": "text", "text": "word " * 40}] * 3}
    order = Order(scenes=tuple(f"scene-{n}" for n in range(1, 56)), next=56)
    lines = [scene_line(name, order, "v1", scene) for name in order.scenes]
    block = video(order, lines, preferences=["likes blue " * 20] * 9)
    assert [name for name in order.scenes if f". {name} v1 'One', 3 s: te" not in block] == []
    assert estimate_text(block) <= MOST


def test_an_empty_state_adds_no_block():
    """A65."""
    sent: list[AnyMessage] = [HumanMessage("Hi")]
    assert with_state_block(sent, "") == sent
    assert split_block("Hi <state>\nopen") == ("Hi <state>\nopen", "")


async def test_the_block_shows_a_version_that_a_person_made_by_hand(
    graph: Any, model: ChatDouble, opened: Storage
):
    """A64: the next turn builds on the person's version, without a look-up."""
    draft = ("c1", "create_music_draft", json.dumps({"prompt": "calm piano"}))
    model.script(Say(calls=[draft]), Say("Made music v1."), Say("Nice."))
    turn_input = {"messages": [HumanMessage("Calm music, please")], "ad_id": "kopi"}
    await graph.ainvoke(turn_input, CONFIG, context={"provider": "openai"})
    assert "music v1: loudly, 30 s, calm piano" in model.requests[1].messages[-1]["content"]
    music = {"musicPrompt": "harp", "musicProvider": "mubert", "duration": 30.0}
    await Artefact(opened, "ad", "kopi", LOCAL).create_version(NewVersion("music", music, "anna", "by-hand"))
    await graph.ainvoke({"messages": [HumanMessage("And now?")]}, CONFIG, context={"provider": "openai"})
    block = model.requests[2].messages[-1]["content"].partition("<state>\n")[2]
    assert "music v2 (made by the person): mubert, 30 s, harp" in block
    stored = [one.text for one in (await graph.aget_state(CONFIG)).values["messages"]]
    assert not any("<state>" in text for text in stored), "the block is not stored"


@pytest.mark.parametrize("selected", ["", "heading-1"])
async def test_the_first_request_about_a_page_has_its_block(
    opened: Storage, model: ChatDouble, selected: str
):
    """C26: the outline saves the look-up that every edit began with."""
    builder = page_builder.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})
    model.script(Say("Which one?"))
    turn_input = {"messages": [HumanMessage("Bigger?")], "page_id": "shop", "selected_element_id": selected}
    await asyncio.wait_for(builder.ainvoke(turn_input, CONFIG, context={"provider": "openai"}), 30)
    text = model.requests[0].messages[-1]["content"]
    assert "The page, not changed yet. Theme: " in text
    assert text.count("(selected by the person)") == bool(selected)
