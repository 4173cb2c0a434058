"""Routes of the page's overview, and of Markdown that becomes harmless HTML."""

from typing import Annotated, Any, Final

from fastapi import Query, Request
from pydantic import BaseModel, Field

from callsheet.server.console import work
from callsheet.server.console.markdown import render
from callsheet.server.console.question_routes import ArtefactTitle
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, RoutePolicy, with_policy
from callsheet.server.http.requests import api_router

_READ: Final = (400, 403, 422, 500, 503, 504)
MAX_MARKDOWN: Final = 20_000
"""Characters of a text that is rendered; the worst ones take a fifth of a second."""

router = api_router("/api", "console")


class RunningRun(BaseModel):
    """A run that waits or runs."""

    run: str
    thread: str
    workflow: str
    artefact: ArtefactTitle | None
    title: str
    link: str
    startedAt: str | None
    status: str
    progress: dict[str, int] | None = Field(description="Steps: `done` and `total`")
    costUsd: float | None = Field(description="Null without calls of models, or with an unknown price")


class RecentThread(BaseModel):
    """A conversation."""

    thread: str
    workflow: str
    artefact: ArtefactTitle | None
    title: str
    link: str
    updatedAt: str | None
    status: str


class MarkdownText(BaseModel):
    """A text in Markdown."""

    text: str = Field(max_length=MAX_MARKDOWN)


class RenderedMarkdown(BaseModel):
    """The text as HTML that holds no script, style or image."""

    html: str


@router.get("/running", responses=documented_responses(*_READ, reply=list[RunningRun]))
@with_policy(API_READ)
async def list_running(request: Request) -> list[dict[str, Any]]:
    """List the 100 oldest runs that wait or run, on all threads, oldest first."""
    return await work.list_running(app_context(request), current_owner(request))


@router.get("/recent", responses=documented_responses(*_READ, reply=list[RecentThread]))
@with_policy(API_READ)
async def list_recent(
    request: Request,
    q: Annotated[
        str,
        Query(
            max_length=200,
            description="Words of the title, of what was made or of what people wrote, or an id",
        ),
    ] = "",
    limit: Annotated[int, Query(ge=1, le=work.MAX_SEARCHED)] = 20,
    thread: Annotated[str, Query(max_length=300, description="Id of the only thread to list")] = "",
) -> list[dict[str, Any]]:
    """List the latest threads, or those of the newest 500 in which all the words occur, or one.

    Of an ad its brief and drafts are looked at, of a page and a video their texts, of a lesson topic, facts,
    narration and quiz, and of each what people wrote. A `title` in a thread's metadata is its title.
    """
    ctx, owner = app_context(request), current_owner(request)
    if thread:
        return await work.get_recent(ctx, owner, thread)
    return await work.list_recent(ctx, owner, q.strip(), limit, request.is_disconnected)


@router.post("/markdown", responses=documented_responses(*_READ, 413, reply=RenderedMarkdown))
@with_policy(RoutePolicy("read"))
def send_markdown(body: MarkdownText) -> RenderedMarkdown:
    """Send a text in Markdown, and get HTML without scripts, styles and images.

    A longer text is 422: send it in parts, or show it as it is. A table whose columns times the lines of
    the text are more than 10,000 stays text.
    """
    # In a thread, so that other requests do not wait.
    return RenderedMarkdown(html=render(body.text))
