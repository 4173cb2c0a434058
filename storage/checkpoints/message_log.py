"""Append-only logs of message lists: pieces, drafts, and this process's copy of each thread's log.

A list is stored as a table of pieces. A piece `(first, count)` stands for the elements at `first`,
`first + 1` … of the thread's log, written `0:121,130:4`. In a draft `@0:2` counts from the position at which
the list's new elements will be appended.

Within a generation the log only grows, so cached elements stay valid; pruning, copying or deleting a thread
starts another generation. A server that loses its last writes truncates the log. Therefore the elements of
each put carry a random mark: if the last cached element still has its mark, all before it are valid, too.
Every read checks this on the server.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any, Final, NamedTuple

from langchain_core.messages import BaseMessage

from callsheet.state.errors import Missing
from callsheet.storage.checkpoints.codec import LIST
from callsheet.storage.checkpoints.frozen_copies import FrozenCopy, freeze

Piece = tuple[int, int]
"""First position and number of elements."""

MAX_PIECES: Final = 64
"""Most pieces of a list; of more, the newest of like size are appended again as one piece."""

_LEVEL_BITS: Final = 5
"""Pieces are of like size if their sizes have the same multiple of these bits: below 32, below 1,024, …"""

NEW: Final = 1 << 40
"""First position in a draft for elements not yet in the log, in the order they will be appended."""


def pieces(positions: Iterable[int]) -> list[Piece]:
    """Return the fewest pieces that give `positions`, in order."""
    table: list[Piece] = []
    first = following = -1
    for position in positions:
        if position != following:
            if first >= 0:
                table.append((first, following - first))
            first = position
        following = position + 1
    if first >= 0:
        table.append((first, following - first))
    return table


def small_tail(table: Sequence[Piece]) -> int:
    """Return the index from which the newest pieces of like size are to be merged, so that half may be left.

    So an element is appended again once for each level that its pieces rise, as in a log-structured merge
    tree, and a list that only grows takes as many elements as it has, times its levels.
    """
    levels = [(count.bit_length() - 1) // _LEVEL_BITS for _, count in table]
    for level in sorted({*levels}):
        start = next((at + 1 for at in reversed(range(len(levels))) if levels[at] > level), 0)
        if start < MAX_PIECES // 2:
            return start
    return 0


def encode_table(table: Iterable[Piece]) -> bytes:
    """Return the table in its stored form; pieces of `NEW` elements begin with `@`."""
    return b",".join(
        b"@%d:%d" % (first - NEW, count) if first >= NEW else b"%d:%d" % (first, count)
        for first, count in table
    )


def decode_table(text: bytes) -> list[int]:
    """Return the positions of a stored table."""
    positions: list[int] = []
    for piece in text.split(b",") if text else ():
        first, count = piece.split(b":")
        positions.extend(range(int(first), int(first) + int(count)))
    return positions


def resolve_new(draft: Iterable[int], start: int) -> list[int]:
    """Return the draft's positions after its new elements were appended at `start`."""
    return [position - NEW + start if position >= NEW else position for position in draft]


def extend_table(table: Iterable[Piece], piece: Piece) -> tuple[Piece, ...]:
    """Return the union of the table and `piece`, sorted and merged."""
    merged: list[Piece] = []
    for first, count in sorted((*table, piece)):
        if merged and first <= merged[-1][0] + merged[-1][1]:
            start, length = merged[-1]
            merged[-1] = (start, max(length, first + count - start))
        elif count:
            merged.append((first, count))
    return tuple(merged)


Load = Callable[[bytes], Any]

MARK_BYTES: Final = 9
"""Length of the mark before an element's data."""

UNKNOWN_LOG: Final = b""
"""The generation of a thread that is not cached."""

CACHED_BYTES: Final = 64 * 1024 * 1024
"""Default limit on the serialised elements that a saver caches; least recently used threads are dropped."""


class IndexEntry(NamedTuple):
    """The entry that this process last made for a thread in the thread index."""

    run: str
    """Empty for the thread alone."""
    valid_until_s: float
    """Monotonic time at which the entry must be renewed."""
    checkpoint: bytes
    """Field of a checkpoint stored with the entry: while it exists, so does the entry. Empty if none was."""


