"""X3: the saver's transports: few round trips, few connections, and no loss when one breaks."""

import asyncio
import copy
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError

from callsheet.state.errors import CallsheetError, Invalid, StorageDown
from callsheet.storage import checkpoints, use
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis.batching import MAX_CONNECTIONS
from callsheet.storage.redis.connection import connect
from tests.doubles.redis_server import free_port, scripted_redis
from tests.storage.saver_graphs import (
    message_contents,
    newest_checkpoint,
    talk_graph,
    thread_config,
    user_message,
)
from tests.storage.saver_proxy import CountingProxy
from tests.storage.saver_values import new_id


@pytest.fixture
async def proxy(valkey_url: str) -> AsyncIterator[CountingProxy]:
    with tempfile.TemporaryDirectory(prefix="saver-") as folder:
        async with CountingProxy(Path(folder), valkey_url) as running:
            yield running


@pytest.fixture
async def saver(proxy: CountingProxy) -> AsyncIterator[RedisSaver]:
    """A saver behind the proxy."""
    async with proxy.client() as client:
        opened = RedisSaver(client)
        yield opened
        await opened.aclose()


def checkpoint(**values: Any) -> Any:
    return empty_checkpoint() | {
        "id": new_id(),
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, 1 << 20),
    }


async def test_every_operation_is_one_round_trip(proxy, saver):
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
    config = (await newest_checkpoint(saver, "t")).config
    next_checkpoint = checkpoint(n=1, messages=["x"])

    async def list_checkpoints(**options):
        return [each async for each in saver.alist(thread_config("t", checkpoint_ns=""), **options)]

    operations = {
        "put": lambda: saver.aput(config, next_checkpoint, {"step": 1}, next_checkpoint["channel_versions"]),
        "put_writes": lambda: saver.aput_writes(config, [("n", 1), ("profile", "x")], "task"),
        "newest": lambda: saver.aget_tuple(thread_config("t")),
        "by id": lambda: saver.aget_tuple(config),
        "page": lambda: list_checkpoints(limit=3),
        "filtered": lambda: list_checkpoints(limit=1, filter={"step": 1}),
        "writes of a channel": lambda: saver.aget_delta_channel_history(config=config, channels=["n"]),
        "prune": lambda: saver.aprune(["t"]),
        "copy": lambda: saver.acopy_thread("t", "u"),
        "delete": lambda: saver.adelete_thread("t"),
    }
    trips = {}
    for again in range(2):
        # A script the server has not seen yet takes a second trip, the first time.
        await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
        for name, operation in operations.items():
            before = proxy.trips
            await operation()
            trips[name, again] = proxy.trips - before

    # A filter reads the records first, and then the values of those that match.
    expected = {**dict.fromkeys(operations, 1), "filtered": 2}
    assert {name: trips[name, 1] for name in operations} == expected


async def test_a_turn_of_three_checkpoints_takes_at_most_eight_round_trips(proxy):
    """Also on a slow machine, where calls that usually share a round trip may not."""
    # A connection without a handshake has no other round trips.
    async with AsyncRedis(unix_socket_path=proxy.socket, driver_info=None, protocol=2) as client:
        saver = RedisSaver(client)
        graph = talk_graph(saver)
        # The server knows all scripts after the first.
        await graph.ainvoke(user_message("0"), thread_config("t"))
        before = proxy.trips
        await graph.ainvoke(user_message("1"), thread_config("t"))
        assert 0 < proxy.trips - before <= 8
        await saver.aclose()


@pytest.mark.slow
async def test_fifty_threads_at_once_share_two_connections(proxy, saver):
    """No call fails for too many connections."""

    async def converse(name):
        for turn in range(2):
            await talk_graph(saver).ainvoke(user_message(str(turn)), thread_config(name))

    await asyncio.gather(*(converse(f"user-{number}") for number in range(50)))

    assert proxy.connections <= MAX_CONNECTIONS
    for number in range(50):
        saved = await newest_checkpoint(saver, f"user-{number}")
        assert saved.checkpoint["channel_values"]["n"] == 2


async def test_a_broken_connection_fails_no_call(proxy, saver):
    graph = talk_graph(saver)
    for turn in range(4):
        await graph.ainvoke(user_message(str(turn)), thread_config("t"))
        proxy.cut()

    assert (await graph.aget_state(thread_config("t"))).values["n"] == 4


