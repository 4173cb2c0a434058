"""X15: all keys of a thread expire together, and only with a saver that has a TTL."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from redis import Redis

from callsheet.state.errors import Invalid
from callsheet.storage.checkpoints import RedisSaver
from tests.doubles.waiting import until
from tests.storage.saver_graphs import message_contents, talk_graph, thread_config, user_message

OpenSaver = Callable[..., Awaitable[RedisSaver]]


@pytest.fixture
async def open_saver(valkey_url: str) -> AsyncIterator[OpenSaver]:
    """Opens savers with options, and closes them."""
    async with AsyncExitStack() as stack:

        async def saver(**options):
            return await stack.enter_async_context(RedisSaver.from_url(valkey_url, **options))

        yield saver


@pytest.fixture
def server(valkey_url):
    with Redis.from_url(valkey_url) as client:
        yield client


def ttls_ms(server, pattern="checkpoint:*"):
    """The remaining milliseconds of the keys; -1 is for ever."""
    return {server.pttl(key) for key in server.keys(pattern)}


async def test_a_thread_without_a_ttl_never_expires(open_saver, server):
    await talk_graph(await open_saver()).ainvoke(user_message("a"), thread_config("t"))

    assert ttls_ms(server, "*") == {-1}


async def test_every_key_of_a_thread_expires_at_the_same_moment(open_saver, server):
    await talk_graph(await open_saver(ttl_s=60)).ainvoke(user_message("a"), thread_config("t"))

    assert len({server.pexpiretime(key) for key in server.keys("checkpoint:*")}) == 1
    assert all(0 < left <= 60_000 for left in ttls_ms(server))


async def test_an_expired_thread_leaves_no_key(open_saver, server):
    await talk_graph(await open_saver(ttl_s=0.4)).ainvoke(
        user_message("a"), thread_config("t") | {"metadata": {"run_id": "run"}}
    )
    assert server.keys()

    until(lambda: not server.keys(), "the end of every key of an expired thread")


async def test_a_channel_written_once_lives_as_long_as_the_thread_is_written(open_saver, server):
    saver = await open_saver(ttl_s=60)
    graph = talk_graph(saver)
    await graph.ainvoke(user_message("0", profile="P"), thread_config("t"))
    for turn in range(1, 4):
        for key in server.keys("checkpoint:*"):
            server.pexpire(key, 30_000)
        await graph.ainvoke(user_message(str(turn)), thread_config("t"))
        assert min(server.pttl(key) for key in server.keys("checkpoint:*")) > 50_000

    state = await graph.aget_state(thread_config("t"))
    assert state.values["profile"] == "P"
    assert len(state.values["messages"]) == 8
    assert [each.config["configurable"]["thread_id"] async for each in saver.alist(None, limit=1)] == ["t"]


@pytest.mark.parametrize("refreshes", [True, False])
async def test_reading_extends_the_ttl_of_a_thread_only_with_refresh_on_read(open_saver, server, refreshes):
    saver = await open_saver(ttl_s=60, refresh_on_read=refreshes)
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
    for key in server.keys("checkpoint:*"):
        server.pexpire(key, 30_000)

    await saver.aget_tuple(thread_config("t"))

    left = ttls_ms(server)
    assert (min(left) > 30_000) == refreshes
    assert max(left) - min(left) < 1_000


async def test_the_register_of_threads_does_not_expire_before_a_thread_that_is_only_read(open_saver, server):
    writer, reader = await open_saver(ttl_s=60), await open_saver(ttl_s=60, refresh_on_read=True)
    await talk_graph(writer).ainvoke(user_message("a"), thread_config("t"))
    for key in server.keys("*"):
        server.pexpire(key, 30_000)

    await reader.aget_tuple(thread_config("t"))

    assert min(ttls_ms(server, "{checkpoint}:threads")) >= max(ttls_ms(server))


async def test_the_saver_of_the_last_write_decides_whether_a_thread_expires(open_saver, server):
    expiring, lasting = await open_saver(ttl_s=60), await open_saver()
    await talk_graph(expiring).ainvoke(user_message("a"), thread_config("t"))

    await talk_graph(lasting).ainvoke(user_message("b"), thread_config("t"))
    assert ttls_ms(server, "*") == {-1}

    await talk_graph(expiring).ainvoke(user_message("c"), thread_config("t"))
    assert all(0 < left <= 60_000 for left in ttls_ms(server))


async def test_a_copied_thread_has_the_ttl_of_a_new_write(open_saver, server):
    saver = await open_saver(ttl_s=60)
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))
    for key in server.keys("checkpoint:*"):
        server.pexpire(key, 30_000)

    await saver.acopy_thread("t", "copy")

    assert all(left > 30_000 for left in ttls_ms(server, "checkpoint:{copy}:*"))


async def test_expired_threads_are_removed_from_the_register_when_new_ones_enter_it(open_saver, server):
    saver, lasting = await open_saver(ttl_s=0.2), await open_saver()
    await talk_graph(lasting).ainvoke(
        user_message("a"), thread_config("kept") | {"metadata": {"run_id": "r1"}}
    )
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("gone") | {"metadata": {"run_id": "r2"}})
    until(lambda: not server.keys("checkpoint:{gone}:*"), "the end of the thread")

    def is_registered() -> bool:
        # Entering a thread that expires sweeps the register.
        talk_graph(saver).invoke(user_message("b"), thread_config("new"))
        return server.zscore("{checkpoint}:threads", "gone") is not None

    until(lambda: not is_registered(), "the expired thread out of the register")
    assert not [member for member in server.zrange("{checkpoint}:runs", 0, -1) if b"gone" in member]
    assert message_contents(
        (await lasting.aget_tuple(thread_config("kept"))).checkpoint["channel_values"]
    ) == ["a", "re:a"]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"ttl_s": 0}, "ttl_s=0"),
        ({"ttl_s": -1}, "ttl_s=-1"),
        ({"prefix": ""}, "''"),
        ({"prefix": "a{b"}, "'a{b'"),
    ],
)
async def test_invalid_options_are_refused_by_name(valkey_url, options, rule):
    with pytest.raises(Invalid, match=rule):
        async with RedisSaver.from_url(valkey_url, **options):
            pass
