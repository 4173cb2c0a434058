"""The way of a domain's request to its run: find the thread, make the request, bind, record.

REST and the web socket share it. It takes at most four round trips to Redis until a run is recorded.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langgraph.types import Interrupt

from callsheet.providers.routing import require_provider
from callsheet.server.engine.encoding import sha256_of
from callsheet.server.engine.execution import pending_interrupts
from callsheet.server.engine.worker import Ack, Worker
from callsheet.server.http.requests import checked_idempotency_key, identifier
from callsheet.state.ads import brief
from callsheet.state.approvals import check_answer, consent
from callsheet.state.budgets import RAISE_BUDGET
from callsheet.state.context import Context
from callsheet.state.entered import ENTERED
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.state.owners import LOCAL, storage_id
from callsheet.state.plan import canonical_json
from callsheet.storage import indexes
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Created, RunRequest, ThreadPrecondition, request_fields
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

STEPS: Final = ("custom",)
"""Stream modes of a run by default: its steps."""
CHAT: Final = ("custom", "messages-tuple")
"""Stream modes of a chat: steps and message chunks."""


@dataclass(frozen=True)
class RequestContext:
    """The caller of a request, and what a request says beside its body."""

    owner: str = LOCAL
    idempotency_key: str | None = None
    context: Context = field(default_factory=Context)
    """Wishes about the model."""


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
        self,
        storage: Storage,
        name: str,
        owner: str,
        conversation_id: str | None = None,
        at_hand: Thread | None = None,
    ) -> Thread:
        """Return the thread of the owner's artefact `name`: its own, the requested, or the default one.

        The artefact need not exist yet. `at_hand` was read just now, and is not read again. The thread is a
        stored one only if it and the artefact are bound to each other already. Raises `Invalid` for a
        malformed id, and `Missing` for the thread of another artefact.
        """
        artefact = Artefact(storage, self.kind, identifier(name, self.id_name), owner)
        requested = identifier(conversation_id, "conversationId") if conversation_id else None
        default_id = storage_id(owner, "thread", artefact.id)
        named = Thread(default_id, owner, self.graph, f"{artefact.kind}:{artefact.id}")
        read = requested or named.id
        meta, existing, unused_id = await asyncio.gather(
            artefact.meta(), threads.find(storage, read, owner), _unused_id(storage, named)
        )
        bound = meta.get("thread") if meta.get("owner") == owner else None
        if requested and bound and requested != bound:
            raise threads.missing_thread(requested)
        known = requested or bound
        if known is None:
            fits = existing and _may_be_about(existing, named)
            if fits:
                return named
            return replace(named, id=unused_id or await threads.derived_id(storage, owner, named.artefact))
        if known != read:
            existing = (
                at_hand if at_hand and at_hand.id == known else await threads.find(storage, known, owner)
            )
        if not existing or existing.graph != self.graph:
            return replace(named, id=known)
        if existing.artefact != named.artefact:
            raise threads.missing_thread(known)
        return existing if bound else replace(named, id=known)

    async def require_thread(self, storage: Storage, name: str, owner: str) -> Thread:
        """Return the existing thread of the owner's artefact; raise `Missing` if there is none."""
        thread = await self.find_thread(storage, name, owner)
        if thread.is_stored:
            return thread
        try:
            return await threads.get(storage, thread.id, owner)
        except Missing:
            raise Missing(
                f"there is no conversation about {self.kind} {name!r}", remedy="start one with a message"
            ) from None


async def new_thread_id(storage: Storage, graph: str, owner: str, key: str | None) -> str:
    """Return the id of a new conversation; always the same for one idempotency key of the owner."""
    if checked_idempotency_key(key) is None:
        return uuid.uuid4().hex
    return await threads.derived_id(storage, owner, canonical_json(["conversation", graph, key]))


async def _unused_id(storage: Storage, named: Thread) -> str:
    """Return the id for the thread of an artefact without one, if `named` is not the owner's.

    The id of `named` can be predicted by others. Only the local owner's threads are called like their
    artefacts; an empty id is one that has an owner.
    """
    if named.owner == LOCAL:
        return "" if await threads.has_owner(storage, named.id) else named.id
    return await threads.derived_id(storage, named.owner, named.artefact)


def _may_be_about(existing: Thread, named: Thread) -> bool:
    return existing.graph == "" or (existing.graph, existing.artefact) == (named.graph, named.artefact)


async def claim(storage: Storage, thread: Thread, facts: Mapping[str, str] | None = None) -> None:
    """Bind the thread and its artefact to the owner and list them.

    Twice is safe. Raises `Missing` for another owner's, and for one that is being deleted, and `Conflict` for
    a thread of another workflow.
    """
    await _bind(storage, thread, facts or {})
    await indexes.touch_existing(storage, _entries(thread))


