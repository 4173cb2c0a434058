"""Runs: one at a time on a thread, continued by the same request, with one reply (X8, X9, A54)."""

import asyncio
import json
from operator import add
from typing import Annotated, Any, cast

import pytest
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from callsheet.server.artefacts.service import RequestContext, run, run_and_ack, run_request
from callsheet.server.engine.worker import WorkerOptions, running_worker
from callsheet.state.errors import Broken, Busy, Conflict, Invalid, Missing
from callsheet.storage.redis import keys
from callsheet.storage.runs import events
from callsheet.storage.runs.records import LeaseHeld, RunAttempt, RunOutcome, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from tests.doubles.waiting import eventually

LEASE_S = 10.0
SHORT_LEASE_S = 0.5
"""For tests of the lease itself; a test on a busy machine may not run for as long as this."""


class WordsState(TypedDict):
    words: Annotated[list[str], add]


class TwoStepGraph:
    """A graph of two steps; the second waits for `may_continue` and raises if `fails`."""

    def __init__(self):
        self.second_started = asyncio.Event()
        self.may_continue = asyncio.Event()
        self.may_continue.set()
        self.fails = False
        self.first_calls = 0

    def graph(self):
        builder = StateGraph(WordsState)
        builder.add_node("first", self.first)
        builder.add_node("second", self.second)
        builder.add_edge(START, "first")
        builder.add_edge("first", "second")
        builder.add_edge("second", END)
        return builder.compile(name="stage")

    async def first(self, state: WordsState):
        self.first_calls += 1
        return {"words": ["first"]}

    async def second(self, state: WordsState):
        self.second_started.set()
        await self.may_continue.wait()
        if self.fails:
            raise Invalid("not today")
        return {"words": ["second"]}


@pytest.fixture
def two_step_graph():
    return TwoStepGraph()


@pytest.fixture
async def worker(storage, two_step_graph):
    async with running_worker(
        storage, {"stage": two_step_graph.graph()}, WorkerOptions(LEASE_S, replies=REPLIES)
    ) as running:
        yield running


@pytest.fixture
async def short_lease_worker(storage, two_step_graph):
    async with running_worker(
        storage, {"stage": two_step_graph.graph()}, WorkerOptions(SHORT_LEASE_S, replies=REPLIES)
    ) as running:
        yield running


async def build_reply(run, state):
    return {"words": state["words"]}


REPLIES = {"stage": build_reply}


def word_request(word="hello", thread="t", owner="local", artefact="ad:a", idempotency_key=None):
    caller = RequestContext(owner, idempotency_key)
    body = {"say": word}
    return run_request(Thread(thread, owner, "stage", artefact), caller, body, input={"words": [word]})


DONE = {"words": ["hello", "first", "second"]}


async def test_a_run_is_executed_and_gives_a_reply(worker):
    assert await run_and_ack(worker, word_request()) == DONE


async def test_the_same_request_after_its_run_ended_is_a_new_run(worker):
    await run_and_ack(worker, word_request())
    assert (await run_and_ack(worker, word_request()))["words"] == DONE["words"] * 2


async def test_the_same_request_continues_a_failed_run_at_the_failed_step(worker, two_step_graph):
    two_step_graph.fails = True
    with pytest.raises(Invalid, match="not today"):
        await run_and_ack(worker, word_request())
    two_step_graph.fails = False
    assert await run_and_ack(worker, word_request()) == DONE
    assert two_step_graph.first_calls == 1


async def test_another_request_after_a_failed_run_is_a_new_run(worker, two_step_graph):
    two_step_graph.fails = True
    with pytest.raises(Invalid):
        await run_and_ack(worker, word_request())
    two_step_graph.fails = False
    assert (await run_and_ack(worker, word_request("other")))["words"] == [
        "hello",
        "first",
        "other",
        "first",
        "second",
    ]


async def test_another_request_on_a_busy_thread_is_refused_with_the_active_run(worker, two_step_graph):
    """X8."""
    two_step_graph.may_continue.clear()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_and_ack(worker, word_request()))
        await two_step_graph.second_started.wait()
        with pytest.raises(Busy, match="busy with run"):
            await run_and_ack(worker, word_request("other"))
        two_step_graph.may_continue.set()
    assert running.result() == DONE


