"""A client of the REST endpoints of lessons."""

from typing import Any

import httpx

from tests.lessons.lesson_material import material

TOOLS = "/api/agent-create/tools"
SESSION = "/api/agent-create/session"
NARRATION = f"{SESSION}/narration"
SOURCE = f"{SESSION}/source"


def user(text: str) -> list[dict[str, Any]]:
    """A client's list of messages with one message of the user."""
    return [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}]


class LessonClient:
    """One session; the server names it in its first reply."""

    def __init__(self, http: httpx.AsyncClient, session_id: str | None = None) -> None:
        self.http = http
        self.session_id = session_id

    @property
    def session_header(self) -> dict[str, str]:
        """The header that names the session; empty before the first reply."""
        return {"X-Session-Id": self.session_id} if self.session_id else {}

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Return the reply to a request that names the session, whatever its status."""
        return await self.http.request(method, path, headers=self.session_header, **options)

    async def post(self, path: str, **body: Any) -> httpx.Response:
        """Return the reply to a POST of the session, whatever its status; the first reply names it."""
        reply = await self.http.post(path, json={"provider": "offline", **body}, headers=self.session_header)
        self.session_id = self.session_id or reply.headers.get("X-Session-Id")
        return reply

    async def start_session(self) -> str:
        """Return the id of a new session."""
        await self.send("Hello!")
        return str(self.session_id)

    async def send(self, text: str, **fields: Any) -> dict[str, Any]:
        """Return the reply to a message, which must succeed."""
        return ok(await self.post(TOOLS, messages=user(text), **fields))

    async def choose_facts(self, *facts: Any, **fields: Any) -> dict[str, Any]:
        """Return the reply to a choice of facts, which must succeed."""
        return ok(await self.post(TOOLS, messages=[], selectedFacts=[*facts], **fields))

    async def get_session(self) -> dict[str, Any]:
        """Return the session as it is now."""
        return ok(await self.request("GET", SESSION))

    async def create_narration(self, name: str = "photosynthesis") -> dict[str, Any]:
        """Return the reply to a choice of the first three facts of a material."""
        reply = await self.send(material(name).text)
        return await self.choose_facts(*reply["facts"][:3])


def ok(reply: httpx.Response, status: int = 200) -> dict[str, Any]:
    """Return the body of a reply that must have this status."""
    assert reply.status_code == status, reply.text
    body: dict[str, Any] = reply.json()
    return body
