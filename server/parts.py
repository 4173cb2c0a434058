"""What the routes work with; `server/app.py` makes it once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from starlette.requests import HTTPConnection

from server.api.events import Running
from server.settings import Settings
from server.worker import Worker
from storage.assistants import now
from storage.connection import Storage
from storage.store import RedisStore


@dataclass(frozen=True)
class Parts:
    """The running server."""

    settings: Settings
    storage: Storage
    saver: BaseCheckpointSaver[int]
    worker: Worker
    running: Running
    graphs: Mapping[str, Pregel[Any, Any]]
    """By the names they are served under, with saver and store attached."""
    store: RedisStore
    since: str = field(default_factory=now)
    """When the server started, as the LangGraph wire writes times."""


def parts(connection: HTTPConnection) -> Parts:
    """Return the parts of the server that got this request."""
    found: Parts = connection.app.state.parts
    return found
