"""X3, X9: the order of checkpoints is the store's, however far the clocks of processes are apart."""

import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import getrandbits
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.base.id import UUID
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from redis import Redis

from callsheet.server.artefacts import archive
from callsheet.server.artefacts.archive import ThreadArchive
from callsheet.server.engine.workflows import Workflows
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread
from tests.storage.saver_graphs import (
    TalkState,
    message_contents,
    newest_checkpoint,
    talk_graph,
    thread_config,
    user_message,
)

SHIFTS_S = [1, -1, 60, -60, 3600, -3600]
EARLIER = Path(__file__).with_name("checkpoints_without_numbers.json")
"""The keys of thread `t` after two turns, from the version before checkpoints had numbers."""


@pytest.fixture
async def savers(valkey_url: str) -> AsyncIterator[tuple[RedisSaver, RedisSaver]]:
    """Two savers that share nothing but the server, as in two processes."""
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(RedisSaver.from_url(valkey_url)) for _ in range(2)]
        yield first, second


def id_at(shift_s: float) -> str:
    """LangGraph's id for a checkpoint that a process makes now, whose clock is off by `shift_s`."""
    stamp = (time.time_ns() + int(shift_s * 1e9)) // 100 + 0x01B21DD213814000
    return str(UUID(int=stamp >> 12 << 80 | (stamp & 0xFFF) << 64 | getrandbits(62), version=6))


async def put(saver: RedisSaver, shift_s: float, namespace: str = "", **metadata: Any) -> str:
    """Store a checkpoint on thread `t`, the child of the newest; its id."""
    config = thread_config("t", checkpoint_ns=namespace)
    last = await saver.aget_tuple(config)
    checkpoint = empty_checkpoint() | {"id": id_at(shift_s)}
    any_metadata: Any = metadata
    stored = await saver.aput(last.config if last else config, checkpoint, any_metadata, {})
    return str(stored["configurable"]["checkpoint_id"])


async def ids(saver: RedisSaver, name: str = "t", *, namespace: str | None = "", **options: Any) -> list[str]:
    config = thread_config(name) if namespace is None else thread_config(name, checkpoint_ns=namespace)
    return [each.checkpoint["id"] async for each in saver.alist(config, **options)]


async def alternate(savers: tuple[RedisSaver, RedisSaver], shift_s: float, turns: int = 6) -> list[str]:
    """Checkpoints by two processes in turn, the second with a clock that is off; their ids, newest first."""
    return [await put(savers[turn % 2], shift_s * (turn % 2), step=turn) for turn in range(turns)][::-1]


@pytest.mark.parametrize("shift_s", SHIFTS_S)
async def test_the_newest_checkpoint_is_the_one_stored_last(savers, shift_s):
    stored = await alternate(savers, shift_s)

    for saver in savers:
        newest = await newest_checkpoint(saver, "t")
        assert newest.checkpoint["id"] == stored[0]
        assert newest.parent_config["configurable"]["checkpoint_id"] == stored[1]
        assert await ids(saver) == await ids(saver, namespace=None) == stored


@pytest.mark.parametrize("shift_s", SHIFTS_S)
async def test_a_list_before_a_checkpoint_has_only_those_stored_earlier(savers, shift_s):
    stored = await alternate(savers, shift_s)

    for at, one in enumerate(stored):
        before = thread_config("t", checkpoint_id=one)
        for namespace in ("", None):
            assert await ids(savers[0], namespace=namespace, before=before) == stored[at + 1 :]
            assert (
                await ids(savers[1], namespace=namespace, before=before, limit=2) == stored[at + 1 : at + 3]
            )
    filtered = await ids(savers[0], filter={"step": 1}, before=thread_config("t", checkpoint_id=stored[1]))
    assert filtered == [stored[4]]


@pytest.mark.parametrize("shift_s", SHIFTS_S)
async def test_pruning_keeps_the_checkpoint_stored_last(savers, shift_s):
    stored = await alternate(savers, shift_s)

    await savers[0].aprune(["t"])

    assert await ids(savers[1]) == stored[:1]
    later = await put(savers[1], shift_s)
    assert await ids(savers[0]) == [later, stored[0]]


