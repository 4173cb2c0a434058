"""The time limit of a call of a tool: it stands still in a queue for a model, and grows for a slow one."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar

T = TypeVar("T")
_GRACE_S: Final = 1.0
"""Seconds for cancelled work to stop; then it is abandoned, and its fence is gone."""
USUAL_MODEL_TIMEOUT_S: Final = 120.0
"""Time-out of the providers for which the limits of tools are meant."""
_CURRENT: ContextVar["Deadline | None"] = ContextVar("callsheet_deadline", default=None)


class DeadlineExceeded(Exception):
    """The deadline has passed."""


class Deadline:
    """The limit of one call, in seconds of work; used once."""

    def __init__(self, limit_s: float, *, grows: bool) -> None:
        """`grows` is false for a limit that the operator has set."""
        self.limit_s = limit_s
        """The limit as it is now."""
        self._own_s = limit_s
        self._grows = grows
        self._left_s = limit_s
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._began_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._pauses = 0

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; raise `DeadlineExceeded` in time even if it cannot be stopped."""
        token = _CURRENT.set(self)
        task = self._loop.create_task(work)
        _CURRENT.reset(token)
        task.add_done_callback(partial(_finish, self._over))
        self._start()
        try:
            await self._over
        except asyncio.CancelledError:
            await _stop(task)
            raise
        finally:
            self._pauses += 1
            self._stand_still()
        if not task.done():
            await _stop(task)
            raise DeadlineExceeded
        return task.result()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let no time pass while the block waits for others."""
        self._pauses += 1
        self._stand_still()
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._start()

    def allow(self, model_timeout_s: float) -> None:
        """Grow with a model whose provider may take longer than the usual one for an answer."""
        limit_s = self._own_s * model_timeout_s / USUAL_MODEL_TIMEOUT_S
        if not self._grows or limit_s <= self.limit_s:
            return
        with self.pause():
            self._left_s += limit_s - self.limit_s
            self.limit_s = limit_s

    def _start(self) -> None:
        self._began_s = self._loop.time()
        self._timer = self._loop.call_later(self._left_s, _finish, self._over)

    def _stand_still(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
            self._left_s -= self._loop.time() - self._began_s


def current_deadline() -> Deadline | None:
    """Return the deadline of the tool that this task works for; None outside a tool."""
    return _CURRENT.get()


def _finish(over: "asyncio.Future[None]", _: object = None) -> None:
    if not over.done():
        over.set_result(None)


async def _stop(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.wait((task,), timeout=_GRACE_S)
    # Read a late error, so that asyncio does not report it as unhandled.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
