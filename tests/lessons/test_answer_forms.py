"""Forms of an answer to the choice of facts, and tool results as the model receives them (B42, B52, B53)."""

import json
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from callsheet.state.errors import Invalid
from callsheet.state.lessons import selection
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.outline import without_repetition

FACTS = [
    Fact(id=f"f-{name}", concept=name.title(), details=f"{name.title()} are part of the lesson.")
    for name in ("leaves", "roots")
]


def test_a_fact_is_chosen_by_its_concept_in_any_case():
    """B52."""
    assert selection.read(["LEAVES"], FACTS) == selection.ChosenFacts((FACTS[0],))


@pytest.mark.parametrize(
    "answer", [{"facts": True}, {"message": "1 and 2"}, {"text": "all"}, json.dumps({"ids": [1, 2]})]
)
def test_one_choice_is_read_from_several_forms(answer: Any):
    """B52."""
    assert selection.read(answer, FACTS) == selection.ChosenFacts(tuple(FACTS))


def test_text_that_is_not_valid_json_is_no_choice():
    """B54: it is passed to the model."""
    assert selection.read("{1 and 2", FACTS) == selection.NotAFactChoice("{1 and 2")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (1.5, "chooses no facts"),
        ({"nothing": 1}, "chooses no facts"),
        ([["f-leaves"]], "chooses no facts"),
        (["stems"], "there is no fact 'stems'"),
        (
            [{"concept": f"Own {n}", "details": f"Own detail {n}."} for n in range(selection.MAX_CHOSEN + 1)],
            "choose fewer",
        ),
    ],
)
def test_an_answer_that_chooses_no_fact_or_too_many_is_refused_with_a_remedy(answer: Any, reason: str):
    """B53."""
    with pytest.raises(Invalid) as error:
        selection.read(answer, FACTS)
    assert reason in f"{error.value.message} {error.value.remedy}"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        ({"id": "f-leaves"}, "gives no concept or details"),
        ({"id": "f-roots", "details": "Roots drink."}, "is not chosen"),
    ],
)
def test_an_edit_without_changes_or_of_a_fact_that_is_not_chosen_is_refused(
    edit: dict[str, str], reason: str
):
    """B52."""
    with pytest.raises(Invalid, match=reason):
        selection.chosen_facts(["f-leaves"], [edit], FACTS)


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"error": "no"}'])
def test_a_tool_result_that_is_not_ours_is_sent_unchanged(text: str):
    """B42: a client may have replaced it."""
    message = ToolMessage(text, name="extractFactsTool", tool_call_id="c")
    assert without_repetition(message) is message


def test_a_tool_result_is_sent_without_its_narration_and_quotes():
    """B42, A66: the state block has the narration, and only people need the quotes."""
    output = {"narration": {"segments": []}, "facts": [FACTS[0].model_dump()], "message": "done"}
    message = ToolMessage(json.dumps(output), name="generateNarrationTool", tool_call_id="c")
    short = {"id": "f-leaves", "concept": "Leaves", "details": FACTS[0].details}
    assert json.loads(without_repetition(message).text) == {"facts": [short], "message": "done"}
