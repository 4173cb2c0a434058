"""The context of all routes, which `server/app.py` creates once."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from starlette.requests import HTTPConnection

from callsheet.server.engine.project_options import ProjectOptions
from callsheet.server.engine.worker import Worker
from callsheet.server.engine.workflows import Workflows
from callsheet.server.settings.settings import Settings
from callsheet.storage.assistants import iso_now
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.health import DataMarker, OutageLog
from callsheet.storage.store import RedisStore
from callsheet.storage.threads.threads import Thread
from callsheet.tools.guard.tool_environment import ToolEnvironment

CopyArtefacts = Callable[[Thread, str], Awaitable[None]]


@dataclass(frozen=True)
class AppContext:
    """The running server."""

    settings: Settings
    storage: Storage
    saver: BaseCheckpointSaver[int]
    worker: Worker
    graphs: Mapping[str, Pregel[Any, Any]]
    """Graphs by name, with checkpointer and store attached."""
    store: RedisStore
    workflows: Workflows
    """The same graphs without storage, with their specifications."""
    features: Mapping[str, object]
    """`FeatureApi` (`server/artefacts/features.py`) of the workflows that have one, by graph."""
    copy_artefacts: CopyArtefacts
    """Copies a thread with its artefacts, under another id."""
    marker: DataMarker
    """Shows whether the data is still there."""
    tool_environment: ToolEnvironment
    """The operator's policy for tools and models."""
    options: ProjectOptions = field(default_factory=ProjectOptions)
    """The options of the langgraph.json."""
    outage_log: OutageLog = field(default_factory=OutageLog)
    """Logs what makes `/health` answer 503."""
    started_at: str = field(default_factory=iso_now)
    """Time of the server's start, in the format of LangGraph's REST API."""


def app_context(connection: HTTPConnection) -> AppContext:
    """Return the context of the server that received the request."""
    ctx: AppContext = connection.app.state.context
    return ctx
