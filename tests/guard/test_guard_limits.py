"""How often a tool may be called, when it rests, what is remembered, and what is tried again."""

import asyncio
from dataclasses import replace

import pytest
from pydantic import BaseModel

from callsheet.state.errors import Invalid, Limited, NotReached, Unavailable
from callsheet.state.owners import LOCAL
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.tool_admission import read_breakers
from callsheet.tools.guard import guard
from callsheet.tools.guard.application import ToolEnvironment, use_application
from callsheet.tools.guard.attempt import resolve_tool
from callsheet.tools.policy import ToolOptions, ToolPolicy, parse_policy
from callsheet.tools.registry import index, tool
from tests.doubles.waiting import eventually
from tests.guard.guarded import SCOPE, registry_with_tool, step, write


class Told:
    """A tool that counts its runs, and fails while it is told to."""

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


async def kind(tools, call="c1", scope=SCOPE, **params):
    return (await guard.call(tools, step(params, call=call), scope)).label


async def breaker(opened, tools):
    item = tools["probe"]
    return (await read_breakers(opened, [resolve_tool(item, ToolPolicy()).limits]))["probe"]


async def stands(opened, tools, state):
    return (await breaker(opened, tools)).state == state


FEW = ToolOptions(calls=2, window_s=30)


async def test_a_call_over_the_limit_is_refused_and_told_when_to_come_again(opened):
    """C37, C48: per person and per tool; what was refused is not counted."""
    told = Told()
    tools = told.tool(options=replace(FEW, cache_s=0))
    assert [await kind(tools, f"c{i}") for i in range(4)] == [
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
        await kind(tools, scope=replace(SCOPE, owner="ana", artefact="anas"), adId="kopi")
        == "permission_denied"
    )
    theirs = replace(SCOPE, owner="ana")
    assert await kind(tools, scope=theirs) == "ok"
    assert told.runs == 3


@pytest.mark.parametrize("more", [{}, {"outside": True}])
async def test_a_limit_holds_for_a_tool_without_a_breaker(opened, more):
    """C48: `failures` 0 is no breaker, and the calls count all the same."""
    tools = Told().tool(options=replace(FEW, cache_s=0 if not more else None, failures=0), **more)
    assert [await kind(tools, f"c{i}") for i in range(3)] == ["ok", "ok", "rate_limit_error"]


async def test_tools_with_one_rate_key_share_a_limit(opened):
    """C1: rateLimitKey."""
    one, two = Told(), Told()
    first = one.tool(rate_key="vendor", options=FEW, name="one")
    second = two.tool(rate_key="vendor", options=FEW, name="two")
    results = [
        (await guard.call(tools, step({"n": i}, tool=name, call=f"{name}{i}"), SCOPE)).label
        for i in range(2)
        for name, tools in (("one", first), ("two", second))
    ]
    assert results == ["ok", "ok", "rate_limit_error", "rate_limit_error"]


async def test_a_call_that_was_counted_and_comes_again_is_not_counted_twice(opened):
    """After a crash the same step must not wait for itself."""
    tools = Told().tool(options=ToolOptions(calls=1, window_s=30, cache_s=0))
    assert [await kind(tools, "c1") for _ in range(3)] == ["ok", "ok", "ok"]
    assert await kind(tools, "c2") == "rate_limit_error"


async def test_a_call_that_is_not_made_counts_for_nothing(opened):
    """C48: one refused for a lock, and one that has its receipt, ask the gate and are withdrawn."""
    tools = registry_with_tool(write, writes=("music",), options=ToolOptions(calls=2, window_s=30))
    music = Artefact(opened, "ad", "kopi", LOCAL)
    assert await kind(tools, "c1") == "ok"
    await opened.redis.delete("tool:{probe}:calls:local")
    assert [await kind(tools, "c1") for _ in range(3)] == ["ok"] * 3, "the receipt"
    await music.lock("music", LOCAL)
    assert [await kind(tools, f"c{i}") for i in range(2, 6)] == ["permission_denied"] * 4
    await music.unlock("music")
    assert [await kind(tools, f"c{i}") for i in range(6, 9)] == ["ok", "ok", "rate_limit_error"]
    assert await kind(tools, "c6") == "ok"
    assert await kind(tools, "c9") == "rate_limit_error", "what was counted before stays so"


