"""A process that migrates data and is killed while it does."""

import asyncio
from pathlib import Path

from callsheet.storage import connect
from callsheet.storage.migrations import migrate
from tests.doubles.waiting import until

LEASE_S = 0.2


def migrate_data(redis_url: str, folder: str) -> None:
    """Migrate as soon as the folder has a file `start`; write a file `end` then."""
    until((Path(folder) / "start").exists, "the file")
    asyncio.run(_migrate(redis_url))
    (Path(folder) / "end").touch()


async def _migrate(redis_url: str) -> None:
    async with connect(redis_url) as storage:
        await migrate(storage, LEASE_S)
