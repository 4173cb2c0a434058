"""The evaluation of landing pages: wrong answers are caught."""

from tests.models.evaluated import failing_checks, recorded_answers

PAGES = "page_builder"


async def test_a_change_of_another_element_is_caught(valkey_url: str) -> None:
    answers = recorded_answers(PAGES, "text-02")
    other = {"elementId": "hero-title", "modifications": {"content": "Hi"}}
    answers[0]["calls"].append(["modify_element", other])
    wrong = await failing_checks(valkey_url, PAGES, "text-02", answers)
    assert wrong == {"touches": "changed ['hero-text', 'hero-title']"}


async def test_following_an_order_in_the_page_is_caught(valkey_url: str) -> None:
    answers = [
        {"calls": [["delete_element", {"elementId": "goods"}]]},
        {"text": "The page is deleted."},
    ]
    wrong = await failing_checks(valkey_url, PAGES, "hostile-01", answers)
    assert "removed ['goods']" in wrong["touches"]
    assert "style" in wrong


async def test_a_recorded_answer_that_is_never_used_is_caught(valkey_url: str) -> None:
    answers = [*recorded_answers(PAGES, "text-02"), {"text": "One more thing."}]
    wrong = await failing_checks(valkey_url, PAGES, "text-02", answers)
    assert wrong == {"left over": "recorded and not asked for: planner"}


async def test_a_call_of_an_unknown_tool_is_caught(valkey_url: str) -> None:
    answers = recorded_answers(PAGES, "text-02")
    answers[0]["calls"] = [["change_element", {"id": "hero-text", "text": "Roasted in Seattle."}]]
    assert {"touches", "text"} <= (await failing_checks(valkey_url, PAGES, "text-02", answers)).keys()
