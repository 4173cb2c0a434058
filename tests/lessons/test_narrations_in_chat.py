"""Narrations in a conversation: the warnings about them, and their language (B9-B22, B52, B64, B69)."""

import json
from typing import Any, Final

import pytest

from callsheet.storage import Storage
from tests.doubles.chat_double import Say
from tests.lessons.lesson_chat import LessonChat, pending_question
from tests.lessons.lesson_model import OPENAI, LessonModel, lesson_model
from tests.lessons.test_choices_in_words import lesson_with_question

__all__ = ["lesson_model"]
MATERIALS: Final = {
    "danish": "Planter optager vand fra jorden med deres rødder. Vandet går gennem stænglen op til bladene.",
    "finnish": "Kasvit ottavat vettä maasta juurillaan. Vesi kulkee varren kautta lehtiin asti.",
    "greek": "Τα φυτά παίρνουν νερό από το χώμα με τις ρίζες τους. Το νερό ανεβαίνει στα φύλλα.",
    "russian": "Растения берут воду из почвы корнями. Вода поднимается по стеблю к листьям.",
    "swedish": "Växter tar upp vatten från jorden med sina rötter. Vattnet går genom stjälken till bladen.",
    "turkish": "Bitkiler suyu kökleriyle topraktan alır. Su gövdeden yapraklara doğru yükselir.",
    "ukrainian": "Рослини беруть воду з ґрунту корінням. Вода піднімається стеблом до листя рослини.",
}


