"""Checkpoints listed newest first, fetched page by page as they are asked for."""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, CheckpointTuple

from storage.checkpoints import reading, register
from storage.checkpoints.books import Books
from storage.checkpoints.places import Place
from storage.checkpoints.records import NUL, joined, text
from storage.checkpoints.round_trips import Exchange

PAGE: Final = 200
"""Checkpoints fetched at once: enough to make the trips cheap, few enough not to hold up the server."""


class Wanted(NamedTuple):
    """Which checkpoints are listed; what is empty or None does not choose."""

    thread: str
    namespace: str | None
    checkpoint: str
    before: str
    metadata: Mapping[str, Any]

    def suits(self, metadata: CheckpointMetadata) -> bool:
        """Whether it has the metadata."""
        known: Mapping[str, Any] = dict(metadata)
        return all(known.get(key) == value for key, value in self.metadata.items())


def wanted(
    config: RunnableConfig | None, metadata: Mapping[str, Any] | None, before: RunnableConfig | None
) -> Wanted:
    """What LangGraph's arguments of `list` choose."""
    chosen = (config or {}).get("configurable") or {}
    older = (before or {}).get("configurable") or {}
    return Wanted(
        thread=str(chosen.get("thread_id") or ""),
        namespace=chosen.get("checkpoint_ns"),
        checkpoint=chosen.get("checkpoint_id") or "",
        before=older.get("checkpoint_id") or "",
        metadata=metadata or {},
    )


class Listing:
    """One listing: thread by thread, newest first within a thread."""

    def __init__(self, books: Books, choice: Wanted, limit: int | None) -> None:
        self._books = books
        self._choice = choice
        self._left = limit
        self._threads = deque([choice.thread]) if choice.thread else None
        self._begin()

    def page(self) -> Exchange[list[CheckpointTuple]]:
        """The next checkpoints; none at the end."""
        if self._threads is None:
            (names,) = yield [register.threads(self._books.rules.register)]
            self._threads = deque(map(text, names))
        while self._threads and (self._left is None or self._left > 0):
            found = yield from self._next(self._threads[0])
            if self._exhausted:
                self._threads.popleft()
                self._begin()
            suitable = [each for each in found if self._choice.suits(each.metadata)][: self._left]
            if suitable:
                self._left = None if self._left is None else self._left - len(suitable)
                return suitable
        return []

    def _begin(self) -> None:
        self._exhausted = False
        self._cursor = self._choice.before
        self._fields: deque[bytes] | None = None
        self._shared: reading.Shared = {}

    def _next(self, thread: str) -> Exchange[list[CheckpointTuple]]:
        choice, size = self._choice, PAGE
        if self._left is not None and not choice.metadata:
            size = min(PAGE, self._left)
        if choice.namespace is None or choice.checkpoint:
            return (yield from self._next_fields(thread, size))
        before = Place(thread, choice.namespace, self._cursor)
        found = yield from reading.page(self._books, before, size, self._shared)
        self._exhausted = len(found) < size
        if found:
            self._cursor = found[-1].checkpoint["id"]
        return found

    def _next_fields(self, thread: str, size: int) -> Exchange[list[CheckpointTuple]]:
        """From a given checkpoint or of all namespaces, which no range of the server covers."""
        if self._fields is None:
            self._fields = deque((yield from self._all_fields(thread)))
        batch = [self._fields.popleft() for _ in range(min(size, len(self._fields)))]
        self._exhausted = not self._fields
        if not batch:
            return []
        return (yield from reading.given(self._books, thread, batch, self._shared))

    def _all_fields(self, thread: str) -> Exchange[list[bytes]]:
        choice = self._choice
        if choice.checkpoint and choice.namespace is not None:
            found = [joined(choice.namespace, choice.checkpoint)]
        else:
            found = yield from reading.fields(self._books, thread)
        ids = [(text(field.split(NUL, 1)[1]), field) for field in found]
        return [
            field
            for identity, field in sorted(ids, reverse=True)
            if choice.checkpoint in {"", identity} and (not choice.before or identity < choice.before)
        ]
