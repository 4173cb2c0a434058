"""A narration that a person is asked to approve, where the caller wants that (B49, B-R16)."""

import json
from typing import Any

import pytest

from callsheet.state.errors import Invalid
from callsheet.state.lessons.narration_edits import SegmentEdit
from callsheet.state.lessons.review import Approved, Wish, read
from callsheet.storage import Storage
from tests.doubles.chat_double import Say
from tests.lessons.lesson_chat import LessonChat, pending_question
from tests.lessons.lesson_material import material
from tests.lessons.lesson_model import OPENAI, LessonModel, lesson_model

__all__ = ["lesson_model"]

HOOK = [{"id": "hook", "narration": "What do leaves eat?"}]
EDIT = {"action_requests": [], "edited_action": {"name": "review_narration", "args": {"segments": HOOK}}}


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ("yes", Approved()),
        ("OK!", Approved()),
        (True, Approved()),
        ([{"type": "accept", "args": None}], Approved()),
        ({"decisions": [{"type": "edit", **EDIT}]}, Approved((SegmentEdit(**HOOK[0]),))),
        ({"segments": json.dumps(HOOK)}, Approved((SegmentEdit(**HOOK[0]),))),
        (json.dumps({"segments": HOOK}), Approved((SegmentEdit(**HOOK[0]),))),
        ("make the hook shorter", Wish("make the hook shorter")),
        ("[as it is]", Wish("[as it is]")),
        ({"decisions": [{"type": "reject", "message": "funnier"}]}, Wish("funnier")),
        ([{"type": "response", "args": "funnier"}], Wish("funnier")),
    ],
)
def test_an_answer_approves_changes_or_wishes(answer: Any, meant: Approved | Wish) -> None:
    assert read(answer) == meant


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", "the answer is empty"),
        (False, "the answer is empty"),
        (7, "is not an answer about the narration"),
        ({"segments": "hook"}, "is not an answer about the narration"),
        ({"segments": []}, "is not an answer about the narration"),
        ({"segments": [{"narration": "x"}]}, "segments.0.id"),
        ({"decisions": [{"type": "shrug"}]}, "shrug"),
    ],
)
def test_what_is_no_answer_is_refused(answer: Any, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read(answer)


@pytest.fixture
async def chat(opened: Storage) -> LessonChat:
    """A conversation whose narration waits for approval."""
    chat = LessonChat(opened)
    await chat.send(material("photosynthesis").text, review=True)
    question = pending_question(await chat.answer([1, 2, 3]))
    assert question["type"] == "review_narration"
    assert question["narration"] == await chat.newest_data("narration")
    assert len(question["action_requests"][0]["args"]["segments"]) == 4
    return chat


async def status(chat: LessonChat) -> str:
    return (await chat.artefact.meta()).get("status", "")


async def test_a_wish_is_carried_out_and_the_new_narration_asked_about(chat: LessonChat) -> None:
    before = await chat.narration()
    for ask, words in ((chat.answer, "make the hook shorter"), (chat.send, "rewrite the conclusion")):
        question = pending_question(await ask(words))
        assert question["type"] == "review_narration"
    after = await chat.narration()
    assert [new == old for old, new in zip(before.segments, after.segments, strict=True)] == [
        False,
        True,
        True,
        False,
    ]
    assert await status(chat) == ""
    assert "__interrupt__" not in await chat.send("yes")
    assert await status(chat) == "narration_verified"


async def test_a_choice_can_be_changed_while_the_narration_waits(
    chat: LessonChat, opened: Storage, lesson_model: LessonModel
) -> None:
    """B52: in words, which the model reads."""
    lesson_model.script_choice(fact_ids=["1", "2"])
    lesson_model.script(Say("Is it right now?"))
    question = pending_question(await LessonChat(opened, OPENAI).send("leave out the third fact"))
    assert question["type"] == "review_narration"
    assert len((await chat.newest_data("confirmed"))["facts"]) == 2


async def test_nothing_is_asked_where_nobody_wants_that(opened: Storage) -> None:
    """B-R16: one answer yields the narration."""
    chat = LessonChat(opened)
    await chat.send(material("photosynthesis").text)
    assert "__interrupt__" not in await chat.answer("all")
