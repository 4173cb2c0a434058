"""A lesson's status and its session (B8, B17, B38, B41, B44-B49, B-R15)."""

import pytest
from pydantic import ValidationError

from callsheet.state.errors import Conflict
from callsheet.state.lessons.lesson import (
    STREAMS,
    check_version,
    editable,
    next_status,
    session,
    status,
    step,
    summary,
)
from callsheet.state.versions import Version
from tests.lessons.test_narration import told


def version(stream, data=None, ms=1_000):
    return Version(
        id="v1", stream=stream, data=data or {}, created_ms=ms, created_by="llm", parent=None, batch="r"
    )


@pytest.mark.parametrize(
    ("made", "now"),
    [
        ([], "created"),
        (["student"], "created"),
        (["student", "source"], "created"),
        (["facts"], "facts_extracted"),
        (["facts", "confirmed"], "facts_confirmed"),
        (["facts", "confirmed", "narration"], "script_generated"),
        (["narration", "facts"], "facts_extracted"),
    ],
)
def test_a_status_follows_from_the_newest_version(made, now):
    """B8, B17."""
    assert status({name: version(name, ms=i) for i, name in enumerate(made)}) == now


def test_versions_of_one_moment_count_in_the_order_of_a_lesson():
    assert status({name: version(name) for name in ("narration", "facts", "confirmed")}) == "script_generated"


def test_a_status_that_no_stream_tells_is_kept():
    assert status({"narration": version("narration")}, "completed") == "completed"
    assert status({}, "failed") == "failed"


@pytest.mark.parametrize(
    ("now", "to"),
    [
        ("created", "facts_extracted"),
        ("facts_extracted", "facts_confirmed"),
        ("facts_confirmed", "script_generated"),
        ("script_generated", "narration_verified"),
        ("script_generated", "script_generated"),
        ("script_generated", "facts_extracted"),
        ("narration_verified", "video_queued"),
        ("video_queued", "completed"),
        ("failed", "facts_extracted"),
    ],
)
def test_a_lesson_goes_forward_and_back_where_it_may(now, to):
    """B44, B-R15."""
    assert next_status(now, to) == to


@pytest.mark.parametrize(
    ("now", "to"),
    [
        ("created", "completed"),
        ("facts_extracted", "video_queued"),
        ("completed", "created"),
        ("completed", "script_generated"),
        ("video_queued", "facts_extracted"),
    ],
)
def test_a_lesson_goes_nowhere_else(now, to):
    """B44."""
    with pytest.raises(Conflict, match=rf"'{now}' cannot become '{to}'"):
        next_status(now, to)


@pytest.mark.parametrize(
    ("now", "streams"),
    [
        ("created", set()),
        ("facts_extracted", {"facts", "confirmed"}),
        ("script_generated", {"narration"}),
        ("completed", set()),
    ],
)
def test_facts_and_script_are_edited_in_their_own_time(now, streams):
    """B44."""
    assert editable(now) == streams


@pytest.mark.parametrize(
    ("now", "next_step"),
    [
        ("created", "input"),
        ("failed", "input"),
        ("facts_extracted", "selection"),
        ("script_generated", "review"),
    ],
)
def test_a_lesson_opens_where_it_was_left(now, next_step):
    """B45, B46, B47, B48, B49."""
    assert step(now) == next_step
    assert step(now, "select_facts") == "selection"
    assert step(now, "review_narration") == step(now, "select_images") == "review"


def test_a_new_lesson_has_nothing_of_another():
    """B68."""
    fresh = session("l", "o", dict.fromkeys(STREAMS), {"createdAt": "2026-01-01T00:00:00.000Z"})
    assert fresh.model_dump(exclude={"id", "userId", "createdAt", "updatedAt"}) == {
        "status": "created",
        "topic": None,
        "childAge": None,
        "childInterest": None,
        "learningObjective": None,
        "extractedFacts": [],
        "confirmedFacts": [],
        "generatedScript": None,
        "sourceMaterials": {"text": None, "pdfUrl": None},
    }


def test_a_session_shows_every_stream_in_its_place():
    """B38, B41."""
    fact = {"id": "a", "concept": "Wick", "details": "It burns.", "confidence": 0.5}
    other = fact | {"id": "b"}
    newest = {
        "student": version("student", {"child_age": "7", "child_interest": "soccer"}, 1),
        "source": version("source", {"text": "It burns."}, 2),
        "facts": version(
            "facts", {"facts": [fact, other], "topic": "Candles", "learningObjective": "Know."}, 3
        ),
        "confirmed": version("confirmed", {"facts": [fact]}, 4),
        "narration": version("narration", told(hook=["a"]).model_dump(), 5),
    }
    shown = session("l", "o", newest, {})
    assert (shown.status, shown.topic, shown.childAge) == ("script_generated", "Candles", "7")
    assert [one.id for one in shown.extractedFacts] == ["a", "b"]
    assert [one.id for one in shown.confirmedFacts] == ["a"]
    assert shown.generatedScript is not None
    assert shown.generatedScript.facts == {"a"}
    assert shown.sourceMaterials.text == "It burns."
    assert shown.createdAt < shown.updatedAt


@pytest.mark.parametrize(
    ("stream", "data", "line"),
    [
        ("student", {"child_age": "10", "child_interest": None}, "10"),
        ("source", {"name": "moon.txt"}, "moon.txt"),
        ("narration", {"total_duration": 60, "topic": "The Moon"}, "60 s about The Moon"),
        ("confirmed", {"facts": [{"concept": "Tides"}, {"concept": "Craters"}]}, "Tides, Craters"),
    ],
)
def test_a_version_is_told_in_one_line(stream, data, line):
    assert summary(stream, data) == line


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        ("student", {"child_age": ["10"]}),
        ("source", {"name": "moon.txt"}),
        ("facts", {"facts": []}),
        ("confirmed", {"facts": [{"concept": "Tides"}]}),
        ("narration", {}),
    ],
)
def test_what_no_lesson_can_hold_is_refused(stream, data):
    with pytest.raises(ValidationError):
        check_version(stream, data)
