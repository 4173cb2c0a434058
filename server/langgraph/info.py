"""What this server is, for clients that adapt to what there is."""

from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, Request

from callsheet.server.ads.bodies import StrictRoute
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.langgraph.shapes import WireJsonReply

router = APIRouter(route_class=StrictRoute, tags=["info"])
COMPATIBLE_VERSION: Final = "0.16.7"
"""The version of LangGraph's own server whose interface this one has; Studio wants to know."""
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


@router.get("/info", responses=documented_wire_responses(403, 500, reply=dict[str, Any]), response_model=None)
async def show_info(request: Request) -> WireJsonReply:
    """Show which interface is spoken, and what of it there is."""
    told = {
        "version": COMPATIBLE_VERSION,
        "langgraph_py_version": version("langgraph"),
        "flags": _FLAGS,
        "host": _HOST,
        "server": {"name": "callsheet", "version": request.app.version},
    }
    return WireJsonReply(told)
