"""States of threads through LangGraph's own client."""

import asyncio
import json
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.messages import HumanMessage
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError

from callsheet.server.engine.json_values import dumps
from callsheet.server.langgraph.schemas import MessageEncoder
from callsheet.storage import Storage
from callsheet.storage.threads import threads as thread_records
from tests.doubles.wire_graphs import QUESTION
from tests.doubles.wire_server import run_on_new_thread, run_on_thread, running_server

HELLO = {"messages": [{"role": "user", "content": "hello"}]}
SAMPLES = Path(__file__).parent / "samples"
EMPTY_STATE: dict[str, Any] = {
    "values": {},
    "next": [],
    "tasks": [],
    "metadata": None,
    "created_at": None,
    "checkpoint": None,
    "parent_checkpoint": None,
    "interrupts": [],
    "checkpoint_id": None,
    "parent_checkpoint_id": None,
}


class LetterEnum(Enum):
    A = "a"


@dataclass
class PointRecord:
    x: int
    rest: tuple[float, ...]


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url) as server_url:
        yield server_url


def types_of(value: Any) -> Any:
    """Return a value with the names of types in place of values, and without metadata."""
    if isinstance(value, dict):
        return {name: types_of(item) for name, item in value.items() if name != "metadata"}
    return [types_of(item) for item in value] if isinstance(value, list) else type(value).__name__


def keys_in_order(value: Any) -> list[str]:
    if isinstance(value, dict):
        inner = [name for key, item in value.items() if key != "metadata" for name in keys_in_order(item)]
        return [*value, *inner]
    return [name for item in value for name in keys_in_order(item)] if isinstance(value, list) else []


def sample(name: str) -> Any:
    return json.loads((SAMPLES / name).read_text())


async def test_an_interrupted_state_has_the_form_of_langgraphs_server(
    client: LangGraphClient, storage: Storage
) -> None:
    expected = sample("json_thread_state_interrupted.json")
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    shown: Any = await client.threads.get_state(thread_id)
    assert types_of(shown) == types_of(expected)
    assert keys_in_order(shown) == keys_in_order(expected)
    assert (shown["next"], shown["interrupts"][0]["value"]) == (["review"], QUESTION)
    assert shown["tasks"][0]["path"] == expected["tasks"][0]["path"]
    assert shown["checkpoint"]["thread_id"] == thread_id
    common = {"source": "loop", "step": 1, "parents": {}, "graph_id": "agent"}
    assert common.items() <= shown["metadata"].items()
    assert common.items() <= expected["metadata"].items()


async def test_a_history_has_the_form_of_langgraphs_server(client: LangGraphClient, storage: Storage) -> None:
    expected = sample("json_history.json")
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    shown: Any = await client.threads.get_history(thread_id)
    assert types_of(shown) == types_of(expected)
    assert keys_in_order(shown) == keys_in_order(expected)
    for name in ("next", "created_at", "values"):
        assert [type(state[name]) for state in shown] == [type(state[name]) for state in expected]
    assert [state["next"] for state in shown] == [state["next"] for state in expected]
    assert [state["metadata"]["step"] for state in shown] == [1, 0, -1]
    assert shown[0] == await client.threads.get_state(thread_id)
    assert [state["parent_checkpoint_id"] for state in shown] == [
        shown[1]["checkpoint_id"],
        shown[2]["checkpoint_id"],
        None,
    ]


async def test_a_thread_without_a_state_has_an_empty_state(client: LangGraphClient) -> None:
    for metadata in ({}, {"graph_id": "agent"}):
        thread_id = (await client.threads.create(metadata=metadata))["thread_id"]
        assert await client.threads.get_state(thread_id) == EMPTY_STATE
        assert await client.threads.get_history(thread_id) == []


async def test_a_state_is_read_by_checkpoint_id_or_checkpoint(
    client: LangGraphClient, storage: Storage, url: str
) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    history: Any = await client.threads.get_history(thread_id)
    old = history[2]
    assert await client.threads.get_state(thread_id, checkpoint_id=old["checkpoint_id"]) == old
    assert await client.threads.get_state(thread_id, checkpoint=old["checkpoint"]) == old
    checkpoint: Any = {"checkpoint_id": old["checkpoint_id"]}
    assert await client.threads.get_state(thread_id, checkpoint=checkpoint) == old
    async with httpx.AsyncClient(base_url=url) as http:
        listed = (await http.get(f"/threads/{thread_id}/history", params={"limit": 2})).json()
        params = {"limit": 1, "before": old["checkpoint_id"]}
        before = (await http.get(f"/threads/{thread_id}/history", params=params)).json()
    assert listed == history[:2]
    assert before == [history[3]]


