"""Parts that the services of all kinds of artefact share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.server.artefacts.turns import checked_context, checked_idempotency_key, find_thread, identifier
from callsheet.server.runtime.encoding import sha256_of
from callsheet.server.runtime.execution import pending_interrupts
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import Worker
from callsheet.state.consent import consent
from callsheet.state.context import Context
from callsheet.state.errors import Conflict, Missing
from callsheet.state.owners import LOCAL
from callsheet.storage import indexes
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

STEPS: Final = ("custom",)
"""Stream modes of a run by default: its steps."""
CHAT: Final = ("custom", "messages-tuple")
"""Stream modes of a chat: steps and message chunks."""


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Fields of every request: the model's context, the owner and the idempotency key."""

    context: Context = field(default_factory=Context)
    owner: str = LOCAL
    idempotency_key: str | None = None

    def domain_run(self, thread: Thread, body: Mapping[str, Any], **fields: Any) -> DomainRun:
        """Return the run for `body` on a thread; `fields` are further fields of `DomainRun`.

        Raises `Invalid` for an unknown provider or a malformed idempotency key.
        """
        return DomainRun(
            thread=thread,
            body={**body, "context": self.context},
            context=checked_context(self.context),
            idempotency_key=checked_idempotency_key(self.idempotency_key),
            **fields,
        )


@dataclass(frozen=True)
class ArtefactService:
    """Threads and artefacts of one kind."""

    graph: str
    kind: str
    id_name: str
    """Name of the artefact's id in the REST API."""

    def artefact_id(self, thread: Thread) -> str:
        """Return the id of a thread's artefact."""
        return thread.artefact.partition(":")[2]

    def artefact(self, storage: Storage, thread: Thread) -> Artefact:
        """Return a thread's artefact in storage."""
        return Artefact(storage, self.kind, self.artefact_id(thread), thread.owner)

    async def find_thread(
        self, storage: Storage, name: str, owner: str, conversation_id: str | None = None
    ) -> Thread:
        """Return the thread of the owner's artefact `name`, which need not exist yet.

        Raises `Invalid` for a malformed id, and `Missing` for the thread of another artefact.
        """
        artefact = Artefact(storage, self.kind, identifier(name, self.id_name), owner)
        return await find_thread(storage, self.graph, artefact, owner, conversation_id)

    async def require_thread(self, storage: Storage, name: str, owner: str) -> Thread:
        """Return the existing thread of the owner's artefact; raise `Missing` if there is none."""
        try:
            return await threads.get(storage, (await self.find_thread(storage, name, owner)).id, owner)
        except Missing:
            raise Missing(
                f"there is no conversation about {self.kind} {name!r}", remedy="start one with a message"
            ) from None

    async def claim(self, storage: Storage, thread: Thread, facts: Mapping[str, str] | None = None) -> None:
        """Bind the thread and its artefact to the owner and list the artefact, before its first run.

        Calling twice is safe. Raises `Missing` for another owner's, and `Conflict` for a thread of another
        workflow.
        """
        await threads.bind(storage, thread)
        await self.artefact(storage, thread).open(owner=thread.owner, thread=thread.id, facts=facts or {})
        await indexes.touch(storage, thread.owner, self.kind, self.artefact_id(thread))


async def answer_in_words(
    worker: Worker, request: RequestOptions, thread: Thread, text: str
) -> DomainRun | None:
    """Return the run that answers a pending question by a plain yes or no; None for any other message."""
    answer = consent(text)
    if answer is None or not pending_interrupts(await worker.state(thread)):
        return None
    decision = {"type": "approve"} if answer else {"type": "reject", "message": text}
    return await answer_interrupt(worker, request, thread, {"decisions": [decision]})


def question_view(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an approval question as the API shows it."""
    return {"id": name, "actions": list(value.get("action_requests", ()))}


async def answer_interrupt(
    worker: Worker, request: RequestOptions, thread: Thread, answer: Any, question_id: str | None = None
) -> DomainRun:
    """Return the run that answers a pending question, by default the only one; it is bound to that question.

    Raises `Conflict` if no such question is pending.
    """
    pending = {interrupt.id: interrupt for interrupt in pending_interrupts(await worker.state(thread))}
    answered_id = question_id or next(iter(pending), "")
    if answered_id not in pending:
        raise Conflict(
            "nothing waits for an answer"
            if not pending
            else f"question {answered_id!r} does not wait for an answer",
            remedy="read the conversation; say in a message what you want instead",
        )
    return request.domain_run(
        thread,
        {"ask": "decision", "answer": answer, "question": answered_id},
        input={},
        stream_modes=CHAT,
        answers={answered_id: answer},
        questions={answered_id: sha256_of(pending[answered_id].value)},
    )
