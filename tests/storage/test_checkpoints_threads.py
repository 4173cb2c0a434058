"""X3, X5: threads as a whole: named, listed, pruned, copied, deleted."""

from collections.abc import AsyncIterator

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from redis import Redis

from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import RedisSaver
from tests.storage.saver_graphs import (
    DeltaTalkState,
    message_contents,
    talk_graph,
    thread_config,
    user_message,
)
from tests.storage.saver_values import new_id


@pytest.fixture
async def saver(valkey_url: str) -> AsyncIterator[RedisSaver]:
    async with RedisSaver.from_url(valkey_url) as opened:
        yield opened


async def values(saver, name):
    """The newest state of the thread, or None."""
    saved = await saver.aget_tuple(thread_config(name))
    return saved and saved.checkpoint["channel_values"]


async def put(saver, name, namespace="", **metadata):
    """Store an empty checkpoint."""
    checkpoint = empty_checkpoint() | {"id": new_id()}
    return await saver.aput(thread_config(name, checkpoint_ns=namespace), checkpoint, metadata, {})


@pytest.mark.parametrize(
    ("one", "others"),
    [
        ("u1:42", ["u1", "u1:42:b", "u1:4"]),
        ("a*", ["ab", "a", "a**"]),
        ("a?[b]", ["axb", "a?b"]),
        ("{a}b", ["{a}c", "a", "{a}"]),
        ("a%7D", ["a}", "a%"]),
        ("ไทย 你好", ["ไทย"]),
        ("nul\0l", ["nul", "nul\0"]),
    ],
)
async def test_deleting_a_thread_removes_all_of_it_and_no_thread_with_a_similar_id(saver, one, others):
    for name in (one, *others):
        await talk_graph(saver).ainvoke(user_message("a"), thread_config(name))
    old = (await saver.aget_tuple(thread_config(one))).config

    await saver.adelete_thread(one)

    assert await saver.aget_tuple(thread_config(one)) is None
    assert await saver.aget_tuple(old) is None
    assert [message_contents(await values(saver, name)) for name in others] == [["a", "re:a"]] * len(others)


async def test_deleted_threads_leave_no_key_on_the_server(saver, valkey_url):
    """Forks, edits and runs included."""
    graph = talk_graph(saver)
    for turn in range(3):
        await graph.ainvoke(
            user_message(str(turn)), thread_config("t") | {"metadata": {"run_id": f"run-{turn}"}}
        )
    history = [state async for state in graph.aget_state_history(thread_config("t"))]
    await graph.ainvoke(user_message("fork"), history[4].config)
    await graph.aupdate_state(thread_config("t"), {"profile": "z"})
    await saver.acopy_thread("t", "copy")
    with Redis.from_url(valkey_url) as server:
        assert len(server.keys()) == 2 * 5 + 2

        await saver.adelete_thread("t")
        await saver.aprune(["copy"], strategy="delete")

        assert server.keys() == []


async def test_a_recreated_thread_shows_nothing_of_the_deleted_one_to_a_process_that_cached_it(
    saver, valkey_url
):
    async with RedisSaver.from_url(valkey_url) as other:
        for text in "abc":
            await talk_graph(saver).ainvoke(user_message(text), thread_config("t"))
        await saver.aget_tuple(thread_config("t"))

        await other.adelete_thread("t")
        await talk_graph(other).ainvoke(user_message("new"), thread_config("t"))

        assert message_contents(await values(saver, "t")) == ["new", "re:new"]
        await talk_graph(saver).ainvoke(user_message("b"), thread_config("t"))
        assert message_contents(await values(other, "t")) == ["new", "re:new", "b", "re:b"]


async def test_a_checkpoint_stored_after_the_deletion_of_its_thread_is_listed(saver, valkey_url):
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
    async with RedisSaver.from_url(valkey_url) as other:
        await other.adelete_thread("t")

    await put(saver, "t")

    assert [each.config["configurable"]["thread_id"] async for each in saver.alist(None)] == ["t"]


async def test_a_list_without_namespace_has_the_checkpoints_of_subgraphs_newest_first(saver):
    stored = [await put(saver, "t", namespace) for namespace in ("", "sub:1", "", "sub:2", "sub:1")]

    configs = [each.config async for each in saver.alist(thread_config("t"))]
    first_two = [each.config async for each in saver.alist(thread_config("t"), limit=2)]
    below = [each.config async for each in saver.alist(thread_config("t"), before=stored[2])]

    assert configs == stored[::-1]
    assert first_two == stored[:2:-1]
    assert below == stored[1::-1]


