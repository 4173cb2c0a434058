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
from tests.doubles.served import OURS
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import run_on_new_thread, running_server

AGENT = "fe096781-5601-53d2-b2f6-0d3403f7e9ca"
"""LangGraph's own id for the default assistant of a graph called agent."""


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url) as found:
        yield found


def ids(found: Any) -> list[str]:
    return [one["assistant_id"] for one in found]


async def test_every_graph_has_an_assistant_that_nobody_made(client: LangGraphClient) -> None:
    found: Any = await client.assistants.search(metadata={"created_by": "system"}, limit=100)
    assert {one["graph_id"] for one in found} == set(GRAPHS)
    [agent] = [one for one in found if one["graph_id"] == "agent"]
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


async def test_a_graphs_name_stands_for_its_assistant_everywhere(client: LangGraphClient) -> None:
    assert (await client.assistants.get("agent"))["assistant_id"] == AGENT
    for told in (client.assistants.get_schemas, client.assistants.get_subgraphs, client.assistants.get_graph):
        assert await told("agent") == await told(AGENT)
    versions: Any = await client.assistants.get_versions("agent")
    assert [one["version"] for one in versions] == [1]


async def test_an_assistant_is_made_with_all_that_is_said_of_it(client: LangGraphClient) -> None:
    made: Any = await client.assistants.create(
        "agent", metadata={"team": "red"}, context={"tone": "dry"}, name="Dry", description="Says little"
    )
    assert (made["version"], made["name"], made["description"]) == (1, "Dry", "Says little")
    assert made["context"] == {"tone": "dry"}
    assert made["config"] == {"configurable": {"tone": "dry"}}, "two names of one thing"
    assert await client.assistants.get(made["assistant_id"]) == made


async def test_an_id_that_is_taken_is_refused_or_found(client: LangGraphClient) -> None:
    mine = str(uuid.uuid4())
    made = await client.assistants.create("agent", assistant_id=mine, name="first")
    with pytest.raises(ConflictError, match="exists already"):
        await client.assistants.create("agent", assistant_id=mine)
    again = await client.assistants.create("agent", assistant_id=mine, if_exists="do_nothing", name="second")
    assert again == made


async def test_of_twenty_that_take_one_id_at_once_one_succeeds(client: LangGraphClient) -> None:
    mine = str(uuid.uuid4())
    made = [client.assistants.create("agent", assistant_id=mine, name=f"n{n}") for n in range(20)]
    done = await asyncio.gather(*made, return_exceptions=True)
    assert sum(isinstance(one, dict) for one in done) == 1
    assert sum(isinstance(one, ConflictError) for one in done) == 19


async def test_a_graph_that_is_not_served_is_named_in_the_refusal(client: LangGraphClient) -> None:
    with pytest.raises(NotFoundError, match="no graph 'nope'"):
        await client.assistants.create("nope")


async def test_every_change_is_a_version_and_earlier_ones_come_back_whole(client: LangGraphClient) -> None:
    made: Any = await client.assistants.create(
        "agent", metadata={"a": 1}, context={"tone": "dry"}, name="one"
    )
    mine = made["assistant_id"]
    two: Any = await client.assistants.update(mine, metadata={"b": 2}, context={"tone": "warm"})
    assert (two["version"], two["metadata"], two["name"]) == (2, {"a": 1, "b": 2}, "one")
    await client.assistants.update(mine, name="three", graph_id="parent")
    versions: Any = await client.assistants.get_versions(mine)
    assert [(one["version"], one["graph_id"], one["name"]) for one in versions] == [
        (3, "parent", "three"),
        (2, "agent", "one"),
        (1, "agent", "one"),
    ]
    back: Any = await client.assistants.set_latest(mine, 1)
    assert (back["version"], back["context"], back["metadata"]) == (1, {"tone": "dry"}, {"a": 1})
    assert back["config"] == {"configurable": {"tone": "dry"}}
    four: Any = await client.assistants.update(mine, description="on from the first")
    assert (four["version"], four["context"]) == (4, {"tone": "dry"})
    with pytest.raises(NotFoundError, match="no version 9"):
        await client.assistants.set_latest(mine, 9)


async def test_changes_at_once_are_all_kept(client: LangGraphClient) -> None:
    mine: Any = (await client.assistants.create("agent"))["assistant_id"]
    await asyncio.gather(*(client.assistants.update(mine, metadata={str(n): n}) for n in range(10)))
    found: Any = await client.assistants.get(mine)
    assert found["metadata"] == {str(n): n for n in range(10)}
    versions: Any = await client.assistants.get_versions(mine, limit=20)
    assert [one["version"] for one in versions] == list(range(11, 0, -1))


async def test_the_servers_own_assistant_may_be_changed_but_not_taken_away(client: LangGraphClient) -> None:
    changed: Any = await client.assistants.update("agent", context={"tone": "warm"})
    assert (changed["assistant_id"], changed["version"]) == (AGENT, 2)
    assert (await client.assistants.get("agent"))["context"] == {"tone": "warm"}
    assert len(await client.assistants.search(graph_id="agent")) == 1
    with pytest.raises(ConflictError, match="is the default assistant"):
        await client.assistants.delete("agent")
    back: Any = await client.assistants.set_latest("agent", 1)
    assert back["context"] == {}