class LogWitness(NamedTuple):
    """The facts that the server must confirm before a cached log may be used."""

    generation: bytes
    """`UNKNOWN_LOG` if nothing is cached."""
    position: int
    mark: bytes
    """Mark of the element at `position`; empty if no element is cached."""


def new_mark() -> bytes:
    """Return a random mark for a put, also used as the name of a generation."""
    return secrets.token_bytes(MARK_BYTES)


def strip_mark(element: bytes) -> bytes:
    """Return the data of a marked element."""
    return element[MARK_BYTES:]


def digest(data: bytes) -> bytes:
    """Return the key by which equal elements are recognised."""
    return blake2b(data, digest_size=16).digest()


class KnownList:
    """A list as last stored or read, against which its successor is compared."""

    __slots__ = ("_by_id", "copies", "positions")

    def __init__(self, positions: Sequence[int], copies: Sequence[FrozenCopy | None]) -> None:
        self.positions = positions
        self.copies = copies
        self._by_id: dict[str, int] | None = None

    def matching_prefix(self, values: Sequence[object]) -> int:
        """Return how many of the first values are unchanged."""
        count = 0
        for live, frozen in zip(values, self.copies, strict=False):
            if frozen is None or not frozen.matches(live):
                break
            count += 1
        return count

    def find(self, live: object) -> tuple[int, FrozenCopy] | None:
        """Return position and frozen copy of an unchanged message that moved within the list."""
        if self._by_id is None:
            ids = ((frozen.id, at) for at, frozen in enumerate(self.copies) if frozen is not None)
            self._by_id = {identity: at for identity, at in ids if identity is not None}
        at = self._by_id.get(getattr(live, "id", None) or "")
        frozen = self.copies[at] if at is not None else None
        if at is None or frozen is None or not frozen.matches(live):
            return None
        return self.positions[at], frozen


class ThreadLog:
    """The cached part of one generation of a thread's log."""

    def __init__(self, generation: bytes) -> None:
        self.generation = generation
        self.witness = LogWitness(generation, -1, b"")
        self.spans: tuple[Piece, ...] = ()
        """The positions of the cached elements."""
        self.lists: dict[tuple[str, str], KnownList] = {}
        """By namespace and channel."""
        self.index_entry = IndexEntry("", 0.0, b"")
        self.size_bytes = 0
        """Total of the serialised elements added."""
        self._data: dict[int, bytes] = {}
        self._copies: dict[int, FrozenCopy | None] = {}
        self._positions: dict[bytes, int] = {}

    def add(self, start: int, elements: Sequence[bytes]) -> None:
        """Cache the marked elements that the log has from `start` on."""
        if not elements:
            # A damaged log returns fewer elements than requested; `frozen_copy` reports the missing ones.
            return
        for position, element in enumerate(elements, start):
            data = strip_mark(element)
            self._data.setdefault(position, data)
            self._positions.setdefault(digest(data), position)
        self.size_bytes += sum(map(len, elements))
        last = start + len(elements) - 1
        if last > self.witness.position:
            self.witness = LogWitness(self.generation, last, elements[-1][:MARK_BYTES])
        # After the witness that covers them, because another thread may read both now.
        self.spans = extend_table(self.spans, (start, len(elements)))

    def position(self, data: bytes) -> int | None:
        """Return the position of an element with the same bytes."""
        return self._positions.get(digest(data))

    def frozen_copy(self, position: int, load: Load) -> FrozenCopy | None:
        """Return the frozen copy of the element at `position`, or None if its type has none."""
        data = self._data.get(position)
        if position in self._copies:
            return self._copies[position]
        if data is None:
            rule = f"a list has an element at {position} of its thread's log, and there is none"
            raise Missing(rule, remedy="Restore all keys of a thread together, from one backup.")
        frozen = self._copies[position] = freeze(load(data))
        if frozen is not None:
            # The frozen copy replaces the data; another thread may have removed it already.
            self._data.pop(position, None)
        return frozen

    def value(self, position: int, load: Load) -> Any:
        """Return a fresh value of the element at `position`."""
        frozen = self.frozen_copy(position, load)
        return frozen.copy() if frozen is not None else load(self._data[position])

    def values(self, positions: Sequence[int], load: Load) -> tuple[list[Any], KnownList]:
        """Return fresh values of the elements, and the list against which to compare them later."""
        copies = [self.frozen_copy(position, load) for position in positions]
        values = [
            frozen.copy() if frozen is not None else load(self._data[position])
            for position, frozen in zip(positions, copies, strict=True)
        ]
        return values, KnownList(positions, copies)


