"""Load the graphs of a langgraph.json: import, compile, attach storage."""

import functools
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore

from callsheet.server.engine.graph_factory import (
    GraphFactory,
    arguments_of,
    enter,
    factory_of,
    for_reading,
    mark,
)
from callsheet.server.engine.graphs_file import GraphLocation, GraphsFile, is_missing
from callsheet.state.errors import Broken, CallsheetError, Invalid

Graphs = Mapping[str, Pregel[Any, Any]]
_UNNAMED: Final = "LangGraph"
"""LangGraph's name for a graph that was compiled without one."""
_LIBRARIES: Final = f"{os.sep}site-packages{os.sep}"
_log = logging.getLogger(__name__)


async def load_graphs(file: GraphsFile, stack: AsyncExitStack) -> dict[str, Pregel[Any, Any]]:
    """Return the graphs of `file`; context managers they return are closed with `stack`.

    A factory is called here with an empty config, to read its graph, and again for each run if it takes
    arguments. Raises `Invalid` if a graph cannot be imported or made.
    """
    prepare_imports(file)
    return {location.name: await _graph(location, stack) for location in file.locations}


def prepare_imports(file: GraphsFile) -> None:
    """Set the file's environment variables and module path. Twice is safe."""
    for name, value in file.env.items():
        os.environ.setdefault(name, value)
    sys.path[:0] = [str(folder) for folder in file.folders if str(folder) not in sys.path]


def attach_storage(
    graphs: Graphs, saver: BaseCheckpointSaver[Any], store: BaseStore
) -> dict[str, Pregel[Any, Any]]:
    """Return copies of the graphs with our checkpointer and store, by the names they are served under.

    A graph that was compiled with its own gets ours instead, with a warning.
    """
    return {name: _attach(name, graph, saver, store) for name, graph in graphs.items()}


def _attach(
    name: str, graph: Pregel[Any, Any], saver: BaseCheckpointSaver[Any], store: BaseStore
) -> Pregel[Any, Any]:
    for what, own in (("checkpointer", graph.checkpointer), ("store", graph.store)):
        if isinstance(own, BaseCheckpointSaver | BaseStore):
            _log.warning(
                "graph %r was compiled with a %s of its own; the server's is used instead", name, what
            )
    shown = name if graph.name == _UNNAMED else graph.name
    copied = graph.copy(update={"checkpointer": saver, "store": store, "name": shown})
    # LangGraph ignores a misspelt key silently, and a run without persistence is never a fallback.
    if copied.checkpointer is not saver or copied.store is not store:
        raise Broken(f"graph {name!r} did not take the server's storage")
    return mark(copied, factory_of(graph))


async def _graph(location: GraphLocation, stack: AsyncExitStack) -> Pregel[Any, Any]:
    value = load_variable(location)
    if isinstance(value, Pregel | StateGraph) or not callable(value):
        return _compile(location, value)
    factory = GraphFactory(value, arguments_of(value, location.name), partial(_compile, location))
    try:
        if factory.arguments:
            graph = await stack.enter_async_context(factory.build(*for_reading()))
            return mark(graph, factory)
        return _compile(location, await enter(value(), stack))
    except CallsheetError:
        raise
    except (Exception, SystemExit) as error:
        raise _failure(location, "cannot be made", error) from error


def _compile(location: GraphLocation, value: Any) -> Pregel[Any, Any]:
    if isinstance(value, Pregel):
        return value
    if isinstance(value, StateGraph):
        try:
            return value.compile(name=location.name)
        except Exception as error:
            raise _failure(location, "cannot be compiled", error) from error
    raise Invalid(
        f"{location.kind} {location.name!r}: {location.variable!r} is of type {type(value).__name__}",
        remedy="name a StateGraph, a compiled graph, an entrypoint, or a function that returns one",
    )


def load_variable(location: GraphLocation) -> Any:
    """Import and return what a location names; raises `Invalid`."""
    try:
        module = (
            _import_file(location.source)
            if isinstance(location.source, Path)
            else _import_module(location, location.source)
        )
    except CallsheetError:
        raise
    except (Exception, SystemExit) as error:
        # A module that calls `sys.exit` must not end the server without a word.
        raise _failure(location, "cannot be imported", error) from error
    try:
        return getattr(module, location.variable)
    except AttributeError:
        raise Invalid(
            f"{location.kind} {location.name!r}: {str(location.source)!r} has no {location.variable!r}",
            remedy="correct the name after the colon",
        ) from None


def _import_module(location: GraphLocation, module: str) -> ModuleType:
    if is_missing(module):
        raise Invalid(
            f"{location.kind} {location.name!r}: there is no module {module!r}",
            remedy="install it, or name a file: ./graph.py:graph",
        )
    return import_module(module)


@functools.cache
def _import_file(path: Path) -> ModuleType:
    """Import a file once, also if it holds several graphs."""
    name = f"{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Invalid(f"{str(path)!r} is not a Python file", remedy="name a file that ends in .py")
    module = module_from_spec(spec)
    # LangGraph resolves a state's annotations by the module's name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _failure(location: GraphLocation, rule: str, error: BaseException) -> Invalid:
    """Return the refusal of a graph; of a package that is missing, and else of the line that raised."""
    source = str(location.source)
    remedy = f"correct {source!r}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        remedy = f"install the package of {error.name!r} for {sys.executable}, or {remedy}"
    lines = [
        f" ({frame.filename}, line {frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if _LIBRARIES not in frame.filename and Path(frame.filename).is_file() and frame.filename != __file__
    ][-1:]
    place = "" if isinstance(error, SyntaxError) else "".join(lines)
    return Invalid(
        f"{location.kind} {location.name!r} {rule}: {type(error).__name__}: {error}{place}", remedy=remedy
    )
