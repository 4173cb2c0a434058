"""Publishes the events of an attempt in order and in batches, while the attempt goes on.

A task's writes, and a checkpoint, leave in one transaction with the events published before them. So a
process that dies has stored a task with all its events or not at all.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from callsheet.server.engine.encoding import Event, ValuesEvent
from callsheet.server.engine.repeated_events import RepeatedEvents
from callsheet.server.engine.stored_values import StoredValues, without_values_of
from callsheet.state.errors import Fenced
from callsheet.storage.checkpoints.context import CheckpointRef
from callsheet.storage.redis.scripts import ScriptCall
from callsheet.storage.runs.events import NewEvent
from callsheet.storage.runs.records import RunAttempt
from callsheet.storage.runs.runs import Runs

_MAX_WAITING: Final = 256
"""Events that may wait; further ones make the caller wait."""
SETTLE_TURNS: Final = 12
"""Turns of the event loop in which what LangGraph streamed reaches `publish`; about six are needed."""
BATCH_DELAY_S: Final = 0.01
"""Delay that remote followers do not notice."""


@dataclass(frozen=True, eq=False)
class _StoreRequest:
    """Calls that store a task's writes or a checkpoint."""

    calls: Sequence[ScriptCall]
    reply: "asyncio.Future[Any]"
    """Reply to the last call."""
    checkpoint: str
    """Id of the checkpoint that is stored; empty for writes."""


class _WaitingEvent(NamedTuple):
    """Event that is not sent yet."""

    complete: NewEvent
    partial: NewEvent | None
    """The same without the values of its checkpoint, to be sent once that is stored; None to send that."""