async def _bind(storage: Storage, thread: Thread, facts: Mapping[str, str]) -> None:
    # The artefact comes second: it keeps its thread for ever, which must be the owner's.
    token = await threads.bind(storage, thread)
    kind, _, name = thread.artefact.partition(":")
    if not name:
        return
    artefact = Artefact(storage, kind, name, thread.owner)
    try:
        await artefact.open(owner=thread.owner, thread=thread.id, facts=facts)
    except Missing:
        await threads.unbind(storage, thread, token)
        raise


def _entries(thread: Thread) -> list[indexes.Entry]:
    kind, _, name = thread.artefact.partition(":")
    return [indexes.artefact_entry(thread.owner, kind, name)] if name else []


def clean_message(text: str, limit: int = brief.MAX_TEXT) -> str:
    """Return a message without NUL and outer spaces; raise `Invalid` if it is empty or too long."""
    cleaned = text.replace("\x00", "").strip()
    if not cleaned:
        raise Invalid("the message is empty", remedy="say in words what should be different")
    if len(cleaned) > limit:
        raise Invalid(
            f"the message has {len(cleaned)} characters, and the limit is {limit}",
            remedy="shorten it",
        )
    return cleaned


def human_message(content: str, entered: str | Mapping[str, Any] = "") -> dict[str, Any]:
    """Return a user's message as input of a graph.

    `entered` is what the person entered, where the model reads other words: a text, or the fields of a form.
    """
    # The id is stored with the run, so that a resumed run adds the message once.
    message = {"role": "user", "content": content, "id": uuid.uuid4().hex}
    return message | ({"additional_kwargs": {ENTERED: entered}} if entered else {})


def run_request(
    thread: Thread,
    caller: RequestContext,
    body: Mapping[str, Any],
    *,
    repeatable: bool = False,
    **fields: Any,
) -> RunRequest:
    """Return the request of a run on the thread, refused while another run has it; `fields` are the run's.

    Equal bodies under the same key, or without one, are the same request unless `repeatable`. Raises
    `Invalid` for an unknown provider or a malformed idempotency key.
    """
    context = caller.context
    require_provider(context.get("model") or context.get("provider", ""))
    questions: Mapping[str, str] = fields.get("questions") or {}
    return RunRequest(
        thread=thread.id,
        id=str(uuid.uuid4()),
        graph=thread.graph,
        owner=thread.owner,
        request=request_fields(**{"context": context, "stream_mode": [*STEPS], "reply": True} | fields),
        strategy="reject",
        artefact=thread.artefact,
        fingerprint="" if repeatable else fingerprint(thread, caller, body),
        idempotency_key=checked_idempotency_key(caller.idempotency_key),
        precondition=_precondition(thread) if thread.is_stored else None,
        questions=tuple(f"{name}:{digest}" for name, digest in questions.items()),
    )


def fingerprint(thread: Thread, caller: RequestContext, body: Mapping[str, Any]) -> str:
    """Return the digest of a request by its body and idempotency key; equal requests resume each other's run.

    The same words under another key are another request.
    """
    what = {**body, "context": caller.context}
    text = canonical_json([thread.graph, thread.owner, what, caller.idempotency_key])
    return hashlib.sha256(text.encode()).hexdigest()


def thread_of(request: RunRequest) -> Thread:
    """Return the thread of a request, which need not exist yet."""
    return Thread(request.thread, request.owner, request.graph, request.artefact)


def _precondition(thread: Thread) -> ThreadPrecondition:
    return ThreadPrecondition(thread.owner, "", "", thread.graph)


async def submit(worker: Worker, request: RunRequest, facts: Mapping[str, str] | None = None) -> Created:
    """Record the run and have it executed; raise as `claim` and `Runs.create`.

    Without a precondition the thread and its artefact, with these facts, are bound to the owner first.
    """
    thread = thread_of(request)
    if request.precondition is None:
        await _bind(worker.storage, thread, facts or {})
        request = replace(request, precondition=_precondition(thread))
    while True:
        touching = indexes.touch_existing(worker.storage, _entries(thread))
        created: Created = (await asyncio.gather(worker.submit(request), touching))[0]
        if created.verdict != "changed":
            return created
        # The thread was deleted after it was read.
        await _bind(worker.storage, thread, facts or {})


async def run(worker: Worker, request: RunRequest) -> tuple[dict[str, Any], Ack]:
    """Execute the request, here or in another process; return and raise as `submit` and `Worker.follow`."""
    return await worker.follow(request.thread, await submit(worker, request))


async def run_and_ack(worker: Worker, request: RunRequest) -> dict[str, Any]:
    """Execute the request and return its reply."""
    reply, ack = await run(worker, request)
    await ack()
    return reply


