"""Rate limits, circuit breakers, cached results and retries of the guard."""

import asyncio
from dataclasses import replace

import pytest
from pydantic import BaseModel

from callsheet.state.errors import DeadLink, Invalid, Limited, NotReached, SlowLink, Unavailable
from callsheet.state.owners import LOCAL
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.tool_admission import read_breakers
from callsheet.tools.guard import guard
from callsheet.tools.guard.attempt import resolve_tool
from callsheet.tools.guard.tool_environment import ToolEnvironment, use_tool_environment
from callsheet.tools.policy import ToolOptions, ToolPolicy, parse_policy
from callsheet.tools.registry import index, tool
from tests.doubles.waiting import eventually
from tests.guard.guarded import SCOPE, registry_with_tool, step, write


class FlakyTool:
    """A tool that counts its runs, and raises the given errors one after the other."""

    def __init__(self, *errors):
        self.runs = 0
        self.errors = list(errors)

    def tool(self, **more):
        async def probe(args, call):
            self.runs += 1
            if self.errors and (error := self.errors.pop(0)):
                raise error
            return {"n": args.n}

        return registry_with_tool(probe, **more)


async def call_tool(tools, call="c1", scope=SCOPE, **params):
    return (await guard.call(tools, step(params, call=call), scope)).label


async def read_breaker(opened, tools):
    item = tools["probe"]
    return (await read_breakers(opened, [resolve_tool(item, ToolPolicy()).limits], "local"))["probe"]


async def breaker_is(opened, tools, state):
    return (await read_breaker(opened, tools)).state == state


TWO_CALLS = ToolOptions(calls=2, window_s=30)


async def test_a_call_over_the_rate_limit_is_refused_with_the_seconds_to_wait(opened):
    """C37, C48: per owner and per tool; refused calls are not counted."""
    flaky = FlakyTool()
    tools = flaky.tool(options=replace(TWO_CALLS, cache_s=0))
    assert [await call_tool(tools, f"c{i}") for i in range(4)] == [
        "ok",
        "ok",
        "rate_limit_error",
        "rate_limit_error",
    ]
    outcome = await guard.call(tools, step(call="c9"), SCOPE)
    assert outcome.output["retryable"]
    assert 0 < outcome.output["details"]["retryAfterSeconds"] <= 30
    assert "may be called 2 times in 30 s" in outcome.output["error"]
    assert (
        await call_tool(tools, scope=replace(SCOPE, owner="ana", artefact="anas"), adId="kopi")
        == "permission_denied"
    )
    other_owner = replace(SCOPE, owner="ana")
    assert await call_tool(tools, scope=other_owner) == "ok"
    assert flaky.runs == 3


@pytest.mark.parametrize("more", [{}, {"outside": True}])
async def test_a_rate_limit_applies_to_a_tool_without_a_breaker(opened, more):
    """C48: `failures` 0 is no breaker, and the calls count all the same."""
    tools = FlakyTool().tool(options=replace(TWO_CALLS, cache_s=0 if not more else None, failures=0), **more)
    assert [await call_tool(tools, f"c{i}") for i in range(3)] == ["ok", "ok", "rate_limit_error"]


async def test_tools_with_the_same_rate_key_share_a_limit(opened):
    """C1: rateLimitKey."""
    one, two = FlakyTool(), FlakyTool()
    first = one.tool(rate_key="vendor", options=TWO_CALLS, name="one")
    second = two.tool(rate_key="vendor", options=TWO_CALLS, name="two")
    results = [
        (await guard.call(tools, step({"n": i}, tool=name, call=f"{name}{i}"), SCOPE)).label
        for i in range(2)
        for name, tools in (("one", first), ("two", second))
    ]
    assert results == ["ok", "ok", "rate_limit_error", "rate_limit_error"]


async def test_a_repeated_call_is_not_counted_twice(opened):
    """After a crash the same step must not wait for itself."""
    tools = FlakyTool().tool(options=ToolOptions(calls=1, window_s=30, cache_s=0))
    assert [await call_tool(tools, "c1") for _ in range(3)] == ["ok", "ok", "ok"]
    assert await call_tool(tools, "c2") == "rate_limit_error"