class EventPublisher:
    """Publishes to the thread's stream in Redis; a `StepStore`."""

    def __init__(
        self,
        runs: Runs,
        attempt: RunAttempt,
        has_local_follower: Callable[[], bool] = lambda: False,
        batch_delay_s: float = BATCH_DELAY_S,
        values: StoredValues | None = None,
    ) -> None:
        """Without a local follower, events wait `batch_delay_s` so that more leave together.

        `values` remembers the values that events leave to their checkpoints.
        """
        self.thread = attempt.thread
        self.repeated: RepeatedEvents | None = None
        """Events of earlier attempts that are not published again."""
        self.checkpoints: dict[str, str] = {}
        """Newest checkpoint of this run by namespace."""
        self._runs = runs
        self._attempt = attempt
        self._has_local_follower = has_local_follower
        self._batch_delay_s = batch_delay_s
        self._values = values
        self._channels: dict[str, Mapping[str, Any]] = {}
        """Values in the newest checkpoint of this run by namespace."""
        self._stored: set[str] = set()
        """Checkpoints of this run that are stored."""
        self._batches = 0
        self._waiting: list[_WaitingEvent] = []
        self._requests: list[_StoreRequest] = []
        self._beginning: set[str] = set()
        """Namespaces of subgraphs whose input is being stored."""
        self._early: dict[str, Event] = {}
        """Their first values, which leave with the next checkpoint: no values belong to an input."""
        self._settling = 0
        """Store requests whose events may not have arrived yet."""
        self._blocked = False
        """True while the caller of `publish` waits."""
        self._is_drained = False
        self._sending: asyncio.Task[None] | None = None
        self._due: asyncio.TimerHandle | None = None

    async def publish(self, events: Sequence[Event]) -> None:
        """Queue the events; raise the error of an earlier batch, as `flush`."""
        self._raise_failure()
        for event in events:
            mode, _, namespace = event[0].partition("|")
            if mode.endswith("values") and namespace in self._beginning:
                self._early[namespace] = event
            else:
                self._queue(event)
        if self._waiting and not self._due and not self._is_sending:
            self._schedule()
        if len(self._waiting) > _MAX_WAITING:
            self._blocked = True
            try:
                await self.flush()
            finally:
                self._blocked = False

    async def store_writes(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Store a task's writes together with its events; raises as `flush`."""
        await self._settle()
        return await self._store(calls)

    async def store_checkpoint(
        self, ref: CheckpointRef, source: str, values: Mapping[str, Any], calls: Sequence[ScriptCall]
    ) -> list[Any]:
        """Store a checkpoint together with the events before it; raises as `flush`."""
        self.checkpoints[ref.namespace] = ref.checkpoint
        self._channels[ref.namespace] = values
        if early := self._early.pop(ref.namespace, None):
            self._queue(early)
        # The root graph waits for its checkpoint, and its events have arrived.
        if not ref.namespace:
            return await self._store(calls, ref.checkpoint)
        if source == "input":
            self._beginning.add(ref.namespace)
        try:
            await self._settle()
            return await self._store(calls, ref.checkpoint)
        finally:
            self._beginning.discard(ref.namespace)

    async def flush(self) -> None:
        """Wait until all events are stored; raises `Fenced` if a later attempt has the thread."""
        while sending := self._start_sending() if self._due else self._sending:
            # The waiter may be cancelled; a batch that is being sent must arrive.
            await asyncio.shield(sending)
            if not self._due:
                return

    async def drain(self) -> list[NewEvent]:
        """Stop sending and return the unsent events, which leave with the run's end; raises as `flush`.

        From then on nothing is stored: LangGraph does not wait for the writes of tasks that it cancels.
        """
        self._unschedule()
        for event in self._early.values():
            self._queue(event)
        unsent, self._waiting = self._waiting, []
        await self.flush()
        self._is_drained = True
        return [self._sendable(event) for event in unsent]

    def stamp(self, event: Event | NewEvent) -> NewEvent:
        """Return one of the run's last events as it is stored, after `drain`."""
        return event if isinstance(event, NewEvent) else self._sendable(self._as_waiting(event))

    async def discard(self) -> None:
        """Stop sending and drop the unsent events."""
        self._unschedule()
        self._waiting.clear()
        self._channels.clear()
        # The task's context refers to this publisher: the cycle would keep the run's events.
        sending, self._sending = self._sending, None
        if sending:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        for request in self._requests:
            request.reply.cancel()

    def _queue(self, event: Event) -> None:
        waiting = self._as_waiting(event)
        name, data, checkpoint, _ = waiting.complete
        if not (self.repeated and self.repeated.drop(name, data, checkpoint)):
            self._waiting.append(waiting)

    def _as_waiting(self, event: Event) -> _WaitingEvent:
        """Return an event with the newest checkpoint of its namespace, if it has values."""
        name, data = event
        mode, _, namespace = name.partition("|")
        checkpoint = self.checkpoints.get(namespace, "") if mode.endswith("values") else ""
        complete = NewEvent(name, data, checkpoint)
        if not isinstance(event, ValuesEvent) or self._values is None or namespace not in self._channels:
            return _WaitingEvent(complete, None)
        return _WaitingEvent(complete, without_values_of(self._channels[namespace], complete, event.values))

    def _sendable(self, event: _WaitingEvent, storing: Sequence[str] = ()) -> NewEvent:
        """Return an event as it is sent together with the checkpoints `storing`."""
        complete, partial = event
        if partial is None or self._values is None:
            return complete
        if partial.checkpoint not in self._stored and partial.checkpoint not in storing:
            return complete
        self._values.remember(self.thread, partial, complete.data)
        return partial

    async def _settle(self) -> None:
        """Wait for events of a task that has just ended; LangGraph streams them before it stores the task."""
        self._settling += 1
        try:
            turns = 0
            while turns < SETTLE_TURNS:
                await asyncio.sleep(0)
                turns += 1
                if self._blocked and self._is_sending and self._sending:
                    await asyncio.shield(self._sending)
                    turns = 0
        finally:
            self._settling -= 1

    async def _store(self, calls: Sequence[ScriptCall], checkpoint: str = "") -> list[Any]:
        self._raise_failure()
        if self._is_drained:
            raise Fenced(f"run {self._attempt.run!r} ends, and its late writes are not stored")
        request = _StoreRequest(calls, asyncio.get_running_loop().create_future(), checkpoint)
        self._requests.append(request)
        if not self._is_sending:
            self._start_sending()
        return [await request.reply]

    @property
    def _is_sending(self) -> bool:
        return self._sending is not None and not self._sending.done()

    def _raise_failure(self) -> None:
        if self._sending and self._sending.done():
            self._sending.result()

    def _schedule(self) -> None:
        """Send the waiting events: at once for a local follower, else after the delay."""
        if self._has_local_follower():
            self._start_sending()
        else:
            self._due = asyncio.get_running_loop().call_later(self._batch_delay_s, self._start_sending)

    def _start_sending(self) -> "asyncio.Task[None]":
        self._unschedule()
        # The task starts after other ready tasks, which may publish more.
        sending = self._sending = asyncio.create_task(self._send())
        # Its error is raised by the next call; after the last one asyncio would report it as unhandled.
        sending.add_done_callback(lambda done: done.cancelled() or done.exception())
        return sending

    def _unschedule(self) -> None:
        if self._due:
            self._due.cancel()
            self._due = None

    async def _send(self) -> None:
        while self._waiting or self._requests:
            ready = await self._count_ready()
            batch, self._waiting = self._waiting[:ready], self._waiting[ready:]
            requests, self._requests = self._requests, []
            if not batch and not requests:
                return
            self._batches += 1
            await self._send_batch(batch, requests)
            if self._waiting and not self._requests and not self._has_local_follower():
                self._schedule()
                return

    async def _count_ready(self) -> int:
        """Return how many waiting events may leave: the store requests of their tasks wait, too.

        LangGraph begins to store a task one turn of the event loop after it streamed its events.
        """
        while True:
            count = len(self._waiting)
            await asyncio.sleep(0)
            if not self._settling or self._blocked:
                return count

    async def _send_batch(self, batch: Sequence[_WaitingEvent], requests: Sequence[_StoreRequest]) -> None:
        storing = [request.checkpoint for request in requests if request.checkpoint]
        try:
            replies = await self._runs.emit(
                self._attempt,
                self._batches,
                [self._sendable(event, storing) for event in batch],
                [request.calls[-1] for request in requests],
                [call for request in requests for call in request.calls[:-1]],
            )
        except BaseException as error:
            _fail([*requests, *self._requests], error)
            raise
        self._stored.update(storing)
        for request, reply in zip(requests, replies, strict=True):
            if not request.reply.done():
                request.reply.set_result(reply)


def _fail(requests: Sequence[_StoreRequest], error: BaseException) -> None:
    """Raise the error where the requests are awaited; a cancellation cancels those who wait."""
    for request in requests:
        if isinstance(error, Exception) and not request.reply.done():
            request.reply.set_exception(error)
        request.reply.cancel()
