"""Events that LangGraph streams again when an attempt continues a run.

It streams the newest checkpoint and its values, the start of the tasks that come next, their interrupts, and
the updates of the tasks that have ended already. What an earlier attempt has stored of these is dropped.
"""

from collections import Counter
from collections.abc import AsyncIterable, Mapping
from typing import Any, Final, Self

import orjson

from callsheet.server.engine.json_values import dumps
from callsheet.storage.runs.events import PROTOCOL_PREFIX, Event

_CACHED: Final = b'"__metadata__"'
_INTERRUPTED: Final = b'"__interrupt__"'
_MODES: Final = frozenset({"values", "updates", "tasks", "checkpoints", "debug", "lifecycle"})
_BEGINNINGS: Final = frozenset({"running", "started"})


class RepeatedEvents:
    """Recognises the events that an earlier attempt has stored."""

    def __init__(self, *, has_checkpoint: bool) -> None:
        """`has_checkpoint` says that the attempt continues from a checkpoint of the same run.

        Then each task that has ended was stored by an earlier attempt, with its events.
        """
        self._has_checkpoint = has_checkpoint
        self._identities: set[object] = set()
        self._updates: Counter[tuple[str, bytes]] = Counter()
        self._first_values: dict[str, bool] = {}
        """True for each graph that continues and whose first values are dropped, by the event's name."""

    @classmethod
    async def read(cls, stored: AsyncIterable[Event], *, has_checkpoint: bool) -> Self:
        """Return those of a run with these stored events."""
        repeated = cls(has_checkpoint=has_checkpoint)
        async for event in stored:
            repeated._add(event.name, event.data, event.checkpoint)
        return repeated

    def resume(self, namespace: str, checkpoint: str, *, has_values: bool) -> None:
        """Note that a graph continues from a checkpoint; LangGraph streams its values first.

        `has_values` says that these were streamed before that checkpoint, too.
        """
        for prefix in ("", PROTOCOL_PREFIX):
            name = "|".join((f"{prefix}values", *filter(None, [namespace])))
            self._first_values[name] = not has_values or (name, checkpoint) in self._identities

    def drop(self, name: str, data: bytes, checkpoint: str) -> bool:
        """Return whether an event was published by an earlier attempt."""
        mode = _mode(name)
        if mode == "updates" and _CACHED in data:
            update = _body(name, data)
            if update.get("__metadata__") == {"cached": True}:
                key = name, _without_metadata(update)
                self._updates[key] -= 1
                return self._has_checkpoint or self._updates[key] >= 0
        if mode == "values" and _INTERRUPTED not in data:
            return self._first_values.pop(name, False)
        identity = _identity(mode, name, data, checkpoint)
        return identity is not None and identity in self._identities

    def _add(self, name: str, data: bytes, checkpoint: str) -> None:
        mode = _mode(name)
        if (identity := _identity(mode, name, data, checkpoint)) is not None:
            self._identities.add(identity)
        if mode == "updates" and not self._has_checkpoint:
            self._updates[name, _without_metadata(_body(name, data))] += 1


def _mode(name: str) -> str:
    mode = name.removeprefix(PROTOCOL_PREFIX).partition("|")[0]
    return mode if mode in _MODES else ""


def _body(name: str, data: bytes) -> Any:
    body = orjson.loads(data)
    return body["data"] if name.startswith(PROTOCOL_PREFIX) else body


def _without_metadata(update: Mapping[str, Any]) -> bytes:
    return dumps({key: value for key, value in update.items() if key != "__metadata__"})


def _identity(mode: str, name: str, data: bytes, checkpoint: str) -> object:
    """Return what tells an event from all others of its run; None for one that is never repeated."""
    if mode == "values" and _INTERRUPTED not in data:
        return name, checkpoint
    if not mode or (mode == "updates" and _INTERRUPTED not in data):
        return None
    body = _body(name, data)
    match mode:
        case "values":
            return name, checkpoint, _ids(body.get("__interrupt__"))
        case "updates":
            return name, _ids(body.get("__interrupt__")) or checkpoint
        case "lifecycle":
            return (name, body["event"]) if body.get("event") in _BEGINNINGS else None
        case "debug":
            kind = "checkpoints" if body["type"] == "checkpoint" else "tasks"
            identity = _stage(kind, body["payload"])
        case _:
            identity = _stage(mode, body)
    return None if identity is None else (name, identity)


def _stage(kind: str, body: Mapping[str, Any]) -> object:
    """Return the identity of a checkpoint, of a task's start, or of its interrupts."""
    if kind == "checkpoints":
        return body.get("id") or ((body.get("checkpoint") or {}).get("checkpoint_id"))
    if "result" not in body:
        return body["id"]
    return (body["id"], _ids(body["interrupts"])) if body.get("interrupts") else None


def _ids(interrupts: Any) -> tuple[str, ...]:
    return tuple(str(each.get("id")) for each in interrupts or () if isinstance(each, Mapping))
