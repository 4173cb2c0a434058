"""How fast a process takes runs that wait: a few in any case, more for as long as it has the time for them.

Runs that mostly wait all go at once within moments. Those that need a processor stay with whichever process
has one left: a thread that computes keeps all others of its process waiting, and the event loop with them.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

BREATH_S: Final = 0.01
"""How long a process is watched between two takings."""
ALWAYS: Final = 2
"""Runs that a process is at before it asks itself whether it has the time: one works while one ends."""
_LATE_S: Final = 0.004
"""By how much an event loop is late that has no time; Python's threads take turns of 5 ms."""
_SHARE: Final = 0.4
"""Share of a processor that nodes need in a process that has no time; others may be at that one, too."""


class Moment(NamedTuple):
    """What a clock shows."""

    at_s: float
    beside_s: float
    """Processor time that this process has used so far in all threads but the calling one."""


def now() -> Moment:
    """Return the moment, to be called by the thread of the event loop."""
    return Moment(time.monotonic(), time.process_time() - time.thread_time())


class Pace:
    """Says when a process takes more: it is asked again a breath after every no, and between two takings."""

    def __init__(self, most: int, clock: Callable[[], Moment] = now) -> None:
        """`most` runs are carried out here at once."""
        self.most = most
        self._clock = clock
        self._breath: Moment | None = None
        """When the breath began that is being drawn."""

    def ready(self, here: int) -> bool:
        """Whether to take some more now; `here` are under way that were taken before."""
        began, moment = self._breath, self._clock()
        if began and here < self.most and (here < ALWAYS or _had_time(began, moment)):
            self._breath = None
            return True
        self._breath = moment
        return False


def _had_time(began: Moment, ended: Moment) -> bool:
    """Whether a process could have done more in a breath."""
    took_s = ended.at_s - began.at_s
    return took_s < BREATH_S + _LATE_S and ended.beside_s - began.beside_s < took_s * _SHARE
