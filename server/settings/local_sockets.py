"""Unix sockets at which a server serves the terminals of its own user.

A server and the terminals on the same data and the same graphs meet at a socket whose path follows from both.
It lies in a folder that only this user may enter, so who can connect is the operator.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from callsheet.storage.embedded import folders
from callsheet.storage.redis import address

OWNER_HEADER: Final = "x-callsheet-owner"
"""Header of a request at a local socket: the owner whose things it is about, percent-encoded.

The local owner if it is left out.
"""
_GRAPHS_FILE: Final = "langgraph.json"
_OF_THE_CLIENT: Final = frozenset({"CALLSHEET_URL", "CALLSHEET_API_KEY"})
_PREFIXES_OF_THE_SERVER: Final = ("CALLSHEET_", "OPENAI_", "OLLAMA_", "REDIS_URL")
_ENDINGS_OF_THE_SERVER: Final = ("_API_KEY", "_BASE_URL", "_MODEL", "_MODELS", "_MAX_RETRIES")


class LocalSockets(NamedTuple):
    """The sockets at which a terminal looks for a server, in this order."""

    shared: Path
    """Socket of `callsheet serve`."""
    private: Path
    """Socket of the server that a terminal starts for itself, with its own environment."""


def local_sockets(
    data_dir: Path | None, redis_url: str | None, config: Path | None, environ: Mapping[str, str]
) -> LocalSockets:
    """Return the sockets for this data and these graphs, in a private folder that is created if needed."""
    folder = _folder(data_dir, redis_url)
    served = "" if config is None else str(config.resolve())
    variables = sorted(
        f"{name}={value}"
        for name, value in environ.items()
        if _is_of_the_server(name.upper()) and name not in _OF_THE_CLIENT
    )
    return LocalSockets(
        folders.socket_path(folder, f"server-{_digest(served)}.sock"),
        folders.socket_path(folder, f"terminal-{_digest(served, *variables)}.sock"),
    )


def project_config() -> Path | None:
    """Return the working folder's langgraph.json, as LangGraph's own tools use it; None without one."""
    packaged = Path(__file__).parents[2] / _GRAPHS_FILE
    project = Path(_GRAPHS_FILE)
    if not project.is_file() or (packaged.exists() and project.samefile(packaged)):
        return None
    return project.resolve()


def _folder(data_dir: Path | None, redis_url: str | None) -> Path:
    if redis_url is None:
        return folders.private_folder((data_dir or folders.default_data_dir()).expanduser() / "terminal")
    temp = Path(tempfile.gettempdir())
    # Others may see the name of the folder, from which nobody shall guess the password.
    where = address.parse(redis_url).redacted_url
    return folders.private_folder(temp / f"callsheet-{os.geteuid()}-{_digest(where)}")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:12]


def _is_of_the_server(name: str) -> bool:
    return name.startswith(_PREFIXES_OF_THE_SERVER) or name.endswith(_ENDINGS_OF_THE_SERVER)
