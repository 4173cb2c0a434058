"""Append-only logs of message lists: pieces, drafts, and this process's copy of each thread's log.

A piece `(first, count)` stands for the elements at `first`, `first + 1` … of the log. The written form is
`0:121,130:4`; in a list that is about to be stored `@0:2` counts from wherever its new elements will land.

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

from langchain_core.messages import BaseMessage

from callsheet.state.errors import Broken
from callsheet.storage.checkpoints.codec import LIST
from callsheet.storage.checkpoints.frozen_copies import FrozenCopy, freeze

Piece = tuple[int, int]
"""First position and number of elements."""

MAX_PIECES: Final = 64
"""A list in more pieces than this is written anew: reading it would cost more than storing it again."""

NEW: Final = 1 << 40
"""Positions from here on are those of elements not yet in the log, in the order they will be appended."""


def pieces(positions: Iterable[int]) -> list[Piece]:
    """The fewest pieces that give `positions`, in order."""
    found: list[Piece] = []
    first = following = -1
    for position in positions:
        if position != following:
            if first >= 0:
                found.append((first, following - first))
            first = position
        following = position + 1
    if first >= 0:
        found.append((first, following - first))
    return found


def encode_table(table: Iterable[Piece]) -> bytes:
    """The table as the server keeps it; pieces of `NEW` elements are marked with `@`."""
    return b",".join(
        b"@%d:%d" % (first - NEW, count) if first >= NEW else b"%d:%d" % (first, count)
        for first, count in table
    )


def decode_table(text: bytes) -> list[int]:
    """The positions that a stored table stands for; an empty table stands for none."""
    found: list[int] = []
    for piece in text.split(b",") if text else ():
        first, count = piece.split(b":")
        found.extend(range(int(first), int(first) + int(count)))
    return found


def resolve_new(drafted: Iterable[int], start: int) -> list[int]:
    """Drafted positions once the new elements were appended at `start`."""
    return [position - NEW + start if position >= NEW else position for position in drafted]


def extend_table(table: Iterable[Piece], piece: Piece) -> tuple[Piece, ...]:
    """The table, sorted and without overlaps or seams, extended by `piece`."""
    found: list[Piece] = []
    for first, count in sorted((*table, piece)):
        if found and first <= found[-1][0] + found[-1][1]:
            start, length = found[-1]
            found[-1] = (start, max(length, first + count - start))
        elif count:
            found.append((first, count))
    return tuple(found)


Load = Callable[[bytes], Any]

MARK_BYTES: Final = 9
"""Length of the mark before an element's data."""

UNKNOWN_LOG: Final = b""
"""The generation of a thread nothing is known of."""

CACHED_BYTES: Final = 64 * 1024 * 1024
"""How much serialised data the logs of a saver may hold before the least recently used thread is dropped."""


class IndexEntry(NamedTuple):
    """What this process last entered in the register for a thread."""

    run: str
    """Empty for the thread alone."""
    until_s: float
    """Until when, by the monotonic clock, there is no need to enter it again."""
    witness: bytes
    """The field of a checkpoint stored after that: while it is there, so is the entry. Empty if none was."""


NO_ENTRY: Final = IndexEntry("", 0.0, b"")


class LogWitness(NamedTuple):
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


class KnownList:
    """A list as it was last stored or given out: what a longer one is recognised by."""

    __slots__ = ("_by_id", "positions", "shadows")

    def __init__(self, positions: Sequence[int], shadows: Sequence[FrozenCopy | None]) -> None:
        self.positions = positions
        self.shadows = shadows
        self._by_id: dict[str, int] | None = None

    def matching_prefix(self, values: Sequence[object]) -> int:
        """How many of the first values are still what they were."""
        count = 0
        for live, known in zip(values, self.shadows, strict=False):
            if known is None or not known.matches(live):
                break
            count += 1
        return count

    def find(self, live: object) -> tuple[int, FrozenCopy] | None:
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
        self.known = LogWitness(generation, -1, b"")
        """What must hold for anything here to be true."""
        self.spans: tuple[Piece, ...] = ()
        """The positions whose elements are here."""
        self.lists: dict[tuple[str, str], KnownList] = {}
        """By namespace and channel."""
        self.entered = NO_ENTRY
        self.weight = 0
        """Bytes of serialised elements that were put here."""
        self._data: dict[int, bytes] = {}
        self._shadows: dict[int, FrozenCopy | None] = {}
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
            self.known = LogWitness(self.generation, last, elements[-1][:MARK_BYTES])
        # After the mark that vouches for them: another thread may look at both now.
        self.spans = extend_table(self.spans, (start, len(elements)))

    def position(self, data: bytes) -> int | None:
        """Where the same bytes already stand."""
        return self._positions.get(digest(data))

    def frozen_copy(self, position: int, load: Load) -> FrozenCopy | None:
        """The shadow of the element at `position`, or None if its kind has none."""
        data = self._data.get(position)
        if position in self._shadows:
            return self._shadows[position]
        if data is None:
            rule = f"a list has an element at {position} of its thread's log, and there is none"
            raise Broken(rule, remedy="Restore all keys of a thread together, or delete it.")
        known = self._shadows[position] = freeze(load(data))
        if known is not None:
            # The shadow is all that is needed from now on; another thread may have come here first.
            self._data.pop(position, None)
        return known

    def value(self, position: int, load: Load) -> Any:
        """The element at `position`, as a value of the caller's own."""
        known = self.frozen_copy(position, load)
        return known.copy() if known is not None else load(self._data[position])

    def values(self, positions: Sequence[int], load: Load) -> tuple[list[Any], KnownList]:
        """The elements there, as values of the caller's own, and what they are recognised by."""
        shadows = [self.frozen_copy(position, load) for position in positions]
        values = [
            known.copy() if known is not None else load(self._data[position])
            for position, known in zip(positions, shadows, strict=True)
        ]
        return values, KnownList(positions, shadows)


