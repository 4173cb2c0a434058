"""Streams of the Agent Streaming Protocol: channels, filters, resuming, and the ends of runs."""

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
    Condition,
    Event,
    ProtocolThread,
    interrupt_ids,
    root_values,
    run_ended,
    run_lifecycles,
    runs_ended,
    streamed_text,
)

_INPUT = ("input.requested", "input.answered")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as server_url:
        yield server_url


@pytest.fixture
async def thread(http: httpx.AsyncClient) -> ProtocolThread:
    return ProtocolThread(http)


async def answer_and_read_all(thread: ProtocolThread) -> list[Event]:
    """Return all events of a run, its interrupt, and the run that resumed."""
    await thread.start()
    [interrupt_id] = interrupt_ids(await thread.read_until(run_ended(status="interrupted")))
    await thread.respond(interrupt_id, APPROVED)
    return await thread.read_until(run_ended(status="completed"))


async def test_a_stream_stays_open_for_the_next_run(thread: ProtocolThread) -> None:
    first = await thread.start()
    async with thread.stream() as stream:
        [interrupt_id] = interrupt_ids(await stream.read_until(run_ended(first)))
        second = await thread.respond(interrupt_id, APPROVED)
        events = await stream.read_until(run_ended(second))
    assert [status for status, _ in run_lifecycles(events)] == [
        "running",
        "interrupted",
        "running",
        "completed",
    ]
    assert streamed_text(events) == "I plan to do XDone deal"
    assert root_values(events)[-1] == root_values(events)[-1] | {
        "decision": APPROVED,
        "steps": ["plan", "review", "finish"],
    }
    [answers] = [event for event in events if event["method"] == "input.answered"]
    assert answers["params"]["data"] == {"interrupt_ids": [interrupt_id]}


async def test_every_stream_has_the_complete_history_with_the_same_event_ids(thread: ProtocolThread) -> None:
    await thread.start()
    async with thread.stream() as first, thread.stream(["lifecycle", "input"]) as narrow:
        [interrupt_id] = interrupt_ids(await first.read_until(run_ended()))
        await thread.respond(interrupt_id, APPROVED)
        all_events, filtered = await asyncio.gather(
            first.read_until(runs_ended(2)), narrow.read_until(runs_ended(2))
        )
    later = await thread.read_until(runs_ended(2))
    assert later == all_events
    assert filtered == [event for event in all_events if event["method"] in {"lifecycle", *_INPUT}]
    assert len({event["event_id"] for event in all_events}) == len(all_events)


async def test_resuming_after_any_event_misses_none_and_repeats_none(thread: ProtocolThread) -> None:
    events = await answer_and_read_all(thread)
    for number in range(0, len(events) - 1, 3):
        rest = await thread.read_until(run_ended(status="completed"), since=events[number]["seq"])
        assert rest == events[number + 1 :], number


async def test_a_sequence_number_is_valid_on_streams_of_other_channels(thread: ProtocolThread) -> None:
    events = await answer_and_read_all(thread)
    seq = next(event["seq"] for event in events if event["method"] == "input.requested")
    rest = await thread.read_until(run_ended(status="completed"), ["lifecycle"], since=seq)
    assert [status for status, _ in run_lifecycles(rest)] == ["interrupted", "running", "completed"]


async def test_the_reply_to_a_command_has_the_sequence_number_before_its_events(
    thread: ProtocolThread,
) -> None:
    await answer_and_read_all(thread)
    reply = await thread.command("run.start", assistant_id="agent", input=HELLO)
    run = reply["result"]["run_id"]
    since = reply["meta"]["applied_through_seq"]
    assert since > 0
    assert run_lifecycles(await thread.read_until(run_ended(run), since=since))[0] == (
        "running",
        f"synth:{run}:lc||running",
    )


