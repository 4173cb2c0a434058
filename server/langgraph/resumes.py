"""Answers to a thread's questions: each is bound to its question when it is accepted, never later.

An answer that is bound to nothing would answer whatever is asked next, so a resume that was sent twice would
answer two questions (X9).
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

from langgraph.pregel import Pregel
from langgraph.types import Interrupt

from callsheet.server.langgraph.run_bodies import ResumeValues
from callsheet.server.runtime.encoding import sha256_of
from callsheet.server.runtime.execution import pending_interrupts
from callsheet.server.runtime.worker import Worker
from callsheet.state.errors import Conflict, Refused

_ID: Final = re.compile(r"[0-9a-f]{32}")
_TRIES: Final = 40
_PAUSE_S: Final = 0.025
"""The stream tells a question a moment before storage has it."""


async def bind_resume(
    worker: Worker, thread: str, graph: str, place: Mapping[str, Any], resume: Any
) -> ResumeValues:
    """Return a resume bound to the questions the thread waits with, at its newest checkpoint or at `place`.

    Raises `Conflict` where nothing waits for it, and `Refused` where it does not say which of several
    questions it answers.
    """
    for _ in range(_TRIES):
        asked = await _asked(worker.graphs[graph], thread, place)
        if asked or not await worker.runs.active(thread):
            break
        await asyncio.sleep(_PAUSE_S)
    if not asked:
        raise Conflict("nothing waits for an answer", remedy="read the thread's state")
    values = _named(resume, asked)
    if unknown := sorted(set(values) - set(asked)):
        raise Conflict(
            f"question {unknown[0]!r} does not wait for an answer",
            remedy=f"answer {_listed(asked)}, which do",
        )
    return ResumeValues(values, {name: sha256_of(asked[name].value) for name in values})


def _named(resume: Any, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(resume, Mapping) and resume and all(_ID.fullmatch(name) for name in resume):
        return resume
    if len(asked) > 1:
        raise Refused(
            f"{len(asked)} questions wait for an answer: {_listed(asked)}",
            remedy="send the answers by question id",
        )
    return dict.fromkeys(asked, resume)


async def _asked(graph: Pregel[Any, Any], thread: str, place: Mapping[str, Any]) -> dict[str, Interrupt]:
    state = await graph.aget_state({"configurable": {"thread_id": thread, **place}})
    return {each.id: each for each in pending_interrupts(state)}


def _listed(asked: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in sorted(asked))
