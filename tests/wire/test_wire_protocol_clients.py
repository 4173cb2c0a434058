"""The second wire through LangGraph's own client, over both of its transports."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import LangGraphClient

from tests.doubles.waiting import PATIENCE_S, eventually, until
from tests.doubles.wire_served import APPROVED, HELLO, graph_input, new_id, running_server_on_own_redis

Transport = Literal["sse", "websocket"]
BOTH = pytest.mark.parametrize("transport", ["sse", "websocket"])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as found:
        yield found


@asynccontextmanager
async def streamed(client: LangGraphClient, name: str | None = None, **chosen: Any) -> AsyncIterator[Any]:
    """A thread's stream, for a while."""
    async with client.threads.stream(name, **chosen) as thread, asyncio.timeout(PATIENCE_S):
        yield thread


async def asked(thread: Any) -> Any:
    """The values that are told until the run asks something."""
    seen = [value async for value in thread.values]
    await eventually(_waits(thread), "the question")
    return seen


def _waits(thread: Any) -> Any:
    async def holds() -> bool:
        return bool(thread.interrupts)

    return holds


@BOTH
async def test_a_run_asks_is_answered_and_ends(client: LangGraphClient, transport: Transport) -> None:
    async with streamed(client, assistant_id="agent", transport=transport) as thread:
        started = await thread.run.start(input=HELLO)
        assert started["run_id"]
        assert (await asked(thread))[-1]["steps"] == ["plan"]
        [question] = thread.interrupts
        await thread.run.respond(APPROVED, interrupt_id=question["interrupt_id"])
        done = await thread.output
    assert done["decision"] == APPROVED
    assert done["steps"] == ["plan", "review", "finish"]


@BOTH
async def test_messages_are_told_word_by_word(client: LangGraphClient, transport: Transport) -> None:
    async with streamed(client, assistant_id="agent", transport=transport) as thread:
        await thread.run.start(input=HELLO)
        [message] = [each async for each in thread.messages]
        words = [part async for part in message.text]
    assert words == ["I", " ", "plan", " ", "to", " ", "do", " ", "X"]


async def test_a_run_of_several_steps_tells_every_state(client: LangGraphClient) -> None:
    async with streamed(client, assistant_id="counter") as thread:
        await thread.run.start(input=graph_input(x=0, log=[]))
        seen = [value["x"] async for value in thread.values if "x" in value]
        assert (await thread.output)["x"] == 3
    assert seen[-3:] == [1, 2, 3]


async def test_a_run_that_fails_is_raised_where_its_result_is_awaited(client: LangGraphClient) -> None:
    async with streamed(client, assistant_id="boom") as thread:
        await thread.run.start(input=graph_input(x=0, log=[]))
        with pytest.raises(RuntimeError, match="boom from node"):
            await thread.output


async def test_a_reader_that_comes_back_finds_the_question(client: LangGraphClient) -> None:
    name = new_id()
    async with streamed(client, name, assistant_id="agent") as thread:
        await thread.run.start(input=HELLO)
        await asked(thread)
    async with streamed(client, name, assistant_id="agent") as thread:
        async for event in thread.subscribe(["lifecycle", "input"]):
            if event["method"] == "input.requested":
                break
        await eventually(_waits(thread), "the question")
        await thread.run.respond(APPROVED)
        assert (await thread.output)["decision"] == APPROVED


async def test_subgraphs_are_found_and_followed(client: LangGraphClient) -> None:
    async with streamed(client, assistant_id="parent") as thread:
        await thread.run.start(input=HELLO)
        found = [sub.graph_name async for sub in thread.subgraphs]
    assert found == ["child"]


async def test_two_readers_each_get_everything(client: LangGraphClient) -> None:
    name = new_id()
    told: list[list[str]] = [[], []]

    async def read(number: int) -> None:
        async with streamed(client, name, assistant_id="agent") as other:
            async for event in other.events:
                told[number].append(str(event["event_id"]))
                if event["method"] == "lifecycle" and event["params"]["data"]["event"] == "completed":
                    return

    async with streamed(client, name, assistant_id="agent") as thread:
        await thread.run.start(input=HELLO)
        await asked(thread)
        readers = asyncio.gather(read(0), read(1))
        await thread.run.respond(APPROVED)
        await readers
    assert told[0] == told[1]
    assert len(told[0]) == len(set(told[0])) > 20


