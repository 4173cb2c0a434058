"""Commands of the Agent Streaming Protocol, and the errors of those that are refused."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests.doubles.wire_served import APPROVED, HELLO, graph_input, running_server_on_own_redis
from tests.wire.protocol_reader import ProtocolThread, interrupt_ids, root_values, run_ended, run_lifecycles
from tests.wire.test_wire_run_resumes import GRAPHS_WITH_INTERRUPTS


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(GRAPHS_WITH_INTERRUPTS) as server_url:
        yield server_url


@pytest.fixture
async def thread(http: httpx.AsyncClient) -> ProtocolThread:
    return ProtocolThread(http)


async def error_code(thread: ProtocolThread, method: str, **params: Any) -> str:
    """Send a command that is refused and return its error code."""
    reply = await thread.command(method, **params)
    assert reply["type"] == "error"
    assert reply["message"]
    return str(reply["error"])


async def start_and_interrupt(
    thread: ProtocolThread, graph: str = "agent", run_input: Any = HELLO
) -> list[str]:
    """Start a run and return the ids of its interrupts."""
    run = await thread.start(graph, run_input)
    return interrupt_ids(await thread.read_until(run_ended(run)))


async def test_starting_a_run_creates_the_thread(url: str, thread: ProtocolThread) -> None:
    run = await thread.start(metadata={"topic": "tea"}, config={"tags": ["x"]})
    async with get_client(url=url) as client:
        record: Any = await client.threads.get(thread.thread_id)
        run_record: Any = await client.runs.get(thread.thread_id, run)
    assert record["metadata"]["graph_id"] == "agent"
    assert run_record["metadata"]["topic"] == "tea"
    assert run_record["kwargs"]["config"]["tags"] == ["x"]


async def test_a_run_started_after_a_resume_waits_for_the_resumed_run(thread: ProtocolThread) -> None:
    """Its input is not taken for a second response, although the interrupt is still pending."""
    [interrupt_id] = await start_and_interrupt(thread)
    resumed = await thread.respond(interrupt_id, APPROVED)
    later = await thread.start(graph_input=HELLO)
    lifecycles = run_lifecycles(await thread.read_until(run_ended(later)))
    assert [status for status, event_id in lifecycles if resumed in event_id][-1] == "completed"
    assert [status for status, event_id in lifecycles if later in event_id][-1] == "interrupted"


async def test_a_run_with_invalid_parameters_or_on_a_busy_thread_is_refused(thread: ProtocolThread) -> None:
    assert await error_code(thread, "run.start", input={}) == "invalid_argument"
    assert await error_code(thread, "run.start", assistant_id="nobody", input={}) == "invalid_argument"
    assert (await thread.http.get(f"/threads/{thread.thread_id}")).status_code == 404
    run = await thread.start("slow", graph_input(x=200, log=[]))
    rejected = {"assistant_id": "slow", "input": {}, "multitask_strategy": "reject"}
    assert await error_code(thread, "run.start", **rejected) == "invalid_argument"
    # Otherwise the server would wait for the end of its step when it stops.
    assert (await thread.http.post(f"/threads/{thread.thread_id}/runs/{run}/cancel")).is_success


async def test_a_response_must_name_a_pending_interrupt(thread: ProtocolThread) -> None:
    [interrupt_id] = await start_and_interrupt(thread)
    for params in (
        {"interrupt_id": "0" * 32, "response": 1},
        {"interrupt_id": "first", "response": 1},
        {
            "responses": [
                {"interrupt_id": interrupt_id, "response": 1},
                {"interrupt_id": "0" * 32, "response": 1},
            ]
        },
    ):
        assert await error_code(thread, "input.respond", namespace=[], **params) == "no_such_interrupt"
    assert await error_code(thread, "input.respond", response=1) == "invalid_argument"
    assert await error_code(thread, "input.respond", responses=[]) == "invalid_argument"
    run = await thread.respond(interrupt_id, APPROVED)
    assert root_values(await thread.read_until(run_ended(run)))[-1]["decision"] == APPROVED


async def test_a_response_without_a_pending_interrupt_is_refused(thread: ProtocolThread) -> None:
    answer = {"interrupt_id": "0" * 32, "response": 1}
    assert await error_code(thread, "input.respond", **answer) == "no_such_run"
    run = await thread.start("counter", graph_input(x=1, log=[]))
    await thread.read_until(run_ended(run))
    assert await error_code(thread, "input.respond", **answer) == "no_such_interrupt"


async def test_of_two_responses_to_an_interrupt_one_is_refused(thread: ProtocolThread) -> None:
    """X9: the repeated response does not answer the next interrupt."""
    [interrupt_id] = await start_and_interrupt(thread, "twice", graph_input(x=0, log=[]))
    params = {"namespace": [], "interrupt_id": interrupt_id, "response": "a"}
    replies = await asyncio.gather(*(thread.command("input.respond", **params) for _ in range(2)))
    assert sorted(reply.get("error", "") for reply in replies) == ["", "no_such_interrupt"]
    [run] = [reply["result"]["run_id"] for reply in replies if reply["type"] == "success"]
    await thread.read_until(run_ended(run))
    [interrupt] = (await thread.state())["interrupts"]
    assert interrupt["value"] == "second"


async def test_several_interrupts_are_answered_by_one_command(thread: ProtocolThread) -> None:
    ids = await start_and_interrupt(thread, "several", graph_input(x=0, log=[]))
    assert len(ids) == 2
    responses = [
        {"namespace": [], "interrupt_id": id_of_interrupt, "response": f"to {number}"}
        for number, id_of_interrupt in enumerate(ids)
    ]
    reply = await thread.command("input.respond", responses=responses)
    run = reply["result"]["run_id"]
    assert sorted(root_values(await thread.read_until(run_ended(run)))[-1]["log"]) == ["to 0", "to 1"]


async def test_one_of_several_interrupts_is_answered(thread: ProtocolThread) -> None:
    first, second = await start_and_interrupt(thread, "several", graph_input(x=0, log=[]))
    run = await thread.respond(first, "yes")
    assert run_lifecycles(await thread.read_until(run_ended(run)))[-1][0] == "interrupted"
    last = await thread.respond(second, "no")
    assert sorted(root_values(await thread.read_until(run_ended(last)))[-1]["log"]) == ["no", "yes"]


async def test_the_input_of_a_run_on_an_interrupted_thread_resumes_it(thread: ProtocolThread) -> None:
    """As in LangGraph's own server; `RemoteGraph` resumes in this way."""
    await start_and_interrupt(thread)
    run = await thread.start(graph_input=APPROVED)
    assert root_values(await thread.read_until(run_ended(run)))[-1]["decision"] == APPROVED
    run = await thread.start(graph_input=HELLO)
    assert run_lifecycles(await thread.read_until(run_ended(run)))[-1][0] == "interrupted", (
        "the next input is a new turn"
    )


