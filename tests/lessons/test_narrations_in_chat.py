"""Narrations in a conversation: what is said of them, and their language (B9-B22, B52, B64, B69)."""

import json
from typing import Any, Final

import pytest

from callsheet.storage import Storage
from tests.doubles.chat_double import Say
from tests.lessons.lesson_chat import LessonChat, pending_question
from tests.lessons.lesson_model import OPENAI, LessonModel, lesson_model
from tests.lessons.test_choices_in_words import waiting

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
    given: dict[str, Any] = {
        "hook": [("Where do puddles go?", [])],
        "concept_introduction": [("Sunshine lifts water into the air as vapour.", [ids[0]])],
        "process_explanation": [("The vapour cools and turns into tiny drops.", [ids[1]])],
        "conclusion": [("So look up at the sky!", [])],
    }
    return {**given, **changes}


def last_result(model: LessonModel) -> dict[str, Any]:
    """Return the newest result as the model was sent it."""
    result = next(message for message in reversed(model.requests[-1].messages) if message["role"] == "tool")
    found: dict[str, Any] = json.loads(result["content"].partition("\n\n<state>")[0])
    return found


async def test_what_was_left_out_is_said_to_the_person(opened: Storage, lesson_model: LessonModel) -> None:
    """B22, B69: where no model ends the turn."""
    chat, ids = await waiting(opened, lesson_model, "water")
    hook = [("Where do puddles go?", []), ("In 1712 a lake was lost.", [ids[0]])]
    lesson_model.script_narration(**sentences(ids, hook=hook))
    state = await chat.send("1, 2")
    assert "The narration is ready" in state["messages"][-1].text
    assert "1712" in state["messages"][-1].text


async def test_what_was_left_out_is_shown_to_the_model(opened: Storage, lesson_model: LessonModel) -> None:
    """B22: in the result, and afterwards in the state of the lesson."""
    chat, ids = await waiting(opened, lesson_model, "water")
    lesson_model.script_choice(fact_ids=ids[:2])
    hook = [("Where do puddles go?", []), ("In 1712 a lake was lost.", [ids[0]])]
    lesson_model.script_narration(**sentences(ids, hook=hook))
    lesson_model.script(Say("A sentence about 1712 is left out."), Say("Gladly."))
    await chat.send("The first two")
    assert any("1712" in warning for warning in last_result(lesson_model)["warnings"])
    await chat.send("Thanks")
    state = lesson_model.requests[-1].messages[-1]["content"].partition("<state>")[2]
    assert "Warning: " in state
    assert "1712" in state


async def test_a_narration_with_an_empty_segment_is_asked_for_again(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B12, B22."""
    chat, ids = await waiting(opened, lesson_model, "water")
    lesson_model.script_narration(**sentences(ids, hook=[(" ", [])]))
    lesson_model.script_narration(**sentences(ids))
    await chat.send("1, 2")
    assert (await chat.narration()).segment("hook").narration == "Where do puddles go?"
    assert "hook says nothing" in lesson_model.narration_requests[-1]["problems"]


async def test_a_narration_with_an_empty_segment_is_a_failure(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B12, B22: nothing is stored, and the person is told."""
    chat, ids = await waiting(opened, lesson_model, "water")
    for _ in range(2):
        lesson_model.script_narration(**sentences(ids, hook=[("…", [])]))
    state = await chat.send("1, 2")
    assert "no sentence left for: hook" in state["messages"][-1].text
    assert not await chat.newest_data("narration")
    assert await chat.newest_data("confirmed"), "the choice stays"


def rewrite(**args: Any) -> Say:
    return Say(calls=[("c1", "generateNarrationTool", json.dumps(args))])


async def test_a_lesson_is_told_in_the_language_that_the_person_wants(
    opened: Storage, lesson_model: LessonModel
) -> None:
    """B9, B22, B52: and stays so; its words are not those of the facts."""
    chat, ids = await waiting(opened, lesson_model, "water")
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
    made = await chat.narration()
    assert state["messages"][-1].text == "Die Stunde ist fertig."
    assert lesson_model.narration_requests[-1]["language"] == made.language == "german"
    assert [segment.narration for segment in made.segments] == [each[0][0] for each in german.values()]
    assert not any("left out" in warning for warning in made.warnings)
    lesson_model.script(rewrite(segments=["hook"], guidance="lustiger"), Say("Lustiger."))
    lesson_model.script_narration(hook=[("Hat die Pfütze Beine?", [])])
    await chat.send("Den Anfang lustiger")
    assert lesson_model.narration_requests[-1]["language"] == "german"
    assert (await chat.narration()).segments[1:] == made.segments[1:]
    lesson_model.script(rewrite(segments=["hook"], language="English"), Say("In English."))
    await chat.send("All of it in English after all")
    made = await chat.narration()
    assert made.language == "english"
    assert not {segment.narration for segment in made.segments} & {each[0][0] for each in german.values()}


async def test_what_is_no_language_is_refused(opened: Storage, lesson_model: LessonModel) -> None:
    """B9: and none is no wish."""
    chat, _ = await waiting(opened, lesson_model, "water")
    await chat.send("1, 2")
    lesson_model.script(rewrite(language="1%"), rewrite(language=""), Say("Done."))
    state = await chat.send("In 1%")
    refused = [
        message.text
        for message in state["messages"]
        if message.type == "tool" and "is no language" in message.text
    ]
    assert len(refused) == 1
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
async def test_a_lesson_has_its_materials_language(
    opened: Storage, lesson_model: LessonModel, material: str, stated: str | None, language: str
) -> None:
    """B4, B9: as the model names it, else by letters and common words, and never English by default."""
    # Without a statement the offline rules fill in the whole sheet.
    lesson_model.fact_sheet_fields = {} if stated is None else {"language": stated}
    chat = LessonChat(opened, OPENAI)
    content = json.dumps({"content": MATERIALS[material]})
    lesson_model.script(Say(calls=[("c1", "extractFactsTool", content)]))
    facts = pending_question(await chat.send("A lesson from this, please"))["facts"]
    await chat.send("all")
    assert lesson_model.fact_requests[0]["language"] in {material, "the material's language"}
    assert lesson_model.narration_requests[-1]["language"] == language
    assert facts
