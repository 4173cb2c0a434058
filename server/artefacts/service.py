"""What requests about every kind of artefact have in common: who asks, and how that becomes a job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.server.artefacts.turns import checked_context, checked_idempotency_key, find_thread, identifier
from callsheet.server.runtime.encoding import sha256_of
from callsheet.server.runtime.execution import pending_interrupts
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import Worker
from callsheet.state.context import Context
from callsheet.state.errors import Conflict, Missing
from callsheet.state.owners import LOCAL
from callsheet.storage import indexes
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

STEPS: Final = ("custom",)
"""What a run tells unless more is wanted: its steps."""
CHAT: Final = ("custom", "messages-tuple")
"""What a run of a chat tells: its steps, and the words as they come."""


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """What every request says beside what it asks for."""

    context: Context = field(default_factory=Context)
    owner: str = LOCAL
    idempotency_key: str | None = None

    def domain_run(self, thread: Thread, body: Mapping[str, Any], **given: Any) -> DomainRun:
        """Return the run for `body` on a thread; `given` are further fields of `DomainRun`.

        Raises `Invalid` for a choice or a key that cannot be one.
        """
        return DomainRun(
            thread=thread,
            body={**body, "context": self.context},
            context=checked_context(self.context),
            idempotency_key=checked_idempotency_key(self.idempotency_key),
            **given,
        )


@dataclass(frozen=True)
class ArtefactService:
    """Where requests about one kind of artefact are taken in."""

    graph: str
    kind: str
    id_name: str
    """What the artefact's id is called on the wire."""

    def artefact_id(self, thread: Thread) -> str:
        """Return the id of what a thread is about."""
        return thread.artefact.partition(":")[2]

    def artefact(self, storage: Storage, thread: Thread) -> Artefact:
        """Return what a thread is about, in storage."""
        return Artefact(storage, self.kind, self.artefact_id(thread), thread.owner)

    async def find_thread(
        self, storage: Storage, name: str, owner: str, conversation_id: str | None = None
    ) -> Thread:
        """Return the conversation about the owner's artefact `name`, which may not have begun.

        Raises `Invalid` for what cannot be an id, and `Missing` for a conversation about something else.
        """
        artefact = Artefact(storage, self.kind, identifier(name, self.id_name), owner)
        return await find_thread(storage, self.graph, artefact, owner, conversation_id)

    async def require_thread(self, storage: Storage, name: str, owner: str) -> Thread:
        """Return the conversation about the owner's artefact; raises `Missing` where there is none."""
        try:
            return await threads.get(storage, (await self.find_thread(storage, name, owner)).id, owner)
        except Missing:
            raise Missing(
                f"there is no conversation about {self.kind} {name!r}", remedy="begin one with a message"
            ) from None

    async def claim(self, storage: Storage, thread: Thread, facts: Mapping[str, str] | None = None) -> None:
        """Make the thread and what it is about its owner's, and list it, before anything is made of it.

        Twice is safe. Raises `Missing` for another's, and `Conflict` for a thread of another workflow.
        """
        await threads.bind(storage, thread)
        await self.artefact(storage, thread).open(owner=thread.owner, thread=thread.id, facts=facts or {})
        await indexes.touch(storage, thread.owner, self.kind, self.artefact_id(thread))


async def answer_interrupt(
    worker: Worker, asked: RequestOptions, thread: Thread, answer: Any, question_id: str | None = None
) -> DomainRun:
    """Return the job that gives the waiting question its answer, bound to that question.

    Without a `question_id` it is whichever waits. Raises `Conflict` where no such question waits.
    """
    waiting = {one.id: one for one in pending_interrupts(await worker.state(thread))}
    name = question_id or next(iter(waiting), "")
    if name not in waiting:
        raise Conflict(
            "nothing waits for an answer"
            if not waiting
            else f"question {name!r} does not wait for an answer",
            remedy="read the conversation; say in a message what you want instead",
        )
    return asked.domain_run(
        thread,
        {"ask": "decision", "answer": answer, "question": name},
        input={},
        stream_modes=CHAT,
        answers={name: answer},
        questions={name: sha256_of(waiting[name].value)},
    )
