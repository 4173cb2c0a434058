"""Runs a tool in the event loop, in a thread, or in a sandbox process, with a deadline."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from callsheet.tools.call import Call
from callsheet.tools.guard.sandbox import run_sandboxed
from callsheet.tools.policy import EffectivePolicy
from callsheet.tools.registry import Tool

T = TypeVar("T")
_GRACE_S: Final = 1.0
"""Seconds for cancelled work to stop; then it is abandoned, and its fence is gone."""


class DeadlineExceeded(Exception):
    """The deadline has passed."""


async def run_tool(tool: Tool, args: BaseModel, call: Call, policy: EffectivePolicy) -> dict[str, Any]:
    """Return the tool's result; `policy` limits a sandbox process.

    A thread cannot be stopped: after a cancellation it goes on, and its result is dropped.
    """
    run: Any = tool.run
    if tool.isolated:
        return await run_sandboxed(tool, args, call.scope, policy)
    if tool.is_async:
        return dict(await run(args, call))
    return dict(await asyncio.to_thread(run, args, call.scope))


async def run_with_deadline(work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    """Return the result of `work`; raise `DeadlineExceeded` in time even if the work cannot be stopped."""
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
    # Read a late error, so that asyncio does not report it as unhandled.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
