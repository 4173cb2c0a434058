"""The storage that a process shares: the server's own, else one for each event loop."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, BlockingError

from callsheet.state.errors import Invalid
from callsheet.storage import Storage, current, use
from callsheet.storage.embedded import server as embedded
from tests.doubles.waiting import until
from tests.storage.embedded_server import ROOT, data_directory, server_processes


@pytest.fixture
def data_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The default data directory of this test; no Redis is named by the environment."""
    with data_directory() as folder:
        monkeypatch.setenv("CALLSHEET_DATA_DIR", str(folder))
        monkeypatch.delenv("REDIS_URL", raising=False)
        yield folder


@pytest.fixture
async def storage_in_use(storage: Storage) -> AsyncIterator[Storage]:
    use(storage)
    yield storage
    use(None)


async def ping_current(times: int) -> Storage:
    for _ in range(times):
        await (await current()).redis.ping()
    return await current()


def test_an_event_loop_opens_one_storage_and_closes_it_when_the_loop_ends(data_dir: Path) -> None:
    async def main() -> Storage:
        first, *others = await asyncio.gather(*(ping_current(2) for _ in range(8)))
        assert all(other is first for other in others)
        # One for each of the callers, and those that check the data.
        assert len(await first.redis.client_list()) <= 10
        return first

    storage = asyncio.run(main())
    assert storage.lease is not None
    until(lambda: not server_processes(data_dir), "the server stops after the loop has ended")


def test_each_event_loop_has_a_storage_of_its_own(data_dir: Path) -> None:
    assert asyncio.run(ping_current(1)) is not asyncio.run(ping_current(1))


def test_a_storage_that_failed_to_open_is_opened_by_the_next_call(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setenv("REDIS_URL", "nonsense")
        for _ in range(2):
            with pytest.raises(Invalid, match="must begin with"):
                await current()
        monkeypatch.delenv("REDIS_URL")
        await ping_current(1)

    asyncio.run(main())


def test_cancelling_one_caller_does_not_cancel_the_opening_for_others(data_dir: Path) -> None:
    async def main() -> None:
        impatient = asyncio.create_task(current())
        patient = asyncio.create_task(current())
        await asyncio.sleep(0)
        impatient.cancel()
        assert await (await patient).redis.ping()
        assert impatient.cancelled()

    asyncio.run(main())


async def test_current_returns_the_storage_passed_to_use(storage_in_use: Storage) -> None:
    assert await current() is storage_in_use


async def test_another_event_loop_connects_to_the_same_server(storage_in_use: Storage) -> None:
    """A connection works in one loop only, so the other loop gets one of its own."""

    def url_in_another_loop() -> str:
        return asyncio.run(ping_current(1)).url

    assert await asyncio.to_thread(url_in_another_loop) == storage_in_use.url


async def test_an_event_loop_that_ends_leaves_the_storage_of_another_in_use(storage_in_use: Storage) -> None:
    async def use_and_release() -> None:
        use(storage_in_use)
        use(None)

    await asyncio.to_thread(asyncio.run, use_and_release())
    assert await current() is storage_in_use


@pytest.fixture
def blocking_calls_raise() -> Iterator[None]:
    """Blocking calls in an event loop raise, as under `langgraph dev` without --allow-blocking."""
    guard = BlockBuster()
    guard.activate()
    yield
    guard.deactivate()


def test_opening_using_and_closing_a_storage_does_not_block_the_event_loop(
    data_dir: Path, blocking_calls_raise: None
) -> None:
    asyncio.run(ping_current(3))


def test_a_blocking_start_of_the_server_is_detected(data_dir: Path, blocking_calls_raise: None) -> None:
    async def careless() -> None:
        embedded.ensure_running(data_dir)

    with pytest.raises(BlockingError):
        asyncio.run(careless())


_TRAP = """
import os

class Trap(dict):
    def __getitem__(self, name):
        assert name not in {"REDIS_URL", "CALLSHEET_DATA_DIR", "XDG_DATA_HOME"}, name
        return super().__getitem__(name)

    def get(self, name, default=None):
        return self[name] if name in self else default

os.environ = Trap(os.environ)
import storage, callsheet.storage.redis.keys, callsheet.storage.redis.scripts
"""


@pytest.mark.slow
def test_importing_storage_reads_no_variable_and_starts_no_server(data_dir: Path) -> None:
    """HOUSE: nothing reads the environment at import."""
    environment = os.environ | {"REDIS_URL": "nonsense"}
    subprocess.run([sys.executable, "-c", _TRAP], cwd=ROOT, env=environment, check=True)
    assert not server_processes(data_dir)
