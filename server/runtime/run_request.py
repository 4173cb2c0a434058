"""Requests of the domains' endpoints, as runs."""

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
    """A request of a domain's endpoint on a thread."""

    thread: Thread
    input: Mapping[str, Any]
    """The graph's input, as JSON."""
    body: Mapping[str, Any]
    """Body of the request; equal bodies are the same request."""
    context: Context = field(default_factory=Context)
    idempotency_key: str | None = None
    stream_modes: Sequence[str] = ("custom",)
    """Stream modes of the run."""
    answers: Mapping[str, Any] | None = None
    """Answers by question id; the run resumes with them and takes no input."""
    questions: Mapping[str, str] | None = None
    """Digests of those questions, so that no other question is answered."""
    repeatable: bool = False
    """Never deduplicate by body."""

    def to_run_request(self) -> RunRequest:
        """Return the run for this request; it is refused while another run has the thread."""
        parts = canonical_json([self.thread.graph, self.thread.owner, self.body])
        return RunRequest(
            id=str(uuid.uuid4()),
            graph=self.thread.graph,
            owner=self.thread.owner,
            request=request_fields(
                **self._input_fields(), context=self.context, stream_mode=[*self.stream_modes], reply=True
            ),
            strategy="reject",
            fingerprint="" if self.repeatable else hashlib.sha256(parts.encode()).hexdigest(),
            idempotency_key=self.idempotency_key,
            questions=tuple(f"{name}:{digest}" for name, digest in (self.questions or {}).items()),
        )

    def _input_fields(self) -> dict[str, Any]:
        if self.answers is None:
            return {"input": self.input}
        return {"command": {"resume": self.answers}, "answers": self.answers, "questions": self.questions}


def request_fields(**chosen: Any) -> dict[str, Any]:
    """Return the fields of a run's request: `chosen`, and LangGraph's defaults for the rest."""
    defaults: dict[str, Any] = {
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
    return defaults | chosen
