"""Where a tool is carried out: in the event loop, in a thread where it would block it, or in a process."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from callsheet.tools.guard.call import Call
from callsheet.tools.guard.policy import EffectivePolicy
from callsheet.tools.guard.sandbox import run_sandboxed
from callsheet.tools.registry import Tool

T = TypeVar("T")
_GRACE_S: Final = 1.0
"""How long work that was told to stop may take to do so; then it is left to itself, and its fence is gone."""


class DeadlineExceeded(Exception):
    """The time is over."""


async def run_tool(tool: Tool, args: BaseModel, call: Call, policy: EffectivePolicy) -> dict[str, Any]:
    """Return what the tool returns; `terms` limit a process of its own.

    A thread cannot be stopped: cancelled, it goes on, and what it returns is dropped.
    """
    run: Any = tool.run
    if tool.isolated:
        return await run_sandboxed(tool, args, call.scope, policy)
    if tool.is_async:
        return dict(await run(args, call))
    return dict(await asyncio.to_thread(run, args, call.scope))


async def run_with_deadline(work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    """Return the result of `work`; raise `DeadlineExceeded` in time, even if the work cannot be stopped."""
    loop = asyncio.get_running_loop()
    task, over = loop.create_task(work), loop.create_future()
    ring = partial(_finish, over)
    task.add_done_callback(ring)
    timer = loop.call_later(timeout_s, ring)
    try:
        await over
    except asyncio.CancelledError:
        await _stop(task)
        raise
    finally:
        timer.cancel()
    if not task.done():
        await _stop(task)
        raise DeadlineExceeded
    return task.result()


def _finish(over: "asyncio.Future[None]", _: object = None) -> None:
    if not over.done():
        over.set_result(None)


async def _stop(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.wait((task,), timeout=_GRACE_S)
    # Else what it still raises would be reported as an error that nobody saw.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
