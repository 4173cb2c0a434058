"""How many runs there are to do, over all processes."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from storage import keys
from storage.connection import Storage

OPEN: Final = ("pending", "running")
_AT_ONCE: Final = 1_000


async def counted(storage: Storage) -> Mapping[str, int]:
    """Return how many runs wait and how many are under way; those whose time has not come wait.

    Reads every open run's status, a thousand in a round trip.
    """
    found: Counter[str] = Counter()
    start = 0
    while members := await storage.redis.zrange(keys.open_runs(), start, start + _AT_ONCE - 1):
        pipeline = storage.redis.pipeline(transaction=False)
        for member in members:
            run, _, thread = member.decode().partition("\0")
            pipeline.hget(keys.run(thread, run), "status")
        found.update((status or b"").decode() for status in await pipeline.execute())
        start += _AT_ONCE
    return {status: found[status] for status in OPEN}
