"""A teacher at the REST endpoints of lessons."""

from typing import Any

import httpx

from tests.lessons.lesson_material import material

TOOLS = "/api/agent-create/tools"
SESSION = "/api/agent-create/session"
NARRATION = f"{SESSION}/narration"
SOURCE = f"{SESSION}/source"


def user(text: str) -> list[dict[str, Any]]:
    """A client's list of messages with one of the user in it."""
    return [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}]


class LessonClient:
    """One who goes on in the session that the server named."""

    def __init__(self, http: httpx.AsyncClient, session: str | None = None) -> None:
        self.http = http
        self.session = session

    @property
    def named(self) -> dict[str, str]:
        """The header that names the session, where there is one."""
        return {"X-Session-Id": self.session} if self.session else {}

    async def post(self, path: str, **body: Any) -> httpx.Response:
        """A request of the session, whatever comes of it."""
        reply = await self.http.post(path, json={"provider": "offline", **body}, headers=self.named)
        self.session = self.session or reply.headers.get("X-Session-Id")
        return reply

    async def begun(self) -> str:
        """The id of a new session."""
        await self.says("Hello!")
        return str(self.session)

    async def says(self, text: str, **more: Any) -> dict[str, Any]:
        """The reply to a message that must succeed."""
        return ok(await self.post(TOOLS, messages=user(text), **more))

    async def chooses(self, *facts: Any, **more: Any) -> dict[str, Any]:
        """The reply to a choice of facts."""
        return ok(await self.post(TOOLS, messages=[], selectedFacts=[*facts], **more))

    async def sees(self) -> dict[str, Any]:
        """The session as it is now."""
        return ok(await self.http.get(SESSION, headers=self.named))

    async def narrated(self, name: str = "photosynthesis") -> dict[str, Any]:
        """The reply to a choice of three facts of a material."""
        found = await self.says(material(name).text)
        return await self.chooses(*found["facts"][:3])


def ok(reply: httpx.Response, status: int = 200) -> dict[str, Any]:
    """The body of a reply that must have this status."""
    assert reply.status_code == status, reply.text
    found: dict[str, Any] = reply.json()
    return found
