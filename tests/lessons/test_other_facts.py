"""Other facts of a material are offered beside those that were found before, and never the same twice."""

import json
from io import StringIO
from typing import Any, Final

import pytest
from rich.console import Console

from callsheet.graphs import fact_narration
from callsheet.providers.offline.lessons.facts import sentences
from callsheet.server.cli.rendering import lesson_parts, question_parts
from callsheet.state.lessons.facts import new_fact, not_offered
from callsheet.storage import Storage
from tests.doubles.chat_double import Say
from tests.lessons.lesson_chat import LessonChat, pending_question
from tests.lessons.lesson_client import LessonClient
from tests.lessons.lesson_material import material
from tests.lessons.lesson_model import lesson_model

__all__ = ["lesson_model"]

GRAPHS = {"fact_narration": fact_narration.graph}
OTHERS: dict[str, Any] = {"decisions": [{"type": "reject", "message": ""}]}


@pytest.fixture
def chat(opened: Storage) -> LessonChat:
    return LessonChat(opened)


def ids(facts: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in facts]


def shown(parts: Any) -> str:
    """Return what a terminal shows of these parts."""
    file = StringIO()
    for part in parts:
        Console(file=file, width=200).print(part)
    return file.getvalue()


async def test_other_facts_join_the_earlier_ones_and_the_choice_stays(lesson_client: LessonClient) -> None:
    """B54: in the reply, in words, in a session and in a terminal, under one row of numbers."""
    first = await lesson_client.send(material("struggle_for_existence").text)
    chosen = ids(first["facts"])[:2]
    await lesson_client.choose_facts(*chosen)
    await lesson_client.send("Choose the facts again")
    reply = await lesson_client.send("", **OTHERS)
    question = reply["interrupt"]["value"]
    assert ids(question["earlierFacts"]) == ids(first["facts"])
    count = len(question["facts"]) + len(first["facts"])
    assert [one["number"] for one in (*question["facts"], *question["earlierFacts"])] == [
        *range(1, count + 1)
    ]
    assert question["chosenFacts"] == chosen
    session = await lesson_client.get_session()
    assert (ids(session["facts"]), ids(session["earlierFacts"])) == (
        ids(question["facts"]),
        ids(first["facts"]),
    )
    assert f"✓ {len(question['facts']) + 1} " in shown(question_parts(question))
    assert f"2 of {count} chosen" in shown(lesson_parts(session))
    answer = await lesson_client.send(f"1 and {count}")
    assert ids(answer["confirmedFacts"]) == [question["facts"][0]["id"], first["facts"][-1]["id"]]


async def test_the_question_in_words_has_the_earlier_facts_with_their_numbers(chat: LessonChat) -> None:
    first = pending_question(await chat.send(material("struggle_for_existence").text))
    state = await chat.answer(OTHERS)
    second, words = pending_question(state), state["messages"][-1].text
    number = len(second["facts"]) + 1
    assert f"\n\n{number}. {first['facts'][0]['concept']}: {first['facts'][0]['details']}\n" in words
    assert '"all" for the new ones' in words
    await chat.answer("all")
    assert (await chat.narration()).facts <= set(ids(second["facts"]))


SALT: Final = (
    "Salt\n\nSalt is a mineral of sodium and chlorine. Sea water has about 35 grams of salt in a litre. "
    "Only 6 % of it is eaten. Salt keeps food from spoiling. Roman soldiers were paid partly in salt. "
    "Salt melts at 801 degrees. Salt lakes are found on every continent. Most salt comes from China. "
    "The largest salt mine of the world is in Canada. Salt makes ice melt at a lower temperature. "
    "Camels need more salt than cows. The word salary comes from salt. Black salt smells of eggs. "
    "Salt from the sea is harvested in summer. Pink salt comes from Pakistan."
)


def extract_call(**args: Any) -> Say:
    """Return a reply of the model that calls the tool for facts."""
    return Say(calls=[("call_find", "extractFactsTool", json.dumps(args))])


PLANTS: Final = (
    "Plants make their own food from light, water and air. Leaves take in carbon dioxide through tiny "
    "holes called stomata. Roots take up 2 litres of water from the soil each day. Chlorophyll gives "
    "the leaves their green colour. Sunlight gives the plant the energy that it needs. Oxygen leaves "
    "the plant through the stomata. Seeds hold 3 parts: a coat, a store of food and a tiny plant. "
    "Flowers draw bees, which carry pollen from plant to plant. Bark keeps a tree from drying out. Some "
    "trees live for more than 1000 years. Cactuses store water in their stems. Moss has no roots and "
    "grows on stones. Ferns grow from spores and not from seeds. Grass grows from its base, so it "
    "survives cutting."
)


@pytest.mark.parametrize("text", ["salt", "plants"])
async def test_a_sentence_of_an_offered_passage_is_not_offered_as_another_fact(
    lesson_client: LessonClient, text: str
) -> None:
    """B54: nor as a part of one."""
    first = await lesson_client.send({"salt": SALT, "plants": PLANTS}[text])
    reply = await lesson_client.send("", **OTHERS)
    others = [one["details"] for one in reply["interrupt"]["value"]["facts"]]
    assert others
    offered = {one for fact in first["facts"] for one in sentences(fact["details"])}
    assert offered.isdisjoint(one for details in others for one in sentences(details))


async def test_a_lesson_with_other_facts_is_about_what_it_was_about(lesson_client: LessonClient) -> None:
    """B54: the sentence that names the subject was offered. Four other facts are not too few for a lesson."""
    first = await lesson_client.send(PLANTS)
    reply = await lesson_client.send("", **OTHERS)
    question = reply["interrupt"]["value"]
    assert (len(question["facts"]), question["warnings"]) == (4, [])
    session = await lesson_client.get_session()
    assert (question["topic"], session["topic"]) == (first["topic"], first["topic"])
    assert session["learningObjective"] == first["learningObjective"]


@pytest.mark.parametrize(
    ("passage", "is_other"),
    [
        ("Only 6 % of it is eaten.12", False),
        ("Only 6 % of it is eaten [4].", False),
        ("only 6 % of it is eaten", False),
        ("Only 6.4 % of it is eaten.", True),
        ("Only 6 % of it is eaten, and the factories of the world take the rest.", True),
    ],
)
def test_a_footnote_makes_no_other_statement_of_a_sentence(passage: str, *, is_other: bool) -> None:
    """B54: nor do case and signs."""
    fact = new_fact("Salt", passage)
    assert not_offered([fact], ["Most salt is not food. Only 6 % of it is eaten."]) == ((fact,) * is_other)


@pytest.mark.parametrize("is_message", [True, False])
async def test_the_question_says_that_there_are_no_other_facts_and_the_wish_is_in_the_conversation(
    chat: LessonChat, *, is_message: bool
) -> None:
    """B54: a person who answers the form sees neither steps nor the model's words."""
    await chat.send(
        "My student is 10. Plants make their own food. Leaves take in carbon dioxide through tiny holes "
        "called stomata. Roots take up water from the soil."
    )
    wish = "more about the roots"
    rejection = {"decisions": [{"type": "reject", "message": wish}]}
    state = await (chat.send(wish) if is_message else chat.answer(rejection))
    assert (
        "has no other facts about that. Choose from the proposed ones" in pending_question(state)["problem"]
    )
    assert any(one.type == "human" and one.text == wish for one in state["messages"])
