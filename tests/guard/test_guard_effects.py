"""Effects: locked, cancelled, outside our storage; never twice, and never in doubt without saying so."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from callsheet.state.errors import Conflict, Fenced, Invalid, NotReached
from callsheet.state.owners import LOCAL
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.runs.leases import LEASE, Lease
from callsheet.storage.runs.records import RunAttempt, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from callsheet.tools.guard import guard
from callsheet.tools.policy import ToolOptions
from tests.guard.guarded import SCOPE, registry_with_tool, step, write


def artefact(opened):
    return Artefact(opened, "ad", "kopi", LOCAL)


async def versions(opened):
    return [version.id for version in (await artefact(opened).stream("music")).versions]


async def test_a_locked_stream_stays_as_it_is_to_the_byte(opened):
    """C34: "leave the music alone" is kept by the guard, whatever the model does."""
    tools = registry_with_tool(write, writes=("music",))
    assert (await guard.call(tools, step(), SCOPE)).ok
    await artefact(opened).lock("music", LOCAL)
    before = (
        await opened.redis.dump("ad:{kopi}:music:v:v1"),
        await opened.redis.dump("ad:{kopi}:music:versions"),
    )
    refused = await guard.call(tools, step(call="c2"), SCOPE)
    assert (refused.label, refused.output["details"]) == ("permission_denied", {"locked": "music"})
    after = (
        await opened.redis.dump("ad:{kopi}:music:v:v1"),
        await opened.redis.dump("ad:{kopi}:music:versions"),
    )
    assert before == after
    assert (await guard.call(tools, step(), SCOPE)).output["versionId"] == "v1", "what has happened is told"


async def test_a_lock_set_while_the_tool_runs_still_holds(opened):
    async def locking(args, call):
        await call.artefact.lock("music", LOCAL)
        return await write(args, call)

    refused = await guard.call(registry_with_tool(locking, writes=("music",)), step(), SCOPE)
    assert refused.label == "permission_denied"
    assert not await versions(opened)


async def test_a_cancelled_call_writes_nothing_any_more(opened):
    """C-R10 for a person's cancel: the late write comes, and is refused."""
    began, late, refused = asyncio.Event(), asyncio.Event(), asyncio.Event()
    background = []

    async def write_late(args, call):
        await late.wait()
        try:
            await write(args, call)
        except Fenced:
            refused.set()

    async def slow(args, call):
        background.append(asyncio.create_task(write_late(args, call)))
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(guard.call(registry_with_tool(slow, writes=("music",)), step(), SCOPE))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    late.set()
    async with asyncio.timeout(5):
        await refused.wait()
    assert not await versions(opened)


async def test_a_tool_that_will_not_stop_is_answered_for_all_the_same(opened):
    """C36: what it does in the end is refused."""
    go, done = asyncio.Event(), asyncio.Event()

    async def stubborn(args, call):
        while not go.is_set():
            with suppress(asyncio.CancelledError):
                await go.wait()
        try:
            return await write(args, call)
        finally:
            done.set()

    outcome = await guard.call(
        registry_with_tool(stubborn, writes=("music",), options=ToolOptions(timeout_s=0.05)), step(), SCOPE
    )
    assert outcome.label == "timeout_error"
    go.set()
    await done.wait()
    assert not await versions(opened)


async def test_an_effect_that_happened_is_told_though_the_tool_then_failed(opened):
    async def fails(args, call):
        await write(args, call)
        raise RuntimeError

    outcome = await guard.call(registry_with_tool(fails, writes=("music",)), step(), SCOPE)
    assert (outcome.ok, outcome.output["versionId"]) == (True, "v1")


class Outside:
    """A world that remembers what was done to it."""

    def __init__(self):
        self.done = []
        self.then = None

    def tool(self, **more):
        async def post(args, call):
            if isinstance(self.then, NotReached | Invalid):
                raise self.then
            self.done.append(args.n)
            if self.then:
                raise self.then
            return {"sent": args.n}

        terms = ToolOptions(backoff_s=0, timeout_s=0.05 if self.then is TimeoutError else 30)
        return registry_with_tool(post, "post", outside=True, options=terms, **more)


async def post(tools, **more):
    return await guard.call(tools, step(tool="post", writes=()), replace(SCOPE, **more))


async def test_an_effect_outside_has_a_receipt_and_is_not_repeated(opened):
    world = Outside()
    tools = world.tool()
    assert await post(tools) == await post(tools, epoch=2)
    assert world.done == [1]
    assert (await post(tools, task="fork")).ok
    assert world.done == [1, 1], "a deliberate fork makes a second one"


async def test_an_effect_outside_that_was_interrupted_is_not_repeated_but_asked_about(opened):
    """The outcome is unknown, and that is what is said."""
    world = Outside()
    began = asyncio.Event()

    async def hang(args, call):
        world.done.append(args.n)
        began.set()
        await asyncio.Event().wait()

    tools = registry_with_tool(hang, "post", outside=True)
    task = asyncio.create_task(post(tools))
    await began.wait()
    task.cancel()
    await asyncio.wait((task,))
    for _ in range(2):
        told = await post(tools, epoch=2)
        assert (told.label, told.output["retryable"]) == ("timeout_error", False)
        assert "Ask the person" in told.output["suggestion"]
    assert world.done == [1]


