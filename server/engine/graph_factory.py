"""Factories of graphs, as in langgraph.json: called once to read a graph, and for each run that it shapes.

A factory takes nothing, the run's config, the server's runtime, or both in any order; the runtime is known by
its annotation or its name. One that takes nothing is called once. The graph of a run must have the nodes and
edges of the one for reading, as LangGraph demands of its own server. The runtime has the run's user, as
LangGraph's `BaseUser`.
"""

import dataclasses
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.runtime import ServerRuntime
from pydantic import BaseModel

from callsheet.server.engine.permissions import implied_permissions
from callsheet.state.errors import Invalid
from callsheet.state.owners import LOCAL

USER = "langgraph_auth_user"
"""Key of `configurable`; LangGraph makes it `runtime.server_info.user`."""
_FACTORY: Final = "_callsheet_factory"
"""Attribute of a graph that a factory shapes for each run."""
_EXECUTION, _READ = (typing.get_origin(one) for one in typing.get_args(ServerRuntime.__value__))
"""The two classes that `ServerRuntime` stands for, which have no public names."""
Argument = Literal["config", "runtime"]


class User(dict[str, Any]):
    """An owner as LangGraph's `BaseUser`: by attribute and by key."""

    @property
    def identity(self) -> str:
        """The owner."""
        return str(self["identity"])

    @property
    def display_name(self) -> str:
        """The owner."""
        return str(self["display_name"])

    @property
    def is_authenticated(self) -> bool:
        """True: the server admits authenticated callers only."""
        return bool(self["is_authenticated"])

    @property
    def permissions(self) -> list[str]:
        """Least permissions of whoever starts a run; a schedule or a retry has no caller."""
        return list(self["permissions"])


def user_config(owner: str) -> dict[str, Any]:
    """Return the keys of `configurable` for a run's owner; the local owner is no user."""
    if owner == LOCAL:
        return {USER: None, f"{USER}_id": "", "langgraph_auth_permissions": []}
    may = list(implied_permissions("write"))
    user = User(identity=owner, display_name=owner, is_authenticated=True, permissions=may)
    return {USER: user, f"{USER}_id": owner, "langgraph_auth_permissions": may}


@dataclass(frozen=True)
class GraphFactory:
    """A factory that is called for each run."""

    function: Callable[..., Any]
    arguments: Mapping[str, Argument]
    """Meaning of its parameters, by name."""
    compile: Callable[[Any], Pregel[Any, Any]]
    """Turns what it returns into a graph; raises `Invalid` for anything else."""

    @asynccontextmanager
    async def build(self, config: RunnableConfig, runtime: Any) -> AsyncIterator[Pregel[Any, Any]]:
        """Return its graph; a context manager that it returns is open meanwhile."""
        values = {"config": config, "runtime": runtime}
        value = self.function(**{name: values[meaning] for name, meaning in self.arguments.items()})
        async with AsyncExitStack() as stack:
            yield self.compile(await enter(value, stack))


async def enter(value: Any, stack: AsyncExitStack) -> Any:
    """Return what a factory returned, awaited, and entered if it is a context manager."""
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, AbstractAsyncContextManager):
        return await stack.enter_async_context(value)
    return stack.enter_context(value) if isinstance(value, AbstractContextManager) else value


def arguments_of(function: Callable[..., Any], name: str) -> dict[str, Argument]:
    """Return the meaning of a factory's parameters; raises `Invalid` for parameters that nothing fills."""
    parameters = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind not in {one.VAR_KEYWORD, one.VAR_POSITIONAL}
    ]
    try:
        hints = typing.get_type_hints(function, localns={"ServerRuntime": ServerRuntime})
    except (NameError, TypeError, AttributeError):
        # An annotation may name anything; then the parameters' names decide.
        hints = {}
    meanings: dict[str, Argument] = {
        one.name: "runtime" if one.name == "runtime" or _is_runtime(hints.get(one.name)) else "config"
        for one in parameters
    }
    if len(set(meanings.values())) < len(meanings):
        raise Invalid(
            f"the factory of graph {name!r} takes {', '.join(meanings)}",
            remedy="let it take nothing, the config, a runtime: ServerRuntime, or both",
        )
    return meanings


def for_reading() -> tuple[RunnableConfig, Any]:
    """Return the config and runtime with which a factory makes the graph that is read, but not executed."""
    runtime: Any = _READ(access_context="assistants.read", store=InMemoryStore())
    return {"configurable": {}}, runtime


def mark(graph: Pregel[Any, Any], factory: GraphFactory | None) -> Pregel[Any, Any]:
    """Return the graph, marked as shaped by `factory` for each run, if there is one."""
    if factory:
        setattr(graph, _FACTORY, factory)
    return graph


def factory_of(graph: Pregel[Any, Any]) -> GraphFactory | None:
    """Return the factory that shapes a graph for each run; None for most graphs."""
    factory: GraphFactory | None = getattr(graph, _FACTORY, None)
    return factory


@asynccontextmanager
async def graph_of_run(
    graph: Pregel[Any, Any], config: RunnableConfig, context: Mapping[str, Any], user: User | None
) -> AsyncIterator[Pregel[Any, Any]]:
    """Return the graph of a run: the factory's, with the storage of `graph`; else `graph` itself."""
    factory = factory_of(graph)
    if factory is None:
        yield graph
        return
    runtime: Any = _EXECUTION(
        access_context="threads.create_run",
        user=user,
        store=cast("BaseStore", graph.store),
        context=_coerce_context(graph.context_schema, context),
    )
    async with factory.build(config, runtime) as graph_for_run:
        kept = ("checkpointer", "store", "name", "stream_eager")
        yield graph_for_run.copy(update={name: getattr(graph, name) for name in kept})


def _coerce_context(schema: Any, context: Mapping[str, Any]) -> Any:
    """Return the run's context as the graph declares it."""
    if isinstance(schema, type) and (dataclasses.is_dataclass(schema) or issubclass(schema, BaseModel)):
        return schema(**context)
    return dict(context)


def _is_runtime(annotation: Any) -> bool:
    if annotation is ServerRuntime or typing.get_origin(annotation) is ServerRuntime:
        return True
    if isinstance(annotation, type):
        return issubclass(annotation, _EXECUTION | _READ)
    return any(_is_runtime(one) for one in typing.get_args(annotation)[:1])