async def test_a_response_is_accepted_before_the_interrupted_run_has_ended(thread: ProtocolThread) -> None:
    run = await thread.start()
    [interrupt_id] = interrupt_ids(await thread.read_until(lambda events: bool(interrupt_ids(events))))
    last = await thread.respond(interrupt_id, APPROVED)
    events = await thread.read_until(run_ended(last))
    assert [status for status, event_id in run_lifecycles(events) if run in event_id] == [
        "running",
        "interrupted",
    ]
    assert run_lifecycles(events)[-1][0] == "completed"


async def test_the_tree_shows_the_root_graph_and_its_subgraphs_of_a_run(thread: ProtocolThread) -> None:
    assert await error_code(thread, "agent.getTree") == "no_such_run"
    first = await thread.start("parent")
    events = await thread.read_until(run_ended(first))
    expected_child = {"status": "interrupted", "graph_name": "child"}
    expected_root = {"namespace": [], "status": "interrupted", "graph_name": "parent"}

    async def tree(**params: Any) -> Any:
        tree_root = (await thread.command("agent.getTree", **params))["result"]["tree"]
        [child_node] = tree_root["children"]
        assert child_node["namespace"][0].startswith("child:")
        return tree_root, child_node

    tree_root, child_node = await tree()
    assert expected_root.items() <= tree_root.items()
    assert expected_child.items() <= child_node.items()
    last = await thread.respond(interrupt_ids(events)[0], APPROVED)
    await thread.read_until(run_ended(last))
    tree_root, child_node = await tree()
    assert (tree_root["status"], child_node["status"]) == ("completed", "completed")
    assert (await tree(run_id=first))[0]["status"] == "interrupted"
    assert await error_code(thread, "agent.getTree", run_id="none") == "no_such_run"


async def test_unknown_unsupported_and_malformed_commands_are_refused(thread: ProtocolThread) -> None:
    assert await error_code(thread, "run.stop") == "unknown_command"
    assert await error_code(thread, "subscription.subscribe", channels=[]) == "not_supported"
    malformed: list[Any] = [{"method": "run.start"}, {"id": "x", "method": "run.start"}, {"id": 1}, []]
    for body in malformed:
        reply = await thread.http.post(f"/threads/{thread.thread_id}/commands", json=body)
        assert reply.status_code == 422
        assert reply.json().keys() == {"detail"}
