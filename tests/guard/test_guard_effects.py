"""Effects of tools: on locked streams, after a cancel, and outside our storage, where none is repeated."""

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


async def test_a_call_that_writes_a_locked_stream_is_refused_and_changes_no_byte(opened):
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
    assert (await guard.call(tools, step(), SCOPE)).output["versionId"] == "v1", "the receipt is returned"


async def test_a_lock_set_while_the_tool_runs_refuses_its_write(opened):
    async def lock_and_write(args, call):
        await call.artefact.lock("music", LOCAL)
        return await write(args, call)

    refused = await guard.call(registry_with_tool(lock_and_write, writes=("music",)), step(), SCOPE)
    assert refused.label == "permission_denied"
    assert not await versions(opened)


async def test_the_late_write_of_a_cancelled_call_is_refused(opened):
    """C-R10, for a cancel by a person."""
    began, late, refused = asyncio.Event(), asyncio.Event(), asyncio.Event()
    background = []

    async def write_late(args, call):
        await late.wait()
        try:
            await write(args, call)
        except Fenced:
            refused.set()

    async def start_late_write(args, call):
        background.append(asyncio.create_task(write_late(args, call)))
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(
        guard.call(registry_with_tool(start_late_write, writes=("music",)), step(), SCOPE)
    )
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    late.set()
    async with asyncio.timeout(20):
        await refused.wait()
    assert not await versions(opened)


async def test_a_tool_that_ignores_its_cancellation_is_a_timeout_error_and_cannot_write(opened):
    """C36: its late write is refused."""
    go, done = asyncio.Event(), asyncio.Event()

    async def ignore_cancellation(args, call):
        while not go.is_set():
            with suppress(asyncio.CancelledError):
                await go.wait()
        try:
            return await write(args, call)
        finally:
            done.set()

    outcome = await guard.call(
        registry_with_tool(ignore_cancellation, writes=("music",), options=ToolOptions(timeout_s=0.05)),
        step(),
        SCOPE,
    )
    assert outcome.label == "timeout_error"
    go.set()
    await done.wait()
    assert not await versions(opened)


async def test_a_tool_that_fails_after_its_write_is_a_success(opened):
    async def write_and_fail(args, call):
        await write(args, call)
        raise RuntimeError

    outcome = await guard.call(registry_with_tool(write_and_fail, writes=("music",)), step(), SCOPE)
    assert (outcome.ok, outcome.output["versionId"]) == (True, "v1")


class ExternalService:
    """A service outside our storage that records the calls that reach it."""

    def __init__(self):
        self.calls = []
        self.error = None

    def tool(self, **more):
        async def post(args, call):
            if isinstance(self.error, NotReached | Invalid):
                raise self.error
            self.calls.append(args.n)
            if self.error:
                raise self.error
            return {"sent": args.n}

        options = ToolOptions(backoff_s=0, timeout_s=0.05 if self.error is TimeoutError else 30)
        return registry_with_tool(post, "post", outside=True, options=options, **more)


async def call_post(tools, **more):
    return await guard.call(tools, step(tool="post", writes=()), replace(SCOPE, **more))


async def test_an_external_effect_leaves_a_receipt_and_is_not_repeated(opened):
    service = ExternalService()
    tools = service.tool()
    assert await call_post(tools) == await call_post(tools, epoch=2)
    assert service.calls == [1]
    assert (await call_post(tools, task="fork")).ok
    assert service.calls == [1, 1], "a deliberate fork makes a second one"


async def test_an_interrupted_external_effect_is_reported_as_unknown_and_not_repeated(opened):
    """The error asks the model to ask the person."""
    service = ExternalService()
    began = asyncio.Event()

    async def hang(args, call):
        service.calls.append(args.n)
        began.set()
        await asyncio.Event().wait()

    tools = registry_with_tool(hang, "post", outside=True)
    task = asyncio.create_task(call_post(tools))
    await began.wait()
    task.cancel()
    await asyncio.wait((task,))
    for _ in range(2):
        outcome = await call_post(tools, epoch=2)
        assert (outcome.label, outcome.output["retryable"]) == ("timeout_error", False)
        assert "Ask the person" in outcome.output["suggestion"]
    assert service.calls == [1]