def sentences(ids: list[str], **changes: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """Return a narration of the first two facts about water."""
    segments: dict[str, Any] = {
        "hook": [("Where do puddles go?", [])],
        "concept_introduction": [("Sunshine lifts water into the air as vapour.", [ids[0]])],
        "process_explanation": [("The vapour cools and turns into tiny drops.", [ids[1]])],
        "conclusion": [("So look up at the sky!", [])],
    }
    return {**segments, **changes}


def last_result(model: LessonModel) -> dict[str, Any]:
    """Return the newest tool result as the model received it."""
    message = next(message for message in reversed(model.requests[-1].messages) if message["role"] == "tool")
    output: dict[str, Any] = json.loads(message["content"].partition("\n\n<state>")[0])
    return output


async def test_the_reply_names_a_sentence_that_was_left_out(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B22, B69: if no model ends the turn."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    hook = [("Where do puddles go?", []), ("In 1712 a lake was lost.", [ids[0]])]
    lesson_model.script_narration(**sentences(ids, hook=hook))
    state = await chat.send("1, 2")
    assert "The narration is ready" in state["messages"][-1].text
    assert "1712" in state["messages"][-1].text


async def test_the_model_is_sent_the_warning_about_a_sentence_that_was_left_out(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B22: in the result, and in later turns in the state block."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    lesson_model.script_choice(fact_ids=ids[:2])
    hook = [("Where do puddles go?", []), ("In 1712 a lake was lost.", [ids[0]])]
    lesson_model.script_narration(**sentences(ids, hook=hook))
    lesson_model.script(Say("A sentence about 1712 is left out."), Say("Gladly."))
    await chat.send("The first two")
    assert any("1712" in warning for warning in last_result(lesson_model)["warnings"])
    await chat.send("Thanks")
    state_block = lesson_model.requests[-1].messages[-1]["content"].partition("<state>")[2]
    assert "Warning: " in state_block
    assert "1712" in state_block


async def test_a_narration_with_an_empty_segment_is_requested_again(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B12, B22."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    lesson_model.script_narration(**sentences(ids, hook=[(" ", [])]))
    lesson_model.script_narration(**sentences(ids))
    await chat.send("1, 2")
    assert (await chat.narration()).segment("hook").narration == "Where do puddles go?"
    assert "hook says nothing" in lesson_model.narration_requests[-1]["problems"]


async def test_a_second_narration_with_an_empty_segment_is_an_error(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B12, B22: no narration is stored, and the reply names the segment."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    for _ in range(2):
        lesson_model.script_narration(**sentences(ids, hook=[("…", [])]))
    state = await chat.send("1, 2")
    assert "no sentence left for: hook" in state["messages"][-1].text
    assert not await chat.newest_data("narration")
    assert await chat.newest_data("confirmed"), "the choice stays"


def narration_call(**args: Any) -> Say:
    return Say(calls=[("c1", "generateNarrationTool", json.dumps(args))])


async def test_a_lesson_is_narrated_in_the_language_that_the_person_names(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B9, B22, B52: until the person names another one; it need not be that of the facts."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    lesson_model.script_choice(fact_ids=["1", "2"], language="Deutsch")
    german: dict[str, list[tuple[str, list[str]]]] = {
        "hook": [("Wohin geht eine Pfütze?", [])],
        "concept_introduction": [("Warmes Wasser wird Dampf, das heißt auf Englisch evaporation.", [ids[0]])],
        "process_explanation": [("Kalter Dampf wird zu Tropfen, also condensation.", [ids[1]])],
        "conclusion": [("Denk im Garten daran!", [])],
    }
    lesson_model.script_narration(**german)
    lesson_model.script(Say("Die Stunde ist fertig."))
    state = await chat.send("Die ersten zwei, und bitte auf Deutsch")
    narration = await chat.narration()
    assert state["messages"][-1].text == "Die Stunde ist fertig."
    assert lesson_model.narration_requests[-1]["language"] == narration.language == "german"
    assert [segment.narration for segment in narration.segments] == [pairs[0][0] for pairs in german.values()]
    assert not any("left out" in warning for warning in narration.warnings)
    lesson_model.script(narration_call(segments=["hook"], guidance="lustiger"), Say("Lustiger."))
    lesson_model.script_narration(hook=[("Hat die Pfütze Beine?", [])])
    await chat.send("Den Anfang lustiger")
    assert lesson_model.narration_requests[-1]["language"] == "german"
    assert (await chat.narration()).segments[1:] == narration.segments[1:]
    lesson_model.script(narration_call(segments=["hook"], language="English"), Say("In English."))
    await chat.send("All of it in English after all")
    narration = await chat.narration()
    assert narration.language == "english"
    assert not {segment.narration for segment in narration.segments} & {
        pairs[0][0] for pairs in german.values()
    }


async def test_a_text_that_names_no_language_is_refused(opened: Storage, lesson_model: LessonModel) -> None:
    """B9: an empty one is ignored."""
    chat, _ = await lesson_with_question(opened, lesson_model, "water")
    await chat.send("1, 2")
    lesson_model.script(narration_call(language="1%"), narration_call(language=""), Say("Done."))
    state = await chat.send("In 1%")
    errors = [
        message.text
        for message in state["messages"]
        if message.type == "tool" and "is no language" in message.text
    ]
    assert len(errors) == 1
    assert (await chat.narration()).language == "english"


@pytest.mark.parametrize(
    ("material", "stated", "language"),
    [
        *((name, name.title(), name) for name in MATERIALS),
        *((name, "", name) for name in ("russian", "swedish", "turkish", "ukrainian")),
        *((name, "unknown", "the language of the facts") for name in ("danish", "finnish", "greek")),
        *((name, None, "the language of the facts") for name in ("danish", "finnish", "greek")),
    ],
)
async def test_a_lesson_is_narrated_in_the_language_of_its_material(
    opened: Storage, lesson_model: LessonModel, material: str, stated: str | None, language: str
) -> None:
    """B4, B9: as the model names it, otherwise by letters and common words; English is no default."""
    # Where the model states no language, the sheet has that of the offline rules.
    lesson_model.fact_sheet_fields = {} if stated is None else {"language": stated}
    chat = LessonChat(opened, OPENAI)
    content = json.dumps({"content": MATERIALS[material]})
    lesson_model.script(Say(calls=[("c1", "extractFactsTool", content)]))
    facts = pending_question(await chat.send("A lesson from this, please"))["facts"]
    await chat.send("all")
    assert lesson_model.fact_requests[0]["language"] in {material, "the material's language"}
    assert lesson_model.narration_requests[-1]["language"] == language
    assert facts


async def test_another_level_of_a_part_is_a_wish_about_its_words(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B44: it had been dropped, since the lesson keeps its level."""
    chat, ids = await lesson_with_question(opened, lesson_model, "water")
    lesson_model.script_narration(**sentences(ids))
    await chat.send("1, 2")
    args = {"segments": ["hook"], "guidance": "begin with a question", "level_shift": -1}
    lesson_model.script(
        Say(calls=[("c1", "generateNarrationTool", json.dumps(args))]), Say("It is easier now.")
    )
    lesson_model.script_narration(hook=[("Where is the puddle now?", [])])
    await chat.send("Make the hook easier, and begin with a question")
    guidance = lesson_model.narration_requests[-1]["guidance"]
    assert guidance == "begin with a question; in easier words"
