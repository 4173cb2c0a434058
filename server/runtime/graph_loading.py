"""Graphs of a langgraph.json: imported, compiled and given storage."""

import functools
import inspect
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
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

from callsheet.server.runtime.graphs_file import GraphLocation, GraphsFile, is_missing
from callsheet.state.errors import Broken, CallsheetError, Invalid

Graphs = Mapping[str, Pregel[Any, Any]]
_UNNAMED: Final = "LangGraph"
"""What LangGraph calls a graph that was compiled without a name."""
_log = logging.getLogger(__name__)


async def load_graphs(file: GraphsFile, stack: AsyncExitStack) -> dict[str, Pregel[Any, Any]]:
    """Return the graphs of `file`; what they opened is closed with `stack`.

    A factory is called once, with an empty config where it takes one. Raises `Invalid` for what cannot be
    imported or is no graph.
    """
    for name, value in file.env.items():
        os.environ.setdefault(name, value)
    sys.path[:0] = [str(folder) for folder in file.folders if str(folder) not in sys.path]
    return {place.name: await _graph(place, stack) for place in file.locations}


def attach_storage(
    graphs: Graphs, saver: BaseCheckpointSaver[Any], store: BaseStore
) -> dict[str, Pregel[Any, Any]]:
    """Return copies of the graphs that remember in `saver` and `store`, by the names they are served under.

    A graph that was compiled with a checkpointer or a store of its own gets ours instead, with a warning.
    """
    return {name: _attached(name, graph, saver, store) for name, graph in graphs.items()}


def _attached(
    name: str, graph: Pregel[Any, Any], saver: BaseCheckpointSaver[Any], store: BaseStore
) -> Pregel[Any, Any]:
    for what, own in (("checkpointer", graph.checkpointer), ("store", graph.store)):
        if isinstance(own, BaseCheckpointSaver | BaseStore):
            _log.warning(
                "graph %r was compiled with a %s of its own; the server's is used instead", name, what
            )
    shown = name if graph.name == _UNNAMED else graph.name
    copied = graph.copy(update={"checkpointer": saver, "store": store, "name": shown})
    # A misspelt key is ignored without a word, and a run without persistence is never a fallback.
    if copied.checkpointer is not saver or copied.store is not store:
        raise Broken(f"graph {name!r} did not take the server's storage")
    return copied


async def _graph(place: GraphLocation, stack: AsyncExitStack) -> Pregel[Any, Any]:
    value = _variable(place)
    if isinstance(value, Pregel | StateGraph) or not callable(value):
        return _compiled(place, value)
    try:
        made = _called(place, value)
        if inspect.isawaitable(made):
            made = await made
        if isinstance(made, AbstractAsyncContextManager):
            made = await stack.enter_async_context(made)
        elif isinstance(made, AbstractContextManager):
            made = stack.enter_context(made)
    except CallsheetError:
        raise
    except Exception as error:
        raise _failed(place, "cannot be made", error) from error
    return _compiled(place, made)


def _compiled(place: GraphLocation, value: Any) -> Pregel[Any, Any]:
    if isinstance(value, Pregel):
        return value
    if isinstance(value, StateGraph):
        return value.compile(name=place.name)
    raise Invalid(
        f"{place.variable!r}, which is to be graph {place.name!r}, is of type {type(value).__name__}",
        remedy="name a StateGraph, a compiled graph, an entrypoint, or a function that returns one",
    )


def _called(place: GraphLocation, factory: Any) -> Any:
    needed = [one for one in inspect.signature(factory).parameters.values() if one.default is one.empty]
    if len(needed) > 1:
        raise Invalid(
            f"{place.variable!r}, which is to make graph {place.name!r}, needs {len(needed)} arguments",
            remedy="let it take a config or nothing",
        )
    return factory({"configurable": {}}) if needed else factory()


def _variable(place: GraphLocation) -> Any:
    try:
        module = _from_file(place.source) if isinstance(place.source, Path) else _named(place, place.source)
    except CallsheetError:
        raise
    except Exception as error:
        raise _failed(place, "cannot be imported", error) from error
    try:
        return getattr(module, place.variable)
    except AttributeError:
        raise Invalid(
            f"{str(place.source)!r} has no {place.variable!r}, which is to be graph {place.name!r}",
            remedy="correct the name after the colon",
        ) from None


def _named(place: GraphLocation, module: str) -> ModuleType:
    if is_missing(module):
        raise Invalid(
            f"there is no module {module!r}, which is to have graph {place.name!r}",
            remedy="install it, or name a file: ./graph.py:graph",
        )
    return import_module(module)


@functools.cache
def _from_file(path: Path) -> ModuleType:
    """The module of a file that several graphs may be in, imported once."""
    name = f"{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Invalid(f"{str(path)!r} is no Python file", remedy="name a file that ends in .py")
    module = module_from_spec(spec)
    # Types are looked up by their module's name when a state is read from its annotations.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _failed(place: GraphLocation, rule: str, error: Exception) -> Invalid:
    return Invalid(
        f"graph {place.name!r} {rule}: {type(error).__name__}: {error}",
        remedy=f"correct {str(place.source)!r}",
    )