async def test_a_write_whose_reply_was_lost_is_stored_once(proxy, saver, valkey_url):
    """X9: every operation is idempotent, because the client cannot know whether it arrived."""
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
    last = await newest_checkpoint(saver, "t")
    more = checkpoint(messages=[*last.checkpoint["channel_values"]["messages"], HumanMessage("b")])
    with Redis.from_url(valkey_url) as server:
        stored = thread_config("t", checkpoint_id=more["id"])
        for operation in (
            lambda: saver.aput(last.config, more, {"step": 1}, more["channel_versions"]),
            lambda: saver.aput_writes(stored, [("n", 1)], "task"),
            lambda: saver.aprune(["t"]),
            lambda: saver.acopy_thread("t", "copy"),
            lambda: saver.adelete_for_runs(["none"]),
        ):
            proxy.lose_reply()
            await operation()

        # The counter, too.
        assert server.zcard("checkpoint:{t}:ids") == 2
    for name in ("t", "copy"):
        saved = await newest_checkpoint(saver, name)
        assert message_contents(saved.checkpoint["channel_values"]) == ["a", "re:a", "b"]
        assert len(saved.pending_writes) == 1


async def test_scripts_are_loaded_again_after_the_server_forgot_them(saver, valkey_url):
    graph = talk_graph(saver)
    with Redis.from_url(valkey_url) as server:
        for turn in range(3):
            server.script_flush()
            await asyncio.gather(
                *(graph.ainvoke(user_message(str(turn)), thread_config(name)) for name in ("t", "u"))
            )
            server.script_flush()
            await asyncio.to_thread(graph.get_state, thread_config("t"))

    assert (await graph.aget_state(thread_config("u"))).values["n"] == 3


async def test_a_failed_read_raises_and_is_never_an_empty_thread(saver, valkey_url):
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
    with Redis.from_url(valkey_url) as server:
        server.execute_command("ACL", "SETUSER", "default", "-@read")
        try:
            with pytest.raises((CallsheetError, ResponseError), match="permission"):
                await newest_checkpoint(saver, "t")
            with pytest.raises((CallsheetError, ResponseError), match="permission"):
                await asyncio.to_thread(saver.get_tuple, thread_config("t"))
        finally:
            server.execute_command("ACL", "SETUSER", "default", "+@all")
    assert await newest_checkpoint(saver, "t") is not None


async def test_one_bad_call_of_a_batch_fails_alone(saver, valkey_url):
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
    with Redis.from_url(valkey_url) as server:
        server.set("checkpoint:{bad}:records", "not a hash")

        both: Any = await asyncio.gather(
            newest_checkpoint(saver, "t"), newest_checkpoint(saver, "bad"), return_exceptions=True
        )

        server.delete("checkpoint:{bad}:records")
    assert message_contents(both[0].checkpoint["channel_values"]) == ["a", "re:a"]
    assert "WRONGTYPE" in str(both[1])


async def test_a_cancelled_call_does_not_cancel_others_of_its_batch(saver):
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
    waiting = [asyncio.ensure_future(saver.aget_tuple(thread_config("t"))) for _ in range(6)]
    await asyncio.sleep(0)
    for cancelled in waiting[::2]:
        cancelled.cancel()

    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert [isinstance(each, asyncio.CancelledError) for each in results] == [True, False] * 3
    assert await newest_checkpoint(saver, "t") is not None


