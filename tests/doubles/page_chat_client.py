"""A client of the chat about pages, over its web socket."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.doubles.waiting import PATIENCE_S

Frame = dict[str, Any]
CALL = ["toolExecutionStart", "toolExecutionProgress", "toolExecutionComplete"]


class PageChat:
    """An open socket, and all it was told."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.frames: list[Frame] = []

    async def send(self, said: Any) -> None:
        """Send anything."""
        await self._socket.send(said if isinstance(said, str | bytes) else json.dumps(said))

    async def say(self, page: str, content: str, **more: Any) -> list[Frame]:
        """Say something and return what was told from then on, to the end of a turn."""
        begun = len(self.frames)
        message = {"type": "userMessage", "conversationId": page, "content": content, "provider": "offline"}
        await self.send(message | more)
        return (await self.until(ends_turn))[begun:]

    async def until(self, holds: Callable[[Frame], bool]) -> list[Frame]:
        """Return everything that was told, once a frame is told for which that holds."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                frame = json.loads(await self._socket.recv())
                self.frames.append(frame)
                if holds(frame):
                    return self.frames


def ends_turn(frame: Frame) -> bool:
    """Whether a frame ends a turn."""
    return frame["type"] == "error" or bool(frame.get("isLastChunk"))


@asynccontextmanager
async def open_chat(url: str, **headers: str) -> AsyncIterator[PageChat]:
    """A client of the server at `url`."""
    async with connect(
        f"{url.replace('http', 'ws', 1)}/ws", additional_headers=headers, max_queue=None
    ) as socket:
        yield PageChat(socket)


def new_page_id() -> str:
    """An id no page has."""
    return f"page-{uuid.uuid4().hex[:8]}"


def frame_types(told: Sequence[Frame]) -> list[str]:
    """The kinds of frames in order, words told one after another as one."""
    found: list[str] = []
    for frame in told:
        if not (found and frame["type"] == "aiResponseChunk" == found[-1]):
            found.append(frame["type"])
    return found
