"""X4, X5, X8: a server and a worker on a Redis Cluster of six nodes, whose primaries are killed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from redis import Redis

from callsheet.storage import Storage, connect
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.redis import keys
from callsheet.storage.runs.events import Announcements, Signal, wait_for_signal
from tests.doubles.command import ForkedCommand
from tests.doubles.killing import WarmParent
from tests.doubles.needs import need
from tests.doubles.redis_server import Cluster, RedisServer, free_port, six_nodes
from tests.doubles.waiting import eventually, until
from tests.engine.fault_processes import ServerProcesses, StreamFollower, server_processes

LEASE_S = 1.0
QUEUE = "{callsheet}:stream"
"""A key of the task queue."""

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with six_nodes(need("redis-server"), tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


@pytest.fixture
async def processes(warm_parent: WarmParent, cluster: Cluster) -> AsyncIterator[ServerProcesses]:
    """A server and a worker."""
    async with server_processes(
        warm_parent, cluster.url, LEASE_S, executes_runs=True, servers=1, workers=1
    ) as processes:
        yield processes


async def read_all(readers: list[StreamFollower]) -> None:
    async with asyncio.timeout(60):
        await asyncio.gather(*(one.read() for one in readers))


async def has_stamped(readers: list[StreamFollower]) -> bool:
    return all(any("stamp" in str(event.data) for event in one.events) for one in readers)


async def test_an_ad_and_an_own_graph_run_on_a_cluster_and_health_and_doctor_agree(
    warm_parent: WarmParent, processes: ServerProcesses, cluster: Cluster, tmp_path: Path
) -> None:
    url = processes.any_url()
    async with get_client(url=url) as client:
        thread = (await client.threads.create())["thread_id"]
        brief: Any = {
            "messages": [{"role": "user", "content": "A 30 second spot for Nordlys, a bakery in Oslo."}]
        }
        values: Any = await client.runs.wait(thread, "ad_creation", input=brief)
        assert "__error__" not in values, values
        entry: Any = {"file": str(tmp_path / "lines"), "name": "a", "steps": 3, "pace_s": 0.0, "done": []}
        values = await client.runs.wait(None, "writer", input=entry)
        assert values["done"] == [0, 1, 2]
    assert len((tmp_path / "lines").read_text().splitlines()) == 3
    health = await processes.http.get(f"{url}/health")
    assert (health.status_code, health.json()["status"]) == (200, "ok"), health.text
    words = ("doctor", "--json", "--port", str(free_port()))
    done = ForkedCommand.of(warm_parent, tmp_path, *words, REDIS_URL=cluster.url).result()
    parts = {one["part"]: one for one in json.loads(done.out)}
    assert (done.code, parts["Task queue"]["status"]) == (0, "ok"), parts


async def test_a_deleted_artefact_leaves_no_key_on_any_node(cluster: Cluster) -> None:
    async with connect(cluster.url) as storage:
        for name in ("zyx-ad", "zyx-ad-2", "other"):
            artefact = Artefact(storage, "ad", name, "local")
            await artefact.open(owner="local", thread=name, facts={})
            await artefact.create_version(NewVersion("music", {"musicPrompt": name}, "local", "batch"))
            await artefact.lock("music", "local")
        erased = Artefact(storage, "ad", "zyx-ad", "local")
        await erased.erase("local")
        assert [name async for name in storage.redis.scan_iter("ad:{zyx-ad}:*")] == [b"ad:{zyx-ad}:meta"]
        await erased.erase_record("local")
        assert [name async for name in storage.redis.scan_iter("*{zyx-ad}*")] == []
        assert len((await Artefact(storage, "ad", "zyx-ad-2", "local").stream("music")).versions) == 1


async def test_the_run_of_a_killed_server_is_resumed_by_the_worker(processes: ServerProcesses) -> None:
    await resume(processes)


async def resume(processes: ServerProcesses) -> None:
    """Kill the server while it executes a run; the run goes on in the worker."""
    reader = StreamFollower(processes, pages=2)
    await reader.start_run(pace_s=0.1)
    reading = asyncio.create_task(read_all([reader]))
    await eventually(partial(has_stamped, [reader]), "the first stamp", patience_s=30)
    await processes.kill_server(0, restart=True)
    await reading
    await reader.check()
    assert reader.attempts() > 1


async def test_runs_go_on_while_primaries_are_killed(processes: ServerProcesses, cluster: Cluster) -> None:
    """Each run ends once, its effects happen once, and what was acknowledged before is still there.

    First goes the primary with the queue, then the one that the processes' queues listen to.
    """
    before = StreamFollower(processes, pages=1)
    await before.start_run(pace_s=0.0)
    await read_all([before])
    for find in (lambda: cluster.primary_of(QUEUE), lambda: subscribed_to(cluster, Redis.pubsub_numpat)):
        victim = await asyncio.to_thread(find)
        readers = [StreamFollower(processes, pages=3) for _ in range(6)]
        await asyncio.gather(*(one.start_run(pace_s=0.2) for one in readers))
        reading = asyncio.create_task(read_all(readers))
        await eventually(partial(has_stamped, readers), "the first stamps", patience_s=30)
        await asyncio.to_thread(cluster.kill, victim)
        await reading
        await asyncio.to_thread(cluster.restart, victim)
        for one in (before, *readers):
            await one.check()
    await eventually(partial(is_healthy, processes), "a healthy server", patience_s=20)
    # Only the worker can resume this run, so the queue works again.
    await resume(processes)


def subscribed_to(cluster: Cluster, kind: Callable[[Redis], Any]) -> RedisServer:
    """The node with subscriptions of a kind: Docket alone subscribes to a pattern."""
    until(lambda: any(_has(node, kind) for node in cluster.nodes), "a subscription")
    return next(node for node in cluster.nodes if _has(node, kind))


def _has(node: RedisServer, kind: Callable[[Redis], Any]) -> bool:
    with Redis(port=node.port) as link:
        return bool(kind(link))


async def is_healthy(processes: ServerProcesses) -> bool:
    return (await processes.http.get(f"{processes.any_url()}/health")).status_code == 200


async def test_announcements_move_to_another_node_when_theirs_is_killed(cluster: Cluster) -> None:
    async with connect(cluster.url) as storage:
        announcements = Announcements(storage)
        await announcements.open()
        listening = asyncio.create_task(announcements.listen())
        async with announcements.subscribe("first") as first:
            victim = subscribed_to(cluster, lambda link: link.pubsub_channels("thread:*"))
            await asyncio.to_thread(cluster.kill, victim)
            await eventually(partial(is_announced, storage, "first", first), "an announcement")
            async with announcements.subscribe("second") as second:
                await eventually(partial(is_announced, storage, "second", second), "an announcement")
        listening.cancel()
        await announcements.aclose()
    await asyncio.to_thread(cluster.restart, victim)


async def is_announced(storage: Storage, thread: str, signal: Signal) -> bool:
    """Announce an event; return whether the signal follows."""
    signal.clear()
    await storage.redis.publish(keys.run_keys(thread).events, b"events")
    return await wait_for_signal(signal, 0.2)
