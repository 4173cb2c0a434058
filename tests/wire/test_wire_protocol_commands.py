"""Commands of the second wire: what they do, and what they answer where they do nothing."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests.doubles.wire_served import APPROVED, HELLO, graph_input, running_server_on_own_redis
from tests.wire.protocol_reader import ProtocolThread, questions, run_has_ended, run_lifecycles, values
from tests.wire.test_wire_run_resumes import OWN


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(OWN) as found:
        yield found


@pytest.fixture
async def wire(http: httpx.AsyncClient) -> ProtocolThread:
    return ProtocolThread(http)


async def refused(wire: ProtocolThread, method: str, **params: Any) -> str:
    """The code a command is refused with."""
    told = await wire.command(method, **params)
    assert told["type"] == "error"
    assert told["message"]
    return str(told["error"])


async def asked(wire: ProtocolThread, graph: str = "agent", given: Any = HELLO) -> list[str]:
    """The questions a new run stops with."""
    run = await wire.start(graph, given)
    return questions(await wire.seen(run_has_ended(run)))


async def test_starting_a_run_makes_the_thread(url: str, wire: ProtocolThread) -> None:
    run = await wire.start(metadata={"topic": "tea"}, config={"tags": ["x"]})
    async with get_client(url=url) as client:
        thread: Any = await client.threads.get(wire.thread)
        found: Any = await client.runs.get(wire.thread, run)
    assert thread["metadata"]["graph_id"] == "agent"
    assert found["metadata"]["topic"] == "tea"
    assert found["kwargs"]["config"]["tags"] == ["x"]


async def test_what_is_said_after_an_answer_waits_for_its_run(wire: ProtocolThread) -> None:
    """It is no second answer, though the question is still the thread's while it is being answered."""
    [question] = await asked(wire)
    answer = await wire.respond(question, APPROVED)
    after = await wire.start(given=HELLO)
    told = run_lifecycles(await wire.seen(run_has_ended(after)))
    assert [what for what, event in told if answer in event][-1] == "completed"
    assert [what for what, event in told if after in event][-1] == "interrupted"


async def test_a_run_that_cannot_be_is_refused(wire: ProtocolThread) -> None:
    assert await refused(wire, "run.start", input={}) == "invalid_argument"
    assert await refused(wire, "run.start", assistant_id="nobody", input={}) == "invalid_argument"
    assert (await wire.http.get(f"/threads/{wire.thread}")).status_code == 404
    run = await wire.start("slow", graph_input(x=200, log=[]))
    more = {"assistant_id": "slow", "input": {}, "multitask_strategy": "reject"}
    assert await refused(wire, "run.start", **more) == "invalid_argument"
    assert await refused(wire, "run.start", assistant_id="agent", input={}) == "invalid_argument"
    # The server would wait for its step when it is to stop.
    assert (await wire.http.post(f"/threads/{wire.thread}/runs/{run}/cancel")).is_success


async def test_an_answer_says_which_question_it_is_for(wire: ProtocolThread) -> None:
    [question] = await asked(wire)
    for params in (
        {"interrupt_id": "0" * 32, "response": 1},
        {"interrupt_id": "first", "response": 1},
        {"responses": [{"interrupt_id": question, "response": 1}, {"interrupt_id": "0" * 32, "response": 1}]},
    ):
        assert await refused(wire, "input.respond", namespace=[], **params) == "no_such_interrupt"
    assert await refused(wire, "input.respond", response=1) == "invalid_argument"
    assert await refused(wire, "input.respond", responses=[]) == "invalid_argument"
    run = await wire.respond(question, APPROVED)
    assert values(await wire.seen(run_has_ended(run)))[-1]["decision"] == APPROVED


async def test_an_answer_to_nothing_is_refused(wire: ProtocolThread) -> None:
    answer = {"interrupt_id": "0" * 32, "response": 1}
    assert await refused(wire, "input.respond", **answer) == "no_such_run"
    run = await wire.start("counter", graph_input(x=1, log=[]))
    await wire.seen(run_has_ended(run))
    assert await refused(wire, "input.respond", **answer) == "no_such_interrupt"


