"""Materials of a lesson by reference: models name a text and never copy it (B5, B24, B42)."""

import json
from typing import Any

import pytest

from callsheet.graphs import fact_narration
from callsheet.state.errors import Invalid, RequestRejected, TooLarge
from callsheet.state.lessons.outline import LONG_MESSAGE
from callsheet.storage import Storage
from callsheet.tools.lessons.sources import MAX_CHARS, Source, joined_source, pasted_source, version_id
from tests.doubles.chat_double import Say
from tests.lessons.lesson_chat import LessonChat, pending_question
from tests.lessons.lesson_client import LessonClient
from tests.lessons.lesson_material import material
from tests.lessons.lesson_model import OPENAI, LessonModel, lesson_model
from tests.lessons.lesson_tools import LessonTools

__all__ = ["lesson_model"]
GRAPHS = {"fact_narration": fact_narration.graph}
TEXT = material("photosynthesis").text
LONG = (
    f"Find the facts for my class, please.\n\n{TEXT}\n\n"
    + "And bees dance for each other near the hive. " * 120
)


def extract_call(**args: Any) -> Say:
    """Return a reply of the model that calls the tool for facts."""
    return Say(calls=[("call_find", "extractFactsTool", json.dumps(args))])


async def test_a_long_message_is_stored_once_and_sent_to_the_model_by_reference(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B24, B42: facts are checked against all of it; later turns send the same bytes."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(extract_call(source_ids=["source-1"]))
    assert len(LONG) > LONG_MESSAGE
    question = pending_question(await chat.send(LONG))
    model_message = lesson_model.requests[0].messages[-1]["content"]
    assert len(model_message) < 2_500
    assert "stored as source-1" in model_message
    assert "Material source-1: the message" in model_message
    assert (await chat.newest_data("source"))["text"].startswith("Find the facts for my class, please.")
    assert [
        fact for fact in question["facts"] if fact["source"]["quote"][:30] not in " ".join(LONG.split())
    ] == []
    assert (await chat.newest_data("facts"))["source"]["version"] == "v1"
    lesson_model.script(Say("You are welcome."))
    await chat.send("Thanks!")
    later_messages = lesson_model.requests[-1].messages
    assert later_messages[1]["content"] == model_message.partition("\n\n<state>")[0]
    state = await chat.graph.aget_state({"configurable": {"thread_id": "lesson-chat"}})
    assert state.values["messages"][0].text == LONG, "the thread keeps the message"
    assert await chat.version_count("source") == 1


async def test_a_long_message_is_stored_once_when_the_run_fails_and_is_repeated(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """X9."""
    chat = LessonChat(opened, OPENAI)
    with pytest.raises(RequestRejected):
        await chat.send(LONG)
    assert await chat.version_count("source") == 1
    lesson_model.script(Say("I have it."))
    await chat.graph.ainvoke(None, {"configurable": {"thread_id": "lesson-chat"}}, context=OPENAI)
    assert await chat.version_count("source") == 1
    assert "stored as source-1" in lesson_model.requests[-1].messages[-1]["content"]


async def test_a_text_whose_run_ended_after_it_was_stored_is_still_a_material(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """X9: the message is repeated on a lesson that has its text already, as the first material."""
    text = " ".join(TEXT[:1_200].split())
    assert len(text) < LONG_MESSAGE
    await LessonTools(opened, "lesson-chat").create_version(
        "source", pasted_source(text, "the message").data()
    )
    chat = LessonChat(opened, OPENAI)
    assert pending_question(await chat.send(text))["facts"]
    assert await chat.version_count("source") == 1


async def test_facts_are_extracted_from_the_newest_upload_or_the_named_one(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B5: without an id, and with one."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(extract_call(content=TEXT[:3_000]))
    await chat.send("Facts of this short text")
    sources = [
        Source("text", name, text) for name, text in (("moon", material("the_moon").text), ("leaf", TEXT))
    ]
    lesson_tools = LessonTools(opened, "lesson-chat")
    for source in sources:
        await lesson_tools.create_version("source", source.data())
    lesson_model.script(extract_call())
    assert pending_question(await chat.send("Find the facts in the file"))["topic"] == "Photosynthesis"
    lesson_model.script(extract_call(source_ids=["source-1"]))
    assert pending_question(await chat.send("No, in the first file"))["topic"] == "The Moon in figures"
    lesson_model.script(extract_call(source_ids=["1", "v2"]))
    assert len(pending_question(await chat.send("In both"))["facts"]) > 7
    lesson_model.script(extract_call(source_ids=["source-9"]), *[Say("There is no such file.")] * 2)
    state = await chat.send("In the ninth")
    error_message = next(message for message in reversed(state["messages"]) if message.type == "tool")
    assert "there are source-1 to source-2" in error_message.text


async def test_other_facts_come_from_the_material_of_the_rejected_question(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B5, B54: not from the newest upload; every material is shown to the model with its id."""
    chat, lesson_tools = LessonChat(opened, OPENAI), LessonTools(opened, "lesson-chat")
    for name in ("photosynthesis", "the_moon"):
        await lesson_tools.create_version("source", Source("text", f"{name}.pdf", material(name).text).data())
    lesson_model.script(extract_call(source_ids=["source-1"]))
    question = pending_question(await chat.send("A lesson from the first file"))
    model_message = lesson_model.requests[0].messages[-1]["content"]
    assert f"Earlier material source-1: photosynthesis.pdf, {len(TEXT)} characters, begins:" in model_message
    assert "\nMaterial source-2: the_moon.pdf" in model_message
    next_question = pending_question(
        await chat.answer({"decisions": [{"type": "reject", "message": "about water"}]})
    )
    assert (await chat.newest_data("facts"))["source"]["name"] == "photosynthesis.pdf"
    assert not {fact["id"] for fact in question["facts"]} & {fact["id"] for fact in next_question["facts"]}
    await lesson_tools.create_version("source", Source("text", "leaf.pdf", TEXT).data())
    lesson_model.script(extract_call(guidance="the light"))
    pending_question(await chat.send("And in the new file, about the light?"))
    assert (await chat.newest_data("facts"))["source"]["name"] == "leaf.pdf"
    lesson_model.script(extract_call(content=material("great_fire").text))
    pending_question(await chat.send("No, from this text"))
    await chat.answer({"decisions": [{"type": "reject", "message": "about the King"}]})
    assert (await chat.newest_data("facts"))["source"]["text"].startswith(material("great_fire").text[:20])


def test_a_reference_to_an_unknown_material_is_refused() -> None:
    for name in ("source-0", "photo.pdf", ""):
        with pytest.raises(Invalid, match="there is no material"):
            version_id(name, "v3")
    with pytest.raises(Invalid, match="there is no material 'source-1'") as error:
        version_id("source-1", None)
    assert "no material is stored" in error.value.remedy


def test_materials_that_are_too_long_together_are_refused() -> None:
    half = Source("text", "half", "word " * (MAX_CHARS // 9))
    with pytest.raises(TooLarge):
        joined_source([half, half])


@pytest.mark.parametrize("characters", [4_500, 90_001, 200_000])
@pytest.mark.slow
async def test_a_pasted_chapter_is_accepted_over_rest(lesson_client: LessonClient, characters: int) -> None:
    """B24: the offline model refers to the stored text, too, and sentences around it are no facts."""
    surroundings = ("My student is 8 and loves chess.\n\n", "\n\nMake it two minutes.")
    filler = " The moon shines on the sea." * 9_000
    material_text = (TEXT + filler)[: characters - len("".join(surroundings)) - 1] + "."
    reply = await lesson_client.send(material_text.join(surroundings))
    assert reply["toolCalls"][-1]["arguments"] == {"source_ids": ["source-1"], "target_duration": 120}
    assert reply["facts"]
    assert "no other facts" in (await lesson_client.send("more about chess"))["message"]


@pytest.mark.slow
async def test_a_very_long_message_is_sent_to_the_model_by_reference(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B24, B42."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(extract_call(source_ids=["source-1"]))
    text = (TEXT + " The moon shines on the sea." * 9_000)[:200_000]
    assert pending_question(await chat.send(text))["facts"]
    assert len(lesson_model.requests[0].messages[-1]["content"]) < 2_500


async def test_an_unknown_id_with_a_text_means_the_text(opened: Storage, lesson_model: LessonModel) -> None:
    """B24: small models name a material that is not stored and copy the text as well."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(extract_call(source_ids=["source-9", "text"], content=TEXT))
    question = pending_question(await chat.send("Find the facts."))
    assert question["facts"]
    assert lesson_model.fact_requests[0]["material"].startswith(TEXT[:40])


PASTED = (
    "Plants make their food from light. Their leaves take in carbon dioxide through tiny pores. "
    "Roots take up water, which the stem carries to the leaves. Chlorophyll, which makes leaves green, "
    "catches the light of the sun. From water and carbon dioxide the plant makes sugar. "
    "Oxygen is left over, and it leaves through the same pores that the carbon dioxide came in by."
)
REQUEST = (
    "Hello! I teach a class of eight children and I would like you to help me with something that I have "
    "been thinking about for a while. Could you tell me which subjects work well for my pupils? I want "
    "to surprise them next week. Please keep in mind that my classroom is small and that you cannot see "
    "it. What would you need to know from me before you can begin?"
)


async def test_a_pasted_text_is_stored_and_named_and_read_without_an_id(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B24, B42: a text too short to be cut is shown whole; the model need not copy it."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(extract_call())
    question = pending_question(await chat.send(f"My student is 9 and likes chess:\n\n{PASTED}"))
    shown = lesson_model.requests[0].messages[-1]["content"]
    assert PASTED in shown
    assert "The whole message is stored as source-1" in shown
    assert question["facts"]
    assert (await chat.newest_data("facts"))["source"]["version"] == "v1"


@pytest.mark.parametrize(
    "message", [PASTED, f"Find the facts in this text, please:\n{PASTED}", f"Extract the key facts: {PASTED}"]
)
async def test_a_message_that_is_a_material_is_read_without_a_model(
    opened: Storage, lesson_model: LessonModel, message: str
) -> None:
    """B14: the only request is the one for the form."""
    chat = LessonChat(opened, OPENAI)
    state = await chat.send(message)
    assert pending_question(state)["facts"]
    assert state["provider"] == "openai"
    assert len(lesson_model.requests) == len(lesson_model.fact_requests) == 1


@pytest.mark.parametrize(
    "message",
    [
        "My student is 9 and likes dinosaurs. {}",
        "{} She is for a class of ten pupils.",
        "Hello. {}",
        "Mi alumna tiene nueve años. {}",
        "Focus on the roots and leave out the leaves. {}",
        "{} Skip everything about the leaves.",
    ],
)
async def test_a_material_after_or_before_a_remark_or_an_order_is_read_by_the_model(
    opened: Storage, lesson_model: LessonModel, message: str
) -> None:
    """B3, B14: what is said about the lesson is no fact of it, and only the model can heed it."""
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(extract_call())
    await chat.send(message.format(PASTED))
    assert len(lesson_model.requests) - len(lesson_model.fact_requests) == 1


async def test_the_model_answers_when_a_material_read_without_it_has_no_facts(
    opened: Storage, lesson_model: LessonModel
) -> None:
    chat = LessonChat(opened, OPENAI)
    lesson_model.fact_sheet_fields = {"facts": []}
    answer = Say("I found no facts in it. Have you another text?")
    lesson_model.script(answer, answer)
    state = await chat.send(PASTED)
    assert state["messages"][-1].text.startswith("I found no facts in it. Have you another text?")


@pytest.mark.parametrize("message", [REQUEST, "Plants make food. They need light.", PASTED[:250]])
async def test_a_long_request_and_a_short_text_are_no_material(
    opened: Storage, lesson_model: LessonModel, message: str
) -> None:
    chat = LessonChat(opened, OPENAI)
    lesson_model.script(Say("Gladly."))
    await chat.send(message)
    assert await chat.version_count("source") == 0


async def test_a_long_message_without_a_request_is_no_second_material(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """It may be a request in any language; a text behind a request is stored."""
    chat = LessonChat(opened, OPENAI)
    await chat.send(PASTED)
    lesson_model.script(Say("Gladly."), extract_call())
    await chat.send(PASTED.replace("Plants", "Trees"))
    assert await chat.version_count("source") == 1
    await chat.send(f"Here is another one for my class:\n\n{PASTED.replace('Plants', 'Trees')}")
    assert (await chat.newest_data("facts"))["source"]["version"] == "v2"
