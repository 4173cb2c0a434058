"""Questions in words, from whatever a graph interrupts with."""

from typing import Any

import pytest

from callsheet.state import questions
from callsheet.state.approvals import PLAN_SCHEMA

PLAN = {
    "message": "2 steps wait for your approval",
    "action_requests": [{"name": "clear", "description": "Emptying the page"}, {"name": "add"}],
    "response_schema": PLAN_SCHEMA,
}
PAUSED = {"type": "paused", "executionId": "e-1", "message": "Go on?", "steps": ["Mixing"]}
CARD = {
    "action_requests": [{"name": "send", "description": "Send the mail?"}, "no card"],
    "effect": "It is sent",
}


@pytest.mark.parametrize(
    ("value", "kind", "sentence", "changes"),
    [
        ("How many?", "interrupt", "How many?", []),
        ([1, "two"], "interrupt", '[1, "two"]', []),
        (None, "interrupt", "null", []),
        ({"question": "Which one?"}, "interrupt", "Which one?", []),
        ({"title": "A title"}, "interrupt", "A title", []),
        ({"other": 1}, "interrupt", '{"other": 1}', []),
        ({"type": "paused"}, "interrupt", '{"type": "paused"}', []),
        ({"action_requests": 3, "message": "Go?"}, "interrupt", "Go?", []),
        (CARD, "interrupt", "Send the mail?", ["It is sent"]),
        (PLAN, "plan", "2 steps wait for your approval", ["Emptying the page", "add"]),
        ({**PLAN, "message": ""}, "plan", "Emptying the page; add", ["Emptying the page", "add"]),
        (PAUSED, "paused", "Go on?", ["Mixing"]),
    ],
)
def test_a_question_says_what_it_asks_and_what_a_yes_does(
    value: Any, kind: str, sentence: str, changes: list[str]
) -> None:
    assert questions.kind(value) == kind
    assert questions.sentence(value) == sentence
    assert questions.changes(value) == changes


@pytest.mark.parametrize(
    ("value", "choices", "schema"),
    [
        ("How many?", [], None),
        ({"choices": [1, 2]}, [1, 2], None),
        ({"choices": "many", "facts": [{"id": "f1"}]}, [{"id": "f1"}], None),
        ({"response_schema": {"type": "integer"}}, [], {"type": "integer"}),
        ({"response_schema": "integer"}, [], None),
    ],
)
def test_a_question_says_what_can_be_answered(value: Any, choices: list[Any], schema: Any) -> None:
    assert questions.choices(value) == choices
    assert questions.response_schema(value) == schema
