"""Runs: one at a time on a thread, taken up by the same request, answered once (X8, X9, A54)."""

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
BRIEF_S = 0.5
"""For tests of the lease itself. A busy machine may keep a test from its turn for as long."""


class Words(TypedDict):
    words: Annotated[list[str], add]


class Stage:
    """A graph of two steps whose second one does as it is told."""

    def __init__(self):
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.fail = False
        self.firsts = 0

    def graph(self):
        builder = StateGraph(Words)
        builder.add_node("first", self.first)
        builder.add_node("second", self.second)
        builder.add_edge(START, "first")
        builder.add_edge("first", "second")
        builder.add_edge("second", END)
        return builder.compile(name="stage")

    async def first(self, state: Words):
        self.firsts += 1
        return {"words": ["first"]}

    async def second(self, state: Words):
        self.entered.set()
        await self.go.wait()
        if self.fail:
            raise Invalid("not today")
        return {"words": ["second"]}


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture
async def worker(storage, stage):
    async with running_worker(
        storage, {"stage": stage.graph()}, WorkerOptions(LEASE_S, replies=REPLIES)
    ) as made:
        yield made


@pytest.fixture
async def brief(storage, stage):
    async with running_worker(
        storage, {"stage": stage.graph()}, WorkerOptions(BRIEF_S, replies=REPLIES)
    ) as made:
        yield made


async def reply(run, state):
    return {"words": state["words"]}


REPLIES = {"stage": reply}


def job(word="hello", thread="t", owner="local", artefact="ad:a", idempotency_key=None):
    caller = RequestContext(owner, idempotency_key)
    body = {"say": word}
    return run_request(Thread(thread, owner, "stage", artefact), caller, body, input={"words": [word]})


DONE = {"words": ["hello", "first", "second"]}


async def test_a_job_is_carried_out_and_answered(worker):
    assert await run_and_ack(worker, job()) == DONE


async def test_the_same_request_after_it_ended_is_a_new_run(worker):
    await run_and_ack(worker, job())
    assert (await run_and_ack(worker, job()))["words"] == DONE["words"] * 2


async def test_a_failed_run_is_taken_up_by_the_same_request_where_it_stopped(worker, stage):
    stage.fail = True
    with pytest.raises(Invalid, match="not today"):
        await run_and_ack(worker, job())
    stage.fail = False
    assert await run_and_ack(worker, job()) == DONE
    assert stage.firsts == 1


async def test_another_request_after_a_failure_is_a_run_of_its_own(worker, stage):
    stage.fail = True
    with pytest.raises(Invalid):
        await run_and_ack(worker, job())
    stage.fail = False
    assert (await run_and_ack(worker, job("other")))["words"] == [
        "hello",
        "first",
        "other",
        "first",
        "second",
    ]


async def test_a_second_request_on_a_busy_thread_is_refused_and_told_by_whom(worker, stage):
    """X8."""
    stage.go.clear()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_and_ack(worker, job()))
        await stage.entered.wait()
        with pytest.raises(Busy, match="busy with run"):
            await run_and_ack(worker, job("other"))
        stage.go.set()
    assert running.result() == DONE


async def test_the_same_request_sent_twice_at_once_is_one_run_with_one_answer(worker, stage, storage):
    """X9."""
    stage.go.clear()
    async with (
        running_worker(
            storage, {"stage": stage.graph()}, WorkerOptions(LEASE_S, replies=REPLIES)
        ) as elsewhere,
        asyncio.TaskGroup() as group,
    ):
        first = group.create_task(run_and_ack(worker, job()))
        await stage.entered.wait()
        second = group.create_task(run_and_ack(elsewhere, job()))
        await asyncio.sleep(0)
        stage.go.set()
    assert first.result() == second.result() == DONE
    assert stage.firsts == 1


async def test_a_run_that_outlasts_its_lease_keeps_its_thread(brief, stage, storage):
    """The lease is renewed while the work goes on."""
    stage.go.clear()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_and_ack(brief, job()))
        await stage.entered.wait()
        before = await storage.redis.pttl(keys.run_keys("t").lease)

        async def renewed():
            return await storage.redis.pttl(keys.run_keys("t").lease) > before - 10

        await eventually(lambda: shorter(storage, before), "the lease runs down")
        await eventually(renewed, "the lease is renewed")
        stage.go.set()
    assert running.result() == DONE


async def shorter(storage, before):
    return 0 < await storage.redis.pttl(keys.run_keys("t").lease) < before - 30


async def test_a_worker_that_lost_its_lease_stops_and_cannot_end_the_run(brief, stage, storage):
    """Its successor's answer stands."""
    stage.go.clear()
    task = asyncio.create_task(run_and_ack(brief, job()))
    await stage.entered.wait()
    run = await brief.runs.active("t")
    await storage.redis.delete(keys.run_keys("t").lease)
    successor = await Runs(storage, 60).claim("t", run)
    await eventually(lambda: idle(brief), "the first worker lets go")
    stage.go.set()
    await brief.runs.finish(successor, RunOutcome("success", answer={"words": ["from the successor"]}))
    assert await task == {"words": ["from the successor"]}
    assert (await brief.runs.get("t", run)).status == "success"


async def idle(worker):
    return not worker.executions


