"""A watch for code that blocks the event loop, and with it every request and run of the process."""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

from callsheet.server.telemetry.telemetry import Telemetry

_LIMIT_S: Final = 1.0
"""Seconds that the loop may be blocked before a warning."""
_INTERVAL_S: Final = 0.2
_FRAMES: Final = 8
"""Innermost frames that a warning shows."""
_LANGGRAPH: Final = "/langgraph/"
_IDLE: Final = ("/asyncio/", "/selectors.py", "/uvloop/", "/uvicorn/server.py")
"""Files of the innermost frame while the loop waits: then the whole process lacks time."""
_log = logging.getLogger(__name__)


@contextmanager
def watch_loop(observer: Telemetry | None = None) -> Iterator[None]:
    """Warn of each blocking call in the running loop, with its run and its node; measure the lag."""
    watch = _LoopWatch(asyncio.get_running_loop(), threading.get_ident(), observer or Telemetry())
    thread = threading.Thread(target=watch.run, name="callsheet-loop-watch", daemon=True)
    watch.beat()
    thread.start()
    try:
        yield
    finally:
        watch.stop()


class _LoopWatch:
    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int, observer: Telemetry) -> None:
        self._loop = loop
        self._thread = thread
        self._observer = observer
        self._blocking = _Place()
        """Place of the newest blocking call."""
        self._last_s = time.monotonic()
        """Time at which the loop ran last."""
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = threading.Event()

    def beat(self) -> None:
        """Note that the loop runs, now and after each interval."""
        now_s = time.monotonic()
        if self._timer:
            self._observer.observe_loop_lag(max(0.0, now_s - self._last_s - _INTERVAL_S))
        self._last_s = now_s
        self._timer = self._loop.call_later(_INTERVAL_S, self.beat)

    def stop(self) -> None:
        """End the watch."""
        self._stopping.set()
        if self._timer:
            self._timer.cancel()

    def run(self) -> None:
        """Look at the loop until the watch is stopped; runs in a thread of its own."""
        began_s, before_s = 0.0, time.monotonic()
        while not self._stopping.wait(_INTERVAL_S):
            now_s, last_s = time.monotonic(), self._last_s
            # A process that stood still as a whole has not seen the loop run, either.
            is_late, before_s = now_s - before_s > _LIMIT_S, now_s
            if began_s and last_s != began_s:
                took_s = last_s - began_s
                _log.warning("the event loop runs again after %.1f s", took_s, extra=self._blocking.fields)
                self._observer.count_blocked_loop(self._blocking.graph, took_s)
                began_s = 0.0
            elif not began_s and not is_late and now_s - last_s > _LIMIT_S and self._warn():
                began_s = last_s

    def _warn(self) -> bool:
        """Log the loop's stack, and return whether it is blocked."""
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 -- the documented way to read a stack
        if frame is None or any(part in frame.f_code.co_filename for part in _IDLE):
            return False
        self._blocking = place = _find_place(frame)
        stack = "".join(traceback.format_stack(frame)[-_FRAMES:])
        _log.warning(
            "%s blocks the event loop, so that all requests and runs of this process wait: make it a "
            "synchronous node, or await asyncio.to_thread(…)\n%s",
            place.description,
            stack,
            extra=place.fields,
        )
        return True


@dataclass(frozen=True)
class _Place:
    """The code that blocks the loop: a node of a run, or other code."""

    graph: str = ""
    node: str = ""
    run: str = ""
    thread: str = ""

    @property
    def description(self) -> str:
        return f"node {self.node!r} of graph {self.graph!r}" if self.node else "code outside of a graph"

    @property
    def fields(self) -> dict[str, str]:
        """Fields of a log line."""
        known = {"graph": self.graph, "run_id": self.run, "thread_id": self.thread}
        return {name: value for name, value in known.items() if value}


def _find_place(frame: FrameType | None) -> _Place:
    """Return the graph, the node and the run whose code a frame belongs to.

    LangGraph's function that awaits a node's code has the node's config.
    """
    while frame:
        config = frame.f_locals.get("config") if _LANGGRAPH in frame.f_code.co_filename else None
        if isinstance(config, Mapping) and (node := config.get("metadata", {}).get("langgraph_node")):
            chosen = {**config["metadata"], **config.get("configurable", {})}
            names = (chosen.get(name, "") for name in ("graph_id", "run_id", "thread_id"))
            graph, run, thread = (str(name or "") for name in names)
            return _Place(graph, str(node), run, thread)
        frame = frame.f_back
    return _Place()