@pytest.mark.slow
@BOTH
async def test_a_reader_that_left_in_the_middle_is_told_the_rest(
    client: LangGraphClient, transport: Transport
) -> None:
    """X10: whoever opens the stream anew is told all of it once, from any client."""
    name = new_id()
    async with streamed(client, name, assistant_id="slow", transport=transport) as thread:
        await thread.run.start(input=graph_input(x=40, log=[]))
        early = [event["event_id"] async for event in upto(thread, "custom")]
    async with streamed(client, name, assistant_id="slow", transport=transport) as thread:
        told = [event async for event in upto(thread, "completed")]
    numbers = [event["params"]["data"]["tick"] for event in told if event["method"] == "custom"]
    assert numbers == list(range(40))
    assert [event["event_id"] for event in told][: len(early)] == early


async def upto(thread: Any, what: str) -> AsyncIterator[Any]:
    """All that is told, up to a method's first event or a life's end; a web socket answers commands, too."""
    async for event in thread.events:
        if event["type"] != "event":
            continue
        yield event
        root = event["method"] == "lifecycle" and not event["params"]["namespace"]
        if what == event["method"] or (root and what == event["params"]["data"]["event"]):
            return


@BOTH
async def test_a_run_is_cancelled(client: LangGraphClient, transport: Transport) -> None:
    async with streamed(client, assistant_id="slow", transport=transport) as thread:
        run = (await thread.run.start(input=graph_input(x=400, log=[])))["run_id"]
        _ = [event async for event in upto(thread, "custom")]
        await client.runs.cancel(thread.thread_id, run)
        _ = [event async for event in upto(thread, "interrupted")]
        await client.runs.join(thread.thread_id, run)
        assert (await client.runs.get(thread.thread_id, run))["status"] == "interrupted"


@BOTH
async def test_a_thread_is_gone_on_with_from_an_earlier_place(
    client: LangGraphClient, transport: Transport
) -> None:
    async with streamed(client, assistant_id="counter", transport=transport) as thread:
        await thread.run.start(input=graph_input(x=0, log=[]))
        assert (await thread.output)["x"] == 3
        history: Any = await client.threads.get_history(thread.thread_id)
        [place] = [one["checkpoint"] for one in history if one["values"].get("x") == 1]
    async with streamed(client, thread.thread_id, assistant_id="counter", transport=transport) as again:
        chosen = {"checkpoint_id": str(place["checkpoint_id"])}
        run = (await again.run.start(config={"configurable": chosen}))["run_id"]
        await client.runs.join(thread.thread_id, run)
        state = await client.threads.get_state(thread.thread_id)
    assert state["values"] == {"x": 3, "log": ["a", "b", "c"]}
    assert len(await client.threads.get_history(thread.thread_id)) == len(history) + 3


@BOTH
async def test_a_state_is_changed_between_two_runs(client: LangGraphClient, transport: Transport) -> None:
    async with streamed(client, assistant_id="counter", transport=transport) as thread:
        await thread.run.start(input=graph_input(x=0, log=[]))
        await thread.output
        await client.threads.update_state(thread.thread_id, {"x": 10})
        run = (await thread.run.start(input=graph_input(log=["said"])))["run_id"]
        await client.runs.join(thread.thread_id, run)
        state = await client.threads.get_state(thread.thread_id)
    assert state["values"] == {"x": 13, "log": ["a", "b", "c", "said", "a", "b", "c"]}


@pytest.mark.slow
def test_the_blocking_client_reads_too(url: str) -> None:
    with get_sync_client(url=url) as client, client.threads.stream(assistant_id="agent") as thread:
        thread.run.start(input=HELLO)
        until(lambda: thread.interrupts, "the question")
        # Not all of them: the client ends `values` when another of its connections tells of the pause.
        assert next(iter(thread.values))["steps"] == ["plan"]
        thread.run.respond(APPROVED)
        assert thread.output["decision"] == APPROVED
