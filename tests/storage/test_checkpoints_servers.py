"""X4: the saver on every kind of server: without modules, in a cluster, behind Sentinel."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis, RedisCluster
from redis.asyncio.sentinel import Sentinel

from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.embedded import watchdog
from tests.doubles.needs import need
from tests.doubles.redis_server import RedisServer, free_port, one_node_cluster, running_redis
from tests.doubles.waiting import until
from tests.storage.saver_graphs import newest_checkpoint, talk_graph, thread_config, user_message


@pytest.fixture(scope="module")
def cluster_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A cluster for all tests, because it takes two seconds to start."""
    with one_node_cluster(watchdog.binary(), tmp_path_factory.mktemp("cluster")) as server:
        yield server


@pytest.fixture
def node(cluster_server: RedisServer) -> str:
    """The URL of an empty cluster."""
    with Redis.from_url(cluster_server.url) as server:
        server.flushall()
    return cluster_server.url.replace("redis://", "redis+cluster://")


async def use_threads(url):
    """Write to five threads at once, copy, prune and delete, and check what is left."""
    async with RedisSaver.from_url(url) as saver:
        for turn in range(3):
            await asyncio.gather(
                *(
                    talk_graph(saver).ainvoke(user_message(str(turn)), thread_config(f"t{number}"))
                    for number in range(5)
                )
            )
        await saver.acopy_thread("t0", "copy")
        await saver.aprune(["copy"])
        await saver.adelete_thread("t0")

        copied = await newest_checkpoint(saver, "copy")
        assert len(copied.checkpoint["channel_values"]["messages"]) == 6
        names = {each.config["configurable"]["thread_id"] async for each in saver.alist(None)}
        assert names == {"t1", "t2", "t3", "t4", "copy"}


@pytest.mark.parametrize("server", ["valkey", "redis-server"])
async def test_threads_are_kept_copied_and_pruned_on_any_server(server, tmp_path):
    """X4: a Valkey, and a Redis without modules."""
    program = need("redis-server") if server == "redis-server" else watchdog.binary()
    with running_redis(program, tmp_path) as running:
        await use_threads(running.url)


@pytest.mark.slow
async def test_threads_are_kept_copied_and_pruned_on_a_cluster(node):
    """X4: two threads have different slots."""
    await use_threads(node)


async def use_blocking(saver):
    """Write and copy with the blocking methods, and read with an asynchronous one."""
    await asyncio.to_thread(talk_graph(saver).invoke, user_message("a"), thread_config("t"))
    await asyncio.to_thread(saver.copy_thread, "t", "copy")

    assert len((await newest_checkpoint(saver, "copy")).checkpoint["channel_values"]["messages"]) == 2


async def test_blocking_methods_work_on_a_cluster(node):
    async with RedisSaver.from_url(node) as saver:
        await use_blocking(saver)


@pytest.mark.slow
async def test_blocking_methods_work_on_a_cluster_with_the_callers_own_client(node):
    with RedisCluster.from_url(node.replace("redis+cluster://", "redis://")) as blocking:
        async with RedisSaver.from_url(node, sync_client=blocking) as saver:
            await use_blocking(saver)

        assert blocking.ping()


async def test_options_and_uses_that_a_cluster_lacks_are_refused(node):
    with pytest.raises(Invalid, match="wait_aof"):
        async with RedisSaver.from_url(node, wait_aof=True):
            pass
    async with RedisSaver.from_url(node) as saver:
        await newest_checkpoint(saver, "t")
        with pytest.raises(Invalid, match="one event loop"):
            await asyncio.to_thread(lambda: asyncio.run(newest_checkpoint(saver, "t")))


@contextmanager
def running_sentinel(folder, server_port) -> Iterator[int]:
    """The port of a Sentinel that watches a server as `main`."""
    port = free_port()
    settings = folder / "sentinel.conf"
    settings.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {server_port} 1\n")
    process = subprocess.Popen(
        [watchdog.binary(), settings, "--sentinel"], cwd=folder, stdout=subprocess.DEVNULL
    )
    try:
        with Redis(port=port, socket_timeout=1) as client:
            until(lambda: _knows_its_server(client), "a Sentinel that knows its server")
        yield port
    finally:
        process.kill()
        process.wait()


def _knows_its_server(client):
    try:
        return client.sentinel_get_master_addr_by_name("main")
    except ConnectionError:
        return False


async def test_a_server_behind_sentinel_is_used_again_after_a_broken_connection(tmp_path):
    with (
        running_redis(watchdog.binary(), tmp_path) as running,
        running_sentinel(tmp_path, running.port) as port,
    ):
        sentinels = Sentinel([("127.0.0.1", port)])
        async with sentinels.master_for("main") as client:
            saver = RedisSaver(client)
            await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
            with Redis(port=running.port) as direct:
                direct.client_kill_filter(_type="normal")
            await talk_graph(saver).ainvoke(user_message("b"), thread_config("t"))

            assert (await newest_checkpoint(saver, "t")).checkpoint["channel_values"]["n"] == 2
            with pytest.raises(Invalid, match="need their own client"):
                saver.get_tuple(thread_config("t"))
            await saver.aclose()
        for each in sentinels.sentinels:
            await each.aclose()
