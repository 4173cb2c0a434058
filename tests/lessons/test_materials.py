"""Materials of a lesson by reference: models name a text, and never copy it (B5, B24, B42)."""

import json
from typing import Any

import pytest

from callsheet.graphs import fact_narration
from callsheet.state.errors import Invalid, RequestRejected, TooLarge
from callsheet.state.lessons.materials import LONG_MESSAGE
from callsheet.storage import Storage
from callsheet.tools.lessons.sources import MAX_CHARS, Source, joined_source, version_id
from tests.doubles.chat_double import Say
from tests.lessons.lesson_chat import LessonChat, pending_question
from tests.lessons.lesson_client import LessonClient
from tests.lessons.lesson_double import LessonDouble
from tests.lessons.lesson_material import material
from tests.lessons.lesson_model import OPENAI, LessonModel, lesson_model

__all__ = ["lesson_model"]
GRAPHS = {"fact_narration": fact_narration.graph}
TEXT = material("photosynthesis").text
LONG = f"Find the facts, please.\n\n{TEXT}\n\n" + "And bees dance for each other near the hive. " * 120


def find(**args: Any) -> Say:
    return Say(calls=[("call_find", "extractFactsTool", json.dumps(args))])


async def test_a_long_message_is_stored_once_and_shown_by_reference(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B24, B42: facts are checked against all of it; later turns send the same bytes."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(find(source_ids=["source-1"]))
    assert len(LONG) > LONG_MESSAGE
    question = pending_question(await chat.says(LONG))
    shown = lesson_model.requests[0].messages[-1]["content"]
    assert len(shown) < 2_500
    assert "stored as source-1" in shown
    assert "Material source-1: the message" in shown
    assert (await chat.data("source"))["text"].startswith("Find the facts, please.")
    assert [
        one for one in question["facts"] if one["source"]["quote"][:30] not in " ".join(LONG.split())
    ] == []
    assert (await chat.data("facts"))["source"]["version"] == "v1"
    lesson_model.script(Say("You are welcome."))
    await chat.says("Thanks!")
    again = lesson_model.requests[-1].messages
    assert again[1]["content"] == shown.partition("\n\n<state>")[0]
    state = await chat.graph.aget_state({"configurable": {"thread_id": "lesson-chat"}})
    assert state.values["messages"][0].text == LONG, "the thread keeps the message"
    assert await chat.count("source") == 1


async def test_a_crash_between_storing_and_answering_stores_it_once(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """X9."""
    chat = LessonChat(opened, OPENAI)
    with pytest.raises(RequestRejected):
        await chat.says(LONG)
    assert await chat.count("source") == 1
    lesson_model.script(Say("I have it."))
    await chat.graph.ainvoke(None, {"configurable": {"thread_id": "lesson-chat"}}, context=OPENAI)
    assert await chat.count("source") == 1
    assert "stored as source-1" in lesson_model.requests[-1].messages[-1]["content"]


async def test_an_upload_is_what_find_the_facts_means(opened: Storage, lesson_model: LessonModel) -> None:
    """B5: without an id, and with one."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(find(content=TEXT[:3_000]))
    await chat.says("Facts of this short text")
    stored = [
        Source("text", name, text) for name, text in (("moon", material("the_moon").text), ("leaf", TEXT))
    ]
    school = LessonDouble(opened, "lesson-chat")
    for one in stored:
        await school.put("source", one.data())
    lesson_model.script(find())
    assert pending_question(await chat.says("Find the facts in the file"))["topic"] == "Photosynthesis"
    lesson_model.script(find(source_ids=["source-1"]))
    assert pending_question(await chat.says("No, in the first file"))["topic"] == "The Moon in figures"
    lesson_model.script(find(source_ids=["1", "v2"]))
    assert len(pending_question(await chat.says("In both"))["facts"]) > 7
    lesson_model.script(find(source_ids=["source-9"]), Say("There is no such file."))
    state = await chat.says("In the ninth")
    refused = next(one for one in reversed(state["messages"]) if one.type == "tool")
    assert "there are source-1 to source-2" in refused.text


async def test_other_facts_are_found_in_the_material_of_the_question(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B5, B54: not in the newest upload, and every material is shown with the id that names it."""
    chat, school = LessonChat(opened, OPENAI), LessonDouble(opened, "lesson-chat")
    for name in ("photosynthesis", "the_moon"):
        await school.put("source", Source("text", f"{name}.pdf", material(name).text).data())
    lesson_model.script(find(source_ids=["source-1"]))
    question = pending_question(await chat.says("A lesson from the first file"))
    shown = lesson_model.requests[0].messages[-1]["content"]
    assert f"Earlier material source-1: photosynthesis.pdf, {len(TEXT)} characters, begins:" in shown
    assert "\nMaterial source-2: the_moon.pdf" in shown
    again = pending_question(
        await chat.answers({"decisions": [{"type": "reject", "message": "about water"}]})
    )
    assert (await chat.data("facts"))["source"]["name"] == "photosynthesis.pdf"
    assert not {one["id"] for one in question["facts"]} & {one["id"] for one in again["facts"]}
    await school.put("source", Source("text", "leaf.pdf", TEXT).data())
    lesson_model.script(find(guidance="the light"))
    pending_question(await chat.says("And in the new file, about the light?"))
    assert (await chat.data("facts"))["source"]["name"] == "leaf.pdf"
    lesson_model.script(find(content=material("great_fire").text))
    pending_question(await chat.says("No, from this text"))
    await chat.answers({"decisions": [{"type": "reject", "message": "about the King"}]})
    assert (await chat.data("facts"))["source"]["text"].startswith(material("great_fire").text[:20])


def test_an_unknown_material_is_named() -> None:
    for name in ("source-0", "photo.pdf", ""):
        with pytest.raises(Invalid, match="there is no material"):
            version_id(name, "v3")
    with pytest.raises(Invalid, match="there is no material 'source-1'") as refused:
        version_id("source-1", None)
    assert "no material is stored" in refused.value.remedy


def test_materials_that_are_too_long_together_are_refused() -> None:
    half = Source("text", "half", "word " * (MAX_CHARS // 9))
    with pytest.raises(TooLarge):
        joined_source([half, half])


@pytest.mark.parametrize("characters", [4_500, 90_001, 200_000])
@pytest.mark.slow
async def test_a_pasted_chapter_is_taken_over_rest(lesson_client: LessonClient, characters: int) -> None:
    """B24: the offline model names the stored text, too, and the requests around it are no facts."""
    around = ("My student is 8 and loves chess.\n\n", "\n\nMake it two minutes.")
    filler = " The moon shines on the sea." * 9_000
    pasted = (TEXT + filler)[: characters - len("".join(around)) - 1] + "."
    told = await lesson_client.says(pasted.join(around))
    assert told["toolCalls"][-1]["arguments"] == {"source_ids": ["source-1"], "target_duration": 120}
    assert told["facts"]
    assert "no other facts" in (await lesson_client.says("more about chess"))["message"]


@pytest.mark.slow
async def test_a_model_is_never_shown_a_long_text_whole(opened: Storage, lesson_model: LessonModel) -> None:
    """B24, B42: however long the message may be."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(find(source_ids=["source-1"]))
    text = (TEXT + " The moon shines on the sea." * 9_000)[:200_000]
    assert pending_question(await chat.says(text))["facts"]
    assert len(lesson_model.requests[0].messages[-1]["content"]) < 2_500