async def test_a_stream_is_filtered_by_namespaces_and_depth(thread: ProtocolThread) -> None:
    await thread.start("parent")
    events = await thread.read_until(run_ended())
    [child] = {tuple(event["params"]["namespace"]) for event in events} - {()}
    for namespaces, depth, allowed in (
        ([[]], 0, {()}),
        ([[]], 1, {(), child}),
        ([["child"]], None, {child}),
        ([list(child)], 0, {child}),
        ([["other"], ["child"]], None, {child}),
    ):
        expected = [event for event in events if tuple(event["params"]["namespace"]) in allowed]
        async with thread.stream(namespaces=namespaces, depth=depth) as stream:
            assert await stream.read_until(count_is(len(expected))) == expected


def count_is(count: int) -> Condition:
    return lambda events: len(events) == count


async def test_a_subgraph_has_its_own_lifecycle_events(thread: ProtocolThread) -> None:
    await thread.start("parent")
    events = await thread.read_until(run_ended())
    [request] = [event for event in events if event["method"] == "input.requested"]
    namespace = request["params"]["namespace"]
    assert namespace[0].startswith("child:")
    lifecycle = [
        (event["params"]["data"]["event"], event["params"]["data"]["graph_name"])
        for event in events
        if event["method"] == "lifecycle" and event["params"]["namespace"] == namespace
    ]
    assert lifecycle == [("started", "child"), ("interrupted", "child")]
    run = await thread.respond(request["params"]["data"]["interrupt_id"], APPROVED)
    events = await thread.read_until(run_ended(run))
    assert root_values(events)[-1]["decision"] == APPROVED


async def test_an_unknown_channel_has_no_events_and_is_not_an_error(thread: ProtocolThread) -> None:
    await thread.start()
    events = await thread.read_until(run_ended(), ["lifecycle", "debug", "custom:none", "whatever"])
    assert {event["method"] for event in events} == {"lifecycle"}


async def test_a_checkpoint_event_precedes_the_values_of_that_checkpoint(thread: ProtocolThread) -> None:
    events = await answer_and_read_all(thread)
    steps = [
        (event["params"]["data"], after["params"]["data"])
        for event, after in pairwise(events)
        if event["method"] == "checkpoints" and after["method"] == "values"
    ]
    assert [checkpoint["step"] for checkpoint, _ in steps] == [0, 1, 1, 2, 3]
    history = (await thread.http.get(f"/threads/{thread.thread_id}/history")).json()
    steps_by_checkpoint = {
        state["checkpoint"]["checkpoint_id"]: state["values"]["steps"] for state in history
    }
    assert [steps_by_checkpoint[checkpoint["id"]] for checkpoint, _ in steps] == [
        state["steps"] for _, state in steps
    ]


async def test_custom_data_and_updates_of_nodes_are_streamed(thread: ProtocolThread) -> None:
    events = await answer_and_read_all(thread)
    data = [event["params"]["data"] for event in events if event["method"] in {"custom", "updates"}]
    assert {"progress": "planning", "pct": 10} in data
    assert {"review": {"decision": APPROVED, "steps": ["review"]}} in data


async def test_a_failed_run_ends_with_its_error(thread: ProtocolThread) -> None:
    await thread.start("boom", graph_input(x=1, log=[]))
    events = await thread.read_until(run_ended())
    assert events[-1]["params"]["data"] == {
        "event": "failed",
        "graph_name": "boom",
        "error": "boom from node",
    }


async def test_a_pending_run_that_is_cancelled_ends_on_the_stream(
    thread: ProtocolThread,
) -> None:
    first = await thread.start("slow", graph_input(x=200, log=[]))
    second = await thread.start("slow", graph_input(x=1, log=[]))
    async with thread.stream(["lifecycle"]) as stream:
        for run in (second, first):
            await thread.http.post(f"/threads/{thread.thread_id}/runs/{run}/cancel?wait=0")
            events = await stream.read_until(run_ended(run))
            assert ("interrupted", f"synth:{run}:lc||interrupted") in run_lifecycles(events)
        events = await stream.read_until(runs_ended(4))
    ends = ["interrupted", "completed"]
    assert [status for status, _ in run_lifecycles(events)] == ["running", *ends, *ends]