async def test_the_same_request_sent_twice_at_once_is_one_run_with_one_reply(worker, two_step_graph, storage):
    """X9."""
    two_step_graph.may_continue.clear()
    async with (
        running_worker(
            storage, {"stage": two_step_graph.graph()}, WorkerOptions(LEASE_S, replies=REPLIES)
        ) as elsewhere,
        asyncio.TaskGroup() as group,
    ):
        first = group.create_task(run_and_ack(worker, word_request()))
        await two_step_graph.second_started.wait()
        second = group.create_task(run_and_ack(elsewhere, word_request()))
        await asyncio.sleep(0)
        two_step_graph.may_continue.set()
    assert first.result() == second.result() == DONE
    assert two_step_graph.first_calls == 1


async def test_the_lease_of_a_long_run_is_renewed(short_lease_worker, two_step_graph, storage):
    """Its remaining time gets shorter and is then extended again."""
    two_step_graph.may_continue.clear()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_and_ack(short_lease_worker, word_request()))
        await two_step_graph.second_started.wait()
        lease_ms = await storage.redis.pttl(keys.run_keys("t").lease)

        async def lease_is_renewed():
            return await storage.redis.pttl(keys.run_keys("t").lease) > lease_ms - 10

        await eventually(lambda: lease_is_shorter(storage, lease_ms), "the lease gets shorter")
        await eventually(lease_is_renewed, "the lease is renewed")
        two_step_graph.may_continue.set()
    assert running.result() == DONE


async def lease_is_shorter(storage, lease_ms):
    return 0 < await storage.redis.pttl(keys.run_keys("t").lease) < lease_ms - 30


async def test_a_worker_that_lost_its_lease_stops_and_the_successors_outcome_stands(
    short_lease_worker, two_step_graph, storage
):
    """The first worker lets go of the thread before the second stores its outcome."""
    two_step_graph.may_continue.clear()
    task = asyncio.create_task(run_and_ack(short_lease_worker, word_request()))
    await two_step_graph.second_started.wait()
    run = await short_lease_worker.runs.active("t")
    await storage.redis.delete(keys.run_keys("t").lease)
    successor = await Runs(storage, 60).claim("t", run)
    await eventually(lambda: is_idle(short_lease_worker), "the first worker lets go")
    two_step_graph.may_continue.set()
    await short_lease_worker.runs.finish(
        successor, RunOutcome("success", answer={"words": ["from the successor"]})
    )
    assert await task == {"words": ["from the successor"]}
    assert (await short_lease_worker.runs.get("t", run)).status == "success"


async def is_idle(worker):
    return not worker.executions


async def test_a_run_goes_on_when_its_caller_is_cancelled(worker, two_step_graph):
    two_step_graph.may_continue.clear()
    task = asyncio.create_task(run_and_ack(worker, word_request()))
    await two_step_graph.second_started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    repeated = asyncio.create_task(run_and_ack(worker, word_request()))
    two_step_graph.may_continue.set()
    assert await repeated == DONE
    assert two_step_graph.first_calls == 1


async def test_the_same_request_gets_the_same_reply_until_the_reply_is_acknowledged(worker, two_step_graph):
    """The process may have died before it sent the reply; once acknowledged, a request is a new run."""
    first_reply, acknowledge = await run(worker, word_request())
    assert await run_and_ack(worker, word_request()) == first_reply == DONE
    assert two_step_graph.first_calls == 1
    await acknowledge()
    await run_and_ack(worker, word_request())
    assert two_step_graph.first_calls == 2


async def test_a_run_whose_end_was_not_recorded_gives_its_reply_without_running_again(
    worker, two_step_graph, storage
):
    await run_and_ack(worker, word_request())
    run = (await worker.runs.list_runs("t"))[0].id
    await storage.redis.hset(keys.run("t", run), "status", "running")
    await storage.redis.hset(keys.run_keys("t").thread, "active", run)
    assert await run_and_ack(worker, word_request()) == DONE
    assert two_step_graph.first_calls == 1


