"""A session for each workflow that plays one sentence over REST, and says what changed and what was said."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from callsheet.state.pages.history import STARTER
from tests.doubles.waiting import eventually
from tests.lessons.lesson_client import TOOLS, LessonClient, user
from tests.lessons.lesson_material import material

FILE = Path(__file__).with_name("offline_sentences.jsonl")
"""A sentence on each line, with what it must change (`did`), what is said, and what is named as unknown."""
_BIKES = (
    "20 seconds for Harbour Bikes, e-bikes by the hour in Porto. First hour free until 30 June. "
    "harbourbikes.example"
)
State = Mapping[str, Any]
JSON = dict[str, Any]


def read_rows(workflow: str) -> list[JSON]:
    """The sentences of a workflow."""
    rows = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["workflow"] == workflow]


def changes(before: State, after: State) -> JSON:
    """Return what is different, by its name; None is gone, or empty."""
    names = dict.fromkeys([*before, *after])
    pairs = {name: (before.get(name) or None, after.get(name) or None) for name in names}
    return {name: new for name, (old, new) in pairs.items() if old != new}


class Sentences(ABC):
    """Something that sentences are about; it is made anew once a sentence has changed it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.id = ""
        self.number = 0
        self.ready: str | None = None

    async def play(self, row: JSON) -> tuple[str, JSON]:
        """The reply to a row's sentence, and what it has changed."""
        setup = str(row.get("setup", ""))
        if self.ready != setup or row.get("alone"):
            self.number += 1
            self.id = f"talk-{self.number}"
            await self.begin(setup)
        before = await self.state()
        text = await self.say(str(row["say"]))
        done = changes(before, await self.state())
        self.ready = setup if not done and self.lasts else None
        return text, done

    lasts = True
    """True if a sentence that changes nothing leaves no trace, such as a conversation that goes on."""

    async def begin(self, setup: str) -> None:  # noqa: B027 -- some sentences need nothing
        """Make what the sentence is about."""

    @abstractmethod
    async def say(self, text: str) -> str:
        """The reply to a message; every approval is given."""

    @abstractmethod
    async def state(self) -> State:
        """Return its state by names."""

    async def post(self, path: str, **body: Any) -> JSON:
        """The body of a reply that must succeed."""
        reply = await self.http.post(path, json={"provider": "offline", **body})
        assert reply.is_success, reply.text
        answer: JSON = reply.json()
        return answer

    async def get(self, path: str) -> JSON:
        """The body of a reply; empty for one that is not there."""
        reply = await self.http.get(path)
        answer: JSON = reply.json() if reply.is_success else {}
        return answer


class AdSentences(Sentences):
    """An ad; the setup is its brief, or nothing for a first message."""

    async def begin(self, setup: str) -> None:
        if setup:
            await self.post("/api/ai/generate", adId=self.id, brief=_BIKES)

    async def say(self, text: str) -> str:
        if await self.state():
            return str((await self.post(f"/api/ads/{self.id}/chat", message=text))["message"])
        return str((await self.post("/api/ai/generate", adId=self.id, brief=text))["message"])

    async def state(self) -> State:
        streams = (await self.get(f"/api/ads/{self.id}")).get("streams", {})
        newest = {name: one["newest"]["data"] for name, one in streams.items() if one.get("newest")}
        state = {f"{name} versions": one["count"] for name, one in streams.items() if one["count"]}
        for at, track in enumerate(newest.get("voices", {}).get("voiceTracks", ()), 1):
            state |= {f"voice {at} {key}": track[key] for key in ("text", "voiceId", "speed")}
        effects = newest.get("sfx", {}).get("soundFxPrompts", ())
        state["effects"] = [f"{one['description']}, {one['placement']['type']}" for one in effects]
        state["music"] = newest.get("music", {}).get("musicPrompt")
        return state if newest else {}


