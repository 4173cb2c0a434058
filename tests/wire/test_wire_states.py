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
from callsheet.server.langgraph.shapes import MessageEncoder
from callsheet.storage import Storage
from callsheet.storage.threads import threads as thread_records
from tests.doubles.wire_graphs import QUESTION
from tests.doubles.wire_server import run_on_new_thread, run_on_thread, running_server

HELLO = {"messages": [{"role": "user", "content": "hello"}]}
SAMPLES = Path(__file__).parent / "samples"
NOTHING: dict[str, Any] = {
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


class Kind(Enum):
    A = "a"


@dataclass
class Spot:
    x: int
    rest: tuple[float, ...]


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url) as found:
        yield found


def shape(value: Any) -> Any:
    """What kind of thing is where, in which order; names of what the server adds to metadata aside."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items() if name != "metadata"}
    return [shape(one) for one in value] if isinstance(value, list) else type(value).__name__


def keys_in_order(value: Any) -> list[str]:
    if isinstance(value, dict):
        inner = [name for key, one in value.items() if key != "metadata" for name in keys_in_order(one)]
        return [*value, *inner]
    return [name for one in value for name in keys_in_order(one)] if isinstance(value, list) else []


def sample(name: str) -> Any:
    return json.loads((SAMPLES / name).read_text())


async def test_an_interrupted_state_is_shown_as_langgraphs_server_does(
    client: LangGraphClient, storage: Storage
) -> None:
    expected = sample("json_thread_state_interrupted.json")
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    shown: Any = await client.threads.get_state(thread_id)
    assert shape(shown) == shape(expected)
    assert keys_in_order(shown) == keys_in_order(expected)
    assert (shown["next"], shown["interrupts"][0]["value"]) == (["review"], QUESTION)
    assert shown["tasks"][0]["path"] == expected["tasks"][0]["path"]
    assert shown["checkpoint"]["thread_id"] == thread_id
    common = {"source": "loop", "step": 1, "parents": {}, "graph_id": "agent"}
    assert common.items() <= shown["metadata"].items()
    assert common.items() <= expected["metadata"].items()


async def test_a_history_is_shown_as_langgraphs_server_does(
    client: LangGraphClient, storage: Storage
) -> None:
    expected = sample("json_history.json")
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    shown: Any = await client.threads.get_history(thread_id)
    assert shape(shown) == shape(expected)
    assert keys_in_order(shown) == keys_in_order(expected)
    for name in ("next", "created_at", "values"):
        assert [type(one[name]) for one in shown] == [type(one[name]) for one in expected]
    assert [one["next"] for one in shown] == [one["next"] for one in expected]
    assert [one["metadata"]["step"] for one in shown] == [1, 0, -1]
    assert shown[0] == await client.threads.get_state(thread_id)
    assert [one["parent_checkpoint_id"] for one in shown] == [
        shown[1]["checkpoint_id"],
        shown[2]["checkpoint_id"],
        None,
    ]


async def test_a_thread_without_a_state_is_shown_as_nulls(client: LangGraphClient) -> None:
    for metadata in ({}, {"graph_id": "agent"}):
        thread_id = (await client.threads.create(metadata=metadata))["thread_id"]
        assert await client.threads.get_state(thread_id) == NOTHING
        assert await client.threads.get_history(thread_id) == []


async def test_a_state_is_found_by_its_checkpoint_in_every_way_of_asking(
    client: LangGraphClient, storage: Storage, url: str
) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    history: Any = await client.threads.get_history(thread_id)
    old = history[2]
    assert await client.threads.get_state(thread_id, checkpoint_id=old["checkpoint_id"]) == old
    assert await client.threads.get_state(thread_id, checkpoint=old["checkpoint"]) == old
    part: Any = {"checkpoint_id": old["checkpoint_id"]}
    assert await client.threads.get_state(thread_id, checkpoint=part) == old
    async with httpx.AsyncClient(base_url=url) as http:
        listed = (await http.get(f"/threads/{thread_id}/history", params={"limit": 2})).json()
        later = {"limit": 1, "before": old["checkpoint_id"]}
        before = (await http.get(f"/threads/{thread_id}/history", params=later)).json()
    assert listed == history[:2]
    assert before == [history[3]]


async def test_a_checkpoint_that_is_not_there_is_not_found(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    other: Any = await client.threads.get_state(await run_on_new_thread(client, storage, "counter", {"x": 1}))
    with pytest.raises(NotFoundError, match="no checkpoint"):
        await client.threads.get_state(thread_id, checkpoint_id=other["checkpoint_id"])
    with pytest.raises(NotFoundError, match="no checkpoint"):
        await client.threads.get_state(thread_id, checkpoint=other["checkpoint"])
    nowhere: Any = {"checkpoint_ns": "nope:1"}
    with pytest.raises(NotFoundError, match="nope"):
        await client.threads.get_state(thread_id, checkpoint=nowhere)


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
async def test_what_cannot_name_a_checkpoint_is_refused(
    client: LangGraphClient, storage: Storage, url: str, path: str, body: Any
) -> None:
    thread = await run_on_new_thread(client, storage, "counter", {"x": 1})
    async with httpx.AsyncClient(base_url=url) as http:
        reply = await http.post(f"/threads/{thread}/{path}", json=body)
    assert reply.status_code == 422, reply.text
    assert "checkpoint" in reply.json()["detail"]


async def test_a_history_is_cut_where_it_is_asked_to_be(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    every: Any = await client.threads.get_history(thread_id)
    assert [one["values"].get("x") for one in every] == [4, 3, 2, 1, None]
    threads: Any = client.threads
    assert await threads.get_history(thread_id, limit=2) == every[:2]
    for before in (
        every[1]["checkpoint_id"],
        every[1]["checkpoint"],
        {"configurable": every[1]["checkpoint"]},
    ):
        assert await threads.get_history(thread_id, before=before) == every[2:]
    assert await threads.get_history(thread_id, metadata={"step": 1}) == [every[2]]
    assert await threads.get_history(thread_id, metadata={"source": "input"}) == [every[4]]


async def test_of_a_state_only_what_is_selected_is_shown(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    select: Any = ["next", "values.x", "nothing", "values.nothing"]
    threads: Any = client.threads
    assert await threads.get_state(thread_id, select=select) == {"next": [], "values": {"x": 4}}
    newest: Any = await client.threads.get_history(thread_id, limit=1, select=["values"])
    assert newest == [{"values": {"x": 4, "log": ["a", "b", "c"]}}]


async def test_a_subgraphs_state_is_in_its_task_when_that_is_asked(
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
    below: Any = {"checkpoint_ns": inner["checkpoint_ns"]}
    past: Any = await client.threads.get_history(thread_id, checkpoint=below)
    assert past[0]["values"]["steps"] == ["plan"]
    assert len(past) > 1


async def test_a_state_is_changed_as_a_node_would(client: LangGraphClient, storage: Storage) -> None:
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
        "no question is left, finish is next"
    )
    assert after["state_updated_at"] > before["state_updated_at"]
    await client.threads.update_state(thread_id, {"steps": ["end"]}, as_node="finish")
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_messages_may_be_sent_as_clients_write_them(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create(graph_id="agent"))["thread_id"]
    await client.threads.update_state(thread_id, HELLO, as_node="__start__")
    state: Any = await client.threads.get_state(thread_id)
    [message] = state["values"]["messages"]
    assert (message["type"], message["content"], state["next"]) == ("human", "hello", ["plan"])


async def test_a_state_is_changed_at_an_earlier_checkpoint_and_both_ways_are_kept(
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
    every: Any = await client.threads.get_history(thread_id)
    assert every[1:] == history


async def test_a_state_is_copied_to_go_on_from_it_again(client: LangGraphClient, storage: Storage) -> None:
    """What Studio sends for "re-run from here"."""
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    history: Any = await client.threads.get_history(thread_id)
    old = history[1]["checkpoint_id"]
    copied: Any = await client.threads.update_state(thread_id, None, as_node="__copy__", checkpoint_id=old)
    state: Any = await client.threads.get_state(thread_id)
    assert state["checkpoint_id"] == copied["checkpoint_id"] != old
    assert (state["values"], state["next"]) == (history[1]["values"], ["c"])
    assert state["metadata"]["source"] == "fork"


async def test_a_change_the_graph_does_not_take_is_refused(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    before: Any = await client.threads.get(thread_id)
    with pytest.raises(BadRequestError, match="Node nobody does not exist"):
        await client.threads.update_state(thread_id, {"x": 1}, as_node="nobody")
    with pytest.raises(BadRequestError):
        await client.threads.update_state(thread_id, "no object", as_node="a")  # type: ignore[arg-type]
    with pytest.raises(BadRequestError, match="TypeError: "):
        await client.threads.update_state(thread_id, {"log": 5}, as_node="a")
    assert await client.threads.get(thread_id) == before
    bare = (await client.threads.create())["thread_id"]
    with pytest.raises(BadRequestError, match="no graph yet"):
        await client.threads.update_state(bare, {"x": 1})


async def test_a_state_is_not_changed_under_a_run(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    async with thread_records.hold(storage, thread_id, "local"):
        with pytest.raises(ConflictError, match="has an unfinished run"):
            await client.threads.update_state(thread_id, {"x": 9}, as_node="a")
        state: Any = await client.threads.get_state(thread_id)
        assert state["values"]["x"] == 4
    await client.threads.update_state(thread_id, {"x": 9}, as_node="a")


async def test_of_changes_at_once_each_is_whole_or_refused(client: LangGraphClient, storage: Storage) -> None:
    thread_id = await run_on_new_thread(client, storage, "counter", {"x": 1})
    changes = [client.threads.update_state(thread_id, {"log": [str(n)]}, as_node="c") for n in range(10)]
    done = await asyncio.gather(*changes, return_exceptions=True)
    kept = [n for n, one in enumerate(done) if not isinstance(one, Exception)]
    assert all(isinstance(one, dict | ConflictError) for one in done)
    state: Any = await client.threads.get_state(thread_id)
    assert sorted(state["values"]["log"][3:]) == [str(n) for n in kept]
    assert kept


@pytest.mark.slow
async def test_a_long_thread_is_listed_with_its_messages_spelt_once_each_time(
    client: LangGraphClient, storage: Storage
) -> None:
    thread_id = await run_on_new_thread(client, storage, "agent", HELLO)
    for number in range(20):
        await client.threads.update_state(
            thread_id, {"messages": [{"role": "user", "content": f"{number} " + "ü" * 50}]}, as_node="finish"
        )
    await run_on_thread(storage, thread_id, "agent", HELLO)
    history: Any = await client.threads.get_history(thread_id, limit=100)
    counts = [len(one["values"].get("messages", [])) for one in history]
    assert counts == sorted(counts, reverse=True)
    newest = history[0]["values"]["messages"]
    for one in history:
        messages = one["values"].get("messages", [])
        assert messages == newest[: len(messages)]


async def test_a_number_no_checkpoint_can_hold_is_refused_and_one_in_metadata_kept(url: str) -> None:
    big = 10**40
    async with httpx.AsyncClient(base_url=url) as http:
        made = await http.post("/threads", json={"metadata": {"graph_id": "counter", "n": big}})
        assert made.json()["metadata"]["n"] == big
        at = f"/threads/{made.json()['thread_id']}/state"
        refused = await http.post(at, json={"values": {"x": big}, "as_node": "c"})
        assert (refused.status_code, "64-bit" in refused.text) == (400, True)
        assert (await http.get(at)).json() == NOTHING


async def test_whatever_a_state_holds_has_a_form() -> None:
    held = {
        "at": datetime(2026, 11, 21, 20, 40, tzinfo=UTC),
        "id": uuid.UUID(int=1),
        "set": {1},
        "kind": Kind.A,
        "spot": Spot(1, (2.5, math.inf)),
        "error": ValueError("no"),
        "bytes": b"ab\xff",
        "said": HumanMessage("hi", id="m"),
        "class": int,
        3: "three",
    }
    known: Any = json.loads(dumps(held))
    assert known == {
        "at": "2026-11-21T20:40:00+00:00",
        "id": "00000000-0000-0000-0000-000000000001",
        "set": [1],
        "kind": "a",
        "spot": {"x": 1, "rest": [2.5, None]},
        "error": {"error": "ValueError", "message": "no"},
        "bytes": "ab\\xff",
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
    half = json.loads(dumps(held | {"big": 2**70, "half": "\ud800"}))
    assert half == known | {"big": 2**70, "half": "\ufffd"}, "what orjson does not take changes nothing else"
    message = HumanMessage("\ud800", id="m", additional_kwargs={"big": 2**70})
    [encoded, _] = json.loads(dumps([message, "\ud800"], MessageEncoder()))
    assert (encoded["content"], encoded["additional_kwargs"]) == ("\ufffd", {"big": 2**70})
