"""One attempt at a run: the graph, from where it stands, to its end, its next question, or a cancellation.

An attempt that dies is taken up by another (ARCHITECTURE: exactly once): it goes on without input only where
a checkpoint of this very run is the thread's newest; else the input never arrived and is given again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.graph import END
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, Send, StateSnapshot

from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY, RUN_KEY
from callsheet.server.langgraph.protocol.encoding import ProtocolTranslator, protocol_event
from callsheet.server.runtime import user
from callsheet.server.runtime.encoding import Event, EventTranslator, dumps, sha256_of
from callsheet.server.runtime.errors import serialize_error
from callsheet.server.runtime.event_publisher import EventPublisher
from callsheet.state.errors import CallsheetError, Conflict, Fenced, StorageDown, Unavailable
from callsheet.storage.checkpoints.context import BEFORE_CHECKPOINT
from callsheet.storage.runs.announcements import Announcements, wait_for_signal
from callsheet.storage.runs.records import Action, Attempt, Outcome, Run
from callsheet.storage.runs.runs import Runs

BuildReply = Callable[[Run, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""(run, final state with its questions) to what its caller is told; JSON. It may be asked twice."""
MAX_ATTEMPTS: Final = 3
"""Attempts at a run that may die at the same place before it is given up."""
_BEATS: Final = 4
"""How often a lease is renewed while it lasts."""
_FENCED_AT: Final = 0.5
"""Share of a lease without a word from Redis after which an attempt stops itself."""
_SHORT_S: Final = 0.5
"""How long a run may take before one listens for its cancellation by other processes."""
_log = logging.getLogger(__name__)


class Drained(Exception):
    """The process is to end: the run goes on elsewhere."""


class Redeliver(Exception):
    """The run is none for this process now, for another it may be."""

    def __init__(self, reason: str, *, again_s: float = 0.2) -> None:
        """`again_s` is when it may be brought to a process again."""
        super().__init__(reason)
        self.again_s = again_s


