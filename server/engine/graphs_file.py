"""Read a langgraph.json as LangGraph's own tools do.

Everything that needs no import is checked at once, so that mistakes are reported before a slow start.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dotenv import dotenv_values

from callsheet.state.errors import Invalid

_HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    "auth": frozenset({"disable_studio_auth", "openapi", "cache"}),
    "encryption": frozenset(),
}
"""Keys that protect a project on LangGraph's own server, and their fields that protect nothing alone."""
_EXAMPLE: Final = '"./graph.py:graph" or "package.module:graph"'


@dataclass(frozen=True)
class GraphLocation:
    """Location of a graph."""

    name: str
    """Name under which it is served."""
    source: Path | str
    """Python file, or name of a module."""
    variable: str


@dataclass(frozen=True)
class GraphsFile:
    """Content of a langgraph.json."""

    path: Path
    locations: tuple[GraphLocation, ...]
    folders: tuple[Path, ...]
    """Folders that precede all others on the import path."""
    env: Mapping[str, str]
    """Environment variables for the graphs; variables that are set already stay."""
    store_ttl: Mapping[str, Any]
    """Lifetime of the store's items: `default_ttl` in minutes, `refresh_on_read`."""


def read_graphs_file(path: Path) -> GraphsFile:
    """Return the file's content; raises `Invalid` with the file, the entry and the rule."""
    content = _object(path)
    _refuse_protected(path, content)
    graphs = content.get("graphs")
    if not isinstance(graphs, dict) or not graphs:
        raise _invalid(path, "has no 'graphs'", f'add {{"graphs": {{"agent": {_EXAMPLE}}}}}')
    folders = _folders(path, content.get("dependencies", []))
    places = tuple(_location(path, str(name), value) for name, value in graphs.items())
    store = content.get("store") or {}
    ttl = store.get("ttl") if isinstance(store, dict) else None
    return GraphsFile(path, places, folders, _env(path, content.get("env", {})), ttl or {})


def _object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _invalid(path, f"cannot be read: {error.strerror}", "correct CALLSHEET_CONFIG") from error
    except ValueError as error:
        raise _invalid(path, f"is not JSON: {error}", "correct it") from error
    if not isinstance(content, dict):
        raise _invalid(path, "is not a JSON object", "see langgraph.json of this project")
    return content


def _refuse_protected(path: Path, content: Mapping[str, Any]) -> None:
    """Raise `Invalid` for a project whose protection would be missing: it must not be served open.

    A misspelt field, or a value of another type, was meant to protect it, too.
    """
    for key, harmless in _HARMLESS.items():
        value = content.get(key) or {}
        fields = value.items() if isinstance(value, dict) else [("", value)]
        if any(field not in harmless and given is not None for field, given in fields):
            raise _invalid(
                path,
                f"has {key!r}, which this server does not apply, so the project would be served without it",
                f"remove {key!r} and protect the server as docs/security.md says, "
                "or serve the project with LangGraph's own server",
            )


def _location(path: Path, name: str, value: Any) -> GraphLocation:
    text = value.get("path") if isinstance(value, dict) else value
    source, _, variable = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not source or not variable.isidentifier():
        raise _invalid(path, f"has {text!r} for graph {name!r}", f"use {_EXAMPLE}")
    if "/" not in source and not source.endswith(".py"):
        return GraphLocation(name, source, variable)
    file = (path.parent / source).resolve()
    if not file.is_file():
        raise _invalid(
            path, f"names {str(file)!r} for graph {name!r}, which is not a file", "correct the path"
        )
    return GraphLocation(name, file, variable)


def _folders(path: Path, dependencies: Any) -> tuple[Path, ...]:
    named = dependencies if isinstance(dependencies, list) else []
    local = [path.parent / name for name in named if isinstance(name, str) and name.startswith(".")]
    return tuple(dict.fromkeys(folder.resolve() for folder in (path.parent, *local)))


def _env(path: Path, env: Any) -> dict[str, str]:
    if isinstance(env, dict):
        return {str(name): str(value) for name, value in env.items()}
    if not isinstance(env, str) or not (file := path.parent / env).is_file():
        raise _invalid(path, f"has {env!r} for 'env'", "use an object, or the name of a file beside it")
    return {name: value for name, value in dotenv_values(file).items() if value is not None}


def is_missing(module: str) -> bool:
    """Return True if the module does not exist; imports its parent packages only."""
    try:
        return find_spec(module) is None
    except (ImportError, ValueError):
        return True


def _invalid(path: Path, rule: str, remedy: str) -> Invalid:
    return Invalid(f"{str(path)!r} {rule}", remedy=remedy)
