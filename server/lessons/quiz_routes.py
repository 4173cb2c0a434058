"""The quiz about a lesson's chosen facts over REST: write it, export it."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from starlette.responses import Response

from callsheet.server.artefacts.conversation_routes import RESUMABLE, turn_reply
from callsheet.server.artefacts.event_schemas import turn_events
from callsheet.server.artefacts.service import RequestContext
from callsheet.server.artefacts.titles import title_of
from callsheet.server.artefacts.zip_files import ZIP, download_headers, file_name, zip_reply
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import LESSON_READ, LESSON_RUN, with_policy
from callsheet.server.http.requests import IdempotencyKey, api_router
from callsheet.server.lessons import service
from callsheet.server.lessons.edits import Lesson
from callsheet.server.lessons.material_routes import READ, WRITE, SessionHeader, SessionQuery, find_lesson
from callsheet.server.lessons.schemas import LessonTurn, QuizCreate
from callsheet.state.errors import Missing
from callsheet.state.lessons import quiz_export
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.quiz import Quiz, current_quiz, gap_quiz

router = api_router("/api/agent-create/session/quiz", "lessons")
_WRITERS: Final[Mapping[str, tuple[Callable[[Quiz], str], str]]] = {
    "json": (lambda quiz: quiz.model_dump_json(indent=2) + "\n", "application/json"),
    "md": (quiz_export.markdown, "text/markdown; charset=utf-8"),
    "csv": (quiz_export.anki, "text/csv; charset=utf-8"),
}
_EXPORT: Final = documented_responses(*READ, reply=Quiz)
_EXPORT[200] |= {
    "content": {
        "text/markdown": {"schema": {"type": "string"}},
        "text/csv": {"schema": {"type": "string"}},
        **ZIP["content"],
    },
    "description": "The quiz as a file",
}
_WRITTEN: Final = documented_responses(*WRITE, 402, 429, reply=LessonTurn)
_WRITTEN[200] |= turn_events(LessonTurn)


@router.get("", responses=_EXPORT, response_class=Response)
@with_policy(LESSON_READ)
async def export_lesson_quiz(
    request: Request,
    header: SessionHeader = None,
    query: SessionQuery = None,
    file_format: Annotated[Literal["json", "md", "csv", "qti"], Query(alias="format")] = "json",
) -> Response:
    """Export the quiz about the chosen facts: JSON, Markdown, CSV for Anki, or a QTI 2.2 package (ZIP).

    The written one where there is one; else code leaves a number, a name or a term of each fact blank
    (`madeBy`). Questions on facts that are no longer chosen are left out, and `notes` says so.
    """
    lesson = await find_lesson(request, header or query)
    quiz = await _find_quiz(lesson)
    title = await title_of(app_context(request), lesson.thread)
    name = file_name(f"{title}, quiz", "zip" if file_format == "qti" else file_format)
    if file_format == "qti":
        return await zip_reply(quiz_export.qti(quiz), name, lesson.thread.owner)
    writer, media_type = _WRITERS[file_format]
    return Response(writer(quiz), media_type=media_type, headers=download_headers(name))


@router.post("", responses=_WRITTEN, response_model=None, openapi_extra=RESUMABLE)
@with_policy(LESSON_RUN)
async def create_lesson_quiz(
    body: QuizCreate,
    request: Request,
    header: SessionHeader = None,
    query: SessionQuery = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Create a quiz about the chosen facts with the model; a turn of the session, which streams like one.

    Code proves each question by its fact, in which the answer must stand. A wrong one is sent back to the
    model once, then left out with a note.
    """
    lesson = await find_lesson(request, header or body.sessionId or query)
    caller = RequestContext(lesson.thread.owner, idempotency_key, body.context())
    return await turn_reply(request, service.quiz_run(lesson.thread, body, caller))


async def _find_quiz(lesson: Lesson) -> Quiz:
    heads = await lesson.artefact.stream_heads(["confirmed", "facts", "quiz"])
    data: dict[str, Any] = {name: head.newest.data for name, head in heads.items() if head.newest}
    facts = [Fact.model_validate(one) for one in data.get("confirmed", {}).get("facts", ())]
    if not facts:
        raise Missing("the lesson has no chosen facts to ask about", remedy="choose facts first")
    written = current_quiz(Quiz.model_validate(data["quiz"]), facts) if "quiz" in data else None
    proposal = data.get("facts", {})
    topic, language = proposal.get("topic") or facts[0].concept, proposal.get("language") or "english"
    return written or gap_quiz(facts, topic, language)
