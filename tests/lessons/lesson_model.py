"""A model of lessons: its calls and texts are scripted, and the offline rules fill in its forms."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from callsheet.providers.offline.lessons.facts import sheet
from callsheet.providers.offline.lessons.script import script
from tests.doubles.chat_double import ChatDouble, Recorded, Reply, Say

OPENAI = {"provider": "openai"}


class LessonModel(ChatDouble):
    """The vendor's endpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.fact_requests: list[dict[str, Any]] = []
        self.fact_sheet_fields: dict[str, Any] = {}
        """Fields of every sheet of facts that replace the offline ones."""
        self.narration_requests: list[dict[str, Any]] = []
        self.scripted_narrations: list[dict[str, Any]] = []
        """Narrations to answer with, before the offline ones."""
        self.quiz_requests: list[list[dict[str, Any]]] = []
        """The messages of each request for a quiz."""
        self.scripted_quizzes: list[dict[str, Any]] = []

    def next_reply(self, request: Recorded) -> Reply:
        names = {tool["function"]["name"] for tool in request.body.get("tools", ())}
        if "FactSheet" in names:
            self.fact_requests.append(_form_input(request))
            return _form("FactSheet", sheet(self.fact_requests[-1]) | self.fact_sheet_fields)
        if "NarrationScript" in names:
            self.narration_requests.append(_form_input(request))
            scripted = self.scripted_narrations
            return _form(
                "NarrationScript", scripted.pop(0) if scripted else script(self.narration_requests[-1])
            )
        if "QuizSheet" in names:
            self.quiz_requests.append([*request.messages])
            return _form("QuizSheet", self.scripted_quizzes.pop(0))
        if "SentenceRepairs" in names:
            return _form("SentenceRepairs", {"sentences": []})
        return super().next_reply(request)

    def script_narration(self, **sentences: list[tuple[str, list[str]]]) -> None:
        """Answer the next request for a narration with these sentences and their facts, by segment."""
        fixed = {"visual_guidance": "Show it.", "key_concepts": ["water"], "educational_purpose": "Learn."}
        segments = [
            {"type": kind, "sentences": [{"text": text, "factIds": ids} for text, ids in pairs], **fixed}
            for kind, pairs in sentences.items()
        ]
        self.scripted_narrations.append({"segments": segments})

    def script_choice(self, **args: Any) -> None:
        """Answer the next request with a call that records a choice of facts."""
        self.script(Say(calls=[("call_choose", "chooseFactsTool", json.dumps(args))]))


@pytest.fixture
def lesson_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[LessonModel]:
    with LessonModel() as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        yield double


def _form_input(request: Recorded) -> dict[str, Any]:
    form_input: dict[str, Any] = json.loads(request.messages[1]["content"])
    return form_input


def _form(name: str, fields: dict[str, Any]) -> Say:
    return Say(calls=[("call_form", name, json.dumps(fields))])
