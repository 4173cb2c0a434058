"""Work in three turns on each workflow and a custom graph; a turn done again has its effect once."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx
from langgraph_sdk.client import LangGraphClient

from tests.doubles.served import GENERATE
from tests.doubles.waiting import eventually
from tests.lessons.lesson_material import material
from tests.storage.clock_graphs import PUBLISHED

TURNS: Final = 3
_PATIENCE_S: Final = 60.0
CSV: Final = (
    "id,company,channel,capture_date\nc1,Alder Bank,email,2026-03-01\nc2,Alder Bank,print,2026-04-01\n"
)


@dataclass
class ServerClients:
    """A server's clients for HTTP and for LangGraph's API."""

    http: httpx.AsyncClient
    wire: LangGraphClient

    async def post(self, path: str, body: Any = None, key: str = "", **options: Any) -> dict[str, Any]:
        """Return the reply to a request, which may be sent again with its idempotency key."""
        headers = {**options.pop("headers", {}), **({"Idempotency-Key": key} if key else {})}
        if body is not None:
            options["json"] = {"provider": "offline", **body}
        reply = await self.http.post(path, headers=headers, **options)
        assert reply.is_success, reply.text
        parsed: dict[str, Any] = reply.json()
        return parsed

    async def get(self, path: str, **options: Any) -> dict[str, Any]:
        reply = await self.http.get(path, **options)
        assert reply.status_code == 200, reply.text
        parsed: dict[str, Any] = reply.json()
        return parsed

    async def values(self, thread: str) -> dict[str, Any]:
        """The values of a thread that waits for nothing."""
        state: Any = await self.wire.threads.get_state(thread)
        assert state["next"] == []
        state_values: dict[str, Any] = state["values"]
        return state_values

    async def messages(self, thread: str) -> list[str]:
        """The contents of a person's messages."""
        values = await self.values(thread)
        return [each["content"] for each in values["messages"] if each["type"] == "human"]

    async def until_idle(self, thread: str) -> None:
        """Wait for the end of the thread's run, which may be taken over from a process that died."""

        async def is_idle() -> bool:
            reply = await self.http.get(f"/threads/{thread}")
            return reply.status_code == 404 or reply.json()["status"] != "busy"

        await eventually(is_idle, f"the end of the run on {thread}", patience_s=_PATIENCE_S)

    async def require_ordered(self, thread: str) -> None:
        """Assert that each step of the thread's history comes once, newest first, in pages too."""
        history: Any = await self.wire.threads.get_history(thread, limit=100)
        ids = [state["checkpoint"]["checkpoint_id"] for state in history]
        assert len(set(ids)) == len(ids)
        steps = [state["metadata"]["step"] for state in history]
        assert steps == sorted(steps, reverse=True)
        before: Any = await self.wire.threads.get_history(thread, limit=100, before=history[2]["checkpoint"])
        assert [state["checkpoint"]["checkpoint_id"] for state in before] == ids[3:]


class Work(Protocol):
    """A conversation in `TURNS` turns."""

    async def turn(self, server: ServerClients, number: int) -> None:
        """Do a turn, counted from 1; one that is done again has its effect once."""

    async def check(self, server: ServerClients) -> None:
        """Assert that nothing is lost and nothing is there twice."""


class PostWork:
    """A graph of one's own: drafts, asks, publishes."""

    def __init__(self) -> None:
        self.thread = str(uuid.uuid4())

    async def turn(self, server: ServerClients, number: int) -> None:
        await server.wire.threads.create(thread_id=self.thread, if_exists="do_nothing")
        await server.until_idle(self.thread)
        state: Any = await server.wire.threads.get_state(self.thread)
        values = state["values"] or {}
        text, answer = f"text {number}", f"yes {number}"
        if text not in values.get("texts", []):
            await self._run(server, input={"text": text})
        if answer not in values.get("answers", []):
            done = await self._run(server, command={"resume": answer})
            assert done["answers"][-1] == answer, done

    async def _run(self, server: ServerClients, **fields: Any) -> Any:
        # Not by the SDK, which asks a server that was killed again, with a warning.
        body = {"assistant_id": "post", **fields}
        reply = await server.http.post(f"/threads/{self.thread}/runs/wait", json=body)
        assert reply.is_success, reply.text
        return reply.json()

    async def check(self, server: ServerClients) -> None:
        values = await server.values(self.thread)
        numbers = range(1, TURNS + 1)
        assert values["texts"] == [f"text {number}" for number in numbers]
        assert values["answers"] == [f"yes {number}" for number in numbers]
        item: Any = await server.wire.store.get_item(PUBLISHED, self.thread)
        assert item["value"]["times"] == TURNS
        await server.require_ordered(self.thread)


