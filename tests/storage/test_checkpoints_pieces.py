"""X3: lists are stored as pieces of a log: only new elements are sent, and equal is not identical."""

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from redis import Redis

from callsheet.state.errors import Missing
from callsheet.storage.checkpoints import RedisSaver, message_log
from callsheet.storage.checkpoints.frozen_copies import freeze
from callsheet.storage.checkpoints.message_log import LogCache, ThreadLog
from tests.storage.saver_graphs import newest_checkpoint, thread_config
from tests.storage.saver_values import new_id

positions = st.lists(st.integers(0, 30))


@given(positions)
def test_an_encoded_table_is_decoded_to_its_positions(chosen):
    assert message_log.decode_table(message_log.encode_table(message_log.pieces(chosen))) == chosen


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), max_size=8))
def test_an_extended_table_has_each_position_once_in_merged_pieces(pieces):
    covered: tuple[message_log.Piece, ...] = ()
    for piece in pieces:
        covered = message_log.extend_table(covered, piece)

    expected = sorted({at for first, count in pieces for at in range(first, first + count)})
    assert [at for first, count in covered for at in range(first, first + count)] == expected
    assert all(one[0] + one[1] < other[0] for one, other in pairwise(covered))


def test_new_elements_get_their_positions_when_they_are_appended():
    unresolved = [0, 1, message_log.NEW, 5, message_log.NEW + 1]

    assert message_log.encode_table(message_log.pieces(unresolved)) == b"0:2,@0:1,5:1,@1:1"
    assert message_log.resolve_new(unresolved, 40) == [0, 1, 40, 5, 41]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, True),
        (1, 1.0),
        ({"a": 1}, {"a": True}),
        ([1, 2], (1, 2)),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        (HumanMessage("a"), AIMessage("a")),
        (HumanMessage("a", additional_kwargs={"n": 1}), HumanMessage("a", additional_kwargs={"n": True})),
        (HumanMessage("a", extra=1), HumanMessage("a", extra=2)),
        (HumanMessage("a"), {"content": "a"}),
    ],
    ids=repr,
)
def test_a_frozen_copy_matches_no_other_value_even_if_it_is_equal(before, after):
    frozen = freeze(before)

    assert frozen is not None
    assert frozen.matches(before)
    assert not frozen.matches(after)


def test_a_comparison_without_a_truth_value_counts_as_a_difference():
    class Array:
        def __eq__(self, other: object) -> Any:
            return self

        def __bool__(self) -> bool:
            raise ValueError("the truth of an array is ambiguous")

        __hash__ = None  # type: ignore[assignment]  # as arrays have none

    message = HumanMessage("a", additional_kwargs={"v": 1})
    for before, after in (
        ({"v": 1}, {"v": Array()}),
        (message, message.model_copy(update={"content": Array()})),
    ):
        frozen = freeze(before)
        assert frozen is not None
        assert not frozen.matches(after)


def test_only_values_of_supported_types_are_frozen():
    class Text(str):
        __slots__ = ()

    class Note(HumanMessage):
        _visits: int = 0

    assert freeze(Note(content="a")) is None
    assert freeze({"a": {1}}) is None
    assert freeze([Text("a")]) is None
    assert freeze(HumanMessage("a", additional_kwargs={"v": object()})) is None


def test_copies_of_a_frozen_copy_share_nothing_mutable():
    message = AIMessage("a", tool_calls=[{"name": "mix", "args": {"fade_ms": [1]}, "id": "c"}], extra=[1])
    frozen = freeze(message)
    assert frozen is not None
    first, second = frozen.copy(), frozen.copy()

    first.tool_calls[0]["args"]["fade_ms"].append(2)
    first.extra.append(2)
    first.content = "b"

    assert second == message
    assert frozen.matches(second)
    assert second.model_fields_set == message.model_fields_set


def test_the_cache_drops_the_least_recently_used_thread():
    cache = LogCache(limit_bytes=100)
    for name in "abc":
        log = ThreadLog(b"g")
        log.add(0, [b"x" * 40])
        cache.put(name, log)

    assert cache.get("a").spans == ()
    assert cache.get("b").spans == cache.get("c").spans == ((0, 1),)
    cache.remove("b")
    cache.remove("never")
    assert cache.get("b").spans == ()


@pytest.fixture
async def saver(valkey_url: str) -> AsyncIterator[RedisSaver]:
    async with RedisSaver.from_url(valkey_url) as opened:
        yield opened


@pytest.fixture
def log_length(valkey_url):
    """Return the length of the thread's log."""
    with Redis.from_url(valkey_url) as server:
        yield lambda: server.llen("checkpoint:{t}:log")


async def put(saver, values):
    """Store the list in the thread's newest checkpoint."""
    await put_on(saver, await newest_checkpoint(saver, "t"), values)


async def put_on(saver, parent, values):
    """Store the list in a child of that checkpoint."""
    versions = parent.checkpoint["channel_versions"] if parent else {}
    changed = {"messages": saver.get_next_version(versions.get("messages"), None)}
    checkpoint = empty_checkpoint() | {
        "id": new_id(),
        "channel_values": {"messages": values},
        "channel_versions": changed,
    }
    await saver.aput(parent.config if parent else thread_config("t"), checkpoint, {}, changed)


async def test_a_step_stores_only_the_new_elements_of_a_list(saver, log_length):
    talk = [HumanMessage(str(number), id=str(number)) for number in range(10)]
    await put(saver, talk)
    assert log_length() == 10
    for changed, more in (
        ([*talk, HumanMessage("10")], 1),
        (talk[:3] + talk[4:], 0),
        (talk[::-1], 0),
        ([*talk[:3], HumanMessage("edited", id="3"), *talk[4:]], 1),
        (talk[5:], 0),
        (talk, 0),
    ):
        before = log_length()
        await put(saver, changed)
        assert log_length() - before == more
        assert (await newest_checkpoint(saver, "t")).checkpoint["channel_values"]["messages"] == changed