async def test_a_call_refused_for_a_lock_or_answered_by_its_receipt_is_not_counted(opened):
    """C48: both are counted at first, and then withdrawn."""
    tools = registry_with_tool(write, writes=("music",), options=ToolOptions(calls=2, window_s=30))
    music = Artefact(opened, "ad", "kopi", LOCAL)
    assert await call_tool(tools, "c1") == "ok"
    await opened.redis.delete("tool:{probe}:calls:local")
    assert [await call_tool(tools, "c1") for _ in range(3)] == ["ok"] * 3, "the receipt"
    await music.lock("music", LOCAL)
    assert [await call_tool(tools, f"c{i}") for i in range(2, 6)] == ["permission_denied"] * 4
    await music.unlock("music")
    assert [await call_tool(tools, f"c{i}") for i in range(6, 9)] == ["ok", "ok", "rate_limit_error"]
    assert await call_tool(tools, "c6") == "ok"
    assert await call_tool(tools, "c9") == "rate_limit_error", "earlier calls stay counted"


async def test_a_call_refused_for_a_lock_does_not_use_up_the_trial_of_a_half_open_breaker(opened):
    """C46: the next call may be the trial."""
    flaky = FlakyTool(RuntimeError("down"))
    tools = flaky.tool(writes=("music",), options=ToolOptions(failures=1, rest_s=0.05))
    music = Artefact(opened, "ad", "kopi", LOCAL)
    assert await call_tool(tools, "c0") == "execution_error"
    await music.lock("music", LOCAL)
    await eventually(lambda: breaker_is(opened, tools, "half-open"), "the end of the rest")
    assert await call_tool(tools, "c1") == "permission_denied"
    await music.unlock("music")
    assert (await call_tool(tools, "c2"), flaky.runs) == ("ok", 2)


async def test_a_rate_limited_step_of_a_plan_waits_instead_of_failing(opened):
    tools = FlakyTool().tool(options=ToolOptions(calls=1, window_s=0.2, cache_s=0))
    patient = replace(SCOPE, patient=True)
    outcomes = await asyncio.gather(*(guard.call(tools, step(call=f"c{i}"), patient) for i in range(3)))
    assert [outcome.label for outcome in outcomes] == ["ok", "ok", "ok"]


async def test_five_failures_in_a_row_open_the_breaker_and_one_success_closes_it(opened):
    """C46, C-R4: an open breaker refuses without calling the tool; half-open, it lets one call try."""
    flaky = FlakyTool(*[RuntimeError("down")] * 6)
    tools = flaky.tool(options=ToolOptions(rest_s=0.3, cache_s=0))
    assert [await call_tool(tools, f"c{i}") for i in range(5)] == ["execution_error"] * 5
    refused = await guard.call(tools, step(call="c5"), SCOPE)
    assert (refused.label, refused.output["retryable"], flaky.runs) == ("execution_error", True, 5)
    assert "rests" in refused.output["error"]
    assert await breaker_is(opened, tools, "open")
    await eventually(lambda: breaker_is(opened, tools, "half-open"), "the end of the rest")
    assert await call_tool(tools, "c6") == "execution_error"
    assert flaky.runs == 6
    assert await breaker_is(opened, tools, "open"), "the trial has failed"
    await eventually(lambda: breaker_is(opened, tools, "half-open"), "the end of the second rest")
    assert await call_tool(tools, "c7") == "ok"
    assert (await read_breaker(opened, tools)).failures == 0


async def test_a_half_open_breaker_refuses_other_calls_while_one_tries(opened):
    errors = [RuntimeError("down")]
    began, go = asyncio.Event(), asyncio.Event()

    async def probe(args, call):
        if errors:
            raise errors.pop()
        began.set()
        await go.wait()
        return {}

    tools = registry_with_tool(probe, options=ToolOptions(failures=1, rest_s=0.05, cache_s=0))
    assert await call_tool(tools, "c0") == "execution_error"

    async def try_call():
        task = asyncio.create_task(call_tool(tools, "c1"))
        done, _ = await asyncio.wait((task, asyncio.create_task(began.wait())), return_when="FIRST_COMPLETED")
        return None if task in done else task

    async with asyncio.timeout(20):
        while (task := await try_call()) is None:
            pass
    assert await call_tool(tools, "c2") == "execution_error"
    go.set()
    assert await task == "ok"
    assert await call_tool(tools, "c3") == "ok"


