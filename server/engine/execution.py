"""One attempt at a run: executes the graph to its end, its next interrupt, or a cancellation.

Another attempt continues a dead one. It passes no input only if the thread's newest checkpoint is of this
run; otherwise the input never arrived and is passed again.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.graph import END
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, Send, StateSnapshot

from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY, RESUMES_KEY, RUN_KEY
from callsheet.server.engine import graph_factory
from callsheet.server.engine.attempt_log import log_crash
from callsheet.server.engine.cancellation import answered_questions, cancelled_outcome, interrupt_views
from callsheet.server.engine.encoding import (
    Event,
    EventTranslator,
    ProtocolEncoder,
    StreamTranslator,
    sha256_of,
)
from callsheet.server.engine.errors import deserialize_error, serialize_error
from callsheet.server.engine.event_publisher import EventPublisher
from callsheet.server.engine.graph_factory import graph_of_run
from callsheet.server.engine.json_values import dumps
from callsheet.server.engine.repeated_events import RepeatedEvents
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.state.errors import (
    Broken,
    BudgetUsedUp,
    CallsheetError,
    Conflict,
    Fenced,
    StorageDown,
    StorageFull,
    Unavailable,
)
from callsheet.state.questions import ANSWERED, answer_in_words
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.checkpoints.context import STEP_STORE
from callsheet.storage.redis.batching import waiting_for_room
from callsheet.storage.runs.events import Announcements, wait_for_signal
from callsheet.storage.runs.events import Event as StoredEvent
from callsheet.storage.runs.leases import LEASE, Lease, contain, create_task, renew_blocking
from callsheet.storage.runs.records import Action, Ending, Run, RunAttempt, RunOutcome
from callsheet.storage.runs.runs import Runs

BuildReply = Callable[[Run, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""(run, final state with its questions) to the caller's reply, as JSON. May be called twice."""
MAX_ATTEMPTS: Final = 3
"""Attempts that may die at the same checkpoint before the run is given up."""
_RENEWALS_PER_LEASE: Final = 4
"""Renewals within one lease."""
_FENCED_AT: Final = 0.5
"""Share of a lease without an answer from Redis after which an attempt stops itself."""
_HEARTBEAT_DELAY_S: Final = 0.5
"""Seconds before the lease is renewed and cancellations are checked; most runs end earlier."""
_WATCHES_PER_LEASE: Final = 20
"""Looks for attempts that lost their thread while the process stood still, within one lease."""
_CONFIG_FIELDS: Final = ("tags", "recursion_limit", "max_concurrency")
"""Fields of a client's config that LangGraph gets as they are."""
_log = logging.getLogger(__name__)


class Drained(Exception):
    """The process stops; the run continues in another one."""


class Redeliver(Exception):
    """This process cannot execute the run now; another may."""

    def __init__(self, reason: str, *, retry_s: float = 0.2) -> None:
        """`retry_s` is the delay until the next delivery."""
        super().__init__(reason)
        self.retry_s = retry_s