async def test_a_list_that_was_read_between_two_steps_is_not_stored_again(saver, log_length):
    """A console that polls a thread must not make its next step store everything again."""
    talk = [HumanMessage(str(number), id=str(number)) for number in range(10)]
    await put(saver, talk)
    await newest_checkpoint(saver, "t")

    await put(saver, [*talk, AIMessage("more")])

    assert log_length() == 11


async def test_a_list_in_too_many_pieces_is_stored_again_in_one(saver, log_length, valkey_url):
    words = [{"n": number} for number in range(400)]
    await put(saver, words)

    await put(saver, [each for each in words if each["n"] % 3])

    assert log_length() == 400 + 266
    assert len((await newest_checkpoint(saver, "t")).checkpoint["channel_values"]["messages"]) == 266


async def test_two_lists_that_grow_in_turn_are_stored_again_once_and_not_with_each_piece(saver, log_length):
    """Their pieces alternate in the log, so each of them has one piece a step."""
    steps = 600
    lists: dict[str, list[Any]] = {"messages": [], "results": []}
    config, versions = thread_config("t"), {"messages": 0, "results": 0}
    for step in range(steps):
        for name, elements in lists.items():
            elements.append({name: step})
        versions = {name: saver.get_next_version(version or None, None) for name, version in versions.items()}
        values = {name: [*elements] for name, elements in lists.items()}
        checkpoint = empty_checkpoint() | {
            "id": new_id(),
            "channel_values": values,
            "channel_versions": versions,
        }
        config = await saver.aput(config, checkpoint, {}, versions)

    assert log_length() <= 2 * 2 * steps
    assert (await newest_checkpoint(saver, "t")).checkpoint["channel_values"] == lists


@given(st.lists(st.integers(1, 5_000), min_size=message_log.MAX_PIECES + 1, max_size=200))
def test_merging_the_newest_pieces_leaves_half_of_the_most_pieces(sizes):
    table = [(2 * 5_000 * at, size) for at, size in enumerate(sizes)]

    start = message_log.small_tail(table)

    assert start + 1 <= message_log.MAX_PIECES // 2


async def test_elements_without_a_frozen_copy_are_stored_once_too(saver, log_length):
    words = [{"v": {number}} for number in range(5)]
    await put(saver, words)
    await put(saver, [*words, {"v": {5}}])

    assert log_length() == 6
    elements = (await newest_checkpoint(saver, "t")).checkpoint["channel_values"]["messages"]
    assert elements == [{"v": {number}} for number in range(6)]


async def test_elements_that_a_server_lost_are_not_confused_with_later_ones(saver, valkey_url):
    """After a failover or a restored backup the log may be shorter, and grow again with other elements."""
    messages = [HumanMessage(text, id=text) for text in ("a", "b")]
    await put(saver, messages)
    with Redis.from_url(valkey_url) as server:
        backup: Any = {key: server.dump(key) for key in server.keys("*")}
        await put(saver, [*messages, HumanMessage("lost", id="lost")])
        await newest_checkpoint(saver, "t")
        server.flushdb()
        for key, dump in backup.items():
            server.restore(key, 0, dump)
    async with RedisSaver.from_url(valkey_url) as other:
        replacement = [*messages, HumanMessage("instead", id="instead")]
        await put(other, replacement)

        saved = await newest_checkpoint(saver, "t")
        assert saved.checkpoint["channel_values"]["messages"] == replacement
        more = [*saved.checkpoint["channel_values"]["messages"], HumanMessage("more", id="more")]
        await put(saver, more)

        assert (await newest_checkpoint(other, "t")).checkpoint["channel_values"]["messages"] == more


async def test_a_put_that_refers_to_lost_elements_is_stored_completely(saver, valkey_url):
    messages = [HumanMessage(text, id=text) for text in ("a", "b")]
    await put(saver, messages)
    parent = await newest_checkpoint(saver, "t")
    with Redis.from_url(valkey_url) as server:
        server.delete("checkpoint:{t}:log")

    await put_on(saver, parent, [*messages, HumanMessage("c", id="c")])

    assert len((await newest_checkpoint(saver, "t")).checkpoint["channel_values"]["messages"]) == 3


@pytest.mark.parametrize("remaining", [0, 1, 2])
async def test_reading_a_thread_with_an_incomplete_log_is_an_error(saver, valkey_url, remaining):
    first, *others = (HumanMessage(text, id=text) for text in "abc")
    await put(saver, [first, others[0]])
    await put_on(saver, await newest_checkpoint(saver, "t"), [first, others[1]])
    async with RedisSaver.from_url(valkey_url) as other:
        with Redis.from_url(valkey_url) as server:
            server.rpop("checkpoint:{t}:log", 3 - remaining)

        with pytest.raises(Missing, match="there is none"):
            await newest_checkpoint(other, "t")


async def test_another_process_fetches_only_the_elements_it_lacks(saver, valkey_url):
    async with RedisSaver.from_url(valkey_url) as other:
        talk = [HumanMessage("x" * 1000, id=str(number)) for number in range(50)]
        await put(saver, talk)
        await newest_checkpoint(other, "t")
        await put(saver, [*talk, HumanMessage("more")])
        with Redis.from_url(valkey_url) as server:
            before = server.info("stats")["total_net_output_bytes"]

            saved = await newest_checkpoint(other, "t")

            sent = server.info("stats")["total_net_output_bytes"] - before
    assert len(saved.checkpoint["channel_values"]["messages"]) == 51
    assert sent < 10_000