async def test_the_breaker_of_one_owner_refuses_no_calls_of_another(opened):
    """C46: one owner's trouble is no one else's."""
    flaky = FlakyTool(*[RuntimeError("down")] * 5)
    tools = flaky.tool(options=ToolOptions(cache_s=0))
    assert [await call_tool(tools, f"c{i}") for i in range(6)] == ["execution_error"] * 6
    assert flaky.runs == 5
    other_owner = replace(SCOPE, owner="ana", artefact="anas")
    assert await call_tool(tools, "c6", other_owner, adId="anas") == "ok"
    assert await breaker_is(opened, tools, "open")


async def test_failures_of_different_services_are_not_in_a_row(opened):
    """C46: the breaker counts by the service that failed, and by tool where none is named."""
    errors = [Unavailable("away") for _ in range(9)]
    for number, error in enumerate(errors):
        error.service = "one" if number < 4 else "two"
    tools = FlakyTool(*errors).tool(options=ToolOptions(cache_s=0, tries=1))
    for number in range(8):
        await call_tool(tools, f"c{number}")
    assert await breaker_is(opened, tools, "closed")
    await call_tool(tools, "c8")
    assert await breaker_is(opened, tools, "open")


async def test_a_deadline_after_retries_of_a_dead_link_is_not_a_failure_of_the_tool(opened):
    """C46: three tries at a slow link take longer than the tool may."""

    async def probe(args, call):
        raise SlowLink("'https://slow.example' did not answer")

    options = ToolOptions(failures=1, cache_s=0, tries=2, backoff_s=60, timeout_s=0.5)
    tools = registry_with_tool(probe, options=options)
    assert [await call_tool(tools, f"c{i}") for i in range(2)] == ["timeout_error"] * 2
    assert await breaker_is(opened, tools, "closed")


@pytest.mark.parametrize("error", [Invalid("no"), Limited("later"), DeadLink("no answer"), SlowLink("late")])
async def test_an_error_caused_by_the_request_is_not_a_failure_of_the_tool(opened, error):
    tools = FlakyTool(error, error).tool(options=ToolOptions(failures=1, cache_s=0, tries=1))
    await call_tool(tools, "c1")
    await call_tool(tools, "c2")
    assert await call_tool(tools, "c3") == "ok"


async def test_a_breaker_or_rate_limit_of_zero_is_off(opened):
    tools = FlakyTool(*[RuntimeError()] * 7).tool(options=ToolOptions(failures=0, calls=0, cache_s=0))
    assert [await call_tool(tools, f"c{i}") for i in range(8)] == ["execution_error"] * 7 + ["ok"]


async def test_a_repeated_lookup_is_answered_from_the_cache(opened):
    """C47: the same arguments about the same artefact by the same owner, and for a while only."""
    flaky = FlakyTool()
    tools = flaky.tool(options=ToolOptions(cache_s=0.2))
    first = await guard.call(tools, step(call="c1"), SCOPE)
    again = await guard.call(tools, step(call="c2"), SCOPE)
    assert (first, flaky.runs) == (again, 1)
    for scope in (replace(SCOPE, owner="ana"), replace(SCOPE, artefact="tea"), replace(SCOPE, selected="e1")):
        assert await call_tool(tools, "c1", scope, adId=scope.artefact) == "ok"
    assert await call_tool(tools, "c3", n=2) == "ok"
    assert flaky.runs == 5

    async def cache_has_expired():
        await call_tool(tools, "c4")
        return flaky.runs == 6

    await eventually(cache_has_expired, "the end of the cached result's lifetime")


async def test_a_result_cached_for_one_artefact_is_not_used_for_another(opened):
    """C47, B23: also where the artefact is named by the scope alone, not by an argument."""

    class LookupArgs(BaseModel):
        n: int = 1

    @tool(schema=LookupArgs, display="Looking")
    async def about(args, call):
        """Say what the conversation is about."""
        return {"kind": call.scope.kind, "id": call.scope.artefact}

    tools = index(probes=[about])
    for scope in (SCOPE, replace(SCOPE, artefact="tea"), replace(SCOPE, kind="page")):
        for call in ("c1", "c2"):
            outcome = await guard.call(tools, step(tool="about", writes=(), call=call), scope)
            assert outcome.output == {"kind": scope.kind, "id": scope.artefact}


async def test_a_tool_that_reads_or_writes_versions_or_acts_outside_is_never_cached(opened):
    """C-R5, also with an operator's options for all tools."""
    for more in ({"writes": ("music",)}, {"reads": ("music",)}, {"outside": True}):
        runs: list[int] = []

        async def probe(args, call, runs=runs):
            runs.append(1)
            return {}

        tools = registry_with_tool(probe, name=f"probe_{next(iter(more))}", **more)
        name = next(iter(tools))
        for call in ("c1", "c2"):
            assert (await guard.call(tools, step(tool=name, call=f"{call}{name}"), SCOPE)).ok
        assert len(runs) == 2