@dataclass(eq=False)
class RunExecution:
    """An attempt under way."""

    runs: Runs
    announcements: Announcements
    teller: EventPublisher
    attempt: Attempt
    run: Run
    graph: Pregel[Any, Any]
    """With everything it remembers in storage."""
    timeout_s: float
    """The longest an attempt may take."""
    reply: BuildReply | None = None
    """What the run's caller is told, made while the thread is still held."""
    control: RunControl = field(default_factory=RunControl)
    cancelled: Action | None = None
    _spell: asyncio.Timeout | None = None
    """While the work lasts; its end cuts that short."""
    _beating: "asyncio.Task[None] | None" = None
    """What renews the lease."""

    async def run_to_outcome(self) -> Outcome:
        """Carry the run out and return how it ended, with what is left to tell of it.

        Raises `Fenced` once a later attempt has the thread, and `Stopped` where the process is to end.
        """
        try:
            ended = await self._ended()
            return replace(ended, told=[*await self.teller.drain(), *ended.told])
        except Drained:
            await self.teller.flush()
            raise
        finally:
            await self.teller.discard()

    async def _ended(self) -> Outcome:
        try:
            async with asyncio.timeout(self.timeout_s) as limit:
                return await self._working()
        except (Fenced, Drained, StorageDown):
            # Not the run's fault: it goes on, here or elsewhere.
            raise
        except Exception as error:  # noqa: BLE001 -- one of the three places that may: the run must end
            if limit.expired():
                late = TimeoutError(f"took longer than {self.timeout_s:g} s")
                return self._failed(late, "timeout")
            return self._failed(error)

    async def _working(self) -> Outcome:
        """Work while the lease is renewed; raises as `outcome`."""
        # Most runs are over before anybody can want them cancelled.
        later = asyncio.get_running_loop().call_later(_SHORT_S, self.start_heartbeat)
        spell = self._spell = asyncio.timeout(None)
        try:
            async with spell:
                return await self._work()
        except GraphDrained as error:
            raise Drained from error
        except TimeoutError:
            if not (self._beating and spell.expired()):
                raise
            self._beating.result()
            return self._cut_short()
        finally:
            self._spell = None
            later.cancel()
            if self._beating:
                self._beating.cancel()
                await asyncio.gather(self._beating, return_exceptions=True)

    def start_heartbeat(self) -> None:
        """Renew the lease from now on, and see whether the run is to be cancelled."""
        if self._spell and self._beating is None:
            self._beating = asyncio.create_task(self._beat())
            self._beating.add_done_callback(self._end_spell)

    def _end_spell(self, beating: "asyncio.Task[None]") -> None:
        """Cut the work short: the run is to be cancelled, or the lease is lost."""
        if self._spell and not beating.cancelled():
            self._spell.reschedule(0)

    async def _beat(self) -> None:
        """Renew the lease until the run is to be cancelled, or the lease is lost."""
        async with self.announcements.subscribe(self.attempt.thread, "cancel") as bell:
            while self.cancelled is None:
                await wait_for_signal(bell, self.runs.lease_s / _BEATS)
                bell.clear()
                self.cancelled = await self._renewed()

    async def _renewed(self) -> Action | None:
        try:
            async with asyncio.timeout(self.runs.lease_s * _FENCED_AT):
                return await self.runs.renew(self.attempt)
        except (TimeoutError, Unavailable) as error:
            # Somebody else may have the thread by the time storage answers again.
            raise Fenced(f"run {self.run.id!r} could not renew its lease") from error

    async def _work(self) -> Outcome:
        config = self._config()
        before = await self._before(config)
        await self._spared(before)
        if late := self._late(before):
            return self._refused(late, before)
        if not self._is_mine(before):
            # Where this run has made no checkpoint yet; later, it would be gone back to once more.
            config["configurable"] |= self.run.request.get("checkpoint") or {}
        translator = self._translator()
        if before is None or before.tasks or not self._is_mine(before):
            await self._answered()
            given = self._given(before)
            if isinstance(given, Command) and _ends(given):
                # LangGraph has no edge to go there by, and would ask the thread's question once more.
                await self.graph.aupdate_state(config, None, as_node=END)
            else:
                await self._stream(translator, given, config)
        else:
            await self._told_again(before)
        if translator.finished and not self.reply:
            return Outcome("success")
        state = await self.graph.aget_state(_newest(config))
        return await self._succeeded(state, translator.closing_events(state))

    async def _told_again(self, done: StateSnapshot) -> None:
        """Tell what all came to: the attempt that did the last of it died, perhaps before it had told so."""
        request = self.run.request
        if request.get("protocol") or "values" in request["stream_mode"]:
            await self.teller.publish([("values", dumps(done.values))])

    def _translator(self) -> EventTranslator | ProtocolTranslator:
        request = self.run.request
        if request.get("protocol"):
            return ProtocolTranslator()
        return EventTranslator(request["stream_mode"], subgraphs=request["subgraphs"])

    async def _stream(
        self, translator: EventTranslator | ProtocolTranslator, given: Any, config: RunnableConfig
    ) -> None:
        """Run the graph, and tell what it does as it happens, what a step told no later than it is stored."""
        request = self.run.request
        BEFORE_CHECKPOINT.set(self.teller.send_now)
        options = {
            "context": request["context"],
            "interrupt_before": request["interrupt_before"],
            "interrupt_after": request["interrupt_after"],
            "durability": "sync",
            "control": self.control,
        }
        async with aclosing(translator.stream(self.graph, given, config, **options)) as told:
            async for events in told:
                await self.teller.publish(events)

    async def _answered(self) -> None:
        """Tell which questions are answered by this run."""
        if answers := self.run.request.get("answers"):
            await self.teller.publish(
                [protocol_event("input.answered", (), {"interrupt_ids": sorted(answers)})]
            )

    async def _before(self, config: RunnableConfig) -> StateSnapshot | None:
        """Return the thread's state where it matters for what the graph is given; else None."""
        if self.attempt.number > 1:
            return await self.graph.aget_state(_newest(config))
        if self.run.request.get("answers"):
            place = _newest(config)
            place["configurable"] |= self.run.request.get("checkpoint") or {}
            return await self.graph.aget_state(place)
        return None

    async def _spared(self, before: StateSnapshot | None) -> None:
        """Raise `Conflict` for a run that ends every process that comes as far as this.

        One that got on since the last time is not to blame: it may share its processes with one that is.
        """
        if self.attempt.number == 1:
            return
        place = (before.config if before else {}).get("configurable", {}).get("checkpoint_id", "")
        if await self.runs.record_crash(self.attempt, place) >= MAX_ATTEMPTS:
            raise Conflict(
                f"run {self.run.id!r} ended {MAX_ATTEMPTS} processes that were at it",
                remedy="look at its logs",
            )

    def _is_mine(self, newest: StateSnapshot | None) -> bool:
        """Return whether an earlier attempt at this run has come as far as a checkpoint."""
        return newest is not None and (newest.metadata or {}).get(RUN_KEY) == self.run.id

    def _late(self, before: StateSnapshot | None) -> Conflict | None:
        """Return what is wrong with a run whose questions wait for its answers no more."""
        if before is None or self.attempt.number > 1:
            return None
        asked = {each.id: sha256_of(each.value) for each in pending_interrupts(before)}
        expected = self.run.request.get("questions") or {}
        gone = [name for name in expected if asked.get(name) != expected[name]]
        return (
            Conflict(f"question {gone[0]!r} has been answered already", remedy="read the thread's state")
            if gone
            else None
        )

    def _given(self, before: StateSnapshot | None) -> Any:
        """Return what the graph is given; None has it go on from where it stands."""
        request = self.run.request
        if self._is_mine(before):
            return None
        return (
            resume_command(request["command"], request["answers"]) if request["command"] else request["input"]
        )

    def _config(self) -> RunnableConfig:
        """Return the run's config, at the thread's newest checkpoint."""
        request = self.run.request
        chosen: dict[str, Any] = {
            **request["config"].get("configurable", {}),
            "thread_id": self.attempt.thread,
            "checkpoint_ns": "",
            "run_id": self.run.id,
            "graph_id": self.run.graph,
            "assistant_id": self.run.assistant,
            **user.user_config(self.run.owner),
            OWNER_KEY: self.run.owner,
            EPOCH_KEY: self.attempt.epoch,
            RUN_KEY: self.run.id,
        }
        metadata = {**self.run.metadata, "run_id": self.run.id, "run_attempt": self.attempt.number}
        rest = {
            name: request["config"][name] for name in ("tags", "recursion_limit") if name in request["config"]
        }
        return cast("RunnableConfig", {**rest, "configurable": chosen, "metadata": metadata})

    async def _succeeded(self, state: StateSnapshot, told: list[Event]) -> Outcome:
        interrupts = interrupts_by_task(state)
        answer = await self.reply(self.run, run_result(state)) if self.reply else None
        standing: Any = "interrupted" if state.next else "idle"
        return Outcome("success", standing, interrupts, answer=answer, told=told)

    def _refused(self, error: Conflict, state: StateSnapshot | None) -> Outcome:
        """End the run before it began; the thread stays as it is."""
        failed = self._failed(error)
        if state is None:
            return failed
        standing: Any = "interrupted" if state.next else "idle"
        return replace(failed, thread=standing, interrupts=interrupts_by_task(state))

    def _failed(self, error: Exception, ending: Any = "error") -> Outcome:
        if not isinstance(error, CallsheetError):
            _log.warning("run %s failed", self.run.id, exc_info=error)
        told = serialize_error(error)
        last = ("error", dumps({"error": told["error"], "message": told["message"]}))
        return Outcome(ending, "error", error=told, told=[last])

    def _cut_short(self) -> Outcome:
        told = {"error": "UserInterrupt", "message": "the run was cancelled"}
        if self.cancelled == "rollback":
            return Outcome("rolled-back")
        return Outcome("interrupted", "interrupted", error=told)