async def test_an_external_effect_over_its_time_limit_has_an_unknown_outcome(opened):
    async def hang(args, call):
        await asyncio.Event().wait()

    tools = registry_with_tool(hang, "post", outside=True, options=ToolOptions(timeout_s=0.02))
    outcome = await call_post(tools)
    assert (outcome.label, outcome.output["retryable"]) == ("timeout_error", False)
    assert "nobody knows" in outcome.output["error"]
    assert "may have had its effect" in (await call_post(tools)).output["error"]


async def test_an_idempotent_external_effect_is_repeated_after_a_failure(opened):
    service = ExternalService()
    service.error = RuntimeError()
    tools = service.tool(idempotent=True)
    assert (await call_post(tools)).output["retryable"]
    service.error = None
    assert (await call_post(tools)).ok
    assert service.calls == [1, 1]


@pytest.mark.parametrize("error", [NotReached("no route"), Invalid("no such list")])
async def test_an_external_call_that_did_not_reach_its_service_can_be_repeated(opened, error):
    service = ExternalService()
    service.error = error
    tools = service.tool()
    assert not (await call_post(tools)).ok
    service.error = None
    assert (await call_post(tools)).ok
    assert service.calls == [1]


async def test_an_external_failure_with_an_unknown_effect_is_not_retryable(opened):
    service = ExternalService()
    service.error = RuntimeError()
    outcome = await call_post(service.tool())
    assert (outcome.label, outcome.output["retryable"]) == ("execution_error", False)


async def test_a_rate_limited_external_call_did_not_happen_and_succeeds_later(opened):
    """It is refused before the service is called."""
    service = ExternalService()
    tools = registry_with_tool(
        service.tool()["post"].run, "post", outside=True, options=ToolOptions(calls=1, window_s=0.05)
    )
    await guard.call(tools, step(tool="post", writes=(), call="c0"), SCOPE)
    assert (await call_post(tools)).label == "rate_limit_error"
    assert (await call_post(tools, patient=True)).ok


async def test_an_external_result_of_an_earlier_attempt_is_refused(opened):
    attempts: list[int] = []

    async def post_in_a_later_attempt(args, call):
        if not attempts:
            attempts.append(1)
            assert (await call_post(tools, epoch=2)).ok
        return {"sent": 1}

    tools = registry_with_tool(post_in_a_later_attempt, "post", outside=True, idempotent=True)
    assert (await call_post(tools)).output == {"sent": 1}, "the receipt of the later attempt"

    async def lose_fence(args, call):
        await call.artefact.revoke(call.fence)
        return {"sent": 2}

    tools = registry_with_tool(lose_fence, "post", outside=True)
    with pytest.raises(Fenced, match="taken over"):
        await call_post(tools, task="other")


async def test_a_conflict_with_a_persons_edit_is_a_validation_error_for_the_model(opened):
    async def edit_an_outdated_version(args, call):
        head = await call.artefact.stream_head("music")
        await call.artefact.create_version(NewVersion("music", {"n": 9}, "ana", "b"))
        return await call.write("music", {"n": 1}, result={}, expected_head=head)

    refused = await guard.call(registry_with_tool(edit_an_outdated_version, writes=("music",)), step(), SCOPE)
    assert refused.label == "validation_error"
    assert issubclass(Conflict, Exception)
    assert await versions(opened) == ["v1"]


async def test_a_tool_may_be_a_synchronous_function(opened):
    """C1: sync or async."""

    def reckon(args, scope):
        return {"n": args.n + 1, "for": scope.owner}

    outcome = await guard.call(registry_with_tool(reckon), step({"n": 4}), SCOPE)
    assert outcome.output == {"n": 5, "for": "local"}


async def test_a_call_whose_thread_was_taken_over_has_no_effect(opened):
    """X8: the process stood still between the claim and the effect, and a later attempt has the thread."""
    epochs = []

    async def reach_out(args, call):
        epochs.append(call.scope.epoch)
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
    assert epochs == [1]
