"""Routes of tools and of the record of their calls."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import StrictRoute
from callsheet.server.operations import tool_views
from callsheet.server.operations.replies import ToolExecution, ToolExecutionList, ToolList
from callsheet.storage.tool_calls import CallFilter

router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["tools"], default_response_class=JsonReply)
_READ: Final = (400, 403, 422, 500, 503, 504)


@router.get("/tools", responses=documented_responses(*_READ, reply=ToolList))
@with_policy(API_READ)
async def list_tools(request: Request) -> dict[str, Any]:
    """List the tools: what they take, what they may do, on what terms, and whether they can be called now."""
    return await tool_views.tools_view(app_context(request), current_owner(request))


@router.get("/tool-executions", responses=documented_responses(*_READ, reply=ToolExecutionList))
@with_policy(API_READ)
async def list_tool_executions(
    request: Request,
    conversation: Annotated[str | None, Query(alias="conversationId", max_length=255)] = None,
    tool: Annotated[str | None, Query(alias="toolName", max_length=64)] = None,
    status: Annotated[
        str | None, Query(description="pending, executing, completed, failed or timeout", max_length=20)
    ] = None,
    after: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    """List the calls of tools, newest first, refused ones too; kept for 30 days, the newest 10 000."""
    call_filter = CallFilter(conversation, tool, status, after)
    return await tool_views.executions_view(
        app_context(request).storage, current_owner(request), call_filter, limit
    )


@router.get(
    "/tool-executions/{execution_id}", responses=documented_responses(404, *_READ, reply=ToolExecution)
)
@with_policy(API_READ)
async def show_tool_execution(execution_id: str, request: Request) -> dict[str, Any]:
    """Show one call of a tool."""
    return await tool_views.execution_view(app_context(request).storage, current_owner(request), execution_id)
