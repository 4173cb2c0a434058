"""LangGraph's own development server loads and runs the graphs without a key or network (X2, X6, X11)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests.doubles.redis_server import free_port
from tests.doubles.waiting import until
from tests.lessons.lesson_material import material

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The URL of `langgraph dev`, which refuses blocking calls and has no API keys."""
    folder = tmp_path_factory.mktemp("studio")
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CALLSHEET_DATA_DIR": str(folder / "data"),
        "LANGSMITH_TRACING": "false",
    }
    command = [
        str(Path(sys.executable).parent / "langgraph"),
        "dev",
        "--no-browser",
        "--no-reload",
        "--port",
        str(port),
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT) as server,
    ):
        url = f"http://127.0.0.1:{port}"
        try:
            until(lambda: is_answering(url), f"langgraph dev answers: {folder / 'log'}", patience_s=60)
            yield url
        finally:
            server.terminate()


@pytest.fixture
async def client(studio):
    async with get_client(url=studio) as sdk_client:
        yield sdk_client


def is_answering(url):
    try:
        return httpx.get(f"{url}/ok").status_code == 200
    except httpx.TransportError:
        return False


def user_message(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def test_langgraph_dev_lists_the_workflow_with_its_nodes_and_schemas(client):
    assistants: Any = await client.assistants.search()
    [assistant] = [entry for entry in assistants if entry["graph_id"] == "ad_creation"]
    graph = await client.assistants.get_graph(assistant["assistant_id"])
    assert {"planner", "tool_executor", "summarizer"} <= {node["id"] for node in graph["nodes"]}
    schemas: Any = await client.assistants.get_schemas(assistant["assistant_id"])
    assert "messages" in schemas["state_schema"]["properties"]


QUESTIONS = {
    "ad_creation": "A 15 second spot for Nordic Sauna in Oslo, calm",
    "campaign_search": "how many email campaigns are there",
    "fact_narration": material("photosynthesis").text,
    "page_builder": "make the headline purple",
    "scene_edit": "add a scene about our prices",
}
"""A question for each graph of langgraph.json."""


@pytest.mark.parametrize("graph", json.loads((ROOT / "langgraph.json").read_text())["graphs"])
async def test_langgraph_dev_answers_a_question_to_each_graph(client, graph):
    """Without --allow-blocking: a blocking call of a node is an error there."""
    thread = await client.threads.create()
    state: Any = await client.runs.wait(
        thread["thread_id"], graph, input=user_message(QUESTIONS[graph]), raise_error=False
    )
    assert "__error__" not in state, state["__error__"]
    failed = [one for one in state["results"] if one.get("status") != "completed"]
    assert (state["results"] and not failed) or "__interrupt__" in state, (
        state["results"],
        state["messages"][-1],
    )


async def test_langgraph_dev_edits_a_page(client):
    thread = await client.threads.create()
    state: Any = await client.runs.wait(
        thread["thread_id"], "page_builder", input=user_message("make the headline purple")
    )
    assert (state["drafts"], state["provider"]) == ({"page": "v1"}, "offline")


async def test_a_deletion_is_executed_only_after_its_interrupt_is_resumed(client):
    thread = (await client.threads.create())["thread_id"]
    message = user_message("delete the features section")
    state: Any = await client.runs.wait(thread, "page_builder", input=message)
    assert "__interrupt__" in state
    state = await client.runs.wait(thread, "page_builder", command={"goto": "tool_executor"})
    assert not state.get("drafts")
    await client.threads.update_state(thread, {}, as_node="approval")
    state = await client.runs.wait(thread, "page_builder")
    assert "No person has approved this call" in str(state["messages"])
    await client.runs.wait(thread, "page_builder", input=message)
    state = await client.runs.wait(thread, "page_builder", command={"resume": "yes"})
    assert state["drafts"] == {"page": "v1"}


async def test_a_lesson_is_interrupted_for_a_choice_of_facts_and_narrates_them(client):
    """B50, X6."""
    thread = await client.threads.create()
    message = user_message(material("photosynthesis").text)
    state: Any = await client.runs.wait(thread["thread_id"], "fact_narration", input=message)
    [interrupt] = state["__interrupt__"]
    assert len(interrupt["value"]["facts"]) == 7
    state = await client.runs.wait(thread["thread_id"], "fact_narration", command={"resume": "1 and 2"})
    assert state["drafts"] == {"confirmed": "v1", "narration": "v1"}


async def test_an_ad_is_created_from_a_brief_and_refined_on_its_thread(client):
    """The thread is the ad's conversation (X5), kept by our saver."""
    thread = await client.threads.create()
    state: Any = await client.runs.wait(
        thread["thread_id"],
        "ad_creation",
        input=user_message("A 15 second spot for Nordic Sauna in Oslo, calm"),
    )
    assert state["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
    assert state["provider"] == "offline"
    refined: Any = await client.runs.wait(
        thread["thread_id"],
        "ad_creation",
        input=user_message("make the music slower"),
    )
    assert refined["drafts"] == {"music": "v2"}
    history = await client.threads.get_history(thread["thread_id"], limit=50)
    assert len(history) > 10