async def test_a_missing_checkpoint_is_404(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    other: Any = await client.threads.get_state(await run_on_new_thread(client, storage, "counter", {"x": 1}))
    with pytest.raises(NotFoundError, match="no checkpoint"):
        await client.threads.get_state(thread_id, checkpoint_id=other["checkpoint_id"])
    with pytest.raises(NotFoundError, match="no checkpoint"):
        await client.threads.get_state(thread_id, checkpoint=other["checkpoint"])
    unknown_namespace: Any = {"checkpoint_ns": "nope:1"}
    with pytest.raises(NotFoundError, match="nope"):
        await client.threads.get_state(thread_id, checkpoint=unknown_namespace)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("state/checkpoint", {"checkpoint": {"checkpoint_id": {"a": 1}}}),
        ("state/checkpoint", {"checkpoint": {"checkpoint_id": True}}),
        ("state/checkpoint", {"checkpoint": {"checkpoint_ns": [1]}}),
        ("state/checkpoint", {"checkpoint": {"checkpoint_map": {"": 5}}}),
        ("state/checkpoint", {"checkpoint": {"checkpoint_id": "x", "checkpoint_map": "x"}}),
        ("state", {"values": {}, "checkpoint": {"checkpoint_id": {"a": 1}}}),
        ("history", {"before": {"configurable": 0.1}}),
        ("history", {"before": {"checkpoint_id": 5}}),
        ("history", {"checkpoint": {"checkpoint_ns": {"a": 1}}}),
    ],
)
async def test_a_checkpoint_with_wrong_types_is_refused(
    client: LangGraphClient, storage: Storage, url: str, path: str, body: Any
) -> None:
    thread = await run_on_new_thread(client, storage, "counter", {"x": 1})
    async with httpx.AsyncClient(base_url=url) as http:
        reply = await http.post(f"/threads/{thread}/{path}", json=body)
    assert reply.status_code == 422, reply.text
    assert "checkpoint" in reply.json()["detail"]


async def test_a_history_is_limited_by_limit_before_and_metadata(
    client: LangGraphClient, storage: Storage
) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    history: Any = await client.threads.get_history(thread_id)
    assert [state["values"].get("x") for state in history] == [4, 3, 2, 1, None]
    threads: Any = client.threads
    assert await threads.get_history(thread_id, limit=2) == history[:2]
    for before in (
        history[1]["checkpoint_id"],
        history[1]["checkpoint"],
        {"configurable": history[1]["checkpoint"]},
    ):
        assert await threads.get_history(thread_id, before=before) == history[2:]
    assert await threads.get_history(thread_id, metadata={"step": 1}) == [history[2]]
    assert await threads.get_history(thread_id, metadata={"source": "input"}) == [history[4]]


