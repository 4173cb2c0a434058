"""A process that writes campaigns until it is killed: `python -m tests.campaigns.writer_process URL NAME`."""

import asyncio
import sys

from callsheet import storage
from callsheet.storage.campaigns.library import own_library
from tests.doubles.campaigns import campaign

BATCH_SIZE = 20


async def main() -> None:
    async with storage.connect(sys.argv[1]) as opened:
        library = await own_library(opened, "ana")
        for batch in range(1_000):
            numbers = range(batch * BATCH_SIZE, (batch + 1) * BATCH_SIZE)
            await library.put(
                [campaign(f"{sys.argv[2]}-{n}", campaign_text=f"Offer number{n} of many") for n in numbers]
            )
            # The parent counts lines.
            sys.stdout.write(f"{batch}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
