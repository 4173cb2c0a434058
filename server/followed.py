"""Replies that are told while things happen, as long as their reader is there."""

import asyncio

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class Followed(StreamingResponse):
    """A streamed reply of which the rest is cancelled once its reader has gone.

    Starlette's own makes a task group for each; here one task listens while the reply's own tells.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        leaving: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(None) as presence:
                leaving = asyncio.create_task(self._left(receive, presence))
                await self.stream_response(send)
        except TimeoutError:
            if not presence.expired():
                raise
        finally:
            if leaving:
                leaving.cancel()
        if self.background:
            await self.background()

    async def _left(self, receive: Receive, presence: asyncio.Timeout) -> None:
        """End the reader's presence once it has gone."""
        await self.listen_for_disconnect(receive)
        presence.reschedule(0)