@dataclass(eq=False)
class RunExecution:
    """An attempt in progress."""

    runs: Runs
    announcements: Announcements
    publisher: EventPublisher
    attempt: RunAttempt
    run: Run
    graph: Pregel[Any, Any]
    """Graph with the server's checkpointer and store."""
    stored_events: Callable[[], AsyncIterable[StoredEvent]]
    """Events of the run that earlier attempts have stored."""
    timeout_s: float
    """Longest duration of an attempt."""
    reply: BuildReply | None = None
    """Builds the caller's reply while the attempt still holds the thread."""
    protocol: ProtocolEncoder | None = None
    """Encoder of the second wire; None where it is not served."""
    observer: Telemetry = field(default_factory=Telemetry)
    control: RunControl = field(default_factory=RunControl)
    cancelled: Action | None = None
    error: Exception | None = None
    """Exception that ended the run, if any."""
    _work_limit: asyncio.Timeout | None = None
    """Set while the graph runs; rescheduling it stops the graph."""
    lease: Lease = field(init=False)
    _task: "asyncio.Task[object] | None" = None
    """Task that executes the graph; None before and after."""
    _fenced: bool = False
    """True once the attempt was stopped because a later one has the thread."""
    _heartbeat: "asyncio.Task[None] | None" = None
    """Task that renews the lease."""

    def __post_init__(self) -> None:
        self.lease = Lease(self.runs, self.attempt)

    async def run_to_outcome(self) -> RunOutcome:
        """Execute the run and return its outcome with the events that are not stored yet.

        Raises `Fenced` once a later attempt has the thread, and `Drained` if the process stops.
        """
        try:
            ended = await self._execute()
            unsent = await self.publisher.drain()
            ended = await self._settle(ended)
            last = [self.publisher.stamp(event) for event in ended.final_events]
            return replace(ended, final_events=[*unsent, *last])
        except Drained:
            await self.publisher.flush()
            raise
        finally:
            await self.publisher.discard()

    async def _execute(self) -> RunOutcome:
        try:
            async with asyncio.timeout(self.timeout_s) as limit:
                return await contain(self._attempt())
        except (Fenced, Drained, StorageDown):
            # Not the run's fault: it continues, here or in another process.
            raise
        except Exception as error:  # noqa: BLE001 -- one of the places that may: the run must end
            if limit.expired():
                late = TimeoutError(f"took longer than {self.timeout_s:g} s")
                return self._failure(late, "timeout")
            return self._failure(error)

    async def _attempt(self) -> RunOutcome:
        # First of all: the run's graph may not load any more.
        if ended := await self._earlier_cancellation():
            return ended
        async with self._own_graph() as self.graph:
            return await self._work_under_lease()

    def _own_graph(self) -> AbstractAsyncContextManager[Pregel[Any, Any]]:
        """Return the graph of this run, which a factory may make from its config and context."""
        config = self._config()
        owner = config["configurable"].get(graph_factory.USER)
        return graph_of_run(self.graph, config, self.run.request["context"] or {}, owner)

    async def _work_under_lease(self) -> RunOutcome:
        """Execute the graph while the lease is renewed; raises as `run_to_outcome`."""
        # Most runs end before anybody can cancel them.
        later = asyncio.get_running_loop().call_later(_HEARTBEAT_DELAY_S, self.start_heartbeat)
        spell = self._work_limit = asyncio.timeout(None)
        self._task, token = asyncio.current_task(), LEASE.set(self.lease)
        STEP_STORE.set(None)  # A run that follows another one inherits its context.
        try:
            async with spell:
                return await self._work()
        except asyncio.CancelledError as error:
            if not (self._fenced and self._task):
                raise
            self._task.uncancel()
            raise Fenced(f"run {self.run.id!r} lost its lease while the process stood still") from error
        except GraphDrained as error:
            raise Drained from error
        except TimeoutError:
            if not (self._heartbeat and spell.expired()):
                raise
            self._heartbeat.result()
            return self._cancellation()
        finally:
            self._work_limit = self._task = None
            LEASE.reset(token)
            later.cancel()
            if self._heartbeat:
                self._heartbeat.cancel()
                await asyncio.gather(self._heartbeat, return_exceptions=True)

    @property
    def is_overdue(self) -> bool:
        """True if the graph runs although its lease has expired; not if the heartbeat stops it already."""
        stopped = self._fenced or (self._heartbeat is not None and self._heartbeat.done())
        return self._task is not None and not stopped and self.lease.has_expired

    def stop_fenced(self) -> None:
        """Cancel the graph's tasks at once: a later attempt has the thread."""
        if self._task:
            self._fenced = True
            for task in (*self.lease.tasks, self._task):
                task.cancel()

    def start_heartbeat(self) -> None:
        """Start renewing the lease and checking for a cancellation."""
        if self._work_limit and self._heartbeat is None:
            self._heartbeat = asyncio.create_task(self._renew_until_cancelled())
            self._heartbeat.add_done_callback(self._stop_work)

    def _stop_work(self, beating: "asyncio.Task[None]") -> None:
        """Stop the graph: the run was cancelled, or the lease is lost."""
        if self._work_limit and not beating.cancelled():
            self._work_limit.reschedule(0)

    async def _renew_until_cancelled(self) -> None:
        """Renew the lease until the run is cancelled or the lease is lost."""
        async with self.announcements.subscribe(self.attempt.thread, "cancel") as bell:
            while self.cancelled is None:
                await wait_for_signal(bell, self.runs.lease_s / _RENEWALS_PER_LEASE)
                bell.clear()
                self.cancelled = await self._renew()

    async def _renew(self) -> Action | None:
        try:
            async with asyncio.timeout(self.runs.lease_s * _FENCED_AT):
                with waiting_for_room(waits=False):
                    return await self.lease.renew()
        except StorageFull:
            # No other attempt can begin either. The next renewal shows whether one has, since.
            return None
        except (TimeoutError, Unavailable) as error:
            # Another process may have the thread when storage answers again.
            raise Fenced(f"run {self.run.id!r} could not renew its lease") from error

    async def _work(self) -> RunOutcome:
        config = self._config()
        before = await self._state_before(config)
        await self._check_crashes(before)
        if late := self._outdated_answer(before):
            return self._refusal(late, before)
        if not self._has_own_checkpoint(before):
            # Only before this run's first checkpoint; later it would fork from the old one again.
            config["configurable"] |= self.run.request.get("checkpoint") or {}
        taken: Collection[str] = ()
        if self._continues:
            state = before or await self.graph.aget_state(config)
            answers = answered_questions(self.run.request, state)
            taken = await self._saver.akeep_pending(config, state.tasks, answers)
        translator = self._translator()
        await self._recall_events(before)
        await self._publish_answers()
        given = self._graph_input(before, taken)
        if isinstance(given, Command) and _only_ends(given):
            # LangGraph has no edge to END here, and would raise the interrupt again.
            await self.graph.aupdate_state(config, None, as_node=END)
        else:
            # Also if it has ended: the attempt that ended it may not have published its last values.
            await self._stream(translator, given, config)
        if translator.finished and not self.reply and not self._may_answer_in_words:
            return RunOutcome("success")
        state = await self.graph.aget_state(_newest_config(config))
        shown = state._replace(values=output_values(self.graph, state.values))
        return await self._success(state, translator.closing_events(shown))

    async def _recall_events(self, before: StateSnapshot | None) -> None:
        """Have the publisher drop the events that an earlier attempt has stored."""
        if self.attempt.number == 1:
            return
        continues = self._has_own_checkpoint(before)
        self.publisher.repeated = repeated = await RepeatedEvents.read(
            self.stored_events(), has_checkpoint=continues and self.graph.cache is None
        )
        for state in _with_subgraphs(before) if before else ():
            place = state.config["configurable"]
            namespace, checkpoint = (
                place.get("checkpoint_ns", ""),
                place["checkpoint_id"] if continues else "",
            )
            self.publisher.checkpoints[namespace] = checkpoint
            repeated.resume(namespace, checkpoint, has_values=not continues or await self._has_values(state))

    async def _has_values(self, state: StateSnapshot) -> bool:
        """Return whether the step of a checkpoint changed its values, so that LangGraph streamed them."""
        stored = await self._saver.aget_tuple(state.config)
        updated = stored and stored.checkpoint.get("updated_channels")
        shown = output_values(self.graph, state.values)
        return updated is None or not isinstance(shown, Mapping) or bool({*updated} & {*shown})

    def _translator(self) -> StreamTranslator:
        request = self.run.request
        if request.get("protocol"):
            if self.protocol is None:
                raise Broken("this process cannot encode the run's stream protocol")
            return self.protocol.translator()
        return EventTranslator(request["stream_mode"], subgraphs=request["subgraphs"])

    async def _stream(self, translator: StreamTranslator, given: Any, config: RunnableConfig) -> None:
        """Run the graph and publish its events; those of a task are stored with its writes."""
        request = self.run.request
        STEP_STORE.set(self.publisher)
        options = {
            "context": request["context"],
            "interrupt_before": request["interrupt_before"],
            "interrupt_after": request["interrupt_after"],
            "output_keys": self.graph.output_channels,
            "durability": "sync",
            "control": self.control,
        }
        async with aclosing(translator.stream(self.graph, given, config, **options)) as stream:
            began_s, speaks = time.monotonic(), False
            async for events in stream:
                if not speaks and any(name.startswith("messages") for name, _ in events):
                    speaks = True
                    self.observer.observe_first_words(self.run.graph, time.monotonic() - began_s)
                await self.publisher.publish(events)

    async def _publish_answers(self) -> None:
        """Publish the ids of the questions that this run answers."""
        if self.protocol and (answers := self.run.request.get("answers")):
            await self.publisher.publish([self.protocol.answers(sorted(answers))])

    async def _state_before(self, config: RunnableConfig) -> StateSnapshot | None:
        """Return the thread's state if the graph's input depends on it; else None."""
        if self.attempt.number > 1:
            streams_subgraphs = bool(self.run.request["subgraphs"] or self.run.request.get("protocol"))
            return await self.graph.aget_state(_newest_config(config), subgraphs=streams_subgraphs)
        if self.run.request.get("answers"):
            place = _newest_config(config)
            place["configurable"] |= self.run.request.get("checkpoint") or {}
            return await self.graph.aget_state(place)
        return None

    async def _check_crashes(self, before: StateSnapshot | None) -> None:
        """Raise `Conflict` for a run that crashed `MAX_ATTEMPTS` processes at the same checkpoint.

        A run with progress since then may only have shared its process with the harmful one.
        """
        if self.attempt.number == 1:
            return
        place = (before.config if before else {}).get("configurable", {}).get("checkpoint_id", "")
        if crashes := await self.runs.record_crash(self.attempt, place):
            log_crash(self.attempt)
        if crashes >= MAX_ATTEMPTS:
            raise Conflict(
                f"run {self.run.id!r} crashed {MAX_ATTEMPTS} processes at the same checkpoint",
                remedy="look at the logs of those processes",
            )

    @property
    def _continues(self) -> bool:
        """True for a run that goes on with the thread's unfinished tasks, such as an answer."""
        return bool(self.run.request["command"]) or self.run.request["input"] is None

    def _has_own_checkpoint(self, newest: StateSnapshot | None) -> bool:
        """Return True if an earlier attempt at this run has stored a checkpoint."""
        return newest is not None and (newest.metadata or {}).get(RUN_KEY) == self.run.id

    def _outdated_answer(self, before: StateSnapshot | None) -> Conflict | None:
        """Return the error of a run whose questions are no longer pending; None if they are."""
        if before is None or self.attempt.number > 1:
            return None
        pending = {each.id: sha256_of(each.value) for each in pending_interrupts(before)}
        expected = self.run.request.get("questions") or {}
        gone = [name for name in expected if pending.get(name) != expected[name]]
        return (
            Conflict(f"question {gone[0]!r} has been answered already", remedy="read the thread's state")
            if gone
            else None
        )

    @property
    def _may_answer_in_words(self) -> bool:
        """True for a workflow of ours that has the key `ANSWERED`; other graphs may mean anything by it."""
        schema = getattr(getattr(self.graph, "builder", None), "state_schema", object)
        return ANSWERED in self.graph.channels and str(schema.__module__).startswith("callsheet.state.")

    def _graph_input(self, before: StateSnapshot | None, taken: Collection[str]) -> Any:
        """Return the graph's input without answers that are taken; None to continue the newest checkpoint."""
        request, has_own = self.run.request, self._has_own_checkpoint(before)
        if has_own or not request["command"]:
            return None if has_own else request["input"]
        left = {name: value for name, value in (request["answers"] or {}).items() if name not in taken}
        return resume_command(request["command"], left) if left or not taken else None

    def _config(self) -> RunnableConfig:
        """Return the run's config for the thread's newest checkpoint."""
        request = self.run.request
        chosen: dict[str, Any] = {
            **request["config"].get("configurable", {}),
            "thread_id": self.attempt.thread,
            "run_id": self.run.id,
            "graph_id": self.run.graph,
            "assistant_id": self.run.assistant,
            **graph_factory.user_config(self.run.owner),
            OWNER_KEY: self.run.owner,
            EPOCH_KEY: self.attempt.epoch,
            RUN_KEY: self.run.id,
            RESUMES_KEY: bool(request["command"]) or request["input"] is None,
        }
        metadata = {**self.run.metadata, "run_id": self.run.id, "run_attempt": self.attempt.number}
        rest = {name: request["config"][name] for name in _CONFIG_FIELDS if name in request["config"]}
        ids = {"run_id": _trace_id(self.run.id)}
        return cast("RunnableConfig", {**rest, **ids, "configurable": chosen, "metadata": metadata})

    async def _success(self, state: StateSnapshot, events: list[Event]) -> RunOutcome:
        interrupts = interrupts_by_task(state)
        answer = await self.reply(self.run, run_result(self.graph, state)) if self.reply else None
        standing: Any = "interrupted" if state.next else "idle"
        reads = self._may_answer_in_words and not self.run.request.get("answers")
        words = answer_in_words(state.values) if reads else ""
        return RunOutcome("success", standing, interrupts, answer=answer, words=words, final_events=events)

    @property
    def _saver(self) -> RedisSaver:
        return cast("RedisSaver", self.graph.checkpointer)

    async def _settle(self, outcome: RunOutcome) -> RunOutcome:
        """Remove what the run must not leave, and return the outcome with what waits on the thread.

        The thread is still held, so that no other run reads it. Raises `Fenced` if it is not.
        """
        if outcome.ending in {"rolled-back", "interrupted"}:
            return await cancelled_outcome(self.runs, self._saver, self.attempt, outcome.ending)
        if isinstance(self.error, BudgetUsedUp):
            config = self._config()
            await self._saver.adelete_own_run(config)
            return _outcome_with_state(await self.graph.aget_state(_newest_config(config)), outcome)
        if outcome.ending != "success" and self._continues:
            await self._saver.arelease_answers(self._config())
        return outcome

    def _refusal(self, error: Conflict, state: StateSnapshot | None) -> RunOutcome:
        """Return the outcome of a run that was refused; the thread stays as it is."""
        failed = self._failure(error)
        return _outcome_with_state(state, failed) if state else failed

    def _failure(self, error: Exception, ending: Any = "error") -> RunOutcome:
        self.error = error
        return failed_outcome(error, ending)

    async def _earlier_cancellation(self) -> RunOutcome | None:
        """Return the outcome of a run that was cancelled before this attempt; None for another."""
        if self.attempt.number > 1 or self.run.cancel:
            self.cancelled = await self._renew()
        return self._cancellation() if self.cancelled else None

    def _cancellation(self) -> RunOutcome:
        return RunOutcome("rolled-back" if self.cancelled == "rollback" else "interrupted")


