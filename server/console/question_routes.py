"""Routes of the inbox: questions that wait, a stream of their changes, and answers."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from callsheet.server.artefacts.event_schemas import StreamError
from callsheet.server.artefacts.titles import titles
from callsheet.server.console import questions
from callsheet.server.engine.json_values import dumps
from callsheet.server.http.auth import check_credential, current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses, error_body
from callsheet.server.http.openapi import event_stream
from callsheet.server.http.policy import API_READ, API_WRITE, RoutePolicy, Streaming, with_policy
from callsheet.server.http.replies import Events, ServerEvent, event_stream_reply
from callsheet.server.http.requests import api_router
from callsheet.state.errors import CallsheetError

_READ: Final = (400, 403, 422, 500, 503, 504)

router = api_router("/api/questions", "console")


class ArtefactTitle(BaseModel):
    """The artefact that a thread is about."""

    kind: str
    id: str
    title: str


class QuestionView(BaseModel):
    """A question that waits, or one that was answered."""

    id: str
    thread: str
    workflow: str
    artefact: ArtefactTitle | None
    about: str | None = Field(None, description="Title of the conversation")
    title: str = Field(description="The question in words")
    link: str = Field(description="Address of its page")
    kind: Literal["interrupt", "plan", "paused"] | None = None
    wouldChange: list[str] | None = Field(None, description="What a yes does, one change each")
    responseSchema: dict[str, Any] | None = Field(None, description="JSON Schema of the answer")
    choices: list[Any] | None = None
    value: Any = Field(None, description="The interrupt's value")
    createdAt: str | None = None
    ageSeconds: float | None = None
    dueAt: str | None = Field(None, description="When its thread expires, and the question with it")
    shown: str | None = Field(None, description="SHA-256 of the value that was answered")
    answer: Any = None
    answeredBy: str | None = Field(None, description="API key or owner")
    owner: str | None = None
    keyId: str | None = None
    answeredAt: str | None = None
    run: str | None = Field(None, description="The run that brought the answer")


class QuestionList(BaseModel):
    """A page of questions."""

    questions: list[QuestionView]
    next: str | None = Field(description="Send it as `cursor` for the next page")


class WaitingIds(BaseModel):
    """Data of the event `questions`."""

    count: int
    ids: list[str]


class QuestionAnswer(BaseModel):
    """An answer to a question."""

    answer: Any = Field(description="As its responseSchema describes")


class AnsweredQuestion(BaseModel):
    """The run that an answer has started."""

    thread: str
    run: str


@router.get("", responses=documented_responses(*_READ, reply=QuestionList))
@with_policy(API_READ)
async def list_questions(
    request: Request,
    state: Literal["waiting", "answered"] = "waiting",
    workflow: Annotated[str | None, Query(max_length=255, description="Only of this graph")] = None,
    cursor: Annotated[str | None, Query(max_length=300, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> dict[str, Any]:
    """List the questions that wait for an answer, longest first; or those that were answered, last first.

    A page of those that wait may have a few more than `limit`: all questions of a thread are on one. It may
    have fewer, or none, with a `next`: one request looks at 500 threads at most.
    """
    ctx, owner = app_context(request), current_owner(request)
    listing = questions.list_waiting if state == "waiting" else questions.list_answered
    views, following = await listing(ctx.storage, owner, workflow, cursor, limit)
    of_thread = await titles(ctx, owner, list(dict.fromkeys(view["thread"] for view in views)))
    for view in views:
        view["about"] = of_thread.get(view["thread"])
        if view["artefact"]:
            view["artefact"]["title"] = view["about"] or view["artefact"]["id"]
    return {"questions": views, "next": following}


@router.get(
    "/events",
    responses={
        **documented_responses(*_READ, reply=None),
        200: event_stream(
            {"questions": WaitingIds, "error": StreamError}, "`questions`, at first and at each change"
        ),
    },
)
@with_policy(RoutePolicy("read", streaming=Streaming.ALWAYS))
async def follow_questions(request: Request) -> Response:
    """Follow the questions that wait: the event `questions` has their number and ids."""
    ctx, owner = app_context(request), current_owner(request)
    changes = questions.follow_waiting(
        ctx.worker, owner, partial(check_credential, request), ctx.settings.heartbeat_s
    )
    return event_stream_reply(_events(changes))


async def _events(changes: AsyncGenerator[list[str] | None, None]) -> Events:
    try:
        async with aclosing(changes):
            async for ids in changes:
                yield (
                    None if ids is None else ServerEvent("questions", dumps({"count": len(ids), "ids": ids}))
                )
    except CallsheetError as error:
        status, body = error_body(error)
        yield ServerEvent("error", dumps(body | {"status": status}))


@router.post(
    "/{question_id}/answer", responses=documented_responses(*_READ, 404, 409, 413, reply=AnsweredQuestion)
)
@with_policy(API_WRITE)
async def answer_question(question_id: str, body: QuestionAnswer, request: Request) -> dict[str, str]:
    """Answer a question; of two answers the first wins, and the second is 409 with who gave the first."""
    ctx, owner = app_context(request), current_owner(request)
    started = await questions.answer(ctx, owner, question_id, body.answer)
    return {"thread": started.thread, "run": started.run}
