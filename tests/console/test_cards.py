"""Cards of conversations: titles and searched texts from typed data, and the words of plans."""

import pytest

from callsheet.state import questions
from callsheet.state.ads import ad
from callsheet.state.ads.ad import AdState
from callsheet.state.approvals import PLAN_SCHEMA, paused_sentence
from callsheet.state.cards import MAX_TITLE, Card, headline, search_words, shorten, texts
from callsheet.state.lessons import lesson
from callsheet.state.lessons.narration import reading_levels
from callsheet.state.pages import history
from callsheet.state.pages.page import Element, Page
from callsheet.state.plan_progress import outcome_sentence
from callsheet.state.video import project


def test_a_long_title_is_cut_at_a_word_and_a_sentence_is_enough() -> None:
    assert headline("Fresh bread.\nEvery day.") == "Fresh bread"
    assert headline(" ") == ""
    assert shorten("word " * 40).endswith("word…")
    assert shorten("x" * 200) == f"{'x' * (MAX_TITLE - 1)}…"
    assert texts("a", ["b", None, " "], 3) == ("a", "b")
    assert search_words(["Bread  at", "four", "four"], 12) == "bread at\nfou"


@pytest.mark.parametrize(
    ("brief", "title"),
    [
        ({"client": "Miel", "campaign": "Easter bread"}, "Miel: Easter bread"),
        ({"clientDescription": "Miel, a bakery. It opens at six."}, "Miel, a bakery"),
        ({"clientDescription": "Miel", "duration": "soon"}, ""),
        (None, ""),
    ],
)
def test_an_ad_is_called_as_its_brief_says(brief: object, title: str) -> None:
    """A brief that a client wrote wrongly into the state names nothing."""
    state: AdState = {"messages": [], "brief": brief}  # type: ignore[typeddict-item]
    assert ad.card(state, {}).title == title
    voices = {"voices": {"voiceTracks": [{"text": "Fresh bread."}]}}
    assert "Fresh bread." in ad.card(state, voices).texts


def test_lessons_pages_and_videos_are_called_by_their_names() -> None:
    assert lesson.card({}) == Card()
    assert lesson.card({"source": {"name": "moon.pdf"}}).title == "moon.pdf"
    facts = {"topic": "Tides", "facts": [{"concept": "Moon", "details": "It pulls."}]}
    student = {"child_age": "9", "years": 9}
    quiz = {"questions": [{"prompt": "What pulls?"}]}
    card = lesson.card({"facts": facts, "student": student, "quiz": quiz})
    assert card.title == "Tides"
    assert {"It pulls.", "What pulls?", "9"} <= {*card.texts}
    assert history.card(history.STARTER).title == ""
    assert history.card(Page(root=Element(id="page", type="page"))).title == ""
    assert project.card({}).title == ""
    order = {"scenes": ["scene-1", "scene-2"], "next": 3, "name": "Film"}
    scene = {"name": "One", "elements": [{"text": "Hello"}], "audio": {"description": "birds"}}
    film = project.card({"order": order, "scene-1": {"scene": scene}})
    assert film == Card("Film", ("One", "Hello", "birds"))


def test_plans_are_worded_with_numbers_counts_and_names() -> None:
    assert paused_sentence([]) == "The plan is paused, and 0 steps are pending."
    assert outcome_sentence([]) == ""
    ended = [("completed", "One"), ("completed", "Two"), ("blocked", "Three"), ("pending", "Four")]
    assert outcome_sentence(ended) == "2 steps done: One, Two; 1 not started: Three; 1 pending: Four."
    actions = [{"name": "edit", "description": "One"}, {"name": "edit", "description": "Two"}]
    plan = {"response_schema": PLAN_SCHEMA, "action_requests": actions, "message": "2 steps:\n1. O…\n2. T…"}
    assert questions.full_text(plan) == "2 steps:\n1. One\n2. Two"
    again = {**plan, "problem": "Say so.", "action_requests": [{"description": "Say so.\n\nOne"}, actions[1]]}
    assert questions.full_text(again) == "Say so.\n\n2 steps:\n1. One\n2. Two"
    assert questions.full_text({"message": "Go on?"}) == "Go on?"
    assert reading_levels("4.5", None) == "reading level: target grade 4.5, not measured"