class LessonSentences(Sentences):
    """A lesson; the setup is `facts` with a choice pending, `narrated`, or nothing."""

    # Facts, choices and interests are in the conversation.
    lasts = False

    async def begin(self, setup: str) -> None:
        self.client = LessonClient(self.http)
        if setup:
            await self.client.send(material("honeybees").text)
        if setup == "narrated":
            await self.client.send("1 and 2")
        self.reply: JSON = {}

    async def say(self, text: str) -> str:
        text = text.replace("{material}", material("honeybees").text.strip())
        reply = await self.client.post(TOOLS, messages=user(text))
        assert reply.is_success, reply.text
        return str(reply.json()["message"])

    async def state(self) -> State:
        if self.client.session_id is None:
            return {}
        session = await self.client.get_session()
        narration = session.get("narration") or {}
        return {
            "facts": [one["concept"] for one in session.get("facts") or ()],
            "chosen": [one["concept"] for one in session.get("confirmedFacts") or ()],
            "age": session["childAge"],
            "likes": session["childInterest"],
            "seconds": narration.get("total_duration"),
            **{one["type"]: one["narration"] for one in narration.get("segments", ())},
        }


class PageSentences(Sentences):
    """The starter page."""

    async def say(self, text: str) -> str:
        reply = await self.post(f"/api/pages/{self.id}/chat", message=text)
        while reply["question"]:
            approvals = [{"type": "approve"}]
            reply = await self.post(f"/api/pages/{self.id}/decisions", decisions=approvals)
        return str(reply["message"])

    async def state(self) -> State:
        page = await self.get(f"/api/pages/{self.id}")
        page = page.get("page") or (page if "root" in page else STARTER.data())
        return {"theme": dict(page["theme"]), **dict(_elements(page["root"]))}


def _elements(node: JSON) -> Iterator[tuple[str, Any]]:
    name, children = node["id"], node.get("children") or ()
    yield f"{name} holds", [one["id"] for one in children]
    yield f"{name} content", node.get("content")
    for key, value in {**(node.get("style") or {}), **(node.get("attributes") or {})}.items():
        yield f"{name} {key}", value
    for child in children:
        yield from _elements(child)


class VideoSentences(Sentences):
    """A project of the four scenes of app-promo."""

    async def begin(self, setup: str) -> None:
        created = await self.http.post("/api/projects", json={"id": self.id, "starter": "app-promo"})
        assert created.is_success, created.text

    async def say(self, text: str) -> str:
        started = await self.post(f"/api/projects/{self.id}/executions", message=text)
        execution = started["executionId"]
        # After a plan the thread is busy for a moment.
        self.lasts = execution is None
        if execution:
            await eventually(lambda: self._is_done(execution), "the end of the plan")
        return str(started["message"])

    async def _is_done(self, execution: str) -> bool:
        return bool((await self.get(f"/api/executions/{execution}"))["status"] == "completed")

    async def state(self) -> State:
        exported = await self.get(f"/api/projects/{self.id}/export")
        state: JSON = {"scenes": [one["name"] for one in exported["scenes"]]}
        for scene in exported["scenes"]:
            name = scene["name"]
            state[f"{name} frames"] = scene["durationInFrames"]
            state[f"{name} background"] = scene["background"]["color"]
            state[f"{name} texts"] = [one["text"] for one in scene["elements"] if one.get("text")]
        return state


class CampaignSentences(Sentences):
    """Questions about the sample library; the setup is the question before."""

    lasts = False

    async def begin(self, setup: str) -> None:
        self.conversation: JSON = {}
        if setup:
            reply = await self.post("/api/chat", message=setup)
            self.conversation = {"conversationId": reply["conversationId"]}
        self.filters: JSON = {}

    async def say(self, text: str) -> str:
        reply = await self.post("/api/chat", message=text, **self.conversation)
        # The last 90 days are others tomorrow.
        self.filters = {name: values for name, values in reply["detectedFilters"].items() if values}
        if self.filters.pop("date_range", None):
            return "recent"
        response: str = reply["response"]
        return response.partition("\n")[0]

    async def state(self) -> State:
        return self.filters


WORKFLOWS: Mapping[str, type[Sentences]] = {
    "ads": AdSentences,
    "lessons": LessonSentences,
    "pages": PageSentences,
    "video": VideoSentences,
    "campaigns": CampaignSentences,
}
