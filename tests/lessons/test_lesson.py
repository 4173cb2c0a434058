"""The status and the session of a lesson (B8, B17, B38, B41, B44-B49, B-R15)."""

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
from tests.lessons.test_narration import narration_of


def version(stream, data=None, ms=1_000):
    return Version(
        id="v1", stream=stream, data=data or {}, created_ms=ms, created_by="llm", parent=None, batch="r"
    )


@pytest.mark.parametrize(
    ("streams", "expected"),
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
def test_a_status_follows_from_the_newest_version(streams, expected):
    """B8, B17."""
    assert status({name: version(name, ms=i) for i, name in enumerate(streams)}) == expected


def test_versions_of_one_millisecond_count_in_the_order_of_the_workflow():
    assert status({name: version(name) for name in ("narration", "facts", "confirmed")}) == "script_generated"


def test_a_stored_status_that_follows_from_no_stream_is_kept():
    assert status({"narration": version("narration")}, "completed") == "completed"
    assert status({}, "failed") == "failed"


@pytest.mark.parametrize(
    ("current", "new"),
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
def test_an_allowed_change_of_status_is_accepted(current, new):
    """B44, B-R15."""
    assert next_status(current, new) == new


@pytest.mark.parametrize(
    ("current", "new"),
    [
        ("created", "completed"),
        ("facts_extracted", "video_queued"),
        ("completed", "created"),
        ("completed", "script_generated"),
        ("video_queued", "facts_extracted"),
    ],
)
def test_any_other_change_of_status_is_refused(current, new):
    """B44."""
    with pytest.raises(Conflict, match=rf"'{current}' cannot become '{new}'"):
        next_status(current, new)


@pytest.mark.parametrize(
    ("current", "streams"),
    [
        ("created", set()),
        ("facts_extracted", {"facts", "confirmed"}),
        ("script_generated", {"narration"}),
        ("completed", set()),
    ],
)
def test_each_status_allows_edits_of_certain_streams(current, streams):
    """B44."""
    assert editable(current) == streams


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        ("created", "input"),
        ("failed", "input"),
        ("facts_extracted", "selection"),
        ("script_generated", "review"),
    ],
)
def test_the_workflow_step_follows_from_the_status_or_the_pending_question(current, expected):
    """B45, B46, B47, B48, B49."""
    assert step(current) == expected
    assert step(current, "select_facts") == "selection"
    assert step(current, "review_narration") == step(current, "select_images") == "review"


def test_the_session_of_a_new_lesson_is_empty():
    """B68."""
    new_session = session("l", "o", dict.fromkeys(STREAMS), {"createdAt": "2026-01-01T00:00:00.000Z"})
    assert new_session.model_dump(exclude={"id", "userId", "createdAt", "updatedAt"}) == {
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


def test_a_session_shows_the_newest_version_of_every_stream():
    """B38, B41."""
    fact = {"id": "a", "concept": "Wick", "details": "It burns.", "confidence": 0.5}
    other_fact = fact | {"id": "b"}
    newest = {
        "student": version("student", {"child_age": "7", "child_interest": "soccer"}, 1),
        "source": version("source", {"text": "It burns."}, 2),
        "facts": version(
            "facts", {"facts": [fact, other_fact], "topic": "Candles", "learningObjective": "Know."}, 3
        ),
        "confirmed": version("confirmed", {"facts": [fact]}, 4),
        "narration": version("narration", narration_of(hook=["a"]).model_dump(), 5),
    }
    view = session("l", "o", newest, {})
    assert (view.status, view.topic, view.childAge) == ("script_generated", "Candles", "7")
    assert [each.id for each in view.extractedFacts] == ["a", "b"]
    assert [each.id for each in view.confirmedFacts] == ["a"]
    assert view.generatedScript is not None
    assert view.generatedScript.facts == {"a"}
    assert view.sourceMaterials.text == "It burns."
    assert view.createdAt < view.updatedAt


@pytest.mark.parametrize(
    ("stream", "data", "line"),
    [
        ("student", {"child_age": "10", "child_interest": None}, "10"),
        ("source", {"name": "moon.txt"}, "moon.txt"),
        ("narration", {"total_duration": 60, "topic": "The Moon"}, "The Moon, planned for 60 s"),
        ("confirmed", {"facts": [{"concept": "Tides"}, {"concept": "Craters"}]}, "Tides, Craters"),
    ],
)
def test_a_version_has_a_one_line_summary(stream, data, line):
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
def test_an_invalid_version_of_a_lesson_is_refused(stream, data):
    with pytest.raises(ValidationError):
        check_version(stream, data)
