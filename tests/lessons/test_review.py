"""Approval of a narration by a person, if the request wants it (B49, B-R16)."""

import json
from typing import Any

import pytest

from callsheet.state.errors import Invalid
from callsheet.state.lessons.narration import SegmentEdit
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
    ("answer", "expected"),
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
def test_an_answer_is_read_as_an_approval_an_edit_or_a_wish(answer: Any, expected: Approved | Wish) -> None:
    assert read(answer) == expected


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
def test_an_invalid_answer_is_refused(answer: Any, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read(answer)


@pytest.fixture
async def chat(opened: Storage) -> LessonChat:
    """A lesson whose narration waits for approval."""
    chat = LessonChat(opened)
    await chat.send(material("photosynthesis").text, review=True)
    question = pending_question(await chat.answer([1, 2, 3]))
    assert question["type"] == "review_narration"
    assert question["narration"] == await chat.newest_data("narration")
    assert len(question["action_requests"][0]["args"]["segments"]) == 4
    return chat


async def stored_status(chat: LessonChat) -> str:
    return (await chat.artefact.meta()).get("status", "")


async def test_a_wish_changes_the_narration_and_asks_for_approval_again(chat: LessonChat) -> None:
    before = await chat.narration()
    for send, words in ((chat.answer, "make the hook shorter"), (chat.send, "rewrite the conclusion")):
        question = pending_question(await send(words))
        assert question["type"] == "review_narration"
    after = await chat.narration()
    assert [new == old for old, new in zip(before.segments, after.segments, strict=True)] == [
        False,
        True,
        True,
        False,
    ]
    assert await stored_status(chat) == ""
    assert "__interrupt__" not in await chat.send("yes")
    assert await stored_status(chat) == "narration_verified"


async def test_a_choice_of_facts_can_be_changed_while_the_narration_waits_for_approval(
    chat: LessonChat, opened: Storage, lesson_model: LessonModel
) -> None:
    """B52: in the person's words, which the model reads."""
    lesson_model.script_choice(fact_ids=["1", "2"])
    lesson_model.script(Say("Is it right now?"))
    question = pending_question(await LessonChat(opened, OPENAI).send("leave out the third fact"))
    assert question["type"] == "review_narration"
    assert len((await chat.newest_data("confirmed"))["facts"]) == 2


async def test_a_narration_is_complete_without_approval_unless_the_request_wants_a_review(
    opened: Storage,
) -> None:
    """B-R16."""
    chat = LessonChat(opened)
    await chat.send(material("photosynthesis").text)
    assert "__interrupt__" not in await chat.answer("all")
