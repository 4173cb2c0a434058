"""What callers want done on a thread, as the run that does it."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callsheet.state.context import Context
from callsheet.state.plan import canonical_json
from callsheet.storage.runs.records import RunRequest
from callsheet.storage.threads.threads import Thread


@dataclass(frozen=True)
class DomainRun:
    """What a caller of the domain's endpoints wants done on a thread."""

    thread: Thread
    input: Mapping[str, Any]
    """What the graph is given; JSON."""
    body: Mapping[str, Any]
    """The request as it came: two with the same body are the same request."""
    context: Context = field(default_factory=Context)
    idempotency_key: str | None = None
    stream_modes: Sequence[str] = ("custom",)
    """What its run tells as it goes."""
    answers: Mapping[str, Any] | None = None
    """Answers by the ids of the questions they are for; the run then goes on from there, without input."""
    questions: Mapping[str, str] | None = None
    """Digests of those questions, so that no other is answered."""
    repeatable: bool = False
    """Whether the same again is another request even before its answer has arrived."""

    def to_run_request(self) -> RunRequest:
        """Return the run that does the job, refused while another has the thread."""
        parts = canonical_json([self.thread.graph, self.thread.owner, self.body])
        return RunRequest(
            id=str(uuid.uuid4()),
            graph=self.thread.graph,
            owner=self.thread.owner,
            request=request_fields(
                **self._asked(), context=self.context, stream_mode=[*self.stream_modes], reply=True
            ),
            strategy="reject",
            fingerprint="" if self.repeatable else hashlib.sha256(parts.encode()).hexdigest(),
            idempotency_key=self.idempotency_key,
            questions=tuple(f"{name}:{digest}" for name, digest in (self.questions or {}).items()),
        )

    def _asked(self) -> dict[str, Any]:
        if self.answers is None:
            return {"input": self.input}
        return {"command": {"resume": self.answers}, "answers": self.answers, "questions": self.questions}


def request_fields(**chosen: Any) -> dict[str, Any]:
    """Return what a run is asked to do: `chosen`, and for the rest what LangGraph's clients expect."""
    usual: dict[str, Any] = {
        "input": None,
        "command": None,
        "answers": None,
        "questions": None,
        "config": {},
        "context": None,
        "checkpoint": None,
        "stream_mode": ["values"],
        "subgraphs": False,
        "protocol": False,
        "interrupt_before": None,
        "interrupt_after": None,
        "temporary": False,
        "reply": False,
        "webhook": None,
        "resumable": False,
    }
    return usual | chosen
