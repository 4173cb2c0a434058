"""Open streams of API keys, which end soon after their key was revoked or has expired."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from callsheet.server.http import api_keys
from callsheet.state.errors import Unauthenticated, Unavailable
from callsheet.storage import api_keys as stored_keys
from callsheet.storage.redis.connection import Storage

CHECK_INTERVAL_S: Final = 1.0
EndStream = Callable[[Unauthenticated], None]
"""Ends a stream with an error."""
_log = logging.getLogger(__name__)


class StreamsByKey:
    """The streams and web sockets of this process, by API key."""

    def __init__(self) -> None:
        self._streams: dict[str, set[EndStream]] = {}

    def __len__(self) -> int:
        """Return the number of streams."""
        return sum(map(len, self._streams.values()))

    @contextmanager
    def watch(self, key_id: str, end: EndStream) -> Iterator[None]:
        """Have a stream ended by `end` with its key; for the length of the `with`. An empty id is no key."""
        if not key_id:
            yield
            return
        self._streams.setdefault(key_id, set()).add(end)
        try:
            yield
        finally:
            streams = self._streams[key_id]
            streams.discard(end)
            if not streams:
                del self._streams[key_id]

    async def end_revoked(self, storage: Storage) -> None:
        """End the streams of each key that is not active any more; one read for each key.

        While storage is away nothing is known, and the next call decides.
        """
        for key_id in [*self._streams]:
            try:
                record = await stored_keys.find(storage, key_id)
            except Unavailable as outage:
                _log.debug("keys of open streams are not checked: %s", outage)
                return
            try:
                if record is not None:
                    api_keys.require_active(record)
                    continue
                error = Unauthenticated(f"API key {key_id!r} does not exist any more")
            except Unauthenticated as ended:
                error = ended
            streams = [*self._streams.get(key_id, ())]
            _log.warning("%d streams end: %s", len(streams), error.message, extra={"key_id": key_id})
            for end in streams:
                try:
                    end(error)
                except RuntimeError:
                    # A state that asyncio does not accept keeps no other stream open.
                    _log.exception("a stream of key %s goes on", key_id)
