"""A lesson model: what it calls and says is scripted, and its forms are filled in by the offline rules."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from callsheet.providers.offline.lessons.facts import sheet
from callsheet.providers.offline.lessons.script import script
from tests.doubles.chat_double import ChatDouble, Recorded, Reply, Say

OPENAI = {"provider": "openai"}


class LessonModel(ChatDouble):
    """The endpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.sheets: list[dict[str, Any]] = []
        """Requests for facts."""
        self.on_sheets: dict[str, Any] = {}
        """Fields of every sheet of facts that replace the offline ones."""
        self.scripts: list[dict[str, Any]] = []
        """Requests for narrations."""
        self.written: list[dict[str, Any]] = []
        """Narrations to answer with, before the offline ones."""

    def next_reply(self, request: Recorded) -> Reply:
        names = {tool["function"]["name"] for tool in request.body.get("tools", ())}
        if "FactSheet" in names:
            self.sheets.append(_material(request))
            return _form("FactSheet", sheet(self.sheets[-1]) | self.on_sheets)
        if "NarrationScript" in names:
            self.scripts.append(_material(request))
            return _form("NarrationScript", self.written.pop(0) if self.written else script(self.scripts[-1]))
        if "SentenceRepairs" in names:
            return _form("SentenceRepairs", {"sentences": []})
        return super().next_reply(request)

    def narrate(self, **sentences: list[tuple[str, list[str]]]) -> None:
        """Answer the next request for a narration with these sentences and their facts, by segment."""
        fixed = {"visual_guidance": "Show it.", "key_concepts": ["water"], "educational_purpose": "Learn."}
        segments = [
            {"type": kind, "sentences": [{"text": text, "factIds": ids} for text, ids in each], **fixed}
            for kind, each in sentences.items()
        ]
        self.written.append({"segments": segments})

    def choose(self, **args: Any) -> None:
        """Record a choice with the next answer."""
        self.script(Say(calls=[("call_choose", "chooseFactsTool", json.dumps(args))]))


@pytest.fixture
def lesson_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[LessonModel]:
    with LessonModel() as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        yield double


def _material(request: Recorded) -> dict[str, Any]:
    given: dict[str, Any] = json.loads(request.messages[1]["content"])
    return given


def _form(name: str, filled: dict[str, Any]) -> Say:
    return Say(calls=[("call_form", name, json.dumps(filled))])