class LogCache:
    """The logs of the threads used last. Safe to share between threads and event loops."""

    def __init__(self, limit_bytes: int = CACHED_BYTES) -> None:
        self._limit = limit_bytes
        self._weight = 0
        self._logs: OrderedDict[str, tuple[ThreadLog, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, thread: str) -> ThreadLog:
        """What is known of the thread."""
        with self._lock:
            entry = self._logs.get(thread)
        return entry[0] if entry else ThreadLog(UNKNOWN_LOG)

    def adopt(self, thread: str, log: ThreadLog) -> ThreadLog:
        """The log, remembered from now on as what is known of the thread."""
        with self._lock:
            self._drop(thread)
            if log.generation != UNKNOWN_LOG:
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


Dump = Callable[[object], bytes]


def goes_to_log(value: object) -> bool:
    """Whether a channel's value is kept in pieces: lists that grow, not vectors of numbers."""
    return type(value) is list and bool(value) and isinstance(value[-1], BaseMessage | dict | str)


class ListDrafts:
    """The lists of one checkpoint, drafted against what is known of the thread's log."""

    def __init__(self, log: ThreadLog, dump: Dump, mark: bytes) -> None:
        self.elements: list[bytes] = []
        """What the log must be given, marked, in order."""
        self.dump = dump
        self._log = log
        self._mark = mark
        self._places: dict[bytes, int] = {}
        self._lists: list[tuple[tuple[str, str], list[int], list[FrozenCopy | None]]] = []

    def add(self, namespace: str, channel: str, values: Sequence[object]) -> bytes:
        """The stored value of the list; new elements are counted from where they will land."""
        known = self._log.lists.get((namespace, channel))
        positions, shadows = self._reusing(values, known or KnownList((), ()))
        table = pieces(positions)
        if len(table) > MAX_PIECES:
            positions, shadows = self._afresh(values)
            table = pieces(positions)
        self._lists.append(((namespace, channel), positions, shadows))
        return LIST + encode_table(table)

    def commit(self, log: ThreadLog, start: int) -> None:
        """Remember the lists as stored; their new elements landed at `start` of `log`."""
        if self.elements:
            log.add(start, self.elements)
        for key, positions, shadows in self._lists:
            log.lists[key] = KnownList(resolve_new(positions, start), shadows)

    def _reusing(
        self, values: Sequence[object], known: KnownList
    ) -> tuple[list[int], list[FrozenCopy | None]]:
        count = known.matching_prefix(values)
        positions, shadows = list(known.positions[:count]), list(known.shadows[:count])
        for live in values[count:]:
            found = known.find(live) if count < len(known.positions) else None
            positions.append(found[0] if found else self._position(live))
            shadows.append(found[1] if found else freeze(live))
        return positions, shadows

    def _afresh(self, values: Sequence[object]) -> tuple[list[int], list[FrozenCopy | None]]:
        first = NEW + len(self.elements)
        self.elements += (self._mark + self.dump(live) for live in values)
        return list(range(first, first + len(values))), list(map(freeze, values))

    def _position(self, live: object) -> int:
        data = self.dump(live)
        position = self._log.position(data)
        if position is None:
            position = self._places.setdefault(digest(data), NEW + len(self.elements))
            if position == NEW + len(self.elements):
                self.elements.append(self._mark + data)
        return position
