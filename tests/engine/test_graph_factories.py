"""Graph factories get each run's config and runtime, as in LangGraph's own server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.doubles.wire_served import running_server_on_own_redis

FACTORIES = """
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from langgraph_sdk.runtime import ServerRuntime

opened = closed = 0


class State(TypedDict, total=False):
    model: str
    arguments: list[str]


@dataclass
class Context:
    tone: str = "plain"


def graph(*arguments: str, model: str = "none"):
    builder = StateGraph(State, context_schema=Context)
    builder.add_node("answer", lambda state: {"model": model, "arguments": list(arguments)})
    builder.add_edge(START, "answer")
    return builder


def by_config(config: RunnableConfig):
    return graph(model=config["configurable"].get("model", "none")).compile()


async def by_runtime(runtime: "ServerRuntime[Context]"):
    execution = runtime.execution_runtime
    tone = execution.context.tone if execution else ""
    return graph(runtime.access_context, tone, type(runtime.store).__name__)


def by_both(server: "ServerRuntime", config):
    return graph(server.access_context, model=config["configurable"].get("model", "none"))


@contextlib.asynccontextmanager
async def with_resources(config):
    global opened, closed
    opened += 1
    yield graph(str(opened), str(closed), model=config["configurable"].get("model", "none"))
    closed += 1


def once():
    global opened
    opened += 100
    return graph(str(opened))


def failing(config):
    if "model" in config["configurable"]:
        raise RuntimeError("no such model")
    return graph()
"""
NAMES = ("by_config", "by_runtime", "by_both", "with_resources", "once", "failing")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("factories")
    (folder / "factories.py").write_text(FACTORIES)
    file = folder / "langgraph.json"
    graphs = {name: f"./factories.py:{name}" for name in NAMES}
    file.write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    with running_server_on_own_redis(None, config=file) as server_url:
        yield server_url


async def run_graph(client: LangGraphClient, graph: str, **more: Any) -> Any:
    return await client.runs.wait(None, graph, input={}, **more)


async def test_a_factory_gets_the_config_of_a_run_and_of_an_assistant(client: LangGraphClient) -> None:
    config: Any = {"configurable": {"model": "gpt-x"}}
    for graph in ("by_config", "by_both"):
        assert (await run_graph(client, graph))["model"] == "none"
        assert (await run_graph(client, graph, config=config))["model"] == "gpt-x"
        assistant = await client.assistants.create(graph, config=config)
        assert (await run_graph(client, assistant["assistant_id"]))["model"] == "gpt-x"


async def test_the_runtime_of_a_factory_has_the_access_context_and_the_context_of_the_run(
    client: LangGraphClient,
) -> None:
    assert (await run_graph(client, "by_runtime", context={"tone": "warm"}))["arguments"] == [
        "threads.create_run",
        "warm",
        "RedisStore",
    ]
    assert (await run_graph(client, "by_both"))["arguments"] == ["threads.create_run"]


async def test_resources_that_a_factory_opens_are_closed_after_each_run(client: LangGraphClient) -> None:
    """The graph's `arguments` are how many resources have been opened and closed so far."""
    opened, closed = (await run_graph(client, "with_resources"))["arguments"]
    counts_of_next_run = (await run_graph(client, "with_resources"))["arguments"]
    assert counts_of_next_run == [str(int(opened) + 1), str(int(closed) + 1)]


async def test_a_factory_without_parameters_is_called_once(client: LangGraphClient) -> None:
    assert await run_graph(client, "once") == await run_graph(client, "once")


async def test_a_factory_that_raises_fails_the_run(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    run = await client.runs.create(
        thread["thread_id"], "failing", input={}, config={"configurable": {"model": "x"}}
    )
    await client.runs.join(thread["thread_id"], run["run_id"])
    assert (await client.runs.get(thread["thread_id"], run["run_id"]))["status"] == "error"


async def test_a_thread_of_a_factorys_graph_can_be_read_and_continued(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    config: Any = {"configurable": {"model": "gpt-x"}}
    await client.runs.wait(thread, "by_config", input={}, config=config)
    state: Any = await client.threads.get_state(thread)
    assert state["values"]["model"] == "gpt-x"
    await client.runs.wait(thread, "by_config", input={})
    history: Any = await client.threads.get_history(thread)
    assert history[0]["values"]["model"] == "none"
    schemas: Any = await client.assistants.get_schemas("by_config")
    assert schemas["state_schema"]["properties"].keys() == {"model", "arguments"}