async def test_a_run_with_multitask_strategy_interrupt_replaces_the_active_run(
    thread: ProtocolThread,
) -> None:
    first = await thread.start("slow", graph_input(x=200, log=[]))
    await thread.read_until(lambda events: bool(run_lifecycles(events)))
    second = await thread.start("slow", graph_input(x=1, log=[]), multitaskStrategy="interrupt")
    events = await thread.read_until(run_ended(second))
    assert [status for status, event_id in run_lifecycles(events) if first in event_id] == [
        *("running", "interrupted", "completed")
    ]
    assert run_lifecycles(events)[-1][0] == "completed"


def thread_has_status(thread: ProtocolThread, expected: str) -> Any:
    async def holds() -> bool:
        record = (await thread.http.get(f"/threads/{thread.thread_id}")).json()
        return bool(record["status"] == expected)

    return holds


async def test_runs_of_the_rest_api_are_streamed_by_the_protocol(
    client: LangGraphClient, thread: ProtocolThread
) -> None:
    thread.thread_id = await create_thread(client)
    await client.runs.wait(thread.thread_id, "agent", input=HELLO)
    events = await thread.read_until(run_ended())
    assert [status for status, _ in run_lifecycles(events)] == ["running", "interrupted"]
    assert len(interrupt_ids(events)) == 1
    assert "__interrupt__" not in root_values(events)[-1]
    run = await thread.respond(interrupt_ids(events)[0], APPROVED)
    assert run_lifecycles(await thread.read_until(run_ended(run)))[-1][0] == "completed"


async def test_runs_of_the_protocol_are_streamed_by_the_rest_api(
    client: LangGraphClient, thread: ProtocolThread
) -> None:
    run = await thread.start()
    await thread.read_until(run_ended())
    await eventually(thread_has_status(thread, "interrupted"), "the run to end")
    events = await collect(client.runs.join_stream(thread.thread_id, run, last_event_id="-1"))
    assert {part.event for part in events} == {"metadata", "values"}
    [interrupt] = events[-1].data["__interrupt__"]
    values: Any = await client.runs.join(thread.thread_id, run)
    assert values["__interrupt__"] == [interrupt]
    resumed: Any = await client.runs.wait(thread.thread_id, "agent", command={"resume": APPROVED})
    assert resumed["steps"] == ["plan", "review", "finish"]
    assert await thread_status(client, thread.thread_id) == "idle"


@pytest.mark.slow
async def test_a_stream_ends_when_its_thread_is_deleted(
    client: LangGraphClient, thread: ProtocolThread
) -> None:
    await thread.start("counter", graph_input(x=1, log=[]))
    async with thread.stream() as stream:
        await stream.read_until(run_ended())
        await eventually(thread_has_status(thread, "idle"), "the run to end")
        await client.threads.delete(thread.thread_id)
        with pytest.raises(EOFError):
            await stream.read_until(lambda _: False)


async def test_the_stream_of_a_missing_thread_is_404_and_of_a_wrong_body_422(http: httpx.AsyncClient) -> None:
    path = f"/threads/{new_id()}/stream/events"
    assert (await http.post(path, json={"channels": []})).status_code == 404
    for body in ({}, {"channels": "values"}, {"channels": [], "since": -1}, {"channels": [], "depth": "x"}):
        assert (await http.post(path, json=body)).status_code == 422


async def test_a_message_without_text_that_no_model_streamed_is_left_out(thread: ProtocolThread) -> None:
    """Here it is a tool call of a node; LangGraph's own server leaves it out, too."""
    await thread.start("tools", {"messages": [{"role": "user", "content": "3"}]})
    events = await thread.read_until(run_ended(status="completed"))
    starts = [event for event in events if event["method"] == "messages"]
    assert all(event["params"]["node"] != "call" for event in starts)
    assert root_values(events)[-1]["messages"][1]["tool_calls"]