@pytest.mark.parametrize("shift_s", SHIFTS_S)
async def test_a_copied_thread_keeps_the_order_of_checkpoints_and_continues_it(savers, shift_s):
    stored = await alternate(savers, shift_s)

    await savers[0].acopy_thread("t", "copy")

    assert await ids(savers[1], "copy") == stored
    later = empty_checkpoint() | {"id": id_at(-7200)}
    await savers[1].aput(thread_config("copy"), later, {}, {})
    assert await ids(savers[0], "copy") == [later["id"], *stored]


@pytest.mark.parametrize("shift_s", SHIFTS_S)
async def test_an_imported_thread_keeps_the_order_of_checkpoints(savers, storage: Storage, shift_s):
    await threads.create(storage, NewThread("t", "local", "talk", {}))
    stored = await alternate(savers, shift_s)
    source = ThreadArchive(storage, savers[0], Workflows({"talk": talk_graph(savers[0])}), "1", {})
    content = b"".join([line async for line in await archive.export_file(source, "t", "local")])

    await archive.import_file(source, content, "local", new_id="t2")

    assert await ids(savers[1], "t2") == stored
    assert (await newest_checkpoint(savers[1], "t2")).checkpoint["id"] == stored[0]


@pytest.mark.parametrize("shift_s", SHIFTS_S)
async def test_checkpoints_of_all_namespaces_of_a_thread_are_in_one_order(savers, shift_s):
    places = [("", 0), ("sub", 1), ("", 1), ("sub", 0), ("sub|inner", 1), ("", 0)]
    stored = [await put(savers[off], off * shift_s, namespace) for namespace, off in places]

    assert await ids(savers[0], namespace=None) == stored[::-1]
    before = thread_config("t", checkpoint_id=stored[2])
    assert await ids(savers[0], namespace="sub", before=before) == [stored[1]]
    last = thread_config("t", checkpoint_id=stored[5])
    assert await ids(savers[0], namespace="sub|inner", before=last) == [stored[4]]


async def test_a_checkpoint_stored_a_second_time_keeps_its_place(savers):
    stored = await alternate(savers, 60, turns=3)
    saved = await savers[0].aget_tuple(thread_config("t", checkpoint_id=stored[1], checkpoint_ns=""))
    assert saved is not None

    await savers[1].aput(saved.parent_config or {}, saved.checkpoint, {"step": 9}, {})

    assert await ids(savers[0]) == stored
    steps = [each.metadata.get("step") async for each in savers[0].alist(thread_config("t"))]
    assert steps == [2, 9, 0]


async def test_a_list_before_a_deleted_checkpoint_is_limited_by_its_id(savers):
    """A page of history that begins at a deleted checkpoint is not empty."""
    stored = [await put(savers[0], 0, run_id=f"run-{turn}") for turn in range(4)][::-1]
    await savers[0].adelete_for_runs(["run-2"])

    before = thread_config("t", checkpoint_id=stored[1])
    for namespace in ("", None):
        assert await ids(savers[1], namespace=namespace, before=before) == stored[2:]
        assert await ids(savers[1], namespace=namespace, before=before, limit=1) == stored[2:3]


def load_thread_of_earlier_version(server: Redis) -> None:
    """Load the keys that an earlier version stored."""
    read = base64.b64decode
    for key, stored in json.loads(EARLIER.read_text()).items():
        if isinstance(stored, dict):
            server.hset(key, mapping={read(name): read(text) for name, text in stored.items()})
        elif key.endswith(":log"):
            server.rpush(key, *map(read, stored))
        else:
            server.zadd(key, dict.fromkeys(map(read, stored), 0))


@pytest.mark.parametrize("shift_s", [0, -3600 * 24 * 365])
async def test_a_thread_of_an_earlier_version_keeps_its_order_and_continues(savers, valkey_url, shift_s):
    with Redis.from_url(valkey_url) as server:
        load_thread_of_earlier_version(server)
    old = await ids(savers[0])
    assert old == sorted(old, reverse=True)
    assert len(old) == 6
    steps = [each.metadata["step"] async for each in savers[0].alist(thread_config("t"))]
    assert steps == [4, 3, 2, 1, 0, -1]
    old_contents = ["0", "re:0", "1", "re:1"]
    assert (
        message_contents((await newest_checkpoint(savers[1], "t")).checkpoint["channel_values"])
        == old_contents
    )

    await talk_graph(savers[0]).ainvoke(user_message("2"), thread_config("t"))
    last = await put(savers[1], shift_s)

    all_ids = await ids(savers[1])
    assert (all_ids[0], all_ids[4:]) == (last, old)
    for at, one in enumerate(all_ids):
        assert await ids(savers[0], before=thread_config("t", checkpoint_id=one)) == all_ids[at + 1 :]
    state = await talk_graph(savers[0]).aget_state(
        thread_config("t", checkpoint_id=all_ids[1], checkpoint_ns="")
    )
    assert message_contents(state.values) == [*old_contents, "2", "re:2"]
    await savers[0].acopy_thread("t", "copy")
    assert await ids(savers[1], "copy") == all_ids
    await savers[0].aprune(["t"])
    assert await ids(savers[1]) == [last]