async def test_a_call_that_is_not_made_does_not_try_a_rested_tool(opened):
    """C46: whoever comes next may try it."""
    told = Told(RuntimeError("down"))
    tools = told.tool(writes=("music",), options=ToolOptions(failures=1, rest_s=0.05))
    music = Artefact(opened, "ad", "kopi", LOCAL)
    assert await kind(tools, "c0") == "execution_error"
    await music.lock("music", LOCAL)
    await eventually(lambda: stands(opened, tools, "half-open"), "the end of the rest")
    assert await kind(tools, "c1") == "permission_denied"
    await music.unlock("music")
    assert (await kind(tools, "c2"), told.runs) == ("ok", 2)


async def test_a_limited_step_of_a_plan_waits_for_its_turn(opened):
    tools = Told().tool(options=ToolOptions(calls=1, window_s=0.2, cache_s=0))
    patient = replace(SCOPE, patient=True)
    outcomes = await asyncio.gather(*(guard.call(tools, step(call=f"c{i}"), patient) for i in range(3)))
    assert [outcome.label for outcome in outcomes] == ["ok", "ok", "ok"]


async def test_five_failures_in_a_row_let_a_tool_rest_and_one_good_call_wakes_it(opened):
    """C46, C-R4: refused while it rests without being run; then one call tries, and closes it."""
    told = Told(*[RuntimeError("down")] * 6)
    tools = told.tool(options=ToolOptions(rest_s=0.3, cache_s=0))
    assert [await kind(tools, f"c{i}") for i in range(5)] == ["execution_error"] * 5
    refused = await guard.call(tools, step(call="c5"), SCOPE)
    assert (refused.label, refused.output["retryable"], told.runs) == ("execution_error", True, 5)
    assert "rests" in refused.output["error"]
    assert await stands(opened, tools, "open")
    await eventually(lambda: stands(opened, tools, "half-open"), "the end of the rest")
    assert await kind(tools, "c6") == "execution_error"
    assert told.runs == 6
    assert await stands(opened, tools, "open"), "the one that tried has failed"
    await eventually(lambda: stands(opened, tools, "half-open"), "the end of the second rest")
    assert await kind(tools, "c7") == "ok"
    assert (await breaker(opened, tools)).failures == 0


async def test_while_one_call_tries_a_rested_tool_others_are_refused(opened):
    errors = [RuntimeError("down")]
    began, go = asyncio.Event(), asyncio.Event()

    async def probe(args, call):
        if errors:
            raise errors.pop()
        began.set()
        await go.wait()
        return {}

    tools = registry_with_tool(probe, options=ToolOptions(failures=1, rest_s=0.05, cache_s=0))
    assert await kind(tools, "c0") == "execution_error"

    async def trying():
        task = asyncio.create_task(kind(tools, "c1"))
        done, _ = await asyncio.wait((task, asyncio.create_task(began.wait())), return_when="FIRST_COMPLETED")
        return None if task in done else task

    async with asyncio.timeout(5):
        while (task := await trying()) is None:
            pass
    assert await kind(tools, "c2") == "execution_error"
    go.set()
    assert await task == "ok"
    assert await kind(tools, "c3") == "ok"


@pytest.mark.parametrize("error", [Invalid("no"), Limited("later")])
async def test_what_the_question_is_to_blame_for_is_no_failure_of_the_tool(opened, error):
    tools = Told(error, error).tool(options=ToolOptions(failures=1, cache_s=0))
    await kind(tools, "c1")
    await kind(tools, "c2")
    assert await kind(tools, "c3") == "ok"


async def test_a_breaker_or_limit_of_nought_is_none(opened):
    tools = Told(*[RuntimeError()] * 7).tool(options=ToolOptions(failures=0, calls=0, cache_s=0))
    assert [await kind(tools, f"c{i}") for i in range(8)] == ["execution_error"] * 7 + ["ok"]


async def test_the_same_look_up_is_answered_from_what_is_remembered(opened):
    """C47: for the same question about the same thing by the same person, and for its time only."""
    told = Told()
    tools = told.tool(options=ToolOptions(cache_s=0.2))
    first = await guard.call(tools, step(call="c1"), SCOPE)
    again = await guard.call(tools, step(call="c2"), SCOPE)
    assert (first, told.runs) == (again, 1)
    for scope in (replace(SCOPE, owner="ana"), replace(SCOPE, artefact="tea"), replace(SCOPE, selected="e1")):
        assert await kind(tools, "c1", scope, adId=scope.artefact) == "ok"
    assert await kind(tools, "c3", n=2) == "ok"
    assert told.runs == 5

    async def asked_anew():
        await kind(tools, "c4")
        return told.runs == 6

    await eventually(asked_anew, "the end of the remembered time")


