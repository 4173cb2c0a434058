"""A langgraph.json, read as LangGraph's own tools read it.

Reading checks all that can be checked without importing, so that mistakes are reported at once.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dotenv import dotenv_values

from callsheet.state.errors import Invalid

_EXAMPLE: Final = '"./graph.py:graph" or "package.module:graph"'


@dataclass(frozen=True)
class GraphLocation:
    """Where a graph is found."""

    name: str
    """What it is served as."""
    source: Path | str
    """A Python file, or the name of a module."""
    variable: str


@dataclass(frozen=True)
class GraphsFile:
    """What such a file says."""

    path: Path
    locations: tuple[GraphLocation, ...]
    folders: tuple[Path, ...]
    """Where modules are looked for, before all other places."""
    env: Mapping[str, str]
    """Variables for the graphs; what the environment has already stays."""
    store_ttl: Mapping[str, Any]
    """How long items of the store live: `default_ttl` in minutes, `refresh_on_read`."""


def read_graphs_file(path: Path) -> GraphsFile:
    """Return what the file says; raises `Invalid` naming the file, the entry and the rule."""
    told = _object(path)
    graphs = told.get("graphs")
    if not isinstance(graphs, dict) or not graphs:
        raise _wrong(path, "has no 'graphs'", f'add {{"graphs": {{"agent": {_EXAMPLE}}}}}')
    folders = _folders(path, told.get("dependencies", []))
    places = tuple(_place(path, str(name), value) for name, value in graphs.items())
    store = told.get("store") or {}
    ttl = store.get("ttl") if isinstance(store, dict) else None
    return GraphsFile(path, places, folders, _env(path, told.get("env", {})), ttl or {})


def _object(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}", "correct CALLSHEET_CONFIG") from error
    except ValueError as error:
        raise _wrong(path, f"is not JSON: {error}", "correct it") from error
    if not isinstance(told, dict):
        raise _wrong(path, "is not a JSON object", "see langgraph.json of this project")
    return told


def _place(path: Path, name: str, value: Any) -> GraphLocation:
    text = value.get("path") if isinstance(value, dict) else value
    source, _, variable = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not source or not variable.isidentifier():
        raise _wrong(path, f"has {text!r} for graph {name!r}", f"use {_EXAMPLE}")
    if "/" not in source and not source.endswith(".py"):
        return GraphLocation(name, source, variable)
    file = (path.parent / source).resolve()
    if not file.is_file():
        raise _wrong(path, f"names {str(file)!r} for graph {name!r}, which is no file", "correct the path")
    return GraphLocation(name, file, variable)


def _folders(path: Path, dependencies: Any) -> tuple[Path, ...]:
    named = dependencies if isinstance(dependencies, list) else []
    local = [path.parent / name for name in named if isinstance(name, str) and name.startswith(".")]
    return tuple(dict.fromkeys(folder.resolve() for folder in (path.parent, *local)))


def _env(path: Path, env: Any) -> dict[str, str]:
    if isinstance(env, dict):
        return {str(name): str(value) for name, value in env.items()}
    if not isinstance(env, str) or not (file := path.parent / env).is_file():
        raise _wrong(path, f"has {env!r} for 'env'", "use an object, or the name of a file beside it")
    return {name: value for name, value in dotenv_values(file).items() if value is not None}


def is_missing(module: str) -> bool:
    """Return whether there is no such module, without importing more of it than the packages it is in."""
    try:
        return find_spec(module) is None
    except (ImportError, ValueError):
        return True


def _wrong(path: Path, rule: str, remedy: str) -> Invalid:
    return Invalid(f"{str(path)!r} {rule}", remedy=remedy)
