"""What the routes work with; `server/app.py` makes it once."""

from dataclasses import dataclass

from langgraph.checkpoint.base import BaseCheckpointSaver
from starlette.requests import HTTPConnection

from server.api.events import Running
from server.settings import Settings
from server.worker import Worker
from storage.connection import Storage


@dataclass(frozen=True)
class Parts:
    """The running server."""

    settings: Settings
    storage: Storage
    saver: BaseCheckpointSaver[int]
    worker: Worker
    running: Running


def parts(connection: HTTPConnection) -> Parts:
    """Return the parts of the server that got this request."""
    found: Parts = connection.app.state.parts
    return found