async def test_a_state_has_only_the_selected_fields(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    select: Any = ["next", "values.x", "nothing", "values.nothing"]
    threads: Any = client.threads
    assert await threads.get_state(thread_id, select=select) == {"next": [], "values": {"x": 4}}
    newest: Any = await client.threads.get_history(thread_id, limit=1, select=["values"])
    assert newest == [{"values": {"x": 4, "log": ["a", "b", "c"]}}]


async def test_the_state_of_a_subgraph_is_in_its_task_if_subgraphs_is_set(
    client: LangGraphClient, storage: Storage
) -> None:
    thread_id = await run_on_new_thread(client, storage, "parent", HELLO)
    plain: Any = await client.threads.get_state(thread_id)
    [task] = plain["tasks"]
    assert (task["name"], task["state"]) == ("child", None)
    assert task["checkpoint"] == {"thread_id": thread_id, "checkpoint_ns": f"child:{task['id']}"}
    assert task["interrupts"][0]["value"] == QUESTION
    deep: Any = await client.threads.get_state(thread_id, subgraphs=True)
    [nested] = deep["tasks"]
    assert nested["checkpoint"] is None
    assert (nested["state"]["next"], nested["state"]["values"]["steps"]) == (["review"], ["plan"])
    inner = nested["state"]["checkpoint"]
    assert inner["checkpoint_ns"] == f"child:{task['id']}"
    assert set(inner["checkpoint_map"]) == {"", inner["checkpoint_ns"]}
    alone: Any = await client.threads.get_state(thread_id, checkpoint=inner)
    assert alone["values"] == nested["state"]["values"]
    namespace: Any = {"checkpoint_ns": inner["checkpoint_ns"]}
    history: Any = await client.threads.get_history(thread_id, checkpoint=namespace)
    assert history[0]["values"]["steps"] == ["plan"]
    assert len(history) > 1


async def test_a_state_is_updated_as_a_node(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    before: Any = await client.threads.get(thread_id)
    changed: Any = await client.threads.update_state(thread_id, {"steps": ["by hand"]}, as_node="review")
    assert list(changed) == ["checkpoint", "configurable", "checkpoint_id"]
    state: Any = await client.threads.get_state(thread_id)
    assert state["checkpoint_id"] == changed["checkpoint_id"] == changed["checkpoint"]["checkpoint_id"]
    assert (state["values"]["steps"], state["next"]) == (["plan", "by hand"], ["finish"])
    assert (state["metadata"]["source"], state["metadata"]["graph_id"]) == ("update", "agent")
    after: Any = await client.threads.get(thread_id)
    assert (after["status"], after["interrupts"]) == ("interrupted", {}), (
        "no interrupt is left, finish is next"
    )
    assert after["state_updated_at"] > before["state_updated_at"]
    await client.threads.update_state(thread_id, {"steps": ["end"]}, as_node="finish")
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_an_update_accepts_messages_as_role_and_content(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create(graph_id="agent"))["thread_id"]
    await client.threads.update_state(thread_id, HELLO, as_node="__start__")
    state: Any = await client.threads.get_state(thread_id)
    [message] = state["values"]["messages"]
    assert (message["type"], message["content"], state["next"]) == ("human", "hello", ["plan"])


async def test_an_update_at_an_earlier_checkpoint_creates_a_fork(
    client: LangGraphClient, storage: Storage
) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    history: Any = await client.threads.get_history(thread_id)
    fork: Any = await client.threads.update_state(
        thread_id, {"x": 50}, as_node="a", checkpoint=history[2]["checkpoint"]
    )
    state: Any = await client.threads.get_state(thread_id)
    assert state["checkpoint"] == fork["checkpoint"]
    assert state["parent_checkpoint_id"] == history[2]["checkpoint_id"]
    assert (state["values"]["x"], state["next"]) == (50, ["b"])
    new_history: Any = await client.threads.get_history(thread_id)
    assert new_history[1:] == history


async def test_an_update_as_copy_node_copies_a_checkpoint(client: LangGraphClient, storage: Storage) -> None:
    """Studio sends this for "re-run from here"."""
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    history: Any = await client.threads.get_history(thread_id)
    old = history[1]["checkpoint_id"]
    copied: Any = await client.threads.update_state(thread_id, None, as_node="__copy__", checkpoint_id=old)
    state: Any = await client.threads.get_state(thread_id)
    assert state["checkpoint_id"] == copied["checkpoint_id"] != old
    assert (state["values"], state["next"]) == (history[1]["values"], ["c"])
    assert state["metadata"]["source"] == "fork"


async def test_an_update_that_the_graph_does_not_accept_is_refused(
    client: LangGraphClient, storage: Storage
) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    before: Any = await client.threads.get(thread_id)
    with pytest.raises(BadRequestError, match="Node nobody does not exist"):
        await client.threads.update_state(thread_id, {"x": 1}, as_node="nobody")
    with pytest.raises(BadRequestError):
        await client.threads.update_state(thread_id, "no object", as_node="a")  # type: ignore[arg-type]
    with pytest.raises(BadRequestError, match="TypeError: "):
        await client.threads.update_state(thread_id, {"log": 5}, as_node="a")
    assert await client.threads.get(thread_id) == before
    new_thread_id = (await client.threads.create())["thread_id"]
    with pytest.raises(BadRequestError, match="no graph yet"):
        await client.threads.update_state(new_thread_id, {"x": 1})


async def test_an_update_during_a_run_is_refused(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    async with thread_records.hold(storage, thread_id, "local"):
        with pytest.raises(ConflictError, match="has an unfinished run"):
            await client.threads.update_state(thread_id, {"x": 9}, as_node="a")
        state: Any = await client.threads.get_state(thread_id)
        assert state["values"]["x"] == 4
    await client.threads.update_state(thread_id, {"x": 9}, as_node="a")


async def test_concurrent_updates_are_complete_or_refused(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    changes = [client.threads.update_state(thread_id, {"log": [str(n)]}, as_node="c") for n in range(10)]
    results = await asyncio.gather(*changes, return_exceptions=True)
    accepted = [n for n, result in enumerate(results) if not isinstance(result, Exception)]
    assert all(isinstance(result, dict | ConflictError) for result in results)
    state: Any = await client.threads.get_state(thread_id)
    assert sorted(state["values"]["log"][3:]) == [str(n) for n in accepted]
    assert accepted


@pytest.mark.slow
async def test_every_state_of_a_long_history_has_its_messages_in_order(
    client: LangGraphClient, storage: Storage
) -> None:
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    for number in range(20):
        await client.threads.update_state(
            thread_id, {"messages": [{"role": "user", "content": f"{number} " + "ü" * 50}]}, as_node="finish"
        )
    await run_on_thread(storage, thread_id, "agent", HELLO)
    history: Any = await client.threads.get_history(thread_id, limit=100)
    counts = [len(state["values"].get("messages", [])) for state in history]
    assert counts == sorted(counts, reverse=True)
    newest = history[0]["values"]["messages"]
    for state in history:
        messages = state["values"].get("messages", [])
        assert messages == newest[: len(messages)]


async def test_a_number_over_64_bits_is_refused_in_a_state_and_kept_in_metadata(url: str) -> None:
    big = 10**40
    async with httpx.AsyncClient(base_url=url) as http:
        created = await http.post("/threads", json={"metadata": {"graph_id": "counter", "n": big}})
        assert created.json()["metadata"]["n"] == big
        path = f"/threads/{created.json()['thread_id']}/state"
        reply = await http.post(path, json={"values": {"x": big}, "as_node": "c"})
        assert (reply.status_code, "64-bit" in reply.text) == (400, True)
        assert (await http.get(path)).json() == EMPTY_STATE


async def test_values_of_every_type_are_serialized_to_json() -> None:
    value = {
        "at": datetime(2026, 11, 21, 20, 40, tzinfo=UTC),
        "id": uuid.UUID(int=1),
        "set": {1},
        "kind": LetterEnum.A,
        "spot": PointRecord(1, (2.5, math.inf)),
        "error": ValueError("no"),
        "bytes": b"ab\xff",
        "said": HumanMessage("hi", id="m"),
        "class": int,
        3: "three",
    }
    expected: Any = json.loads(dumps(value))
    assert expected == {
        "at": "2026-11-21T20:40:00+00:00",
        "id": "00000000-0000-0000-0000-000000000001",
        "set": [1],
        "kind": "a",
        "spot": {"x": 1, "rest": [2.5, None]},
        "error": {"error": "ValueError", "message": "no"},
        "bytes": "YWL/",
        "said": {
            "content": "hi",
            "additional_kwargs": {},
            "response_metadata": {},
            "type": "human",
            "name": None,
            "id": "m",
        },
        "class": "<class 'int'>",
        "3": "three",
    }
    encoded_with_surrogate = json.loads(dumps(value | {"big": 2**70, "half": "\ud800"}))
    assert encoded_with_surrogate == expected | {"big": 2**70, "half": "\ufffd"}, (
        "values that orjson refuses do not change the others"
    )
    message = HumanMessage("\ud800", id="m", additional_kwargs={"big": 2**70})
    [encoded, _] = json.loads(dumps([message, "\ud800"], MessageEncoder()))
    assert (encoded["content"], encoded["additional_kwargs"]) == ("\ufffd", {"big": 2**70})
