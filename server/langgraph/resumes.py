"""Resume values: each is bound to its interrupt when the request is accepted, never later.

An unbound value would answer whichever interrupt comes next, so a resume sent twice would answer two of them.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from langgraph.pregel import Pregel
from langgraph.types import Interrupt

from callsheet.server.engine.encoding import sha256_of
from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.engine.graph_states import build_state
from callsheet.server.engine.worker import Worker
from callsheet.server.langgraph.bodies import ResumeValues
from callsheet.state.errors import Conflict, Refused

INTERRUPT_ID: Final = re.compile(r"[0-9a-f]{32}")
_TRIES: Final = 40
_RETRY_S: Final = 0.025
"""An interrupt is streamed shortly before it is stored."""


async def bind_resume(
    worker: Worker, thread: str, graph: str, checkpoint: Mapping[str, Any], resume: Any
) -> ResumeValues:
    """Return a resume bound to the thread's interrupts at `checkpoint`; an empty one is the newest.

    Raises `Conflict` if no such interrupt is pending, `Refused` if several are and the resume names none, and
    as `build_state`.
    """
    for _ in range(_TRIES):
        pending = await _pending(worker.graphs[graph], thread, checkpoint)
        if pending or not await worker.runs.active(thread):
            break
        await asyncio.sleep(_RETRY_S)
    if not pending:
        raise Conflict(f"thread {thread!r} has no pending interrupt", remedy="read the thread's state")
    values = _by_interrupt(resume, pending)
    if unknown := sorted(set(values) - set(pending)):
        raise Conflict(
            f"interrupt {unknown[0]!r} is not pending", remedy=f"answer one of {_sorted_names(pending)}"
        )
    return ResumeValues(values, {name: sha256_of(pending[name].value) for name in values})


def _by_interrupt(resume: Any, pending: Mapping[str, Interrupt]) -> Mapping[str, Any]:
    if isinstance(resume, Mapping) and resume and all(INTERRUPT_ID.fullmatch(name) for name in resume):
        return resume
    if len(pending) > 1:
        raise Refused(
            f"the thread has {len(pending)} pending interrupts: {_sorted_names(pending)}",
            remedy="send the answers by interrupt id",
        )
    return dict.fromkeys(pending, resume)


async def _pending(
    graph: Pregel[Any, Any], thread: str, checkpoint: Mapping[str, Any]
) -> dict[str, Interrupt]:
    state = await build_state(graph, {"configurable": {**checkpoint, "thread_id": thread}})
    return {interrupt.id: interrupt for interrupt in pending_interrupts(state)}


def _sorted_names(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
