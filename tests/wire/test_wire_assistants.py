"""Assistants through LangGraph's own client."""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError, UnprocessableEntityError

from callsheet.storage import Storage
from callsheet.storage.threads import threads
from tests.doubles.documented import OURS
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import run_on_new_thread, running_server

AGENT = "fe096781-5601-53d2-b2f6-0d3403f7e9ca"
"""LangGraph's own id for the default assistant of a graph called agent."""


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url) as server_url:
        yield server_url


def assistant_ids(assistants: Any) -> list[str]:
    return [assistant["assistant_id"] for assistant in assistants]


async def test_every_graph_has_a_default_assistant(client: LangGraphClient) -> None:
    assistants: Any = await client.assistants.search(metadata={"created_by": "system"}, limit=100)
    assert {assistant["graph_id"] for assistant in assistants} == set(GRAPHS)
    [agent] = [assistant for assistant in assistants if assistant["graph_id"] == "agent"]
    created = agent.pop("created_at")
    assert created.endswith("+00:00")
    assert agent == {
        "assistant_id": AGENT,
        "graph_id": "agent",
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "name": "agent",
        "updated_at": created,
        "version": 1,
        "description": None,
    }


async def test_a_graphs_name_can_be_used_for_its_default_assistant_everywhere(
    client: LangGraphClient,
) -> None:
    assert (await client.assistants.get("agent"))["assistant_id"] == AGENT
    for method in (
        client.assistants.get_schemas,
        client.assistants.get_subgraphs,
        client.assistants.get_graph,
    ):
        assert await method("agent") == await method(AGENT)
    versions: Any = await client.assistants.get_versions("agent")
    assert [version["version"] for version in versions] == [1]


async def test_an_assistant_is_created_with_all_given_fields(client: LangGraphClient) -> None:
    assistant: Any = await client.assistants.create(
        "agent", metadata={"team": "red"}, context={"tone": "dry"}, name="Dry", description="Says little"
    )
    assert (assistant["version"], assistant["name"], assistant["description"]) == (1, "Dry", "Says little")
    assert assistant["context"] == {"tone": "dry"}
    assert assistant["config"] == {"configurable": {"tone": "dry"}}, (
        "context and config.configurable are the same"
    )
    assert await client.assistants.get(assistant["assistant_id"]) == assistant


async def test_an_existing_assistant_id_is_refused_or_returned(client: LangGraphClient) -> None:
    assistant_id = str(uuid.uuid4())
    assistant = await client.assistants.create("agent", assistant_id=assistant_id, name="first")
    with pytest.raises(ConflictError, match="exists already"):
        await client.assistants.create("agent", assistant_id=assistant_id)
    existing = await client.assistants.create(
        "agent", assistant_id=assistant_id, if_exists="do_nothing", name="second"
    )
    assert existing == assistant


async def test_of_twenty_creations_with_one_id_at_once_one_succeeds(client: LangGraphClient) -> None:
    assistant_id = str(uuid.uuid4())
    creations = [
        client.assistants.create("agent", assistant_id=assistant_id, name=f"n{n}") for n in range(20)
    ]
    results = await asyncio.gather(*creations, return_exceptions=True)
    assert sum(isinstance(result, dict) for result in results) == 1
    assert sum(isinstance(result, ConflictError) for result in results) == 19


async def test_an_assistant_of_an_unknown_graph_is_refused(client: LangGraphClient) -> None:
    with pytest.raises(NotFoundError, match="no graph 'nope'"):
        await client.assistants.create("nope")


async def test_every_update_is_a_version_and_earlier_versions_can_be_restored(
    client: LangGraphClient,
) -> None:
    assistant: Any = await client.assistants.create(
        "agent", metadata={"a": 1}, context={"tone": "dry"}, name="one"
    )
    assistant_id = assistant["assistant_id"]
    second: Any = await client.assistants.update(assistant_id, metadata={"b": 2}, context={"tone": "warm"})
    assert (second["version"], second["metadata"], second["name"]) == (2, {"a": 1, "b": 2}, "one")
    await client.assistants.update(assistant_id, name="three", graph_id="parent")
    versions: Any = await client.assistants.get_versions(assistant_id)
    assert [(version["version"], version["graph_id"], version["name"]) for version in versions] == [
        (3, "parent", "three"),
        (2, "agent", "one"),
        (1, "agent", "one"),
    ]
    restored: Any = await client.assistants.set_latest(assistant_id, 1)
    assert (restored["version"], restored["context"], restored["metadata"]) == (1, {"tone": "dry"}, {"a": 1})
    assert restored["config"] == {"configurable": {"tone": "dry"}}
    fourth: Any = await client.assistants.update(assistant_id, description="on from the first")
    assert (fourth["version"], fourth["context"]) == (4, {"tone": "dry"})
    with pytest.raises(NotFoundError, match="no version 9"):
        await client.assistants.set_latest(assistant_id, 9)