@contextmanager
def watch_leases(runs: Runs, executions: Collection[RunExecution]) -> Iterator[None]:
    """Stop attempts that lost their thread while this process stood still, before their code goes on.

    A timer's callback runs before the tasks that the same wake-up continues. So it finds the leases that
    expired meanwhile, renews them in one blocking round trip, and cancels every task of a fenced attempt.
    """
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    loop.set_task_factory(partial(create_task, factory or asyncio.Task))
    timer = loop.call_later(0, lambda: None)

    def check() -> None:
        nonlocal timer
        timer = loop.call_later(runs.lease_s / _WATCHES_PER_LEASE, check)
        if expired := [each for each in executions if each.is_overdue]:
            _stop_fenced(runs, expired)

    check()
    try:
        yield
    finally:
        timer.cancel()
        loop.set_task_factory(factory)


def _stop_fenced(runs: Runs, executions: Collection[RunExecution]) -> None:
    try:
        lost = renew_blocking(runs, [each.lease for each in executions])
    except CallsheetError as error:
        _log.warning("%d runs stop, because their leases cannot be renewed: %s", len(executions), error)
        lost = [each.lease for each in executions]
    for each in executions:
        if each.lease in lost:
            each.stop_fenced()


def _outcome_with_state(state: StateSnapshot, outcome: RunOutcome) -> RunOutcome:
    """Return the outcome of a run that leaves its thread in this state."""
    standing: Any = "interrupted" if state.next else "idle"
    return replace(outcome, thread=standing, interrupts=interrupts_by_task(state))