class LogCache:
    """The logs of the threads used last. Safe to share between threads and event loops."""

    def __init__(self, limit_bytes: int = CACHED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._logs: OrderedDict[str, tuple[ThreadLog, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, thread: str) -> ThreadLog:
        """Return the thread's cached log, or an empty one."""
        with self._lock:
            entry = self._logs.get(thread)
        return entry[0] if entry else ThreadLog(UNKNOWN_LOG)

    def put(self, thread: str, log: ThreadLog) -> ThreadLog:
        """Cache `log` for the thread and return it."""
        with self._lock:
            self._remove(thread)
            if log.generation != UNKNOWN_LOG:
                self._logs[thread] = (log, log.size_bytes)
                self._size_bytes += log.size_bytes
            while self._size_bytes > self._limit_bytes and len(self._logs) > 1:
                self._remove(next(iter(self._logs)))
        return log

    def remove(self, thread: str) -> None:
        """Drop the thread's log, if it is cached."""
        with self._lock:
            self._remove(thread)

    def _remove(self, thread: str) -> None:
        _, size_bytes = self._logs.pop(thread, (None, 0))
        self._size_bytes -= size_bytes


Dump = Callable[[object], bytes]


def belongs_in_log(value: object) -> bool:
    """Return whether a channel's value is stored as pieces: lists that grow, not vectors of numbers."""
    return type(value) is list and bool(value) and isinstance(value[-1], BaseMessage | dict | str)


class ListDrafts:
    """The lists of one checkpoint, drafted against the cached log."""

    def __init__(self, log: ThreadLog, dump: Dump, mark: bytes) -> None:
        self.elements: list[bytes] = []
        """The marked elements to append, in order."""
        self.dump = dump
        self._log = log
        self._mark = mark
        self._new_positions: dict[bytes, int] = {}
        self._lists: list[tuple[tuple[str, str], list[int], list[FrozenCopy | None]]] = []

    def add(self, namespace: str, channel: str, values: Sequence[object]) -> bytes:
        """Draft a list and return its value to store."""
        known = self._log.lists.get((namespace, channel))
        appended = len(self.elements)
        positions, copies = self._reuse(values, known or KnownList((), ()))
        table = pieces(positions)
        if len(table) > MAX_PIECES:
            kept = sum(count for _, count in table[: small_tail(table)])
            if all(position < NEW + appended for position in positions[:kept]):
                self._withdraw(appended)
            added, added_copies = self._append_all(values[kept:])
            positions, copies = [*positions[:kept], *added], [*copies[:kept], *added_copies]
            table = pieces(positions)
        self._lists.append(((namespace, channel), positions, copies))
        return LIST + encode_table(table)

    def commit(self, log: ThreadLog, start: int) -> None:
        """Cache the lists as stored, with their new elements at `start` of `log`."""
        if self.elements:
            log.add(start, self.elements)
        for key, positions, copies in self._lists:
            log.lists[key] = KnownList(resolve_new(positions, start), copies)

    def _reuse(self, values: Sequence[object], known: KnownList) -> tuple[list[int], list[FrozenCopy | None]]:
        count = known.matching_prefix(values)
        positions, copies = list(known.positions[:count]), list(known.copies[:count])
        for live in values[count:]:
            match = known.find(live) if count < len(known.positions) else None
            positions.append(match[0] if match else self._position(live))
            copies.append(match[1] if match else freeze(live))
        return positions, copies

    def _withdraw(self, first: int) -> None:
        """Withdraw the new elements from `first` on, which are to be appended together with others."""
        for element in self.elements[first:]:
            self._new_positions.pop(digest(strip_mark(element)), None)
        del self.elements[first:]

    def _append_all(self, values: Sequence[object]) -> tuple[list[int], list[FrozenCopy | None]]:
        first = NEW + len(self.elements)
        self.elements += (self._mark + self.dump(live) for live in values)
        return list(range(first, first + len(values))), list(map(freeze, values))

    def _position(self, live: object) -> int:
        data = self.dump(live)
        position = self._log.position(data)
        if position is None:
            position = self._new_positions.setdefault(digest(data), NEW + len(self.elements))
            if position == NEW + len(self.elements):
                self.elements.append(self._mark + data)
        return position