async def test_an_effect_outside_that_took_too_long_is_unknown(opened):
    async def hang(args, call):
        await asyncio.Event().wait()

    tools = registry_with_tool(hang, "post", outside=True, options=ToolOptions(timeout_s=0.02))
    told = await post(tools)
    assert (told.label, told.output["retryable"]) == ("timeout_error", False)
    assert "nobody knows" in told.output["error"]
    assert "may have had its effect" in (await post(tools)).output["error"]


async def test_an_effect_outside_that_may_be_repeated_is(opened):
    world = Outside()
    world.then = RuntimeError()
    tools = world.tool(idempotent=True)
    assert (await post(tools)).output["retryable"]
    world.then = None
    assert (await post(tools)).ok
    assert world.done == [1, 1]


@pytest.mark.parametrize("error", [NotReached("no route"), Invalid("no such list")])
async def test_a_call_that_did_not_get_out_may_be_made_again(opened, error):
    world = Outside()
    world.then = error
    tools = world.tool()
    assert not (await post(tools)).ok
    world.then = None
    assert (await post(tools)).ok
    assert world.done == [1]


async def test_a_failure_outside_of_which_nobody_knows_the_effect_is_not_worth_retrying(opened):
    world = Outside()
    world.then = RuntimeError()
    told = await post(world.tool())
    assert (told.label, told.output["retryable"]) == ("execution_error", False)


async def test_a_refused_call_outside_leaves_no_doubt(opened):
    """Turned away at the gate it has not happened, and is let in later."""
    world = Outside()
    tools = registry_with_tool(
        world.tool()["post"].run, "post", outside=True, options=ToolOptions(calls=1, window_s=0.05)
    )
    await guard.call(tools, step(tool="post", writes=(), call="c0"), SCOPE)
    assert (await post(tools)).label == "rate_limit_error"
    assert (await post(tools, patient=True)).ok


async def test_a_result_outside_that_comes_after_a_later_attempt_is_refused(opened):
    attempts: list[int] = []

    async def twice(args, call):
        if not attempts:
            attempts.append(1)
            assert (await post(tools, epoch=2)).ok
        return {"sent": 1}

    tools = registry_with_tool(twice, "post", outside=True, idempotent=True)
    assert (await post(tools)).output == {"sent": 1}, "the receipt of the later one is there"

    async def stolen(args, call):
        await call.artefact.revoke(call.fence)
        return {"sent": 2}

    tools = registry_with_tool(stolen, "post", outside=True)
    with pytest.raises(Fenced, match="taken over"):
        await post(tools, task="other")


async def test_a_conflict_with_a_persons_edit_is_the_models_to_resolve(opened):
    async def onto(args, call):
        tip = await call.artefact.stream_head("music")
        await call.artefact.create_version(NewVersion("music", {"n": 9}, "ana", "b"))
        return await call.write("music", {"n": 1}, result={}, expected_head=tip)

    refused = await guard.call(registry_with_tool(onto, writes=("music",)), step(), SCOPE)
    assert refused.label == "validation_error"
    assert issubclass(Conflict, Exception)
    assert await versions(opened) == ["v1"]


async def test_a_plain_function_is_carried_out_in_a_thread(opened):
    """C1: sync or async."""

    def reckon(args, scope):
        return {"n": args.n + 1, "for": scope.owner}

    outcome = await guard.call(registry_with_tool(reckon), step({"n": 4}), SCOPE)
    assert outcome.output == {"n": 5, "for": "local"}


async def test_a_call_whose_lease_ran_out_meanwhile_has_no_effect(opened):
    """X8: the process stood still between the claim and the effect, and a later attempt has the thread."""
    called = []

    async def reach_out(args, call):
        called.append(call.scope.epoch)
        return {}

    runs = Runs(opened, lease_s=0.05)
    request = request_fields(input={})
    await runs.create(RunRequest("t", "r", "g", LOCAL, request))
    attempt = await runs.claim("t", "r")
    assert isinstance(attempt, RunAttempt)
    lease = Lease(runs, attempt)
    token = LEASE.set(lease)
    tools = registry_with_tool(reach_out, outside=True)
    try:
        while not lease.has_expired:  # noqa: ASYNC110 -- the clock is the machine's
            await asyncio.sleep(0.01)
        assert (await guard.call(tools, step(writes=()), SCOPE)).ok, "nobody has taken it over"
        while not isinstance(await runs.claim("t", "r"), RunAttempt):  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0.01)
        while not lease.has_expired:  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0.01)
        with pytest.raises(Fenced):
            await guard.call(tools, step(call="c2", writes=()), SCOPE)
    finally:
        LEASE.reset(token)
        await runs.delete_all("t")
        await runs.unschedule_check("t", "r")
    assert called == [1]
