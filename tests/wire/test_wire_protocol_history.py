"""The second wire where the history is gone, and where a thread's id is somebody else's by now."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from callsheet.server.langgraph.protocol.views import MAX_SEQ, id_of, seq_of
from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.runs import events
from callsheet.storage.threads.threads import NewThread, create
from tests.doubles.waiting import eventually
from tests.doubles.wire_served import APPROVED, HELLO, graph_input
from tests.doubles.wire_server import running_server
from tests.wire.protocol_reader import ProtocolThread, questions, run_has_ended, run_lifecycles, values


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url) as found:
        yield found


@pytest.fixture
async def wire(url: str) -> AsyncIterator[ProtocolThread]:
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        yield ProtocolThread(http)


async def forgotten(storage: Storage, wire: ProtocolThread, *, but: int = 0) -> None:
    """Let the events be trimmed, all but the newest of them."""

    async def over() -> bool:
        return (await storage.redis.hget(keys.run_keys(wire.thread).thread, "active")) is None

    await eventually(over, "the run to end")
    stream = keys.run_keys(wire.thread).events
    if but:
        await storage.redis.xtrim(stream, maxlen=but, approximate=False)
    else:
        await storage.redis.delete(stream)


async def test_the_newest_state_stands_for_a_history_that_is_gone(
    wire: ProtocolThread, storage: Storage
) -> None:
    await wire.start("counter", graph_input(x=1, log=[]))
    await wire.seen(run_has_ended())
    await forgotten(storage, wire)
    gap, state = await wire.seen(lambda told: len(told) == 2)
    assert (gap["method"], gap["seq"]) == ("custom", 0)
    assert gap["params"]["data"] == {"name": "gap", "payload": {"first": None}}
    assert (state["method"], state["seq"]) == ("values", 0)
    assert state["params"]["data"] == {"x": 4, "log": ["a", "b", "c"]}


async def test_a_question_is_found_long_after_its_events(wire: ProtocolThread, storage: Storage) -> None:
    run = await wire.start()
    told = await wire.seen(run_has_ended())
    await forgotten(storage, wire)
    found = await wire.seen(run_has_ended())
    assert questions(found) == questions(told)
    assert run_lifecycles(found) == [("interrupted", f"synth:{run}:lc||interrupted")]
    assert values(found) == values(told)[-1:]
    last = await wire.respond(questions(found)[0], APPROVED)
    assert values(await wire.seen(run_has_ended(last)))[-1]["decision"] == APPROVED


async def test_a_history_without_its_beginning_begins_with_a_state(
    wire: ProtocolThread, storage: Storage
) -> None:
    await wire.start("counter", graph_input(x=1, log=[]))
    told = await wire.seen(run_has_ended())
    await forgotten(storage, wire, but=3)
    gap, *found = await wire.seen(run_has_ended())
    assert gap["params"]["data"] == {"name": "gap", "payload": {"first": found[1]["seq"]}}
    assert (found[0]["seq"], found[0]["params"]["data"]["x"]) == (0, 4)
    assert found[1:] == told[-len(found) + 1 :]
    after = await wire.seen(run_has_ended(), since=found[1]["seq"])
    assert after == found[2:], "whoever has what is kept is told nothing twice"


async def test_a_run_that_begins_while_one_looks_is_not_taken_for_one_that_waits(
    wire: ProtocolThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X10: the reader finds no events, and then a state that a run is at."""
    run = await wire.start("slow", graph_input(x=20, log=[]))

    async def begun() -> bool:
        return bool((await wire.state())["next"])

    await eventually(begun, "the run to be at its first node")
    after, looked = events.read_after, 0

    async def early(*place: Any, **more: Any) -> list[events.Event]:
        nonlocal looked
        looked += 1
        return [] if looked == 1 else await after(*place, **more)

    monkeypatch.setattr(events, "read_after", early)
    told = await wire.seen(run_has_ended(run))
    assert [what for what, _ in run_lifecycles(told)] == ["running", "completed"]
    assert looked > 1


async def test_whoever_gets_the_id_of_a_deleted_thread_is_not_overheard(
    wire: ProtocolThread, storage: Storage
) -> None:
    await wire.start("counter", graph_input(x=1, log=[]))
    async with wire.stream() as stream:
        told = list(await stream.seen(run_has_ended()))
        await forgotten(storage, wire, but=1)
        await wire.http.delete(f"/threads/{wire.thread}")
        await create(storage, NewThread(wire.thread, "bob"))
        names = keys.run_keys(wire.thread)
        fields: Any = {"run": "r", "event": "metadata", "data": "{}"}
        await storage.redis.xadd(names.events, fields)
        await storage.redis.xadd(names.events, fields | {"event": "values", "data": '{"secret": 1}'})
        await storage.redis.expire(names.events, 60)
        await storage.redis.publish(names.events, "events")
        with pytest.raises(EOFError):
            await stream.seen(lambda _: False)
        assert stream.told == told


def test_a_number_is_as_good_as_the_id_it_stands_for() -> None:
    """Below 2 ** 53 until 2095, so that JavaScript can read it."""
    for event_id in ("1795293926630-0", "1795293926630-4095", "3900000000000-17"):
        assert id_of(seq_of(event_id)) == event_id
        assert seq_of(event_id) <= MAX_SEQ
    assert id_of(seq_of("1795293926630-9999")) == "1795293926630-4095", "rather again than not at all"
    assert (seq_of("0-0"), id_of(0)) == (0, "0-0")


async def test_small_numbers_of_another_server_are_before_everything(wire: ProtocolThread) -> None:
    await wire.start(given=HELLO)
    assert await wire.seen(run_has_ended(), since=19) == await wire.seen(run_has_ended())