async def has_succeeded(worker):
    return (await worker.runs.get("t", "r")).status == "success"


async def test_a_second_attempt_sends_the_final_values_that_the_first_did_not_send(worker, storage):
    fields = request_fields(input={"words": ["hello"]}, stream_mode=["values"])
    await worker.submit(RunRequest("t", "r", "stage", "local", fields))
    await eventually(lambda: has_succeeded(worker), "the end of the first attempt")
    await eventually(lambda: is_idle(worker), "the worker is idle")
    await storage.redis.delete(keys.run_keys("t").events)
    await storage.redis.hset(keys.run("t", "r"), "status", "running")
    await storage.redis.hset(keys.run_keys("t").thread, "active", "r")
    await worker.execute("t", "r")
    stored = [(event.name, event.data) for event in await events.read_after(storage, "t", "0-0")]
    assert [name for name, _ in stored] == ["metadata", "values", "end"]
    assert json.loads(stored[1][1]) == DONE


async def test_an_idempotency_key_repeats_the_reply_and_refuses_another_request(worker, two_step_graph):
    key = {"idempotency_key": "k 1"}
    assert (
        await run_and_ack(worker, word_request(**key))
        == await run_and_ack(worker, word_request(**key))
        == DONE
    )
    assert two_step_graph.first_calls == 1
    with pytest.raises(Conflict, match="'k 1' is already used for another request"):
        await run_and_ack(worker, word_request("other", **key))


async def test_the_idempotency_key_of_a_failed_run_can_be_used_again(worker, two_step_graph):
    two_step_graph.fails = True
    with pytest.raises(Invalid):
        await run_and_ack(worker, word_request(idempotency_key="k"))
    two_step_graph.fails = False
    assert await run_and_ack(worker, word_request(idempotency_key="k")) == DONE


@pytest.mark.parametrize("other", [{"owner": "bob"}, {"artefact": "ad:b"}])
async def test_a_thread_of_another_owner_or_ad_is_missing(worker, other):
    """A-R14, X16."""
    await run_and_ack(worker, word_request())
    with pytest.raises(Missing, match="no thread 't'"):
        await run_and_ack(worker, word_request(**other))


async def test_a_graph_whose_copy_has_no_saver_is_refused(storage):
    class Stubborn:
        name = "stubborn"
        checkpointer = None

        def copy(self, update):
            return self

    with pytest.raises(Broken, match="'stubborn' did not take the saver"):
        async with running_worker(
            storage, cast("Any", {"stubborn": Stubborn()}), WorkerOptions(LEASE_S, replies=REPLIES)
        ):
            pass


async def test_creating_the_same_run_twice_gives_one_run(storage):
    request, runs = word_request(), Runs(storage, LEASE_S)
    for _ in range(2):
        created = await runs.create(request)
        assert (created.verdict, created.run) == ("start", request.id)
    assert len(await runs.list_runs("t")) == 1


async def test_an_expired_lease_is_renewed_if_no_other_attempt_has_the_thread(storage):
    """An event loop that was busy for longer than its lease does not lose its run."""
    request, runs = word_request(), Runs(storage, LEASE_S)
    await runs.create(request)
    attempt = await runs.claim("t", request.id)
    assert isinstance(attempt, RunAttempt)
    await storage.redis.delete(keys.run_keys("t").lease)
    await runs.renew(attempt)
    assert isinstance(await runs.claim("t", request.id), LeaseHeld)


async def test_only_the_owner_finds_a_thread(storage):
    thread = Thread("t", "ana", "stage", "ad:a")
    await threads.bind(storage, thread)
    record = await threads.get(storage, "t", "ana")
    assert (record.graph, record.artefact) == ("stage", "ad:a")
    for stranger, name in (("bob", "t"), ("ana", "u")):
        with pytest.raises(Missing):
            await threads.get(storage, name, stranger)


async def test_binding_a_thread_to_a_second_graph_is_refused(storage):
    await threads.bind(storage, Thread("t", "ana", "stage", "ad:a"))
    with pytest.raises(Conflict, match="runs 'stage', not 'other'"):
        await threads.bind(storage, Thread("t", "ana", "other", "ad:a"))
