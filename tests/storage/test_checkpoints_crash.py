"""X3: acknowledged writes survive SIGKILL of their writer and of the server, and no checkpoint is torn."""

import asyncio
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.embedded import watchdog
from tests.doubles.redis_server import RedisServer, running_redis
from tests.storage.saver_graphs import message_contents, talk_graph, thread_config, user_message
from tests.storage.saver_victims import child_process, contend, converse, digest

ROUNDS, ALL_ROUNDS = 5, 200


# With `everysec` a server puts off its writes while the disk is busy, and loses those of the last moment.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with (
        tempfile.TemporaryDirectory(prefix="saver-") as folder,
        running_redis(watchdog.binary(), Path(folder), *DURABLE) as running,
    ):
        yield running


def conversation(turns):
    """The message contents of a conversation of so many turns."""
    return [text for turn in range(turns) for text in (f"{turn}", f"re:{turn}")]


async def check_thread(url, name, acknowledged):
    """All acknowledged turns are there, and every checkpoint is what it was when it was stored."""
    async with RedisSaver.from_url(url) as saver:
        states = [state async for state in talk_graph(saver).aget_state_history(thread_config(name))]
    # There may be more: turns that ended before their process could report them.
    assert len(message_contents(states[0].values)) >= 2 * acknowledged
    expected = conversation(len(message_contents(states[0].values)) // 2 + 1)
    for state in states:
        contents = message_contents(state.values)
        assert contents == expected[: len(contents)]
        assert state.values.get("n", 0) == len(contents) // 2


async def kill_writers(url, rounds):
    """Kill a conversing process at a random moment, several times; each next one continues."""
    chance = random.Random(rounds)
    acknowledged = 0
    for _ in range(rounds):
        with child_process(converse, url, "t") as other:
            assert other.report() == "ready"
            for _ in range(chance.randrange(4)):
                acknowledged = max(acknowledged, other.report() + 1)
            # The moment of the kill, not a wait for anything.
            await asyncio.sleep(chance.uniform(0, 0.05))
            acknowledged = max([acknowledged, *(turn + 1 for turn in other.kill())])
        await check_thread(url, "t", acknowledged)
    assert acknowledged


@pytest.mark.slow
@pytest.mark.fault
async def test_a_conversation_survives_the_sigkill_of_its_process_at_any_moment(valkey_url):
    await kill_writers(valkey_url, ROUNDS)


@pytest.mark.fault
@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_conversation_survives_two_hundred_sigkills_of_its_process(valkey_url):
    await kill_writers(valkey_url, ALL_ROUNDS)


async def kill_server(server, rounds):
    """Kill the server under four conversations at random moments, and start it again."""
    chance = random.Random(rounds)
    acknowledged = dict.fromkeys("abcd", 0)
    ended, progress = asyncio.Event(), asyncio.Event()

    async def converse_until_killed(saver, name):
        while not ended.is_set():
            turn = acknowledged[name]
            await talk_graph(saver).ainvoke(user_message(str(turn)), thread_config(name), durability="sync")
            acknowledged[name] = turn + 1
            progress.set()

    async def kill_repeatedly():
        for _ in range(rounds):
            for _ in range(3):
                progress.clear()
                await progress.wait()
            # The moment of the kill, not a wait for anything.
            await asyncio.sleep(chance.uniform(0, 0.02))
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        ended.set()

    async with RedisSaver.from_url(server.url) as saver, asyncio.TaskGroup() as group:
        for name in acknowledged:
            group.create_task(converse_until_killed(saver, name))
        group.create_task(kill_repeatedly())
    for name, turns in acknowledged.items():
        await check_thread(server.url, name, turns)


@pytest.mark.slow
@pytest.mark.fault
async def test_conversations_continue_without_an_error_when_their_server_is_killed_and_restarted(server):
    await kill_server(server, ROUNDS)


@pytest.mark.fault
@pytest.mark.long
@pytest.mark.timeout(600)
async def test_conversations_survive_two_hundred_sigkills_of_their_server(server):
    await kill_server(server, ALL_ROUNDS)


@pytest.mark.fault
async def test_a_blocking_graph_continues_when_its_server_is_killed_and_restarted(server):
    async with RedisSaver.from_url(server.url) as saver:
        graph = talk_graph(saver)
        for turn in range(4):
            server.kill()
            starting = asyncio.create_task(asyncio.to_thread(server.start))
            await asyncio.to_thread(graph.invoke, user_message(str(turn)), thread_config("t"))
            await starting
    await check_thread(server.url, "t", 4)


@pytest.mark.fault
async def test_processes_that_write_on_one_thread_at_once_leave_every_checkpoint_intact(valkey_url):
    """X8 keeps runs apart; should that fail, the thread forks, and every checkpoint stays what it was."""
    with (
        child_process(contend, valkey_url, "t", 40, "a") as one,
        child_process(contend, valkey_url, "t", 40, "b") as other,
    ):
        assert one.report() == other.report() == "done"
        one.join()
        other.join()

    assert (one.exit_code, other.exit_code) == (0, 0)
    async with RedisSaver.from_url(valkey_url) as saver:
        stored = [each.checkpoint["channel_values"] async for each in saver.alist(thread_config("t"))]
    assert stored
    assert all(digest(values["messages"]) == values["digest"] for values in stored)
