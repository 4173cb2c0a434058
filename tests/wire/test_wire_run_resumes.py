"""Interrupts and resumes through LangGraph's own client (X9)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph.constants import TAG_HIDDEN
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError

from tests.doubles.wire_graphs import GRAPHS, CountState
from tests.doubles.wire_served import (
    APPROVED,
    HELLO,
    collect,
    create_thread,
    running_server_on_own_redis,
    thread_status,
)


async def ask_twice(state: CountState) -> dict[str, Any]:
    """Interrupt twice."""
    return {"log": [interrupt("first"), interrupt("second")]}


async def ask_value(state: CountState) -> dict[str, Any]:
    return {"log": [interrupt(state["x"])]}


async def ask_slowly(state: CountState) -> dict[str, Any]:
    answer = interrupt("how many?")
    await asyncio.sleep(0.4)
    return {"log": [answer, interrupt("really?")]}


def _single(name: str, node: Any) -> Any:
    builder = StateGraph(CountState)
    builder.add_node(name, node)
    builder.add_edge(START, name)
    builder.add_edge(name, END)
    return builder.compile(name=name)


def _several() -> Any:
    builder = StateGraph(CountState)
    builder.add_node("one", ask_value)
    builder.add_conditional_edges(START, lambda _: [Send("one", {"x": n, "log": []}) for n in (1, 2)])
    builder.add_edge("one", END)
    return builder.compile(name="several")


GRAPHS_WITH_INTERRUPTS = {
    **GRAPHS,
    "twice": _single("twice", ask_twice),
    "several": _several(),
    "slowly": _single("slowly", ask_slowly),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(GRAPHS_WITH_INTERRUPTS) as server_url:
        yield server_url


def resume(answer: Any) -> Any:
    return {"resume": answer}


async def start_and_interrupt(
    client: LangGraphClient, graph: str = "agent", graph_input: Any = None
) -> tuple[str, list[str]]:
    """Run a graph until it is interrupted; return the thread and the ids of its interrupts."""
    thread = await create_thread(client)
    values: Any = await client.runs.wait(thread, graph, input=graph_input or HELLO)
    return thread, [interrupt_id["id"] for interrupt_id in values["__interrupt__"]]


async def test_an_interrupt_ends_the_run_and_a_resume_continues_the_thread(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    events = await collect(client.runs.stream(thread, "agent", input=HELLO))
    [interrupted] = events[-1].data["__interrupt__"]
    assert set(interrupted) == {"value", "id", "response_schema"}
    assert (await client.runs.get(thread, events[0].data["run_id"]))["status"] == "success"
    thread_record: Any = await client.threads.get(thread)
    assert thread_record["status"] == "interrupted"
    assert [pending["id"] for waiting in thread_record["interrupts"].values() for pending in waiting] == [
        interrupted["id"]
    ]
    values: Any = await client.runs.wait(thread, "agent", command=resume(APPROVED))
    assert (values["decision"], values["steps"]) == (APPROVED, ["plan", "review", "finish"])
    thread_record = await client.threads.get(thread)
    assert (thread_record["status"], thread_record["interrupts"]) == ("idle", {})


async def test_an_interrupt_that_is_not_streamed_is_stored(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    # LangGraph streams nothing of a run with this tag.
    await client.runs.wait(thread, "agent", input=HELLO, config={"tags": [TAG_HIDDEN]})
    record: Any = await client.threads.get(thread)
    assert record["status"] == "interrupted"
    assert record["interrupts"]


async def test_an_empty_input_with_a_resume_is_ignored(client: LangGraphClient) -> None:
    thread, _ = await start_and_interrupt(client)
    values: Any = await client.runs.wait(thread, "agent", input={}, command=resume(APPROVED))
    assert values["steps"] == ["plan", "review", "finish"]


async def test_of_two_resumes_sent_at_once_one_is_refused(client: LangGraphClient) -> None:
    thread, _ = await start_and_interrupt(client, "slowly", {"x": 0})
    sent = [client.runs.wait(thread, "slowly", command=resume(answer)) for answer in ("3", "4")]
    results = await asyncio.gather(*sent, return_exceptions=True)
    errors = [result for result in results if isinstance(result, httpx.HTTPStatusError)]
    assert [error.response.status_code for error in errors] == [409]
    state: Any = await client.threads.get_state(thread)
    [pending] = state["interrupts"]
    assert pending["value"] == "really?", "the repeated resume does not answer the next interrupt"


async def test_a_second_resume_of_an_answered_interrupt_is_refused(client: LangGraphClient) -> None:
    thread, [interrupt_id] = await start_and_interrupt(client)
    await client.runs.wait(thread, "agent", command=resume(APPROVED))
    for answer in (APPROVED, {interrupt_id: APPROVED}):
        with pytest.raises(ConflictError):
            await client.runs.create(thread, "agent", command=resume(answer))
    assert await thread_status(client, thread) == "idle"


async def test_a_resume_without_a_pending_interrupt_is_refused(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    with pytest.raises(ConflictError, match="has no pending interrupt"):
        await client.runs.create(thread, "agent", command=resume(APPROVED))
    with pytest.raises(BadRequestError):
        await client.runs.create(None, "agent", command=resume(APPROVED))
    assert await client.runs.list(thread) == []


async def test_a_resume_with_another_interrupt_id_is_refused(client: LangGraphClient) -> None:
    thread, [interrupt_id] = await start_and_interrupt(client)
    with pytest.raises(ConflictError, match=interrupt_id):
        await client.runs.create(thread, "agent", command=resume({"0" * 32: "yes"}))
    assert await thread_status(client, thread) == "interrupted"


async def test_two_interrupts_of_one_node_are_resumed_one_after_the_other(client: LangGraphClient) -> None:
    thread, [first] = await start_and_interrupt(client, "twice", {"x": 0})
    interrupted: Any = await client.runs.wait(thread, "twice", command=resume({first: "a"}))
    [second] = interrupted["__interrupt__"]
    assert second["value"] == "second"
    with pytest.raises(ConflictError, match=first):
        await client.runs.create(thread, "twice", command=resume({first: "a"}))
    values: Any = await client.runs.wait(thread, "twice", command=resume("b"))
    assert values["log"] == ["a", "b"]


async def test_a_resume_of_several_interrupts_must_name_them(client: LangGraphClient) -> None:
    thread, interrupt_ids = await start_and_interrupt(client, "several", {"x": 0})
    with pytest.raises(BadRequestError, match=interrupt_ids[0]):
        await client.runs.create(thread, "several", command=resume("yes"))
    answers = dict(zip(interrupt_ids, ("yes", "no"), strict=True))
    values: Any = await client.runs.wait(thread, "several", command=resume(answers))
    assert sorted(values["log"]) == ["no", "yes"]


async def test_a_resume_is_accepted_before_the_interrupted_run_has_ended(client: LangGraphClient) -> None:
    """The interrupt is on the stream a moment before the run ends."""
    thread = await create_thread(client)
    async for event in client.runs.stream(thread, "agent", input=HELLO, stream_mode="updates"):
        if event.event == "updates" and "__interrupt__" in event.data:
            resumed = await client.runs.create(thread, "agent", command=resume(APPROVED))
    values: Any = await client.runs.join(thread, resumed["run_id"])
    assert values["steps"] == ["plan", "review", "finish"]


async def test_an_interrupted_thread_can_be_ended_with_goto(client: LangGraphClient) -> None:
    """Agent Chat UI's "Mark as resolved" sends this."""
    thread, _ = await start_and_interrupt(client)
    command: Any = {"goto": "__end__"}
    await client.runs.wait(thread, "agent", command=command)
    assert await thread_status(client, thread) == "idle"
    assert (await client.threads.get_state(thread))["next"] == []


