"""Questions and their answers, through LangGraph's own client (X9)."""

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


async def twice(state: CountState) -> dict[str, Any]:
    """Asks two questions."""
    return {"log": [interrupt("first"), interrupt("second")]}


async def one(state: CountState) -> dict[str, Any]:
    return {"log": [interrupt(state["x"])]}


async def slowly(state: CountState) -> dict[str, Any]:
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
    builder.add_node("one", one)
    builder.add_conditional_edges(START, lambda _: [Send("one", {"x": n, "log": []}) for n in (1, 2)])
    builder.add_edge("one", END)
    return builder.compile(name="several")


OWN = {
    **GRAPHS,
    "twice": _single("twice", twice),
    "several": _several(),
    "slowly": _single("slowly", slowly),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(OWN) as found:
        yield found


def resume(answer: Any) -> Any:
    return {"resume": answer}


async def asked(client: LangGraphClient, graph: str = "agent", said: Any = None) -> tuple[str, list[str]]:
    """A thread that waits for an answer, and the ids of its questions."""
    thread = await create_thread(client)
    found: Any = await client.runs.wait(thread, graph, input=said or HELLO)
    return thread, [question["id"] for question in found["__interrupt__"]]


async def test_a_question_ends_the_run_and_an_answer_goes_on(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    told = await collect(client.runs.stream(thread, "agent", input=HELLO))
    [question] = told[-1].data["__interrupt__"]
    assert set(question) == {"value", "id", "response_schema"}
    assert (await client.runs.get(thread, told[0].data["run_id"]))["status"] == "success"
    found: Any = await client.threads.get(thread)
    assert found["status"] == "interrupted"
    assert [each["id"] for waiting in found["interrupts"].values() for each in waiting] == [question["id"]]
    done: Any = await client.runs.wait(thread, "agent", command=resume(APPROVED))
    assert (done["decision"], done["steps"]) == (APPROVED, ["plan", "review", "finish"])
    found = await client.threads.get(thread)
    assert (found["status"], found["interrupts"]) == ("idle", {})


async def test_a_question_that_is_told_to_nobody_stands_all_the_same(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    # LangGraph streams nothing of what has this tag.
    await client.runs.wait(thread, "agent", input=HELLO, config={"tags": [TAG_HIDDEN]})
    found: Any = await client.threads.get(thread)
    assert found["status"] == "interrupted"
    assert found["interrupts"]


async def test_an_empty_input_beside_a_command_is_no_input(client: LangGraphClient) -> None:
    thread, _ = await asked(client)
    done: Any = await client.runs.wait(thread, "agent", input={}, command=resume(APPROVED))
    assert done["steps"] == ["plan", "review", "finish"]


async def test_of_two_answers_sent_at_once_one_is_refused(client: LangGraphClient) -> None:
    thread, _ = await asked(client, "slowly", {"x": 0})
    sent = [client.runs.wait(thread, "slowly", command=resume(word)) for word in ("3", "4")]
    found = await asyncio.gather(*sent, return_exceptions=True)
    refused = [one for one in found if isinstance(one, httpx.HTTPStatusError)]
    assert [error.response.status_code for error in refused] == [409]
    state: Any = await client.threads.get_state(thread)
    [question] = state["interrupts"]
    assert question["value"] == "really?", "the next question was not answered by the double"


async def test_an_answer_to_an_answered_question_is_refused(client: LangGraphClient) -> None:
    thread, [question] = await asked(client)
    await client.runs.wait(thread, "agent", command=resume(APPROVED))
    for answer in (APPROVED, {question: APPROVED}):
        with pytest.raises(ConflictError):
            await client.runs.create(thread, "agent", command=resume(answer))
    assert await thread_status(client, thread) == "idle"


async def test_an_answer_to_nothing_is_refused(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    with pytest.raises(ConflictError, match="has no pending interrupt"):
        await client.runs.create(thread, "agent", command=resume(APPROVED))
    with pytest.raises(BadRequestError):
        await client.runs.create(None, "agent", command=resume(APPROVED))
    assert await client.runs.list(thread) == []


async def test_an_answer_to_another_question_is_refused(client: LangGraphClient) -> None:
    thread, [question] = await asked(client)
    with pytest.raises(ConflictError, match=question):
        await client.runs.create(thread, "agent", command=resume({"0" * 32: "yes"}))
    assert await thread_status(client, thread) == "interrupted"


async def test_two_questions_of_one_node_are_answered_one_after_the_other(client: LangGraphClient) -> None:
    thread, [first] = await asked(client, "twice", {"x": 0})
    found: Any = await client.runs.wait(thread, "twice", command=resume({first: "a"}))
    [second] = found["__interrupt__"]
    assert second["value"] == "second"
    with pytest.raises(ConflictError, match=first):
        await client.runs.create(thread, "twice", command=resume({first: "a"}))
    done: Any = await client.runs.wait(thread, "twice", command=resume("b"))
    assert done["log"] == ["a", "b"]


async def test_of_several_questions_an_answer_says_which(client: LangGraphClient) -> None:
    thread, questions = await asked(client, "several", {"x": 0})
    with pytest.raises(BadRequestError, match=questions[0]):
        await client.runs.create(thread, "several", command=resume("yes"))
    answers = dict(zip(questions, ("yes", "no"), strict=True))
    done: Any = await client.runs.wait(thread, "several", command=resume(answers))
    assert sorted(done["log"]) == ["no", "yes"]


async def test_an_answer_may_come_before_the_run_that_asked_has_ended(client: LangGraphClient) -> None:
    """The question is on the stream a moment before the run is done."""
    thread = await create_thread(client)
    async for event in client.runs.stream(thread, "agent", input=HELLO, stream_mode="updates"):
        if event.event == "updates" and "__interrupt__" in event.data:
            answered = await client.runs.create(thread, "agent", command=resume(APPROVED))
    done: Any = await client.runs.join(thread, answered["run_id"])
    assert done["steps"] == ["plan", "review", "finish"]


async def test_a_question_can_be_set_aside(client: LangGraphClient) -> None:
    """What Agent Chat UI's "Mark as resolved" sends."""
    thread, _ = await asked(client)
    command: Any = {"goto": "__end__"}
    await client.runs.wait(thread, "agent", command=command)
    assert await thread_status(client, thread) == "idle"
    assert (await client.threads.get_state(thread))["next"] == []


async def test_a_question_in_a_subgraph_is_answered(client: LangGraphClient) -> None:
    thread, _ = await asked(client, "parent")
    done: Any = await client.runs.wait(thread, "parent", command=resume(APPROVED))
    assert done["decision"] == APPROVED


async def test_a_question_that_was_answered_stays_answered(client: LangGraphClient) -> None:
    """LangGraph would go on with the first answer, without a word."""
    thread, _ = await asked(client)
    past = (await client.threads.get_history(thread))[0]["checkpoint"]
    await client.runs.wait(thread, "agent", command=resume(APPROVED))
    with pytest.raises(ConflictError):
        await client.runs.create(thread, "agent", command=resume("no"), checkpoint=past)


async def test_a_question_is_asked_again_on_a_fork_and_answered_otherwise(client: LangGraphClient) -> None:
    thread, [question] = await asked(client)
    await client.runs.wait(thread, "agent", command=resume(APPROVED))
    before = next(
        state for state in await client.threads.get_history(thread, limit=20) if state["next"] == ["plan"]
    )
    found: Any = await client.runs.wait(thread, "agent", checkpoint=before["checkpoint"])
    [again] = found["__interrupt__"]
    assert again["id"] != question
    rejected = {"decisions": [{"type": "reject"}]}
    done: Any = await client.runs.wait(thread, "agent", command=resume({again["id"]: rejected}))
    assert done["decision"] == rejected
