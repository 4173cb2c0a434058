"""The Agent Streaming Protocol through LangGraph's own client, over SSE and web sockets."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import LangGraphClient

from tests.doubles.waiting import PATIENCE_S, eventually, until
from tests.doubles.wire_served import (
    APPROVED,
    HELLO,
    collect,
    graph_input,
    new_id,
    running_server_on_own_redis,
)

Transport = Literal["sse", "websocket"]
BOTH = pytest.mark.parametrize("transport", ["sse", "websocket"])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as server_url:
        yield server_url


@asynccontextmanager
async def open_thread(
    client: LangGraphClient, thread_id: str | None = None, **chosen: Any
) -> AsyncIterator[Any]:
    """Open a thread's stream with a time limit."""
    async with client.threads.stream(thread_id, **chosen) as thread, asyncio.timeout(PATIENCE_S):
        yield thread


async def read_until_interrupt(thread: Any) -> Any:
    """Return the values that are streamed until the run is interrupted."""
    values = [value async for value in thread.values]
    await eventually(has_interrupts(thread), "the question")
    return values


def has_interrupts(thread: Any) -> Any:
    async def holds() -> bool:
        return bool(thread.interrupts)

    return holds


@BOTH
async def test_an_interrupted_run_is_resumed_and_gives_its_output(
    client: LangGraphClient, transport: Transport
) -> None:
    async with open_thread(client, assistant_id="agent", transport=transport) as thread:
        started = await thread.run.start(input=HELLO)
        assert started["run_id"]
        assert (await read_until_interrupt(thread))[-1]["steps"] == ["plan"]
        [question] = thread.interrupts
        await thread.run.respond(APPROVED, interrupt_id=question["interrupt_id"])
        output = await thread.output
    assert output["decision"] == APPROVED
    assert output["steps"] == ["plan", "review", "finish"]


@BOTH
async def test_messages_are_streamed_token_by_token(client: LangGraphClient, transport: Transport) -> None:
    async with open_thread(client, assistant_id="agent", transport=transport) as thread:
        await thread.run.start(input=HELLO)
        [message] = [message async for message in thread.messages]
        words = [part async for part in message.text]
    assert words == ["I", " ", "plan", " ", "to", " ", "do", " ", "X"]


async def test_the_values_of_every_step_are_streamed(client: LangGraphClient) -> None:
    async with open_thread(client, assistant_id="counter") as thread:
        await thread.run.start(input=graph_input(x=0, log=[]))
        values = [value["x"] async for value in thread.values if "x" in value]
        assert (await thread.output)["x"] == 3
    assert values[-3:] == [1, 2, 3]


async def test_awaiting_the_output_of_a_failed_run_raises_its_error(client: LangGraphClient) -> None:
    async with open_thread(client, assistant_id="boom") as thread:
        await thread.run.start(input=graph_input(x=0, log=[]))
        with pytest.raises(RuntimeError, match="boom from node"):
            await thread.output


async def test_a_client_that_connects_again_finds_the_interrupt(client: LangGraphClient) -> None:
    thread_id = new_id()
    async with open_thread(client, thread_id, assistant_id="agent") as thread:
        await thread.run.start(input=HELLO)
        await read_until_interrupt(thread)
    async with open_thread(client, thread_id, assistant_id="agent") as thread:
        async for event in thread.subscribe(["lifecycle", "input"]):
            if event["method"] == "input.requested":
                break
        await eventually(has_interrupts(thread), "the question")
        await thread.run.respond(APPROVED)
        assert (await thread.output)["decision"] == APPROVED


async def test_subgraphs_of_a_run_are_listed(client: LangGraphClient) -> None:
    async with open_thread(client, assistant_id="parent") as thread:
        await thread.run.start(input=HELLO)
        names = [subgraph.graph_name async for subgraph in thread.subgraphs]
    assert names == ["child"]


async def test_two_readers_get_the_same_events(client: LangGraphClient) -> None:
    thread_id = new_id()
    event_ids: list[list[str]] = [[], []]

    async def read(number: int) -> None:
        async with open_thread(client, thread_id, assistant_id="agent") as other:
            async for event in other.events:
                event_ids[number].append(str(event["event_id"]))
                if event["method"] == "lifecycle" and event["params"]["data"]["event"] == "completed":
                    return

    async with open_thread(client, thread_id, assistant_id="agent") as thread:
        await thread.run.start(input=HELLO)
        await read_until_interrupt(thread)
        readers = asyncio.gather(read(0), read(1))
        await thread.run.respond(APPROVED)
        await readers
    assert event_ids[0] == event_ids[1]
    assert len(event_ids[0]) == len(set(event_ids[0])) > 20