def failed_outcome(error: Exception, ending: Ending = "error") -> RunOutcome:
    """Return the outcome of a run that an error ends."""
    record = serialize_error(error)
    last = ("error", dumps({"error": record["error"], "message": record["message"]}))
    return RunOutcome(ending, "error", error=record, final_events=[last])


def unstorable_outcome(error: Exception) -> RunOutcome:
    """Return the outcome of a run whose result or error cannot be stored."""
    record = {"error": type(error).__name__, "message": f"the outcome of the run cannot be stored: {error}"}
    return RunOutcome("error", "error", error=record, final_events=[("error", dumps(record))])


def resume_command(command: Mapping[str, Any], answers: Mapping[str, Any] | None) -> Command[Any]:
    """Return LangGraph's command for a client's; `answers` maps question ids to values."""
    goto = command.get("goto") or ()
    steps = [
        Send(step["node"], step.get("input")) if isinstance(step, Mapping) else step
        for step in (goto if isinstance(goto, list) else [goto] if goto else [])
    ]
    update = command.get("update")
    if isinstance(update, list) and all(isinstance(pair, list) for pair in update):
        update = [tuple(pair) for pair in update]
    return Command(update=update, resume=dict(answers) if answers else command.get("resume"), goto=steps)


def _only_ends(given: Command[Any]) -> bool:
    """Return True if a command only ends the pending interrupt."""
    return given.goto == [END] and given.update is None and given.resume is None


