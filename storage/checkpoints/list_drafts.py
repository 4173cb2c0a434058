"""Lists about to be stored, in pieces: what of them the log already has, and what it must be given."""

from collections.abc import Callable, Sequence

from langchain_core.messages import BaseMessage

from storage.checkpoints.message_log import Remembered, ThreadLog, digest
from storage.checkpoints.piece_table import MOST_PIECES, NEW, landed, pieces, written
from storage.checkpoints.records import LIST
from storage.checkpoints.shadows import Shadow, shadow

Dump = Callable[[object], bytes]


def goes_to_log(value: object) -> bool:
    """Whether a channel's value is kept in pieces: lists that grow, not vectors of numbers."""
    return type(value) is list and bool(value) and isinstance(value[-1], BaseMessage | dict | str)


class Drafts:
    """The lists of one checkpoint, drafted against what is known of the thread's log."""

    def __init__(self, log: ThreadLog, dump: Dump, mark: bytes) -> None:
        self.elements: list[bytes] = []
        """What the log must be given, marked, in order."""
        self.dump = dump
        self._log = log
        self._mark = mark
        self._places: dict[bytes, int] = {}
        self._lists: list[tuple[tuple[str, str], list[int], list[Shadow | None]]] = []

    def add(self, namespace: str, channel: str, values: Sequence[object]) -> bytes:
        """The stored value of the list; new elements are counted from where they will land."""
        known = self._log.lists.get((namespace, channel))
        positions, shadows = self._reusing(values, known or Remembered((), ()))
        table = pieces(positions)
        if len(table) > MOST_PIECES:
            positions, shadows = self._afresh(values)
            table = pieces(positions)
        self._lists.append(((namespace, channel), positions, shadows))
        return LIST + written(table)

    def settle(self, log: ThreadLog, start: int) -> None:
        """Remember the lists as stored; their new elements landed at `start` of `log`."""
        if self.elements:
            log.add(start, self.elements)
        for key, positions, shadows in self._lists:
            log.lists[key] = Remembered(landed(positions, start), shadows)

    def _reusing(self, values: Sequence[object], known: Remembered) -> tuple[list[int], list[Shadow | None]]:
        count = known.prefix(values)
        positions, shadows = list(known.positions[:count]), list(known.shadows[:count])
        for live in values[count:]:
            found = known.find(live) if count < len(known.positions) else None
            positions.append(found[0] if found else self._position(live))
            shadows.append(found[1] if found else shadow(live))
        return positions, shadows

    def _afresh(self, values: Sequence[object]) -> tuple[list[int], list[Shadow | None]]:
        first = NEW + len(self.elements)
        self.elements += (self._mark + self.dump(live) for live in values)
        return list(range(first, first + len(values))), list(map(shadow, values))

    def _position(self, live: object) -> int:
        data = self.dump(live)
        position = self._log.position(data)
        if position is None:
            position = self._places.setdefault(digest(data), NEW + len(self.elements))
            if position == NEW + len(self.elements):
                self.elements.append(self._mark + data)
        return position
