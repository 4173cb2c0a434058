"""Route that describes the server, for clients that adapt to its features."""

from importlib.metadata import version
from typing import Final

from fastapi import APIRouter, Request

from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.json_replies import JsonReply
from callsheet.server.http.policy import LANGGRAPH_READ, with_policy
from callsheet.server.http.requests import StrictRoute
from callsheet.server.langgraph.shapes import JsonObject

router = APIRouter(route_class=StrictRoute, tags=["info"])
COMPATIBLE_VERSION: Final = "0.16.7"
"""Version of LangGraph's own server whose API this one offers; Studio reads it."""
_FLAGS: Final = {
    "assistants": True,
    "crons": True,
    "langsmith": False,
    "langsmith_tracing_replicas": False,
    "langsmith_tracing_session_on_runs": False,
}
_HOST: Final = {
    "kind": "self-hosted",
    "project_id": None,
    "host_revision_id": None,
    "revision_id": None,
    "tenant_id": None,
}


@router.get("/info", responses=documented_wire_responses(403, 500, reply=JsonObject))
@with_policy(LANGGRAPH_READ)
async def show_info(request: Request) -> JsonReply:
    """Get the versions and features of the server."""
    return JsonReply(
        {
            "version": COMPATIBLE_VERSION,
            "langgraph_py_version": version("langgraph"),
            "flags": _FLAGS,
            "host": _HOST,
            "server": {"name": "callsheet", "version": request.app.version},
        }
    )