async def test_what_is_remembered_of_one_thing_is_no_answer_about_another(opened):
    """C47, B23: where no argument says which, only the conversation does."""

    class Asked(BaseModel):
        n: int = 1

    @tool(schema=Asked, display="Looking")
    async def about(args, call):
        """Say what the conversation is about."""
        return {"kind": call.scope.kind, "id": call.scope.artefact}

    tools = index(probes=[about])
    for scope in (SCOPE, replace(SCOPE, artefact="tea"), replace(SCOPE, kind="page")):
        for call in ("c1", "c2"):
            outcome = await guard.call(tools, step(tool="about", writes=(), call=call), scope)
            assert outcome.output == {"kind": scope.kind, "id": scope.artefact}


async def test_what_writes_or_reads_versions_or_acts_outside_is_never_remembered(opened):
    """C-R5, whatever an operator says of all tools."""
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


async def test_what_is_worth_another_try_is_tried_three_times_with_pauses(opened):
    """C45, C-R4."""
    told = Told(Unavailable("away"), Unavailable("away"))
    tools = told.tool(options=ToolOptions(backoff_s=0.01))
    assert await kind(tools) == "ok"
    assert told.runs == 3
    told.errors = [Unavailable("away")] * 3
    assert await kind(tools, "c2", n=2) == "execution_error"
    assert told.runs == 6


async def test_a_bug_is_not_tried_again(opened):
    told = Told(RuntimeError())
    assert await kind(told.tool()) == "execution_error"
    assert told.runs == 1


async def test_a_write_is_tried_again_under_a_new_fence_and_happens_once(opened):
    """C-R6: the receipt says whether the first try had its effect."""
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
async def test_an_effect_outside_is_tried_again_only_where_it_cannot_happen_twice(opened, more, error, runs):
    """C-R6."""
    told = Told(*[error] * 3)
    outcome = await guard.call(
        told.tool(outside=True, options=ToolOptions(backoff_s=0), **more), step(), SCOPE
    )
    assert (outcome.label, told.runs) == ("execution_error", runs)
    assert outcome.output["retryable"] == (runs == 3)


async def test_a_result_over_its_limit_is_refused(opened):
    """C53."""

    async def probe(args, call):
        return {"text": "x" * args.n}

    tools = registry_with_tool(probe, options=ToolOptions(output_bytes=100, failures=1))
    outcome = await guard.call(tools, step({"n": 200}), SCOPE)
    assert (outcome.label, outcome.output["retryable"]) == ("execution_error", False)
    assert "over its limit of 100" in outcome.output["error"]
    assert await kind(tools, "c2", n=3) == "ok"


async def test_a_result_that_is_no_json_is_an_unexpected_error(opened):
    async def probe(args, call):
        return {"x": float("nan")}

    assert await kind(registry_with_tool(probe)) == "execution_error"


async def test_who_lacks_a_permission_is_refused_and_who_has_a_pattern_of_it_is_not(opened):
    """C1, C3, C34, C-R1: everything is granted unless the operator says otherwise."""
    tools = Told().tool(permissions=("page:write", "net"), options=ToolOptions(cache_s=0))
    policy = parse_policy({}, {"local": ["page:*"], "ana": ["page:*", "net"], "*": []})
    assert await kind(tools, scope=replace(SCOPE, owner="bob")) == "ok"
    with use_application(ToolEnvironment(policy)):
        refused = await guard.call(tools, step(call="c2"), SCOPE)
        assert refused.label == "permission_denied"
        assert "net, page:write" in refused.output["error"]
        assert await kind(tools, scope=replace(SCOPE, owner="bob", artefact="b")) == "permission_denied"
        assert await kind(tools, scope=replace(SCOPE, owner="ana", artefact="c")) == "ok"


async def test_an_operators_terms_hold_for_a_tool(opened):
    tools = Told().tool(options=FEW)
    with use_application(ToolEnvironment(ToolPolicy({"probe": ToolOptions(calls=1)}))):
        assert [await kind(tools, f"c{i}", n=i) for i in range(2)] == ["ok", "rate_limit_error"]