async def test_a_run_goes_on_when_its_caller_goes_away(worker, stage):
    stage.go.clear()
    task = asyncio.create_task(run_and_ack(worker, job()))
    await stage.entered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    again = asyncio.create_task(run_and_ack(worker, job()))
    stage.go.set()
    assert await again == DONE
    assert stage.firsts == 1


async def test_a_reply_that_may_not_have_arrived_is_given_to_the_same_request(worker, stage):
    """The process that had it to send may have died; once it has arrived, asking is asking anew."""
    reply, told = await run(worker, job())
    assert await run_and_ack(worker, job()) == reply == DONE
    assert stage.firsts == 1
    await told()
    await run_and_ack(worker, job())
    assert stage.firsts == 2


async def test_a_run_that_had_ended_but_was_not_recorded_is_answered_without_running_again(
    worker, stage, storage
):
    await run_and_ack(worker, job())
    run = (await worker.runs.list_runs("t"))[0].id
    await storage.redis.hset(keys.run("t", run), "status", "running")
    await storage.redis.hset(keys.run_keys("t").thread, "active", run)
    assert await run_and_ack(worker, job()) == DONE
    assert stage.firsts == 1


async def has_ended(worker):
    return (await worker.runs.get("t", "r")).status == "success"


async def test_what_all_came_to_is_told_where_an_attempt_died_before_it_could(worker, storage):
    asked = request_fields(input={"words": ["hello"]}, stream_mode=["values"])
    await worker.submit(RunRequest("t", "r", "stage", "local", asked))
    await eventually(lambda: has_ended(worker), "the end of the first attempt")
    await eventually(lambda: idle(worker), "nothing more to tell")
    await storage.redis.delete(keys.run_keys("t").events)
    await storage.redis.hset(keys.run("t", "r"), "status", "running")
    await storage.redis.hset(keys.run_keys("t").thread, "active", "r")
    await worker.execute("t", "r")
    told = [(event.name, event.data) for event in await events.read_after(storage, "t", "0-0")]
    assert [name for name, _ in told] == ["metadata", "values", "end"]
    assert json.loads(told[1][1]) == DONE


async def test_an_idempotency_key_repeats_the_answer_and_refuses_another_request(worker, stage):
    chosen = {"idempotency_key": "k 1"}
    assert await run_and_ack(worker, job(**chosen)) == await run_and_ack(worker, job(**chosen)) == DONE
    assert stage.firsts == 1
    with pytest.raises(Conflict, match="'k 1' is already used for another request"):
        await run_and_ack(worker, job("other", **chosen))


async def test_a_failed_run_leaves_its_idempotency_key_free(worker, stage):
    stage.fail = True
    with pytest.raises(Invalid):
        await run_and_ack(worker, job(idempotency_key="k"))
    stage.fail = False
    assert await run_and_ack(worker, job(idempotency_key="k")) == DONE


@pytest.mark.parametrize("other", [{"owner": "bob"}, {"artefact": "ad:b"}])
async def test_a_thread_of_another_owner_or_ad_looks_like_none(worker, other):
    """A-R14, X16."""
    await run_and_ack(worker, job())
    with pytest.raises(Missing, match="no thread 't'"):
        await run_and_ack(worker, job(**other))


async def test_steps_are_reported_as_they_happen(storage):
    from langgraph.config import get_stream_writer

    async def node(state: Words):
        get_stream_writer()({"type": "step", "status": "completed"})
        return {"words": ["done"]}

    builder = StateGraph(Words)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    told: list[dict[str, Any]] = []
    async with running_worker(
        storage, {"stage": builder.compile()}, WorkerOptions(LEASE_S, replies=REPLIES)
    ) as worker:
        await run_and_ack(worker, job(), told.append)
    assert told == [{"type": "step", "status": "completed"}]


async def test_a_graph_that_does_not_take_the_saver_is_refused(storage):
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


async def test_a_run_created_twice_because_the_answer_was_lost_is_one_run(storage):
    wanted, runs = job(), Runs(storage, LEASE_S)
    for _ in range(2):
        made = await runs.create(wanted)
        assert (made.verdict, made.run) == ("start", wanted.id)
    assert len(await runs.list_runs("t")) == 1


async def test_a_lease_that_ran_out_is_taken_again_while_nobody_else_has_the_thread(storage):
    """An event loop that was busy for longer than its lease does not lose its run."""
    wanted, runs = job(), Runs(storage, LEASE_S)
    await runs.create(wanted)
    attempt = await runs.claim("t", wanted.id)
    assert isinstance(attempt, RunAttempt)
    await storage.redis.delete(keys.run_keys("t").lease)
    await runs.renew(attempt)
    assert isinstance(await runs.claim("t", wanted.id), LeaseHeld)


async def test_a_thread_is_known_to_its_owner_alone(storage):
    thread = Thread("t", "ana", "stage", "ad:a")
    await threads.bind(storage, thread)
    found = await threads.get(storage, "t", "ana")
    assert (found.graph, found.artefact) == ("stage", "ad:a")
    for stranger, name in (("bob", "t"), ("ana", "u")):
        with pytest.raises(Missing):
            await threads.get(storage, name, stranger)


async def test_a_thread_runs_one_graph(storage):
    await threads.bind(storage, Thread("t", "ana", "stage", "ad:a"))
    with pytest.raises(Conflict, match="runs 'stage', not 'other'"):
        await threads.bind(storage, Thread("t", "ana", "other", "ad:a"))