def answer_in_words(
    pending: Sequence[Interrupt], caller: RequestContext, thread: Thread, text: str, body: Mapping[str, Any]
) -> RunRequest | None:
    """Return the run that answers the pending question by a plain yes or no; None for any other message.

    `body` is the message's, as `run_request` gets it where nothing waits: so a message that is sent again is
    the same request, though its question is gone.
    """
    answer = consent(text)
    if answer is None or not pending:
        return None
    decision = {"type": "approve"} if answer else {"type": "reject", "message": text}
    request = answer_interrupt(pending, caller, thread, {"decisions": [decision]})
    return replace(request, fingerprint=fingerprint(thread, caller, body))


async def budget_answer_run(
    worker: Worker, thread: Thread, caller: RequestContext, text: str, body: Mapping[str, Any]
) -> RunRequest | None:
    """Return the run that answers a pending question about a budget by a plain yes or no; else None.

    `body` is the message's, as in `answer_in_words`.
    """
    if not thread.is_stored or consent(text) is None:
        return None
    pending = await pending_questions(worker, thread)
    budgets = [one for one in pending if question_type(one.value) == RAISE_BUDGET]
    return answer_in_words(budgets, caller, thread, text, body)


async def require_not_paused(worker: Worker, thread: Thread, caller: RequestContext) -> None:
    """Raise `Conflict` while a plan of the conversation is paused: a message would end it.

    A request that is sent again with its idempotency key is the recorded one.
    """
    questions = [one["value"] for several in thread.interrupts.values() for one in several]
    paused = [one["executionId"] for one in questions if question_type(one) == PAUSED]
    if thread.status == "interrupted" and paused and not await is_recorded(worker, thread, caller):
        path = f"/api/executions/{paused[0]}"
        raise Conflict(
            "a plan of this conversation is paused, and a message would end it",
            remedy=f"let it go on with POST {path}/resume, or end it with POST {path}/cancel; then send the"
            " message again",
        )


async def decision_run(
    worker: Worker, thread: Thread, caller: RequestContext, answer: Any, question_id: str | None = None
) -> RunRequest:
    """Return the run that answers a pending question, by default the first.

    A request that is sent again with its idempotency key is the recorded one, whatever waits now. Raises as
    `answer_interrupt`.
    """
    body = {"ask": "decision", "answer": answer, "question": question_id}
    if await is_recorded(worker, thread, caller):
        return run_request(thread, caller, body)
    request = answer_interrupt(await pending_questions(worker, thread), caller, thread, answer, question_id)
    return with_fingerprint(request, thread, caller, body)


async def is_recorded(worker: Worker, thread: Thread, caller: RequestContext) -> bool:
    """Return whether a request with the caller's idempotency key was recorded; False without a key."""
    key = checked_idempotency_key(caller.idempotency_key)
    return key is not None and await worker.runs.is_recorded(thread.id, key)


def with_fingerprint(
    request: RunRequest, thread: Thread, caller: RequestContext, body: Mapping[str, Any]
) -> RunRequest:
    """Return the request as that of `body` if it has an idempotency key, which may come again."""
    if request.idempotency_key is None:
        return request
    return replace(request, fingerprint=fingerprint(thread, caller, body))


def question_view(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an approval question as the API shows it."""
    return {"id": name, "actions": list(value.get("action_requests", ()))}


PAUSED: Final = "paused"
"""Type of the question of a paused plan."""


def question_type(value: Any) -> str:
    """Return the type of a pending question, such as `raise_budget`; empty for none."""
    return str(value.get("type") or "") if isinstance(value, Mapping) else ""


def answer_interrupt(
    pending: Sequence[Interrupt],
    caller: RequestContext,
    thread: Thread,
    answer: Any,
    question_id: str | None = None,
) -> RunRequest:
    """Return the run that answers a pending question, by default the first; it is bound to that question.

    Raises `Conflict` if no such question is pending, and `Invalid` for invalid decisions about a plan.
    """
    values = {interrupt.id: interrupt.value for interrupt in pending}
    answered_id = question_id or next(iter(values), "")
    if answered_id not in values:
        raise Conflict(
            f"question {answered_id!r} does not wait for an answer"
            if pending
            else "nothing waits for an answer",
            remedy="read the conversation; say in a message what you want instead",
        )
    check_answer(values[answered_id], answer)
    body = {"ask": "decision", "answer": answer, "question": answered_id}
    answers = {answered_id: answer}
    questions = {answered_id: sha256_of(values[answered_id])}
    return run_request(thread, caller, body, **resume_fields(answers, questions), stream_mode=[*CHAT])


def resume_fields(answers: Mapping[str, Any], questions: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a run that answers questions; both by question id, `questions` the digests."""
    return {"command": {"resume": answers}, "answers": answers, "questions": questions}


async def pending_questions(worker: Worker, thread: Thread) -> list[Interrupt]:
    """Return the questions that wait for an answer on the thread."""
    return pending_interrupts(await worker.state(thread))
