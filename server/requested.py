"""What callers want done on a thread, as the run that does it."""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from state.context import Context
from state.plan import dumped
from storage.run_records import Wanted
from storage.threads import Thread


@dataclass(frozen=True)
class Job:
    """What a caller of the domain's endpoints wants done on a thread."""

    thread: Thread
    input: Mapping[str, Any]
    """What the graph is given; JSON."""
    body: Mapping[str, Any]
    """The request as it came: two with the same body are the same request."""
    context: Context = field(default_factory=Context)
    idempotency_key: str | None = None

    def wanted(self) -> Wanted:
        """Return the run that does the job, refused while another has the thread."""
        parts = dumped([self.thread.graph, self.thread.owner, self.body])
        return Wanted(
            id=str(uuid.uuid4()),
            graph=self.thread.graph,
            owner=self.thread.owner,
            request=request(input=self.input, context=self.context, stream_mode=["custom"], reply=True),
            strategy="reject",
            fingerprint=hashlib.sha256(parts.encode()).hexdigest(),
            idempotency_key=self.idempotency_key,
        )


def request(**chosen: Any) -> dict[str, Any]:
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
