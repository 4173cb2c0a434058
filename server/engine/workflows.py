"""The workflows that a process serves: graphs, specifications, tools."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from callsheet.nodes.workflow import WorkflowSpec, workflow_of
from callsheet.server.engine import graph_loading, graphs_file
from callsheet.server.engine.graph_loading import Graphs
from callsheet.server.engine.graphs_file import GraphsFile
from callsheet.server.engine.project_options import ProjectOptions
from callsheet.state.errors import Invalid
from callsheet.tools.registry import Tool


@dataclass(frozen=True)
class Workflows:
    """The graphs that are served, with their specifications."""

    graphs: Graphs
    """By the name they are served under."""

    @cached_property
    def specs(self) -> Mapping[str, WorkflowSpec[Any]]:
        """The specifications, by graph; a graph that was not built from one has none."""
        specs = {name: spec for name, graph in self.graphs.items() if (spec := workflow_of(graph))}
        _require_distinct_kinds(specs)
        return specs

    @cached_property
    def tools(self) -> Mapping[str, tuple[str, Tool]]:
        """Every tool of the workflows by name, each with the kind of artefact it belongs to."""
        return {
            name: (spec.artefact.kind, tool)
            for spec in self.specs.values()
            for name, tool in {**spec.tools, **spec.internal_tools}.items()
        }


def packaged_graphs() -> GraphsFile:
    """Return our own langgraph.json, shipped with the package."""
    # Beside the layers, in a wheel as in a checkout.
    path = Path(__file__).parents[2] / "langgraph.json"
    # Its folder must not go on the module path: the package's own folders would become top-level modules.
    return replace(graphs_file.read_graphs_file(path), folders=())


def options_of(source: GraphsFile | Graphs | None) -> ProjectOptions:
    """Return the options of a file; graphs by name, and our own, have none."""
    return source.options if isinstance(source, GraphsFile) else ProjectOptions()


async def load_workflows(source: GraphsFile | Graphs | None, stack: AsyncExitStack) -> Workflows:
    """Return the workflows of a file, or of graphs by name; by default our own.

    Context managers of graphs are closed with `stack`. Raises `Invalid` for anything but a graph, and for two
    workflows of one kind.
    """
    if source is None or isinstance(source, GraphsFile):
        source = await graph_loading.load_graphs(source or packaged_graphs(), stack)
    workflows = Workflows(source)
    workflows.specs  # noqa: B018 -- raises early
    return workflows


def _require_distinct_kinds(specs: Mapping[str, WorkflowSpec[Any]]) -> None:
    users: dict[str, str] = {}
    for name, spec in specs.items():
        if other := users.get(spec.artefact.kind):
            raise Invalid(
                f"workflows {other!r} and {name!r} both make artefacts of kind {spec.artefact.kind!r}",
                remedy="give one of them another kind",
            )
        users[spec.artefact.kind] = name
