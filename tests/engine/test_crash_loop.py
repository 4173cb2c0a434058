"""Runs that may have ended the processes that were at them (X8)."""

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from callsheet.server.engine.crash_loop import CrashLoopIsolation
from callsheet.server.engine.execution import Redeliver
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from tests.doubles.waiting import eventually


async def further(saver: RedisSaver, thread: str) -> None:
    """A new checkpoint of the thread."""
    await saver.aput({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})


async def is_free(suspects: CrashLoopIsolation, thread: str) -> bool:
    """Whether the process takes that suspect."""
    try:
        async with suspects.isolate(thread):
            return True
    except Redeliver:
        return False


@pytest.mark.parametrize("begun", [True, False])
async def test_a_process_is_at_one_suspect_until_that_has_come_further(
    storage: Storage, *, begun: bool
) -> None:
    """X8: whether it died with a checkpoint or before its first."""
    saver = RedisSaver(storage.redis)
    suspects = CrashLoopIsolation(saver)
    if begun:
        await further(saver, "one")
    async with suspects.isolate("one"):
        with pytest.raises(Redeliver, match="another run"):
            await suspects.isolate("two").__aenter__()
        await further(saver, "two")
        assert not await is_free(suspects, "two")
        await further(saver, "one")
        await eventually(lambda: is_free(suspects, "two"), "a turn for the next")
    assert await is_free(suspects, "one")


async def test_a_suspect_that_ends_leaves_its_place(storage: Storage) -> None:
    suspects = CrashLoopIsolation(RedisSaver(storage.redis))
    with pytest.raises(ValueError, match="boom"):
        async with suspects.isolate("one"):
            raise ValueError("boom")
    assert await is_free(suspects, "two")