def pending_interrupts(state: StateSnapshot) -> list[Interrupt]:
    """Return the pending interrupts; those of a task with a result are answered but not merged yet."""
    return [each for task in state.tasks if task.result is None for each in task.interrupts]


def interrupts_by_task(state: StateSnapshot) -> dict[str, list[dict[str, Any]]]:
    """Return the pending interrupts by task, in the shape of LangGraph's clients."""
    return {
        task.id: interrupt_views(task.interrupts)
        for task in state.tasks
        if task.interrupts and task.result is None
    }


def _with_subgraphs(state: StateSnapshot) -> Iterator[StateSnapshot]:
    """Yield the state of a graph and of its running subgraphs that have a checkpoint."""
    if state.config["configurable"].get("checkpoint_id"):
        yield state
    for task in state.tasks:
        if isinstance(task.state, StateSnapshot):
            yield from _with_subgraphs(task.state)


def run_result(
    graph: Pregel[Any, Any], state: StateSnapshot, streamed: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the result of a run: the values of its output, and its interrupts if there are any.

    Values that were `streamed` last are newer than those of the state.
    """
    shown = output_values(graph, state.values)
    values = {**(shown if isinstance(shown, Mapping) else {"values": shown}), **streamed}
    interrupts = pending_interrupts(state)
    return values | ({"__interrupt__": interrupts} if interrupts else {})


def reply_of(run: str, ended: Run | None) -> dict[str, Any]:
    """Return the reply of a run that has ended, None for one that was deleted; raise its error."""
    if ended is None or ended.status == "interrupted":
        raise Conflict(f"run {run!r} was cancelled", remedy="send the request again")
    if ended.answer is None:
        raise deserialize_error(ended.error or {})
    return dict(ended.answer)


def output_values(graph: Pregel[Any, Any], values: Any) -> Any:
    """Return the values of a state that belong to the graph's output; a run shows no others."""
    names = graph.output_channels
    if isinstance(names, str) or not isinstance(values, Mapping):
        return values
    return {name: values[name] for name in names if name in values}


def _trace_id(run: str) -> uuid.UUID | None:
    """Return the id of a run's trace, which is the run's; None for an id that is no UUID."""
    try:
        return uuid.UUID(run)
    except ValueError:
        return None


def _newest_config(config: RunnableConfig) -> RunnableConfig:
    chosen = {name: value for name, value in config["configurable"].items() if name != "checkpoint_id"}
    return {"configurable": chosen}
