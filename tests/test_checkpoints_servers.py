"""X4: the saver on every kind of server: without modules, in a cluster, behind Sentinel."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis, RedisCluster
from redis.asyncio.sentinel import Sentinel

from state.errors import Invalid
from storage import watchdog
from storage.checkpoints import RedisSaver
from tests.needs import need
from tests.redis_server import cluster, free_port, running
from tests.saver_graphs import newest, said, talk, thread
from tests.waiting import until


def cluster_url(at):
    return at.url.replace("redis://", "redis+cluster://")


@pytest.mark.parametrize("server", ["valkey", "redis-server", "cluster"])
async def test_threads_are_kept_copied_and_pruned_on_any_server(server, tmp_path):
    """X4: a Valkey, a Redis without modules, and a cluster, where two threads share no slot."""
    program = need("redis-server") if server == "redis-server" else watchdog.binary()
    started = cluster(program, tmp_path) if server == "cluster" else running(program, tmp_path)
    with started as at:
        async with RedisSaver.from_url(cluster_url(at) if server == "cluster" else at.url) as saver:
            for turn in range(3):
                await asyncio.gather(
                    *(talk(saver).ainvoke(said(str(turn)), thread(f"t{number}")) for number in range(5))
                )
            await saver.acopy_thread("t0", "copy")
            await saver.aprune(["copy"])
            await saver.adelete_thread("t0")

            found = await newest(saver, "copy")
            assert len(found.checkpoint["channel_values"]["messages"]) == 6
            names = {each.config["configurable"]["thread_id"] async for each in saver.alist(None)}
            assert names == {"t1", "t2", "t3", "t4", "copy"}


async def test_blocking_methods_work_on_a_cluster_with_a_client_of_their_own(tmp_path):
    with (
        cluster(watchdog.binary(), tmp_path) as at,
        RedisCluster.from_url(at.url) as blocking,
    ):
        async with RedisSaver.from_url(cluster_url(at), sync_client=blocking) as saver:
            await asyncio.to_thread(talk(saver).invoke, said("a"), thread("t"))
            await asyncio.to_thread(saver.copy_thread, "t", "copy")

            assert len((await newest(saver, "copy")).checkpoint["channel_values"]["messages"]) == 2


async def test_what_a_cluster_cannot_do_is_said(tmp_path):
    with cluster(watchdog.binary(), tmp_path) as at:
        with pytest.raises(Invalid, match="wait_aof"):
            async with RedisSaver.from_url(cluster_url(at), wait_aof=True):
                pass
        async with RedisSaver.from_url(cluster_url(at)) as saver:
            await newest(saver, "t")
            with pytest.raises(Invalid, match="client of their own"):
                saver.get_tuple(thread("t"))
            with pytest.raises(Invalid, match="one event loop"):
                await asyncio.to_thread(lambda: asyncio.run(newest(saver, "t")))


@contextmanager
def sentinel(folder, watched) -> Iterator[int]:
    """The port of a Sentinel that watches a server as `main`."""
    port = free_port()
    settings = folder / "sentinel.conf"
    settings.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {watched} 1\n")
    process = subprocess.Popen(
        [watchdog.binary(), settings, "--sentinel"], cwd=folder, stdout=subprocess.DEVNULL
    )
    try:
        with Redis(port=port, socket_timeout=1) as client:
            until(lambda: _watches(client), "a Sentinel that knows its server")
        yield port
    finally:
        process.kill()
        process.wait()


def _watches(client):
    try:
        return client.sentinel_get_master_addr_by_name("main")
    except ConnectionError:
        return False


async def test_a_server_behind_sentinel_is_found_again_after_a_broken_connection(tmp_path):
    with running(watchdog.binary(), tmp_path) as at, sentinel(tmp_path, at.port) as port:
        guide = Sentinel([("127.0.0.1", port)])
        async with guide.master_for("main") as client:
            saver = RedisSaver(client)
            await talk(saver).ainvoke(said("a"), thread("t"))
            with Redis(port=at.port) as direct:
                direct.client_kill_filter(_type="normal")
            await talk(saver).ainvoke(said("b"), thread("t"))

            assert (await newest(saver, "t")).checkpoint["channel_values"]["n"] == 2
            with pytest.raises(Invalid, match="client of their own"):
                saver.get_tuple(thread("t"))
            await saver.aclose()
        for each in guide.sentinels:
            await each.aclose()