async def test_a_retryable_error_is_tried_three_times_with_pauses(opened):
    """C45, C-R4."""
    flaky = FlakyTool(Unavailable("away"), Unavailable("away"))
    tools = flaky.tool(options=ToolOptions(backoff_s=0.01))
    assert await call_tool(tools) == "ok"
    assert flaky.runs == 3
    flaky.errors = [Unavailable("away")] * 3
    assert await call_tool(tools, "c2", n=2) == "execution_error"
    assert flaky.runs == 6


async def test_an_unexpected_error_is_not_retried(opened):
    flaky = FlakyTool(RuntimeError())
    assert await call_tool(flaky.tool()) == "execution_error"
    assert flaky.runs == 1


async def test_a_write_is_retried_with_a_new_fence_and_happens_once(opened):
    """C-R6: the receipt tells whether the first try had its effect."""
    runs = []

    async def probe(args, call):
        runs.append(call.fence)
        if len(runs) == 2:
            await write(args, call)
        raise Unavailable("away")

    tools = registry_with_tool(probe, writes=("music",), options=ToolOptions(backoff_s=0))
    outcome = await guard.call(tools, step(), SCOPE)
    assert outcome.output == {"versionId": "v1", "status": "draft"}
    assert len(runs) == 2
    assert runs[0] != runs[1]
    assert len((await Artefact(opened, "ad", "kopi", LOCAL).stream("music")).versions) == 1


@pytest.mark.parametrize(
    ("more", "error", "runs"),
    [
        ({}, Unavailable("away"), 1),
        ({}, NotReached("no route"), 3),
        ({"idempotent": True}, Unavailable("away"), 3),
    ],
)
async def test_an_external_effect_is_retried_only_if_it_cannot_happen_twice(opened, more, error, runs):
    """C-R6."""
    flaky = FlakyTool(*[error] * 3)
    outcome = await guard.call(
        flaky.tool(outside=True, options=ToolOptions(backoff_s=0), **more), step(), SCOPE
    )
    assert (outcome.label, flaky.runs) == ("execution_error", runs)
    assert outcome.output["retryable"] == (runs == 3)


async def test_a_result_over_the_size_limit_is_refused(opened):
    """C53."""

    async def probe(args, call):
        return {"text": "x" * args.n}

    tools = registry_with_tool(probe, options=ToolOptions(output_bytes=100, failures=1))
    outcome = await guard.call(tools, step({"n": 200}), SCOPE)
    assert (outcome.label, outcome.output["retryable"]) == ("execution_error", False)
    assert "over its limit of 100" in outcome.output["error"]
    assert await call_tool(tools, "c2", n=3) == "ok"


async def test_a_result_that_is_no_json_is_an_unexpected_error(opened):
    async def probe(args, call):
        return {"x": float("nan")}

    assert await call_tool(registry_with_tool(probe)) == "execution_error"


async def test_an_owner_without_the_tools_permissions_is_refused_and_a_pattern_grants_them(opened):
    """C1, C3, C34, C-R1: everything is granted unless the operator says otherwise."""
    tools = FlakyTool().tool(permissions=("page:write", "net"), options=ToolOptions(cache_s=0))
    policy = parse_policy({}, {"local": ["page:*"], "ana": ["page:*", "net"], "*": []})
    assert await call_tool(tools, scope=replace(SCOPE, owner="bob")) == "ok"
    with use_tool_environment(ToolEnvironment(policy)):
        refused = await guard.call(tools, step(call="c2"), SCOPE)
        assert refused.label == "permission_denied"
        assert "net, page:write" in refused.output["error"]
        assert await call_tool(tools, scope=replace(SCOPE, owner="bob", artefact="b")) == "permission_denied"
        assert await call_tool(tools, scope=replace(SCOPE, owner="ana", artefact="c")) == "ok"


async def test_options_of_the_operator_override_those_of_a_tool(opened):
    tools = FlakyTool().tool(options=TWO_CALLS)
    with use_tool_environment(ToolEnvironment(ToolPolicy({"probe": ToolOptions(calls=1)}))):
        assert [await call_tool(tools, f"c{i}", n=i) for i in range(2)] == ["ok", "rate_limit_error"]
