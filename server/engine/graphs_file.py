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

from callsheet.server.engine.project_options import ProjectOptions, read_options
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
    kind: str = "graph"
    """Kind of thing, for messages."""


@dataclass(frozen=True)
class GraphsFile:
    """Content of a langgraph.json."""

    path: Path
    locations: tuple[GraphLocation, ...]
    folders: tuple[Path, ...]
    """Folders that precede all others on the import path."""
    env: Mapping[str, str]
    """Environment variables for the graphs; variables that are set already stay."""
    options: ProjectOptions
    app: GraphLocation | None
    """Location of the project's own routes, an ASGI application."""
    embed: GraphLocation | None
    """Location of the function or object that embeds the store's items; None for a provider's model."""


def read_graphs_file(path: Path) -> GraphsFile:
    """Return the file's content; raises `Invalid` with the file, the entry and the rule."""
    content = _object(path)
    _refuse_protected(path, content)
    graphs = content.get("graphs")
    if not isinstance(graphs, dict) or not graphs:
        raise _invalid(path, "has no 'graphs'", f'add {{"graphs": {{"agent": {_EXAMPLE}}}}}')
    folders = _folders(path, content.get("dependencies", []))
    places = tuple(_location(path, str(name), value) for name, value in graphs.items())
    try:
        options = read_options(content)
    except Invalid as error:
        raise _invalid(path, error.message, error.remedy) from None
    app = _location(path, "http.app", options.http.app, "application") if options.http.app else None
    env = _env(path, content.get("env", {}))
    return GraphsFile(path, places, folders, env, options, app, _embed_location(path, options))


def _embed_location(path: Path, options: ProjectOptions) -> GraphLocation | None:
    embed = options.store_index.embed if options.store_index else ""
    source, _, variable = embed.rpartition(":")
    # Of "openai:text-embedding-3-small" neither part is a place.
    is_place = "/" in source or source.endswith(".py") or ("." in source and variable.isidentifier())
    return _location(path, "store.index.embed", embed, "function") if is_place else None


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


def _location(path: Path, name: str, value: Any, kind: str = "graph") -> GraphLocation:
    text = value.get("path") if isinstance(value, dict) else value
    source, _, variable = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not source or not variable.isidentifier():
        raise _invalid(path, f"has {text!r} for {kind} {name!r}", f"use {_EXAMPLE}")
    if "/" not in source and not source.endswith(".py"):
        return GraphLocation(name, source, variable, kind)
    file = (path.parent / source).resolve()
    if not file.is_file():
        raise _invalid(
            path, f"names {str(file)!r} for {kind} {name!r}, which is not a file", "correct the path"
        )
    return GraphLocation(name, file, variable, kind)


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