async def test_a_deleted_assistant_is_gone_and_its_threads_if_that_is_asked(
    client: LangGraphClient, storage: Storage
) -> None:
    mine: Any = (await client.assistants.create("counter"))["assistant_id"]
    theirs = await run_on_new_thread(client, storage, "counter", {"x": 1}, assistant_id=mine)
    other = await run_on_new_thread(client, storage, "counter", {"x": 1})
    async with threads.hold(storage, theirs, "local"):
        with pytest.raises(ConflictError, match="has an unfinished run"):
            await client.assistants.delete(mine, delete_threads=True)
        assert (await client.assistants.get(mine))["assistant_id"] == mine, (
            "so that it can be asked for again"
        )
    await client.assistants.delete(mine, delete_threads=True)
    with pytest.raises(NotFoundError):
        await client.assistants.get(mine)
    with pytest.raises(NotFoundError):
        await client.threads.get(theirs)
    assert await client.threads.get(other)


async def test_a_search_filters_sorts_selects_and_comes_in_pages(client: LangGraphClient, url: str) -> None:
    for number in range(5):
        await client.assistants.create("counter", name=f"Test {number}", metadata={"kind": {"n": number % 2}})
    even = await client.assistants.search(metadata={"kind": {"n": 0}}, sort_by="name", sort_order="asc")
    assert [one["name"] for one in even] == ["Test 0", "Test 2", "Test 4"]
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


async def test_the_graph_is_drawn_and_its_subgraphs_with_xray(client: LangGraphClient) -> None:
    flat = await client.assistants.get_graph("parent")
    assert [one["id"] for one in flat["nodes"]] == ["__start__", "child", "__end__"]
    deep = await client.assistants.get_graph("parent", xray=True)
    assert {"child:plan", "child:review", "child:finish"} <= {one["id"] for one in deep["nodes"]}
    assert await client.assistants.get_graph("parent", xray=1) == deep
    told = await client.assistants.get_graph("agent")
    assert told == {
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


async def test_schemas_tell_what_a_graph_takes_remembers_and_may_be_told(client: LangGraphClient) -> None:
    told: Any = await client.assistants.get_schemas("agent")
    assert told["graph_id"] == "agent"
    for name in ("input_schema", "output_schema", "state_schema"):
        assert {"messages", "steps"} <= told[name]["properties"].keys(), name
    assert told["context_schema"]["properties"] == {"tone": {"title": "Tone", "type": "string"}}
    assert told["config_schema"] == told["context_schema"]
    plain: Any = await client.assistants.get_schemas("counter")
    assert (plain["config_schema"], plain["context_schema"]) == ({}, None)


async def test_subgraphs_are_found_by_where_they_are(client: LangGraphClient) -> None:
    every: Any = await client.assistants.get_subgraphs("parent", recurse=True)
    assert list(every) == ["child"]
    assert "steps" in every["child"]["state_schema"]["properties"]
    one = await client.assistants.get_subgraphs("parent", namespace="child")
    assert one == every
    assert await client.assistants.get_subgraphs("parent", namespace="nope") == {}
    assert await client.assistants.get_subgraphs("agent") == {}


async def test_what_an_assistant_was_told_may_be_taken_back(client: LangGraphClient) -> None:
    made: Any = await client.assistants.create("agent", context={"tone": "dry"})
    other: Any = await client.assistants.update(made["assistant_id"], config={"recursion_limit": 5})
    assert (other["config"], other["context"]) == ({"recursion_limit": 5}, {})
    both: Any = {"config": {"configurable": {"tone": "a"}}, "context": {"tone": "b"}}
    with pytest.raises(BadRequestError, match="two names of one thing"):
        await client.assistants.update(made["assistant_id"], **both)


async def test_wrong_requests_are_named(client: LangGraphClient) -> None:
    with pytest.raises(UnprocessableEntityError, match="printable"):
        await client.assistants.create("agent", assistant_id="a\nb")
    with pytest.raises(NotFoundError, match="no assistant"):
        await client.assistants.get(str(uuid.uuid4()))


@pytest.mark.slow
async def test_the_workflows_of_this_project_have_schemas_too(valkey_url: str) -> None:
    with running_server(valkey_url, None) as ours:
        async with get_client(url=ours) as client:
            found = {one["graph_id"] for one in await client.assistants.search()}
            assert found == set(OURS.graphs)
            for graph in found:
                told: Any = await client.assistants.get_schemas(graph)
                kinds = ("input_schema", "output_schema", "state_schema", "context_schema")
                assert all(told[kind]["properties"] for kind in kinds), graph
                nodes = {one["id"] for one in (await client.assistants.get_graph(graph))["nodes"]}
                assert {"planner", "tool_executor"} <= nodes