def resume_command(asked: Mapping[str, Any], answers: Mapping[str, Any] | None) -> Command[Any]:
    """Return a client's command for LangGraph; `answers` binds a resume to the questions it is for."""
    goto = asked.get("goto") or ()
    steps = [
        Send(step["node"], step.get("input")) if isinstance(step, Mapping) else step
        for step in (goto if isinstance(goto, list) else [goto] if goto else [])
    ]
    update = asked.get("update")
    if isinstance(update, list) and all(isinstance(pair, list) for pair in update):
        update = [tuple(pair) for pair in update]
    return Command(update=update, resume=dict(answers) if answers else asked.get("resume"), goto=steps)


def _ends(given: Command[Any]) -> bool:
    """Whether a command does nothing but end what the thread waits with."""
    return given.goto == [END] and given.update is None and given.resume is None


def pending_interrupts(state: StateSnapshot) -> list[Interrupt]:
    """Return the questions that wait for an answer; a task may have its answer, and not be merged yet."""
    return [each for task in state.tasks if task.result is None for each in task.interrupts]


def interrupts_by_task(state: StateSnapshot) -> dict[str, list[dict[str, Any]]]:
    """Return the questions a thread waits with, by task, as LangGraph's clients know them."""
    return {
        task.id: [{"id": each.id, "value": each.value} for each in task.interrupts]
        for task in state.tasks
        if task.interrupts and task.result is None
    }


def run_result(state: StateSnapshot) -> dict[str, Any]:
    """Return what a run that is waited for answers: the values, and the questions if there are any."""
    values = dict(state.values) if isinstance(state.values, Mapping) else {"values": state.values}
    asked = pending_interrupts(state)
    return values | ({"__interrupt__": asked} if asked else {})


def _newest(config: RunnableConfig) -> RunnableConfig:
    chosen = {name: value for name, value in config["configurable"].items() if name != "checkpoint_id"}
    return {"configurable": chosen}