async def test_an_interrupt_in_a_subgraph_is_resumed(client: LangGraphClient) -> None:
    thread, _ = await start_and_interrupt(client, "parent")
    values: Any = await client.runs.wait(thread, "parent", command=resume(APPROVED))
    assert values["decision"] == APPROVED


async def test_a_resume_from_the_checkpoint_of_an_answered_interrupt_is_refused(
    client: LangGraphClient,
) -> None:
    """LangGraph alone would silently continue with the first answer."""
    thread, _ = await start_and_interrupt(client)
    checkpoint = (await client.threads.get_history(thread))[0]["checkpoint"]
    await client.runs.wait(thread, "agent", command=resume(APPROVED))
    with pytest.raises(ConflictError):
        await client.runs.create(thread, "agent", command=resume("no"), checkpoint=checkpoint)


async def test_a_fork_gets_a_new_interrupt_that_can_be_answered_differently(client: LangGraphClient) -> None:
    thread, [interrupt_id] = await start_and_interrupt(client)
    await client.runs.wait(thread, "agent", command=resume(APPROVED))
    start = next(
        state for state in await client.threads.get_history(thread, limit=20) if state["next"] == ["plan"]
    )
    interrupted: Any = await client.runs.wait(thread, "agent", checkpoint=start["checkpoint"])
    [second] = interrupted["__interrupt__"]
    assert second["id"] != interrupt_id
    rejected = {"decisions": [{"type": "reject"}]}
    values: Any = await client.runs.wait(thread, "agent", command=resume({second["id"]: rejected}))
    assert values["decision"] == rejected