@pytest.mark.slow
@BOTH
async def test_a_client_that_reconnects_during_a_run_gets_all_events_once(
    client: LangGraphClient, transport: Transport
) -> None:
    """X10: opening the stream again gives all events from its beginning."""
    thread_id = new_id()
    async with open_thread(client, thread_id, assistant_id="slow", transport=transport) as thread:
        await thread.run.start(input=graph_input(x=40, log=[]))
        early_ids = [event["event_id"] async for event in events_until(thread, "custom")]
    async with open_thread(client, thread_id, assistant_id="slow", transport=transport) as thread:
        events = [event async for event in events_until(thread, "completed")]
    numbers = [event["params"]["data"]["tick"] for event in events if event["method"] == "custom"]
    assert numbers == list(range(40))
    assert [event["event_id"] for event in events][: len(early_ids)] == early_ids


async def events_until(thread: Any, last: str) -> AsyncIterator[Any]:
    """Yield events up to the first of a method or lifecycle status; skip the replies to commands."""
    async for event in thread.events:
        if event["type"] != "event":
            continue
        yield event
        root = event["method"] == "lifecycle" and not event["params"]["namespace"]
        if last == event["method"] or (root and last == event["params"]["data"]["event"]):
            return


@BOTH
async def test_a_run_is_cancelled(client: LangGraphClient, transport: Transport) -> None:
    async with open_thread(client, assistant_id="slow", transport=transport) as thread:
        run = (await thread.run.start(input=graph_input(x=400, log=[])))["run_id"]
        _ = [event async for event in events_until(thread, "custom")]
        await client.runs.cancel(thread.thread_id, run)
        _ = [event async for event in events_until(thread, "interrupted")]
        await client.runs.join(thread.thread_id, run)
        assert (await client.runs.get(thread.thread_id, run))["status"] == "interrupted"


@BOTH
async def test_the_streams_and_the_output_end_when_a_run_of_seconds_is_cancelled(
    client: LangGraphClient, transport: Transport
) -> None:
    async with open_thread(client, assistant_id="slow", transport=transport) as thread:
        run = (await thread.run.start(input=graph_input(x=400, log=[])))["run_id"]
        _ = [event async for event in events_until(thread, "custom")]
        reading = asyncio.create_task(collect(thread.values))
        await client.runs.cancel(thread.thread_id, run)
        assert (await asyncio.wait_for(reading, 20))[-1]["x"] == 400
        assert (await asyncio.wait_for(thread.output, 20))["x"] == 400
        assert (await client.runs.get(thread.thread_id, run))["status"] == "interrupted"


@BOTH
async def test_a_run_starts_from_an_earlier_checkpoint(client: LangGraphClient, transport: Transport) -> None:
    async with open_thread(client, assistant_id="counter", transport=transport) as thread:
        await thread.run.start(input=graph_input(x=0, log=[]))
        assert (await thread.output)["x"] == 3
        history: Any = await client.threads.get_history(thread.thread_id)
        [checkpoint] = [state["checkpoint"] for state in history if state["values"].get("x") == 1]
    async with open_thread(client, thread.thread_id, assistant_id="counter", transport=transport) as reopened:
        configurable = {"checkpoint_id": str(checkpoint["checkpoint_id"])}
        run = (await reopened.run.start(config={"configurable": configurable}))["run_id"]
        await client.runs.join(thread.thread_id, run)
        state = await client.threads.get_state(thread.thread_id)
    assert state["values"] == {"x": 3, "log": ["a", "b", "c"]}
    assert len(await client.threads.get_history(thread.thread_id)) == len(history) + 3


@BOTH
async def test_a_state_is_updated_between_two_runs(client: LangGraphClient, transport: Transport) -> None:
    async with open_thread(client, assistant_id="counter", transport=transport) as thread:
        await thread.run.start(input=graph_input(x=0, log=[]))
        await thread.output
        await client.threads.update_state(thread.thread_id, {"x": 10})
        run = (await thread.run.start(input=graph_input(log=["said"])))["run_id"]
        await client.runs.join(thread.thread_id, run)
        state = await client.threads.get_state(thread.thread_id)
    assert state["values"] == {"x": 13, "log": ["a", "b", "c", "said", "a", "b", "c"]}


@pytest.mark.slow
def test_the_synchronous_client_streams_and_resumes(url: str) -> None:
    with get_sync_client(url=url) as client, client.threads.stream(assistant_id="agent") as thread:
        thread.run.start(input=HELLO)
        until(lambda: thread.interrupts, "the question")
        # Only the first: the client ends `values` when another of its connections reports the interrupt.
        assert next(iter(thread.values))["steps"] == ["plan"]
        thread.run.respond(APPROVED)
        assert thread.output["decision"] == APPROVED