def test_one_saver_serves_several_event_loops_and_threads_at_once(valkey_url):
    client = AsyncRedis.from_url(valkey_url)
    saver = RedisSaver(client)
    failed: list[Exception] = []

    def run_turns(name):
        async def turns():
            for turn in range(3):
                await talk_graph(saver).ainvoke(user_message(str(turn)), thread_config(name))

        try:
            asyncio.run(turns())
            for turn in range(3, 5):
                talk_graph(saver).invoke(user_message(str(turn)), thread_config(name))
        except Exception as error:
            failed.append(error)
            raise

    names = [f"t{number}" for number in range(4)]
    workers = [threading.Thread(target=run_turns, args=(name,)) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert not failed
    assert [talk_graph(saver).get_state(thread_config(name)).values["n"] for name in names] == [5] * 4
    asyncio.run(saver.aclose())


async def test_closing_a_saver_leaves_the_callers_client_open(valkey_url):
    async with AsyncRedis.from_url(valkey_url) as client:
        saver = RedisSaver(client)
        await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
        await saver.aclose()
        await saver.aclose()

        assert await client.ping()
        assert await newest_checkpoint(saver, "t") is not None
        await saver.aclose()


async def test_a_clone_with_another_serialiser_reads_without_the_originals_cache(valkey_url):
    """LangGraph clones a saver to restrict deserialisation; clones do not share a cache."""
    async with RedisSaver.from_url(
        valkey_url, serde=JsonPlusSerializer(allowed_msgpack_modules=None)
    ) as saver:
        await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
        wider = saver.with_allowlist([("tests.storage.saver_graphs", "TalkState")])
        assert wider is not saver

        twin = copy.copy(saver)
        for current in (wider, twin):
            assert message_contents((await newest_checkpoint(current, "t")).checkpoint["channel_values"]) == [
                "a",
                "re:a",
            ]
        await twin.aput_writes((await newest_checkpoint(twin, "t")).config, [("n", 1)], "task")

        assert len((await newest_checkpoint(saver, "t")).pending_writes) == 1


async def test_a_write_can_wait_until_it_is_on_disk(valkey_url):
    async with RedisSaver.from_url(valkey_url, wait_aof=True) as saver:
        with Redis.from_url(valkey_url) as server:
            server.config_set("appendfsync", "always")
            try:
                await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
                await asyncio.to_thread(talk_graph(saver).invoke, user_message("b"), thread_config("t"))
                waits = server.info("commandstats")["cmdstat_waitaof"]["calls"]
            finally:
                server.config_set("appendfsync", "no")

        assert waits >= 4
        assert (await newest_checkpoint(saver, "t")).checkpoint["channel_values"]["n"] == 2


@contextmanager
def without_append_only_file(url):
    with Redis.from_url(url) as server:
        server.config_set("appendonly", "no")
        try:
            yield
        finally:
            server.config_set("appendonly", "yes")


async def test_waiting_for_the_disk_without_an_append_only_file_fails(valkey_url):
    async with RedisSaver.from_url(valkey_url, wait_aof=True) as saver:
        with (
            without_append_only_file(valkey_url),
            pytest.raises((CallsheetError, ResponseError), match="appendonly"),
        ):
            await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))


async def test_unsuitable_clients_are_refused_at_once(valkey_url):
    async with AsyncRedis.from_url(valkey_url, decode_responses=True) as decoding:
        with pytest.raises(Invalid, match="decodes responses"):
            RedisSaver(decoding)
    with Redis.from_url(valkey_url) as blocking, pytest.raises(Invalid, match="not an asyncio client"):
        RedisSaver(blocking)


async def test_a_missing_server_is_named_in_the_error(tmp_path):
    socket = tmp_path / "nobody"
    async with AsyncRedis(unix_socket_path=str(socket), retry=Retry(NoBackoff(), 1)) as client:
        saver = RedisSaver(client)

        with pytest.raises(StorageDown, match=str(socket)):
            await newest_checkpoint(saver, "t")
        await saver.aclose()


async def test_a_silent_server_is_named_in_the_error_of_a_blocking_method():
    async with (
        scripted_redis({}, otherwise=b"") as url,
        AsyncRedis.from_url(url, socket_timeout=0.2) as client,
    ):
        saver = RedisSaver(client)

        with pytest.raises(StorageDown, match=r"127\.0\.0\.1"):
            await asyncio.to_thread(saver.get_tuple, thread_config("t"))
        await saver.aclose()


async def test_a_missing_cluster_is_named_in_the_error_of_a_blocking_method():
    saver = RedisSaver(RedisCluster(host="127.0.0.1", port=free_port()))

    with pytest.raises(StorageDown, match="the cluster"):
        await asyncio.to_thread(saver.get_tuple, thread_config("t"))
    await saver.aclose()


async def test_the_saver_that_langgraph_json_names_uses_the_storage_of_the_process(valkey_url):
    """X6: `checkpointer.path` is callsheet.storage.checkpoints.saver."""
    async with connect(valkey_url) as storage:
        use(storage)
        try:
            async with checkpoints.saver() as saver:
                await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
        finally:
            use(None)

        assert await storage.redis.exists("checkpoint:{t}:ids")
