"""What this process knows of threads' logs, so that it neither sends nor fetches an element twice.

Within a generation the log only grows, so whatever is known of it stays true; a thread that was pruned,
copied over or deleted and begun anew has another generation. A server that loses its last writes cuts the end
off the log; so every element is marked with bytes that are random for each put, and the mark on the last
known element shows whether all before it are still there. Nothing is ever answered without asking the server.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any, Final, NamedTuple

from state.errors import Broken
from storage.checkpoints.piece_table import Piece, covering
from storage.checkpoints.shadows import Shadow, shadow

Load = Callable[[bytes], Any]

MARK_BYTES: Final = 9
"""Length of the mark before an element's data."""

UNKNOWN: Final = b""
"""The generation of a thread nothing is known of."""

CACHED_BYTES: Final = 64 * 1024 * 1024
"""How much serialised data the logs of a saver may hold before the least recently used thread is dropped."""


class Entry(NamedTuple):
    """What this process last entered in the register for a thread."""

    run: str
    """Empty for the thread alone."""
    until_s: float
    """Until when, by the monotonic clock, there is no need to enter it again."""
    witness: bytes
    """The field of a checkpoint stored after that: while it is there, so is the entry. Empty if none was."""


NOT_ENTERED: Final = Entry("", 0.0, b"")


class Known(NamedTuple):
    """What must still be so on the server for what is known here to be true."""

    generation: bytes
    """`UNKNOWN` if nothing is known."""
    position: int
    mark: bytes
    """The mark on the element there; empty if no element is known."""


def fresh_mark() -> bytes:
    """A mark no put has used, and a name no generation has had."""
    return secrets.token_bytes(MARK_BYTES)


def unmarked(element: bytes) -> bytes:
    """The data of a marked element."""
    return element[MARK_BYTES:]


def digest(data: bytes) -> bytes:
    """What stands for an element's data when it is looked for among those known."""
    return blake2b(data, digest_size=16).digest()


class Remembered:
    """A list as it was last stored or given out: what a longer one is recognised by."""

    __slots__ = ("_by_id", "positions", "shadows")

    def __init__(self, positions: Sequence[int], shadows: Sequence[Shadow | None]) -> None:
        self.positions = positions
        self.shadows = shadows
        self._by_id: dict[str, int] | None = None

    def prefix(self, values: Sequence[object]) -> int:
        """How many of the first values are still what they were."""
        count = 0
        for live, known in zip(values, self.shadows, strict=False):
            if known is None or not known.matches(live):
                break
            count += 1
        return count

    def find(self, live: object) -> tuple[int, Shadow] | None:
        """The position and shadow of a message that is still what it was, elsewhere in the list."""
        if self._by_id is None:
            ids = ((known.id, at) for at, known in enumerate(self.shadows) if known is not None)
            self._by_id = {identity: at for identity, at in ids if identity is not None}
        at = self._by_id.get(getattr(live, "id", None) or "")
        known = self.shadows[at] if at is not None else None
        if at is None or known is None or not known.matches(live):
            return None
        return self.positions[at], known


class ThreadLog:
    """What is known of one generation of one thread's log."""

    def __init__(self, generation: bytes) -> None:
        self.generation = generation
        self.known = Known(generation, -1, b"")
        """What must hold for anything here to be true."""
        self.spans: tuple[Piece, ...] = ()
        """The positions whose elements are here."""
        self.lists: dict[tuple[str, str], Remembered] = {}
        """By namespace and channel."""
        self.entered = NOT_ENTERED
        self.weight = 0
        """Bytes of serialised elements that were put here."""
        self._data: dict[int, bytes] = {}
        self._shadows: dict[int, Shadow | None] = {}
        self._positions: dict[bytes, int] = {}

    def add(self, start: int, elements: Sequence[bytes]) -> None:
        """Take in the marked elements that stand in the log from `start` on."""
        if not elements:
            # A log that was damaged has less than was asked for; whoever needs the rest will say so.
            return
        for position, element in enumerate(elements, start):
            data = unmarked(element)
            self._data.setdefault(position, data)
            self._positions.setdefault(digest(data), position)
        self.weight += sum(map(len, elements))
        last = start + len(elements) - 1
        if last > self.known.position:
            self.known = Known(self.generation, last, elements[-1][:MARK_BYTES])
        # After the mark that vouches for them: another thread may look at both now.
        self.spans = covering(self.spans, (start, len(elements)))

    def position(self, data: bytes) -> int | None:
        """Where the same bytes already stand."""
        return self._positions.get(digest(data))

    def shadow(self, position: int, load: Load) -> Shadow | None:
        """The shadow of the element at `position`, or None if its kind has none."""
        data = self._data.get(position)
        if position in self._shadows:
            return self._shadows[position]
        if data is None:
            rule = f"a list has an element at {position} of its thread's log, and there is none"
            raise Broken(rule, remedy="Restore all keys of a thread together, or delete it.")
        known = self._shadows[position] = shadow(load(data))
        if known is not None:
            # The shadow is all that is needed from now on; another thread may have come here first.
            self._data.pop(position, None)
        return known

    def value(self, position: int, load: Load) -> Any:
        """The element at `position`, as a value of the caller's own."""
        known = self.shadow(position, load)
        return known.copy() if known is not None else load(self._data[position])

    def values(self, positions: Sequence[int], load: Load) -> tuple[list[Any], Remembered]:
        """The elements there, as values of the caller's own, and what they are recognised by."""
        shadows = [self.shadow(position, load) for position in positions]
        values = [
            known.copy() if known is not None else load(self._data[position])
            for position, known in zip(positions, shadows, strict=True)
        ]
        return values, Remembered(positions, shadows)


class LogCache:
    """The logs of the threads used last. Safe to share between threads and event loops."""

    def __init__(self, limit_bytes: int = CACHED_BYTES) -> None:
        self._limit = limit_bytes
        self._weight = 0
        self._logs: OrderedDict[str, tuple[ThreadLog, int]] = OrderedDict()
        self._lock = Lock()

    def of(self, thread: str) -> ThreadLog:
        """What is known of the thread."""
        with self._lock:
            entry = self._logs.get(thread)
        return entry[0] if entry else ThreadLog(UNKNOWN)

    def adopt(self, thread: str, log: ThreadLog) -> ThreadLog:
        """The log, remembered from now on as what is known of the thread."""
        with self._lock:
            self._drop(thread)
            if log.generation != UNKNOWN:
                self._logs[thread] = (log, log.weight)
                self._weight += log.weight
            while self._weight > self._limit and len(self._logs) > 1:
                self._drop(next(iter(self._logs)))
        return log

    def forget(self, threads: Iterable[str]) -> None:
        """Drop what is known of the threads."""
        with self._lock:
            for thread in threads:
                self._drop(thread)

    def _drop(self, thread: str) -> None:
        _, weight = self._logs.pop(thread, (None, 0))
        self._weight -= weight
