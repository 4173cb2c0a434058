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
    """An open socket, and all frames that it received."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.frames: list[Frame] = []

    async def send(self, message: Any) -> None:
        """Send anything."""
        await self._socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def say(self, page: str, content: str, **more: Any) -> list[Frame]:
        """Send a message and return the frames from then on, to the end of a turn."""
        start = len(self.frames)
        message = {"type": "userMessage", "conversationId": page, "content": content, "provider": "offline"}
        await self.send(message | more)
        return (await self.until(ends_turn))[start:]

    async def until(self, condition: Callable[[Frame], bool]) -> list[Frame]:
        """Return all frames, once one meets the condition."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                frame = json.loads(await self._socket.recv())
                self.frames.append(frame)
                if condition(frame):
                    return self.frames


def ends_turn(frame: Frame) -> bool:
    """True if a frame ends a turn."""
    return frame["type"] == "error" or bool(frame.get("isLastChunk"))


@asynccontextmanager
async def open_chat(url: str, **headers: str) -> AsyncIterator[PageChat]:
    """A client of the server at `url`."""
    async with connect(
        f"{url.replace('http', 'ws', 1)}/ws", additional_headers=headers, max_queue=None
    ) as socket:
        yield PageChat(socket)


def new_page_id() -> str:
    """An unused page id."""
    return f"page-{uuid.uuid4().hex[:8]}"


def frame_types(frames: Sequence[Frame]) -> list[str]:
    """The types of frames in order, without the receipt; successive chunks of a reply count once."""
    types: list[str] = []
    for frame in (one for one in frames if one["type"] != "receipt"):
        if not (types and frame["type"] == "aiResponseChunk" == types[-1]):
            types.append(frame["type"])
    return types