async def test_concurrent_updates_are_all_kept(client: LangGraphClient) -> None:
    assistant_id: Any = (await client.assistants.create("agent"))["assistant_id"]
    await asyncio.gather(*(client.assistants.update(assistant_id, metadata={str(n): n}) for n in range(10)))
    assistant: Any = await client.assistants.get(assistant_id)
    assert assistant["metadata"] == {str(n): n for n in range(10)}
    versions: Any = await client.assistants.get_versions(assistant_id, limit=20)
    assert [version["version"] for version in versions] == list(range(11, 0, -1))


async def test_a_default_assistant_can_be_updated_but_not_deleted(client: LangGraphClient) -> None:
    changed: Any = await client.assistants.update("agent", context={"tone": "warm"})
    assert (changed["assistant_id"], changed["version"]) == (AGENT, 2)
    assert (await client.assistants.get("agent"))["context"] == {"tone": "warm"}
    assert len(await client.assistants.search(graph_id="agent")) == 1
    with pytest.raises(ConflictError, match="is the default assistant"):
        await client.assistants.delete("agent")
    restored: Any = await client.assistants.set_latest("agent", 1)
    assert restored["context"] == {}


async def test_deleting_an_assistant_deletes_its_threads_if_requested(
    client: LangGraphClient, storage: Storage
) -> None:
    assistant_id: Any = (await client.assistants.create("counter"))["assistant_id"]
    its_thread = await run_on_new_thread(client, storage, "counter", {"x": 1}, assistant_id=assistant_id)
    other = await run_on_new_thread(client, storage, "counter", {"x": 1})
    async with threads.hold(storage, its_thread, "local"):
        with pytest.raises(ConflictError, match="has an unfinished run"):
            await client.assistants.delete(assistant_id, delete_threads=True)
        assert (await client.assistants.get(assistant_id))["assistant_id"] == assistant_id, (
            "the deletion can be requested again"
        )
    await client.assistants.delete(assistant_id, delete_threads=True)
    with pytest.raises(NotFoundError):
        await client.assistants.get(assistant_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(its_thread)
    assert await client.threads.get(other)


async def test_a_search_filters_sorts_selects_and_pages(client: LangGraphClient, url: str) -> None:
    for number in range(5):
        await client.assistants.create("counter", name=f"Test {number}", metadata={"kind": {"n": number % 2}})
    even = await client.assistants.search(metadata={"kind": {"n": 0}}, sort_by="name", sort_order="asc")
    assert [assistant["name"] for assistant in even] == ["Test 0", "Test 2", "Test 4"]
    assert await client.assistants.count(name="test ") == 5
    assert await client.assistants.count(graph_id="counter") == 6
    page: Any = await client.assistants.search(
        name="test", limit=2, offset=1, sort_by="name", select=["name"], response_format="object"
    )
    assert page == {"assistants": [{"name": "Test 3"}, {"name": "Test 2"}], "next": "3"}
    last: Any = await client.assistants.search(name="test", limit=2, offset=3, response_format="object")
    assert last["next"] is None
    async with httpx.AsyncClient() as http:
        reply = await http.post(f"{url}/assistants/search", json={"name": "test", "limit": 50})
    assert reply.headers["x-pagination-total"] == "5"


async def test_a_graph_is_returned_with_its_subgraphs_if_xray_is_set(client: LangGraphClient) -> None:
    flat = await client.assistants.get_graph("parent")
    assert [node["id"] for node in flat["nodes"]] == ["__start__", "child", "__end__"]
    deep = await client.assistants.get_graph("parent", xray=True)
    assert {"child:plan", "child:review", "child:finish"} <= {node["id"] for node in deep["nodes"]}
    assert await client.assistants.get_graph("parent", xray=1) == deep
    graph = await client.assistants.get_graph("agent")
    assert graph == {
        "nodes": [
            {"id": "__start__", "type": "runnable", "data": {"name": "__start__"}},
            {"id": "plan", "type": "runnable", "data": {"name": "plan"}},
            {"id": "review", "type": "runnable", "data": {"name": "review"}},
            {"id": "finish", "type": "runnable", "data": {"name": "finish"}},
            {"id": "__end__"},
        ],
        "edges": [
            {"source": "__start__", "target": "plan"},
            {"source": "plan", "target": "review"},
            {"source": "review", "target": "finish"},
            {"source": "finish", "target": "__end__"},
        ],
    }


async def test_schemas_describe_input_output_state_context_and_config(client: LangGraphClient) -> None:
    schemas: Any = await client.assistants.get_schemas("agent")
    assert schemas["graph_id"] == "agent"
    for name in ("input_schema", "output_schema", "state_schema"):
        assert {"messages", "steps"} <= schemas[name]["properties"].keys(), name
    assert schemas["context_schema"]["properties"] == {"tone": {"title": "Tone", "type": "string"}}
    assert schemas["config_schema"] == schemas["context_schema"]
    plain: Any = await client.assistants.get_schemas("counter")
    assert (plain["config_schema"], plain["context_schema"]) == ({}, None)
    # Its state is a `typing.TypedDict`, which pydantic describes from Python 3.12 on alone.
    assert plain["input_schema"] == plain["output_schema"]
    assert plain["input_schema"]["properties"]["x"] == {"title": "X", "type": "integer"}
    assert sorted(plain["input_schema"]["required"]) == ["log", "x"]


async def test_a_kind_that_no_graph_makes_names_the_remedy(client: LangGraphClient) -> None:
    with pytest.raises(NotFoundError) as refusal:
        await client.http.get("/api/artefacts/ad")
    assert "langgraph.json" in refusal.value.response.json()["remedy"]


async def test_subgraphs_are_selected_by_namespace(client: LangGraphClient) -> None:
    recursive: Any = await client.assistants.get_subgraphs("parent", recurse=True)
    assert list(recursive) == ["child"]
    assert "steps" in recursive["child"]["state_schema"]["properties"]
    by_namespace = await client.assistants.get_subgraphs("parent", namespace="child")
    assert by_namespace == recursive
    assert await client.assistants.get_subgraphs("parent", namespace="nope") == {}
    assert await client.assistants.get_subgraphs("agent") == {}


async def test_an_update_of_the_config_removes_the_earlier_context(client: LangGraphClient) -> None:
    assistant: Any = await client.assistants.create("agent", context={"tone": "dry"})
    updated: Any = await client.assistants.update(assistant["assistant_id"], config={"recursion_limit": 5})
    assert (updated["config"], updated["context"]) == ({"recursion_limit": 5}, {})
    config_and_context: Any = {"config": {"configurable": {"tone": "a"}}, "context": {"tone": "b"}}
    with pytest.raises(BadRequestError, match="two names of one thing"):
        await client.assistants.update(assistant["assistant_id"], **config_and_context)


async def test_an_invalid_or_unknown_assistant_id_is_refused(client: LangGraphClient) -> None:
    with pytest.raises(UnprocessableEntityError, match="printable"):
        await client.assistants.create("agent", assistant_id="a\nb")
    with pytest.raises(NotFoundError, match="no assistant"):
        await client.assistants.get(str(uuid.uuid4()))


@pytest.mark.slow
async def test_the_workflows_of_this_project_have_schemas(valkey_url: str) -> None:
    with running_server(valkey_url, None) as server_url:
        async with get_client(url=server_url) as client:
            graphs = {entry["graph_id"] for entry in await client.assistants.search()}
            assert graphs == set(OURS.graphs)
            for graph in graphs:
                schemas: Any = await client.assistants.get_schemas(graph)
                kinds = ("input_schema", "output_schema", "state_schema", "context_schema")
                assert all(schemas[kind]["properties"] for kind in kinds), graph
                nodes = {entry["id"] for entry in (await client.assistants.get_graph(graph))["nodes"]}
                assert {"planner", "tool_executor"} <= nodes
