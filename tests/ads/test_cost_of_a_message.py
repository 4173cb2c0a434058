"""Bounds on the Redis commands of one message about an ad."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from callsheet.storage import Storage
from callsheet.storage.redis import keys
from tests.doubles.served import chat_about_ad, generate_ad, served_app
from tests.doubles.waiting import eventually

AD = "counted-ad"
OF_TURN = (AD, "tool:{")
"""Parts of the arguments of a turn's commands, which those in the background lack."""
MAX_SENT, MAX_EXECUTED = 67, 390
"""Commands that the server sends, and that Redis executes for them: the latter with those inside scripts."""
MESSAGES = 3
END = "the end of the watch"


class CommandCount:
    """The commands of a turn by name, as Redis reports them."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.in_scripts: Counter[str] = Counter()
        self._is_over = False
        self._is_of_turn = False

    def add(self, command: str, *, is_in_script: bool) -> None:
        """Count a command, if it is the turn's; those of a script come after its call."""
        name = command.split(" ", 1)[0].upper()
        if not is_in_script:
            self._is_of_turn = any(part in command for part in OF_TURN)
            self._is_over |= self._is_of_turn and command.startswith(f"ZREM {keys.open_runs()}")
        if self._is_of_turn:
            (self.in_scripts if is_in_script else self.sent)[name] += 1

    async def is_over(self) -> bool:
        """True once the run is taken off the list of those to check, which comes after its reply."""
        return self._is_over

    @property
    def executed(self) -> int:
        """Commands that Redis executed."""
        return self.sent.total() + self.in_scripts.total()


@asynccontextmanager
async def counting(storage: Storage) -> AsyncIterator[CommandCount]:
    """The commands of turns that Redis executes meanwhile."""
    count = CommandCount()
    async with storage.redis.monitor() as monitor:

        async def watch() -> None:
            async for entry in monitor.listen():
                if END in entry["command"]:
                    return
                count.add(entry["command"], is_in_script=entry["client_type"] == "lua")

        watching = asyncio.create_task(watch())
        yield count
        await storage.redis.echo(END)
        await watching


async def test_a_message_about_an_ad_needs_a_bounded_number_of_commands(
    valkey_url: str, storage: Storage
) -> None:
    """A55: the least of a few messages: on a slow machine events leave alone, and leases are renewed."""
    counts: list[CommandCount] = []
    async with served_app(valkey_url) as ads:
        await generate_ad(ads, adId=AD)
        await chat_about_ad(ads, "Make the music more upbeat", AD)
        for _ in range(MESSAGES):
            async with counting(storage) as count:
                assert (await chat_about_ad(ads, "Make the music more upbeat", AD))["drafts"]
                await eventually(count.is_over, "the end of the work after the reply")
            counts.append(count)
    least = min(counts, key=lambda one: one.executed)
    assert least.sent.total() <= MAX_SENT, least.sent
    assert least.executed <= MAX_EXECUTED, (least.sent, least.in_scripts)
