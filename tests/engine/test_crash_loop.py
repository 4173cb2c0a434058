"""A process executes one crash suspect at a time (X8)."""

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from callsheet.server.engine.crash_loop import CrashLoopIsolation
from callsheet.server.engine.execution import Redeliver
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from tests.doubles.waiting import eventually


async def write_checkpoint(saver: RedisSaver, thread: str) -> None:
    """Store a new checkpoint of the thread."""
    await saver.aput({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})


async def accepts(isolation: CrashLoopIsolation, thread: str) -> bool:
    """Return whether the process may execute that suspect now."""
    try:
        async with isolation.isolate(thread):
            return True
    except Redeliver:
        return False


@pytest.mark.parametrize("has_checkpoint", [True, False])
async def test_a_process_executes_one_crash_suspect_until_that_has_a_new_checkpoint(
    storage: Storage, *, has_checkpoint: bool
) -> None:
    """X8: with a checkpoint before the crash, and without."""
    saver = RedisSaver(storage.redis)
    isolation = CrashLoopIsolation(saver)
    if has_checkpoint:
        await write_checkpoint(saver, "one")
    async with isolation.isolate("one"):
        with pytest.raises(Redeliver, match="another run"):
            await isolation.isolate("two").__aenter__()
        await write_checkpoint(saver, "two")
        assert not await accepts(isolation, "two")
        await write_checkpoint(saver, "one")
        await eventually(lambda: accepts(isolation, "two"), "a turn for the next")
    assert await accepts(isolation, "one")


async def test_a_crash_suspect_that_ends_makes_room_for_the_next(storage: Storage) -> None:
    isolation = CrashLoopIsolation(RedisSaver(storage.redis))
    with pytest.raises(ValueError, match="boom"):
        async with isolation.isolate("one"):
            raise ValueError("boom")
    assert await accepts(isolation, "two")