async def test_an_earlier_version_fails_on_a_thread_instead_of_reading_it_as_empty(savers, valkey_url):
    """It reads the record of the greatest member, up to a colon."""
    await put(savers[0], 0)
    with Redis.from_url(valkey_url) as server:
        greatest = server.zrevrangebylex("checkpoint:{t}:ids", b"(\x01", b"[\x00", 0, 1)[0]
        record = server.hget("checkpoint:{t}:records", greatest)
        assert record
        assert b":" not in record


def nested_graph(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any, Any]:
    """A graph that calls a graph twice, which counts its calls across turns."""
    inner: Any = StateGraph(TalkState)
    inner.add_node("count", lambda state: {"n": 1, "profile": f"call {state.get('n', 0) + 1}"})
    inner.add_edge(START, "count")
    inner.add_edge("count", END)
    counting = inner.compile(checkpointer=True)

    async def call(state: TalkState) -> dict[str, Any]:
        return {"profile": (await counting.ainvoke({"n": 0}))["profile"]}

    outer: Any = StateGraph(TalkState)
    outer.add_node("first", call)
    outer.add_node("second", call)
    outer.add_edge(START, "first")
    outer.add_edge("first", "second")
    outer.add_edge("second", END)
    compiled: CompiledStateGraph[Any, Any] = outer.compile(checkpointer=saver)
    return compiled


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_replay_gives_a_subgraph_its_state_at_the_replayed_checkpoint(savers, durability):
    """The same as with LangGraph's own saver, from every checkpoint of a thread."""
    replayed: list[list[Any]] = []
    for saver in (InMemorySaver(), savers[0]):
        graph = nested_graph(saver)
        for _ in range(3):
            await graph.ainvoke({"messages": []}, thread_config("t"), durability=durability)
        history = [state.config async for state in graph.aget_state_history(thread_config("t"))]
        replayed.append(
            [(await graph.ainvoke(None, config, durability=durability))["profile"] for config in history]
        )

    assert replayed[0] == replayed[1]
    assert len({*replayed[0]}) > 1


def asking_graph(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any, Any]:
    """A graph that calls a graph, which counts and then asks a question."""
    inner: Any = StateGraph(TalkState)
    inner.add_node("count", lambda _: {"n": 1})
    inner.add_node("ask", lambda state: {"profile": f"{state['n']}: {interrupt('really?')}"})
    inner.add_edge(START, "count")
    inner.add_edge("count", "ask")
    inner.add_edge("ask", END)
    outer: Any = StateGraph(TalkState)
    outer.add_node("inner", inner.compile(checkpointer=True))
    outer.add_edge(START, "inner")
    outer.add_edge("inner", END)
    compiled: CompiledStateGraph[Any, Any] = outer.compile(checkpointer=saver)
    return compiled


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_replay_before_an_interrupt_resumes_as_with_langgraphs_own_saver(savers, durability):
    answers = []
    for saver in (InMemorySaver(), savers[0]):
        graph = asking_graph(saver)
        await graph.ainvoke({"n": 10}, thread_config("t"), durability=durability)
        start = (await graph.aget_state(thread_config("t"))).config
        await graph.ainvoke(None, start, durability=durability)
        replayed = await graph.ainvoke(Command(resume="yes"), thread_config("t"), durability=durability)
        answers.append(replayed["profile"])

    assert answers[0] == answers[1]


async def test_a_subgraphs_checkpoint_is_never_listed_before_that_of_its_start(savers):
    """With durability "exit" LangGraph stores the subgraph's first."""
    began = id_at(0)
    earlier = await put(savers[0], 0, "sub", parents={"": id_at(-5)})
    await put(savers[0], 0, "sub", parents={"": began})
    await savers[0].aput(thread_config("t"), empty_checkpoint() | {"id": began}, {}, {})

    assert await ids(savers[1], namespace="sub", before=thread_config("t", checkpoint_id=began)) == [earlier]
