"""The tools there are, and the record of their calls (C3, C29-C32, C50, C56)."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from server.api import calls
from server.api.bodies import StrictRoute
from server.api.replies import ToolExecution, ToolExecutions, Tools
from server.origins import owner
from server.parts import parts
from server.problems import Reply, documented
from storage.calls import Wanted

router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["tools"], default_response_class=Reply)
_READ: Final = (400, 403, 422, 500, 503, 504)


@router.get("/tools", responses=documented(*_READ, reply=Tools))
async def tools(request: Request) -> dict[str, Any]:
    """List the tools: what they take, what they may do, on what terms, and whether they can be called now."""
    return await calls.tools(parts(request).storage, owner(request))


@router.get("/tool-executions", responses=documented(*_READ, reply=ToolExecutions))
async def executions(
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
    wanted = Wanted(conversation, tool, status, after)
    return await calls.executions(parts(request).storage, owner(request), wanted, limit)


@router.get("/tool-executions/{execution_id}", responses=documented(404, *_READ, reply=ToolExecution))
async def execution(execution_id: str, request: Request) -> dict[str, Any]:
    """Show one call of a tool."""
    return await calls.execution(parts(request).storage, owner(request), execution_id)
