"""Streams of the second wire: what is told to whom, from where on, and how runs end."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.doubles.waiting import eventually
from tests.doubles.wire_served import (
    APPROVED,
    HELLO,
    collect,
    create_thread,
    graph_input,
    new_id,
    running_server_on_own_redis,
    thread_status,
)
from tests.wire.protocol_reader import (
    Event,
    ProtocolThread,
    Until,
    questions,
    run_has_ended,
    run_lifecycles,
    runs_have_ended,
    streamed_text,
    values,
)

_INPUT = ("input.requested", "input.answered")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as found:
        yield found


@pytest.fixture
async def wire(http: httpx.AsyncClient) -> ProtocolThread:
    return ProtocolThread(http)


async def whole(wire: ProtocolThread) -> list[Event]:
    """All that a thread tells of a run, its question, and the run that went on with the answer."""
    await wire.start()
    [question] = questions(await wire.seen(run_has_ended(how="interrupted")))
    await wire.respond(question, APPROVED)
    return await wire.seen(run_has_ended(how="completed"))


async def test_a_stream_stays_open_from_run_to_run(wire: ProtocolThread) -> None:
    first = await wire.start()
    async with wire.stream() as stream:
        [question] = questions(await stream.seen(run_has_ended(first)))
        second = await wire.respond(question, APPROVED)
        told = await stream.seen(run_has_ended(second))
    assert [what for what, _ in run_lifecycles(told)] == ["running", "interrupted", "running", "completed"]
    assert streamed_text(told) == "I plan to do XDone deal"
    assert values(told)[-1] == values(told)[-1] | {
        "decision": APPROVED,
        "steps": ["plan", "review", "finish"],
    }
    [answered] = [event for event in told if event["method"] == "input.answered"]
    assert answered["params"]["data"] == {"interrupt_ids": [question]}


async def test_every_stream_tells_all_of_the_history_under_the_same_ids(wire: ProtocolThread) -> None:
    await wire.start()
    async with wire.stream() as early, wire.stream(["lifecycle", "input"]) as narrow:
        [question] = questions(await early.seen(run_has_ended()))
        await wire.respond(question, APPROVED)
        told, few = await asyncio.gather(early.seen(runs_have_ended(2)), narrow.seen(runs_have_ended(2)))
    late = await wire.seen(runs_have_ended(2))
    assert late == told
    assert few == [event for event in told if event["method"] in {"lifecycle", *_INPUT}]
    assert len({event["event_id"] for event in told}) == len(told)


async def test_going_on_after_any_event_misses_none_and_repeats_none(wire: ProtocolThread) -> None:
    told = await whole(wire)
    for number in range(0, len(told) - 1, 3):
        rest = await wire.seen(run_has_ended(how="completed"), since=told[number]["seq"])
        assert rest == told[number + 1 :], number


async def test_a_number_means_the_same_on_streams_of_other_channels(wire: ProtocolThread) -> None:
    told = await whole(wire)
    spot = next(event["seq"] for event in told if event["method"] == "input.requested")
    rest = await wire.seen(run_has_ended(how="completed"), ["lifecycle"], since=spot)
    assert [what for what, _ in run_lifecycles(rest)] == ["interrupted", "running", "completed"]


async def test_a_command_says_where_its_events_begin(wire: ProtocolThread) -> None:
    await whole(wire)
    told = await wire.command("run.start", assistant_id="agent", input=HELLO)
    run = told["result"]["run_id"]
    since = told["meta"]["applied_through_seq"]
    assert since > 0
    assert run_lifecycles(await wire.seen(run_has_ended(run), since=since))[0] == (
        "running",
        f"synth:{run}:lc||running",
    )


async def test_only_wanted_places_are_told(wire: ProtocolThread) -> None:
    await wire.start("parent")
    told = await wire.seen(run_has_ended())
    [child] = {tuple(event["params"]["namespace"]) for event in told} - {()}
    for namespaces, depth, places in (
        ([[]], 0, {()}),
        ([[]], 1, {(), child}),
        ([["child"]], None, {child}),
        ([list(child)], 0, {child}),
        ([["other"], ["child"]], None, {child}),
    ):
        expected = [event for event in told if tuple(event["params"]["namespace"]) in places]
        async with wire.stream(namespaces=namespaces, depth=depth) as stream:
            assert await stream.seen(_many(len(expected))) == expected


def _many(count: int) -> Until:
    return lambda told: len(told) == count


async def test_a_subgraph_has_a_life_of_its_own(wire: ProtocolThread) -> None:
    await wire.start("parent")
    told = await wire.seen(run_has_ended())
    [asked] = [event for event in told if event["method"] == "input.requested"]
    place = asked["params"]["namespace"]
    assert place[0].startswith("child:")
    life = [
        (event["params"]["data"]["event"], event["params"]["data"]["graph_name"])
        for event in told
        if event["method"] == "lifecycle" and event["params"]["namespace"] == place
    ]
    assert life == [("started", "child"), ("interrupted", "child")]
    run = await wire.respond(asked["params"]["data"]["interrupt_id"], APPROVED)
    told = await wire.seen(run_has_ended(run))
    assert values(told)[-1]["decision"] == APPROVED


async def test_an_unknown_channel_has_no_events_and_is_no_error(wire: ProtocolThread) -> None:
    await wire.start()
    told = await wire.seen(run_has_ended(), ["lifecycle", "debug", "custom:none", "whatever"])
    assert {event["method"] for event in told} == {"lifecycle"}


async def test_checkpoints_say_where_the_values_after_them_can_be_gone_back_to(wire: ProtocolThread) -> None:
    told = await whole(wire)
    steps = [
        (one["params"]["data"], after["params"]["data"])
        for one, after in pairwise(told)
        if one["method"] == "checkpoints" and after["method"] == "values"
    ]
    assert [checkpoint["step"] for checkpoint, _ in steps] == [0, 1, 1, 2, 3]
    history = (await wire.http.get(f"/threads/{wire.thread}/history")).json()
    known = {state["checkpoint"]["checkpoint_id"]: state["values"]["steps"] for state in history}
    assert [known[checkpoint["id"]] for checkpoint, _ in steps] == [state["steps"] for _, state in steps]


async def test_what_a_node_writes_and_changes_is_told(wire: ProtocolThread) -> None:
    told = await whole(wire)
    data = [event["params"]["data"] for event in told if event["method"] in {"custom", "updates"}]
    assert {"progress": "planning", "pct": 10} in data
    assert {"review": {"decision": APPROVED, "steps": ["review"]}} in data


async def test_a_run_that_fails_says_how(wire: ProtocolThread) -> None:
    await wire.start("boom", graph_input(x=1, log=[]))
    told = await wire.seen(run_has_ended())
    assert told[-1]["params"]["data"] == {
        "event": "failed",
        "graph_name": "boom",
        "error": "boom from node",
    }


async def test_a_run_that_is_cancelled_while_it_waits_for_its_turn_ends_on_the_stream(
    wire: ProtocolThread,
) -> None:
    first = await wire.start("slow", graph_input(x=200, log=[]))
    second = await wire.start("slow", graph_input(x=1, log=[]))
    async with wire.stream(["lifecycle"]) as stream:
        for run in (second, first):
            await wire.http.post(f"/threads/{wire.thread}/runs/{run}/cancel?wait=0")
            told = await stream.seen(run_has_ended(run))
            assert run_lifecycles(told)[-1] == ("interrupted", f"synth:{run}:lc||interrupted")
    assert [what for what, _ in run_lifecycles(told)] == ["running", "interrupted", "interrupted"]


async def test_another_run_may_take_the_place_of_one_under_way(wire: ProtocolThread) -> None:
    first = await wire.start("slow", graph_input(x=200, log=[]))
    await wire.seen(lambda told: bool(run_lifecycles(told)))
    second = await wire.start("slow", graph_input(x=1, log=[]), multitaskStrategy="interrupt")
    told = await wire.seen(run_has_ended(second))
    assert [one for one in run_lifecycles(told) if first in one[1]][-1][0] == "interrupted"
    assert run_lifecycles(told)[-1][0] == "completed"


def _is(wire: ProtocolThread, wanted: str) -> Any:
    async def holds() -> bool:
        thread = (await wire.http.get(f"/threads/{wire.thread}")).json()
        return bool(thread["status"] == wanted)

    return holds


async def test_runs_of_the_first_wire_are_seen_on_the_second(
    client: LangGraphClient, wire: ProtocolThread
) -> None:
    wire.thread = await create_thread(client)
    await client.runs.wait(wire.thread, "agent", input=HELLO)
    told = await wire.seen(run_has_ended())
    assert [what for what, _ in run_lifecycles(told)] == ["running", "interrupted"]
    assert len(questions(told)) == 1
    assert "__interrupt__" not in values(told)[-1]
    run = await wire.respond(questions(told)[0], APPROVED)
    assert run_lifecycles(await wire.seen(run_has_ended(run)))[-1][0] == "completed"


async def test_runs_of_the_second_wire_are_seen_on_the_first(
    client: LangGraphClient, wire: ProtocolThread
) -> None:
    run = await wire.start()
    await wire.seen(run_has_ended())
    await eventually(_is(wire, "interrupted"), "the run to end")
    told = await collect(client.runs.join_stream(wire.thread, run, last_event_id="-1"))
    assert {part.event for part in told} == {"metadata", "values"}
    [question] = told[-1].data["__interrupt__"]
    found: Any = await client.runs.join(wire.thread, run)
    assert found["__interrupt__"] == [question]
    done: Any = await client.runs.wait(wire.thread, "agent", command={"resume": APPROVED})
    assert done["steps"] == ["plan", "review", "finish"]
    assert await thread_status(client, wire.thread) == "idle"


@pytest.mark.slow
async def test_a_stream_ends_with_its_thread(client: LangGraphClient, wire: ProtocolThread) -> None:
    await wire.start("counter", graph_input(x=1, log=[]))
    async with wire.stream() as stream:
        await stream.seen(run_has_ended())
        await eventually(_is(wire, "idle"), "the run to end")
        await client.threads.delete(wire.thread)
        with pytest.raises(EOFError):
            await stream.seen(lambda _: False)


async def test_a_thread_nobody_has_has_no_stream(http: httpx.AsyncClient) -> None:
    place = f"/threads/{new_id()}/stream/events"
    assert (await http.post(place, json={"channels": []})).status_code == 404
    for wrong in ({}, {"channels": "values"}, {"channels": [], "since": -1}, {"channels": [], "depth": "x"}):
        assert (await http.post(place, json=wrong)).status_code == 422


async def test_a_message_without_words_that_no_model_streamed_is_not_told(wire: ProtocolThread) -> None:
    """A node's call of a tool; LangGraph's own server leaves it out too."""
    await wire.start("tools", {"messages": [{"role": "user", "content": "3"}]})
    told = await wire.seen(run_has_ended(how="completed"))
    starts = [event for event in told if event["method"] == "messages"]
    assert all(event["params"]["node"] != "call" for event in starts)
    assert values(told)[-1]["messages"][1]["tool_calls"]
