"""The end of a cancelled run: its checkpoints stay or go, and what waits for a person waits again."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.types import Interrupt, StateSnapshot

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.engine.json_values import dumps
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.runs.records import Ending, RunAttempt, RunOutcome
from callsheet.storage.runs.runs import Runs


async def cancelled_outcome(runs: Runs, saver: RedisSaver, attempt: RunAttempt, ending: Ending) -> RunOutcome:
    """Return the outcome of a run that ends as `interrupted`, or `rolled-back` with its checkpoints deleted.

    It needs no graph. The attempt still holds the thread; raises `Fenced` if it does not.
    """
    config = _config(attempt)
    if ending == "rolled-back":
        await saver.adelete_own_run(config)
        return await runs.rolled_back(attempt.thread)
    await saver.awithdraw_answers(config)
    record = {"error": "UserInterrupt", "message": "the run was cancelled"}
    return RunOutcome("interrupted", "interrupted", await _stored_interrupts(saver, config), error=record)


def answered_questions(request: Mapping[str, Any], state: StateSnapshot) -> tuple[str, ...] | None:
    """Return ids of the questions that a run answers: none if it answers any; None without an answer."""
    resume = (request["command"] or {}).get("resume")
    if resume is None:
        return None
    given = request["answers"] or (resume if isinstance(resume, Mapping) else {})
    return tuple(one.id for task in state.tasks for one in task.interrupts if one.id in given)


async def withdraw_answers(saver: RedisSaver, attempt: RunAttempt) -> None:
    """Have the questions wait again that a run has answered in a step which it does not end."""
    await saver.awithdraw_answers(_config(attempt))


def _config(attempt: RunAttempt) -> RunnableConfig:
    names = {"thread_id": attempt.thread, "run_id": attempt.run, EPOCH_KEY: attempt.epoch}
    return {"configurable": names}


async def _stored_interrupts(saver: RedisSaver, config: RunnableConfig) -> Mapping[str, Any]:
    """Return the interrupts by task that wait in the thread's newest state."""
    stored = await saver.aget_tuple(config)
    writes = (stored and stored.pending_writes) or ()
    answered = {task for task, channel, _ in writes if channel not in WRITES_IDX_MAP}
    waiting: dict[str, list[Interrupt]] = defaultdict(list)
    for task, channel, value in writes:
        if channel == INTERRUPT and task not in answered:
            waiting[task] += value
    return {task: interrupt_views(each) for task, each in waiting.items()}


def interrupt_views(interrupts: Iterable[Interrupt]) -> list[dict[str, Any]]:
    """Return interrupts in the shape of LangGraph's clients."""
    return [{"id": each.id, "value": json.loads(dumps(each.value))} for each in interrupts]