async def test_a_list_without_thread_has_all_threads_but_those_deleted(saver):
    for name in ("a", "b", "c"):
        await put(saver, name)
    await saver.adelete_thread("b")

    names = [each.config["configurable"]["thread_id"] async for each in saver.alist(None)]

    assert sorted(names) == ["a", "c"]
    assert len([each async for each in saver.alist(None, limit=1)]) == 1


async def test_savers_of_different_prefixes_do_not_see_each_others_threads(saver, valkey_url):
    async with RedisSaver.from_url(valkey_url, prefix="other") as other:
        await put(other, "t")
        await put(saver, "u")
        try:
            assert await saver.aget_tuple(thread_config("t")) is None
            assert [each.config["configurable"]["thread_id"] async for each in saver.alist(None)] == ["u"]
        finally:
            await other.adelete_thread("t")


async def test_a_history_longer_than_one_page_is_complete(saver):
    """More checkpoints than are fetched at once."""
    stored = [(await put(saver, "t", step=step))["configurable"]["checkpoint_id"] for step in range(450)]

    ids = [each.checkpoint["id"] async for each in saver.alist(thread_config("t", checkpoint_ns=""))]
    every = [each.checkpoint["id"] async for each in saver.alist(thread_config("t"))]
    filtered = [
        each.checkpoint["id"]
        async for each in saver.alist(thread_config("t", checkpoint_ns=""), filter={"step": 3}, limit=1)
    ]

    assert ids == every == stored[::-1]
    assert filtered == [stored[3]]


async def test_history_before_a_checkpoint_begins_with_its_predecessor(saver):
    graph = talk_graph(saver)
    for turn in range(3):
        await graph.ainvoke(user_message(str(turn)), thread_config("t"))
    history = [state.config async for state in graph.aget_state_history(thread_config("t"))]

    below = [
        state.config
        async for state in graph.aget_state_history(thread_config("t"), before=history[3], limit=4)
    ]

    assert below == history[4:8]


async def test_pruning_keeps_a_channel_that_was_written_once_long_ago(saver):
    graph = talk_graph(saver)
    await graph.ainvoke(user_message("0", profile="P"), thread_config("t"))
    for turn in range(1, 4):
        await graph.ainvoke(user_message(str(turn)), thread_config("t"))

    await saver.aprune(["t"])

    state = await graph.aget_state(thread_config("t"))
    assert len([each async for each in saver.alist(thread_config("t"))]) == 1
    assert (state.values["profile"], state.values["n"], len(state.values["messages"])) == ("P", 4, 8)
    await graph.ainvoke(user_message("4"), thread_config("t"))
    assert len((await graph.aget_state(thread_config("t"))).values["messages"]) == 10


async def test_pruning_keeps_the_writes_of_a_delta_channel(saver):
    for turn in range(7):
        await talk_graph(saver, DeltaTalkState).ainvoke(user_message(str(turn)), thread_config("t"))

    await saver.aprune(["t"])

    state = await talk_graph(saver, DeltaTalkState).aget_state(thread_config("t"))
    assert len(state.values["messages"]) == 14
    assert len([each async for each in saver.alist(thread_config("t"))]) < 21


async def test_pruning_frees_the_memory_of_removed_checkpoints(saver, valkey_url):
    graph = talk_graph(saver)
    for turn in range(20):
        await graph.ainvoke(user_message(str(turn), profile="x" * 2000), thread_config("t"))
    with Redis.from_url(valkey_url) as server:
        before = {key: server.memory_usage(key) for key in server.keys("checkpoint:*")}

        await saver.aprune(["t"])

        after = {key: server.memory_usage(key) or 0 for key in before}
    assert sum(after.values()) < sum(before.values()) / 4


async def test_a_copied_thread_and_its_original_are_independent(saver, valkey_url):
    async with RedisSaver.from_url(valkey_url) as other:
        for current in (saver, other):
            await talk_graph(current).ainvoke(user_message("old"), thread_config("copy"))
        await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))

        await saver.acopy_thread("t", "copy")
        await talk_graph(saver).ainvoke(user_message("b"), thread_config("t"))
        await talk_graph(other).ainvoke(user_message("c"), thread_config("copy"))

        for current in (saver, other):
            assert message_contents(await values(current, "t")) == ["a", "re:a", "b", "re:b"]
            assert message_contents(await values(current, "copy")) == ["a", "re:a", "c", "re:c"]


