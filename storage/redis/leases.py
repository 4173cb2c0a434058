"""Leases: a key that belongs to whoever has set it, for as long as it is renewed."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from callsheet.state.errors import Unavailable
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script, execute

LEASE_MS: Final = int(keys.RUN_LEASE_S * 1000)

_RENEW: Final = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")

_RELEASE: Final = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
""")


@dataclass(frozen=True)
class KeyLease:
    """A lease on a key; it ends `LEASE_MS` after its last renewal."""

    storage: Storage
    key: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Value of the key while this one has the lease."""

    async def take(self) -> bool:
        """Take the lease; return False while another one has it."""
        # A call that is sent again because its reply was lost finds its own token.
        holder = await execute(self.storage.redis, "SET", self.key, self.token, "NX", "GET", "PX", LEASE_MS)
        return holder in {None, self.token.encode()}

    async def renew(self) -> bool:
        """Renew the lease; return False if it is lost."""
        return bool(await _RENEW(self.storage.redis, [self.key], [self.token, LEASE_MS]))

    @asynccontextmanager
    async def keep(self) -> AsyncIterator[None]:
        """Renew the lease, which was taken, for as long as the block takes, and end it then."""
        renewal = asyncio.create_task(self._keep_renewing())
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.wait([renewal])
            # Without storage it ends by itself.
            with suppress(Unavailable):
                await _RELEASE(self.storage.redis, [self.key], [self.token])

    async def _keep_renewing(self) -> None:
        """Renew the lease until this task is cancelled or the lease is lost."""
        while True:
            await asyncio.sleep(keys.RUN_LEASE_S / 3)
            try:
                if not await self.renew():
                    return
            except Unavailable:
                # What the lease protects meets the same outage; the next renewal may still be in time.
                continue