async def test_of_two_answers_to_a_question_one_is_refused(wire: ProtocolThread) -> None:
    """X9: the next question is not answered by the double."""
    [question] = await asked(wire, "twice", graph_input(x=0, log=[]))
    params = {"namespace": [], "interrupt_id": question, "response": "a"}
    told = await asyncio.gather(*(wire.command("input.respond", **params) for _ in range(2)))
    assert sorted(one.get("error", "") for one in told) == ["", "no_such_interrupt"]
    [run] = [one["result"]["run_id"] for one in told if one["type"] == "success"]
    await wire.seen(run_has_ended(run))
    [waiting] = (await wire.state())["interrupts"]
    assert waiting["value"] == "second"


async def test_several_questions_are_answered_at_once(wire: ProtocolThread) -> None:
    names = await asked(wire, "several", graph_input(x=0, log=[]))
    assert len(names) == 2
    responses = [
        {"namespace": [], "interrupt_id": name, "response": f"to {number}"}
        for number, name in enumerate(names)
    ]
    told = await wire.command("input.respond", responses=responses)
    run = told["result"]["run_id"]
    assert sorted(values(await wire.seen(run_has_ended(run)))[-1]["log"]) == ["to 0", "to 1"]


async def test_one_of_several_questions_is_answered(wire: ProtocolThread) -> None:
    first, second = await asked(wire, "several", graph_input(x=0, log=[]))
    run = await wire.respond(first, "yes")
    assert run_lifecycles(await wire.seen(run_has_ended(run)))[-1][0] == "interrupted"
    last = await wire.respond(second, "no")
    assert sorted(values(await wire.seen(run_has_ended(last)))[-1]["log"]) == ["no", "yes"]


async def test_the_input_of_a_thread_that_waits_is_the_answer(wire: ProtocolThread) -> None:
    """As LangGraph's server has it; its remote graphs resume in this way."""
    await asked(wire)
    run = await wire.start(given=APPROVED)
    assert values(await wire.seen(run_has_ended(run)))[-1]["decision"] == APPROVED
    run = await wire.start(given=HELLO)
    assert run_lifecycles(await wire.seen(run_has_ended(run)))[-1][0] == "interrupted", (
        "the next input is a new turn"
    )


async def test_an_answer_may_come_before_the_run_that_asked_has_ended(wire: ProtocolThread) -> None:
    run = await wire.start()
    [question] = questions(await wire.seen(lambda told: bool(questions(told))))
    last = await wire.respond(question, APPROVED)
    told = await wire.seen(run_has_ended(last))
    assert [what for what, id_ in run_lifecycles(told) if run in id_] == ["running", "interrupted"]
    assert run_lifecycles(told)[-1][0] == "completed"


async def test_the_tree_shows_the_graphs_that_a_run_went_through(wire: ProtocolThread) -> None:
    assert await refused(wire, "agent.getTree") == "no_such_run"
    first = await wire.start("parent")
    told = await wire.seen(run_has_ended(first))
    child = {"status": "interrupted", "graph_name": "child"}
    root = {"namespace": [], "status": "interrupted", "graph_name": "parent"}

    async def tree(**params: Any) -> Any:
        found = (await wire.command("agent.getTree", **params))["result"]["tree"]
        [below] = found["children"]
        assert below["namespace"][0].startswith("child:")
        return found, below

    found, below = await tree()
    assert root.items() <= found.items()
    assert child.items() <= below.items()
    last = await wire.respond(questions(told)[0], APPROVED)
    await wire.seen(run_has_ended(last))
    found, below = await tree()
    assert (found["status"], below["status"]) == ("completed", "completed")
    assert (await tree(run_id=first))[0]["status"] == "interrupted"
    assert await refused(wire, "agent.getTree", run_id="none") == "no_such_run"


async def test_what_is_no_command_here_says_so(wire: ProtocolThread) -> None:
    assert await refused(wire, "run.stop") == "unknown_command"
    assert await refused(wire, "subscription.subscribe", channels=[]) == "not_supported"
    malformed: list[Any] = [{"method": "run.start"}, {"id": "x", "method": "run.start"}, {"id": 1}, []]
    for wrong in malformed:
        reply = await wire.http.post(f"/threads/{wire.thread}/commands", json=wrong)
        assert reply.status_code == 422
        assert reply.json().keys() == {"detail"}