class AdWork:
    """An ad, and two changes of its music."""

    texts = ("Make the music more upbeat", "Make the music calmer")

    def __init__(self) -> None:
        self.ad = f"ad-{uuid.uuid4().hex}"

    async def turn(self, server: ServerClients, number: int) -> None:
        key = f"{self.ad}-{number}"
        if number == 1:
            await server.post("/api/ai/generate", {**GENERATE, "adId": self.ad}, key)
            return
        body = {"message": self.texts[number - 2]}
        reply = await server.post(f"/api/ads/{self.ad}/chat", body, key)
        assert reply["drafts"] == {"music": f"v{number}"}

    async def check(self, server: ServerClients) -> None:
        music = await server.get(f"/api/ads/{self.ad}/music")
        assert [one["id"] for one in music["versions"]] == ["v1", "v2", "v3"]
        assert (await server.messages(self.ad))[-2:] == [*self.texts]
        await server.require_ordered(self.ad)


class PageWork:
    """Three changes of a page's headline."""

    def __init__(self) -> None:
        self.page = f"page-{uuid.uuid4().hex}"
        self.texts = [f'Change the headline to "Bread at {hour}"' for hour in ("four", "five", "six")]

    async def turn(self, server: ServerClients, number: int) -> None:
        body = {"message": self.texts[number - 1]}
        await server.post(f"/api/pages/{self.page}/chat", body, f"{self.page}-{number}")

    async def check(self, server: ServerClients) -> None:
        assert await server.messages(self.page) == self.texts
        assert "Bread at six" in str(await server.get(f"/api/pages/{self.page}"))
        versions = (await server.get(f"/api/pages/{self.page}/versions"))["versions"]
        assert len(versions) == TURNS
        await server.require_ordered(self.page)


class VideoWork:
    """A project, an execution of a plan, and its undoing."""

    def __init__(self) -> None:
        self.project = f"video-{uuid.uuid4().hex}"

    async def turn(self, server: ServerClients, number: int) -> None:
        key, path = f"{self.project}-{number}", f"/api/projects/{self.project}"
        if number == 1:
            body = {"id": self.project, "starter": "product-launch"}
            reply = await server.http.post("/api/projects", json=body)
            assert reply.status_code in {201, 409}, reply.text
        elif number == 2:
            await server.post(f"{path}/executions", {"message": "make all scenes faster"}, key)
        else:
            await server.post(f"{path}/undo", key=key)
        await server.until_idle(self.project)

    async def check(self, server: ServerClients) -> None:
        path = f"/api/projects/{self.project}"
        listed = (await server.get(f"{path}/executions"))["executions"]
        assert [(one["kind"], one["success"]) for one in listed] == [("undo", True), ("plan", True)]
        assert {one["revision"] for one in (await server.get(f"{path}/scenes"))["scenes"]} == {3}
        assert len(await server.messages(self.project)) == TURNS - 1
        await server.require_ordered(self.project)


class LessonWork:
    """A lesson's material, its facts, and other ones."""

    def __init__(self) -> None:
        self.name, self.session = uuid.uuid4().hex, ""

    async def turn(self, server: ServerClients, number: int) -> None:
        text = f"{material('photosynthesis').text} The lesson is {self.name}."
        body: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
        if number > 1:
            body = {"messages": [], "selectedFacts": [1, 2] if number == TURNS - 1 else [3]}
        headers = {"X-Session-Id": self.session} if self.session else {}
        if number == TURNS:
            # The facts are chosen; a child's age is the next change.
            reply = await server.http.patch(
                "/api/agent-create/session", json={"childAge": "9"}, headers=headers
            )
            assert reply.status_code == 200, reply.text
            return
        reply_body = await server.post(
            "/api/agent-create/tools", body, f"{self.name}-{number}", headers=headers
        )
        self.session = reply_body["sessionId"]

    async def check(self, server: ServerClients) -> None:
        session = await server.get("/api/agent-create/session", headers={"X-Session-Id": self.session})
        assert len(session["confirmedFacts"]) == 2, session
        values = await server.values(self.session)
        assert values["drafts"] == {"confirmed": "v1", "narration": "v1"}
        assert session["childAge"] == "9"
        await server.require_ordered(self.session)


class CampaignWork:
    """Three questions about campaigns in one conversation."""

    texts = ("show me email campaigns", "only those of Alder Bank", "show me print campaigns")

    def __init__(self) -> None:
        self.name, self.thread = uuid.uuid4().hex, ""

    async def turn(self, server: ServerClients, number: int) -> None:
        if number == 1:
            headers = {"Content-Type": "text/csv"}
            await server.post("/api/campaigns/import?fileName=a.csv", content=CSV, headers=headers)
        body: Mapping[str, Any] = {"conversationId": self.thread} if self.thread else {}
        reply = await server.post(
            "/api/chat", {"message": self.texts[number - 1], **body}, f"{self.name}-{number}"
        )
        self.thread = reply["conversationId"]

    async def check(self, server: ServerClients) -> None:
        assert await server.messages(self.thread) == [*self.texts]
        await server.require_ordered(self.thread)


WORK: Final[Mapping[str, type[Work]]] = {
    "a graph of one's own": PostWork,
    "ads": AdWork,
    "pages": PageWork,
    "video": VideoWork,
    "lessons": LessonWork,
    "campaigns": CampaignWork,
}