async def test_copying_a_thread_that_does_not_exist_or_onto_itself_changes_nothing(saver):
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))

    await saver.acopy_thread("missing", "t")
    await saver.acopy_thread("t", "t")
    await saver.acopy_thread("missing", "neither")

    assert message_contents(await values(saver, "t")) == ["a", "re:a"]
    assert {each.config["configurable"]["thread_id"] async for each in saver.alist(None)} == {"t"}


async def test_deleting_a_run_removes_its_checkpoints_from_all_threads_and_copies(saver):
    for name in ("t", "u"):
        await put(saver, name, run_id="kept")
        await put(saver, name, run_id="gone")
        await put(saver, name, "sub:1", run_id="gone")
    await saver.acopy_thread("t", "copy")

    await saver.adelete_for_runs(["gone", "never-was"])

    remaining = {
        (each.config["configurable"]["thread_id"], each.metadata["run_id"])
        async for each in saver.alist(None)
    }
    assert remaining == {(name, "kept") for name in ("t", "u", "copy")}


async def test_a_run_that_its_server_lost_is_registered_again_by_its_next_checkpoint(saver, valkey_url):
    """As after a failover or a restored backup."""
    await put(saver, "t", run_id="kept")
    with Redis.from_url(valkey_url) as server:
        backup = {key: server.dump(key) for key in server.keys("*")}
        await put(saver, "t", run_id="gone")
        server.flushdb()
        for key, dump in backup.items():
            server.restore(key, 0, dump)
    await put(saver, "t", run_id="gone")

    await saver.adelete_for_runs(["gone"])

    assert [each.metadata["run_id"] async for each in saver.alist(thread_config("t"))] == ["kept"]


async def test_a_thread_that_lost_its_only_run_can_be_written_again(saver):
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t") | {"metadata": {"run_id": "run"}})

    await saver.adelete_for_runs(["run"])
    assert await saver.aget_tuple(thread_config("t")) is None
    await talk_graph(saver).ainvoke(user_message("b"), thread_config("t") | {"metadata": {"run_id": "run"}})

    assert message_contents(await values(saver, "t")) == ["b", "re:b"]
    await saver.adelete_for_runs(["run"])
    assert await saver.aget_tuple(thread_config("t")) is None


async def test_a_config_without_a_thread_and_an_unknown_pruning_strategy_are_refused(saver):
    with pytest.raises(Invalid, match="names no thread"):
        await saver.aget_tuple({"configurable": {}})
    with pytest.raises(Invalid, match="'sometimes'"):
        await saver.aprune(["t"], strategy="sometimes")


@pytest.mark.parametrize("namespace", ["", None])
async def test_a_listing_by_metadata_reads_the_values_of_matching_checkpoints_alone(
    saver, valkey_url, namespace
):
    config = thread_config("t", checkpoint_ns="")
    for number in range(450):
        checkpoint = empty_checkpoint() | {
            "id": new_id(),
            "channel_values": {"large": f"{number} " * 1_000},
            "channel_versions": {"large": str(number)},
        }
        metadata = {"step": number, "third": number % 3}
        config = await saver.aput(config, checkpoint, metadata, {"large": str(number)})
    place = thread_config("t") if namespace is None else thread_config("t", checkpoint_ns=namespace)
    with Redis.from_url(valkey_url) as server:
        before = server.info("stats")["total_net_output_bytes"]
        [only] = [each async for each in saver.alist(place, filter={"step": 3})]
        sent_bytes = server.info("stats")["total_net_output_bytes"] - before
    assert only.checkpoint["channel_values"] == {"large": "3 " * 1_000}
    assert sent_bytes < 300_000, "of 1,600,000 bytes of values"
    thirds = [each.metadata["step"] async for each in saver.alist(place, filter={"third": 1}, limit=140)]
    assert thirds == list(range(448, 29, -3))
    older = [
        each.metadata["step"]
        async for each in saver.alist(place, filter={"third": 1}, before=only.config, limit=5)
    ]
    assert older == [1]
