"""Lost connections: redis-py's connections, which report each kind of loss as `redis.ConnectionError`.

uvloop raises `RuntimeError` where asyncio raises `OSError`: for a transport that it closed before its reader
noticed. redis-py passes that on, and neither reconnects nor sends the command again.
"""

from typing import Any, Final

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError

_CLOSED: Final = "the handler is closed"
"""Part of uvloop's message about a transport that is closed."""


def is_lost_connection(error: RuntimeError) -> bool:
    """Return whether uvloop reports a lost connection, and no bug."""
    return _CLOSED in str(error)


class _Translating(AbstractConnection):
    """A connection whose losses are all `redis.ConnectionError`, so that redis-py reconnects."""

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        try:
            await super().send_packed_command(*args, **options)
        except RuntimeError as error:
            _raise_if_lost(error)
            raise

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except RuntimeError as error:
            _raise_if_lost(error)
            raise

    async def can_read(self, *args: Any, **options: Any) -> bool:
        try:
            return await super().can_read(*args, **options)
        except RuntimeError as error:
            _raise_if_lost(error)
            raise


def _raise_if_lost(error: RuntimeError) -> None:
    if is_lost_connection(error):
        raise RedisConnectionError(f"the connection was lost: {error}") from error


def translating(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """Return the class of such connections of this kind, be it TCP, TLS or a unix socket."""
    return kind if issubclass(kind, _Translating) else type(kind.__name__, (_Translating, kind), {})
