"""The evaluation of lessons: wrong answers are caught."""

from typing import Any

import pytest

from callsheet.state.lessons.facts import new_fact
from callsheet.state.lessons.narration import DEFAULT_S, Narration, Sentence, build_segment, slots
from evals import lessons
from evals.lessons import EvaluatedLesson
from evals.tasks import Task
from evals.turns import EvalTurn
from tests.models.evaluated import failing_checks, recorded_answers

LESSONS = "fact_narration"
FALSE = {
    "number": ("Leaves have 500 tiny holes that let air in.", "says 500"),
    "name": ("Leaves have tiny holes, as Newton saw.", "says Newton"),
    "date": ("Leaves have tiny holes since 12 March 1850.", "12, 1850, March"),
    "claim": ("Trees are kind to everybody who visits.", "says nothing of the facts"),
}
"""Sentences that the fact about leaves does not prove."""


@pytest.mark.parametrize("kind", [*FALSE])
async def test_a_false_sentence_that_a_model_wrote_is_caught(valkey_url: str, kind: str) -> None:
    """B22: the product leaves the sentence out with a note, but the model wrote it."""
    false_text, problem = FALSE[kind]
    answers = recorded_answers(LESSONS, "choice-number-12")
    script = answers[1]["fills"]["segments"]
    sentence = next(
        one for segment in script for one in segment["sentences"] if one["text"].startswith("Leaves")
    )
    sentence["text"] = false_text
    repair = {"index": 0, "text": false_text, "factIds": sentence["factIds"]}
    # A draft that does not tell a fact is asked for once more.
    answers += [answers[1]] if kind == "claim" else []
    answers.append({"form": "SentenceRepairs", "fills": {"sentences": [repair]}})
    wrong = (await failing_checks(valkey_url, LESSONS, "choice-number-12", answers))["proven"]
    # A sentence that says nothing of its fact is no proof of it.
    assert kind == "claim" or problem in wrong
    assert "“Leaves” is not told" in wrong


@pytest.mark.parametrize("kind", [*FALSE])
def test_a_false_sentence_in_a_stored_narration_is_caught(kind: str) -> None:
    """B22: no matter who wrote the sentence."""
    false_text, problem = FALSE[kind]
    assert problem in lessons.proven(expected=True, turn=turn_with_sentence(false_text))
    assert (
        lessons.proven(expected=True, turn=turn_with_sentence("Leaves have tiny holes that let air in."))
        == ""
    )


def turn_with_sentence(text: str) -> EvalTurn[EvaluatedLesson]:
    """Return a turn whose narration has this sentence about leaves."""
    fact = new_fact("Leaves", "Leaves have tiny holes that let air in.")
    true = Sentence(text="Tiny holes in leaves let air in.", factIds=(fact.id,))
    script = [[true], [Sentence(text=text, factIds=(fact.id,))], [], []]
    segments = tuple(
        build_segment(slot, sentences, "english")
        for slot, sentences in zip(slots(DEFAULT_S, "english"), script, strict=True)
    )
    narration = Narration(
        total_duration=DEFAULT_S,
        reading_level="4.5",
        key_terms_count=0,
        segments=segments,
        topic="leaves",
        language="english",
    )
    data: dict[str, Any] = {
        "confirmed": {"facts": [fact.model_dump()]},
        "narration": narration.model_dump(mode="json"),
    }
    shown = EvaluatedLesson(data, {})
    task = Task(LESSONS, "stored", [], {})
    return EvalTurn(task, {}, [], shown, shown, {}, "", [], [])


async def test_another_choice_than_the_teachers_is_caught(valkey_url: str) -> None:
    """B52: "looks good but drop caffeine" chooses all facts except that one."""
    answers = recorded_answers(LESSONS, "choice-drop-1")
    answers[0]["calls"][0][1]["fact_ids"].pop()
    assert "chosen_facts" in await failing_checks(valkey_url, LESSONS, "choice-drop-1", answers)


async def test_an_invented_quote_is_caught(valkey_url: str) -> None:
    """B6: a fact needs a passage of the material."""
    answers = recorded_answers(LESSONS, "material-11")
    for fact in answers[1]["fills"]["facts"]:
        fact["quote"] = "Cats are the best animals in the world."
    answers += [answers[1], {"text": "I found no fact that the text proves."}]
    assert "facts_min" in await failing_checks(valkey_url, LESSONS, "material-11", answers)


async def test_a_change_of_another_segment_is_caught(valkey_url: str) -> None:
    answers = recorded_answers(LESSONS, "edit-10")
    answers[0]["calls"][0][1]["segments"] = ["hook", "conclusion"]
    hook = answers[1]["fills"]["segments"][0]
    answers[1]["fills"]["segments"].append({**hook, "type": "conclusion"})
    assert "segments" in await failing_checks(valkey_url, LESSONS, "edit-10", answers)
