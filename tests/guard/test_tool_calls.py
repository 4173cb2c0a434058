"""Call records: one for every call, refused ones too (C29, C31, C32, C50)."""

import asyncio
from dataclasses import replace

import pytest

from callsheet.state.errors import Fenced
from callsheet.storage import tool_calls
from callsheet.storage.redis import keys
from callsheet.storage.redis.scripts import execute_all
from callsheet.storage.tool_calls import CallFilter, CallRetention
from callsheet.tools.guard import guard
from callsheet.tools.guard.attempt import abandoned_outcome
from callsheet.tools.guard.record import MAX_CHARS, close
from callsheet.tools.policy import ToolOptions
from tests.doubles.waiting import eventually
from tests.guard.guarded import SCOPE, registry_with_tool, step, write

KEPT = CallRetention(newest=3)


async def records(opened, owner="local", limit=50, **filters):
    return await tool_calls.list_calls(opened, owner, CallFilter(**filters), limit)


async def only_record(opened):
    (record,) = await records(opened)
    return record


async def test_a_call_record_has_input_output_times_and_ids(opened):
    """C12, C29, C32."""
    await guard.call(
        registry_with_tool(write, writes=("music",)), step({"n": 3}), replace(SCOPE, plan="message-1")
    )
    record = await only_record(opened)
    started, ended = record.pop("startMs"), record.pop("endMs")
    assert 0 <= ended - started < 60_000
    assert len(record.pop("id")) == 32
    assert record == {
        "conversationId": "t",
        "messageId": "message-1",
        "toolCallId": "c1",
        "toolName": "probe",
        "input": {"n": 3},
        "output": {"versionId": "v1", "status": "draft"},
        "status": "completed",
        "userId": "local",
        "runId": "r",
        "kind": "ad",
        "artefactId": "kopi",
        "tries": 1,
        "cached": False,
    }


async def fail(args, call):
    raise RuntimeError("hunter2")


async def hang(args, call):
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("run", "planned", "more", "kind", "status"),
    [
        (write, step(tool="nope"), {}, "unknown_tool", "failed"),
        (write, step({"n": -1}), {}, "validation_error", "failed"),
        (write, step(raw="{n:"), {}, "validation_error", "failed"),
        (write, step(writes=()), {"writes": ("music",)}, "permission_denied", "failed"),
        (fail, step(), {}, "execution_error", "failed"),
        (hang, step(), {"options": ToolOptions(timeout_s=0.01)}, "timeout_error", "timeout"),
        (write, step(), {"options": ToolOptions(calls=1)}, "rate_limit_error", "failed"),
    ],
)
async def test_each_of_the_six_errors_is_recorded_with_status_and_end(
    opened, run, planned, more, kind, status
):
    """C31, C32, C33-C38, C41."""
    tools = registry_with_tool(run, **more)
    if kind == "rate_limit_error":
        await guard.call(tools, step(call="c0"), SCOPE)
    outcome = await guard.call(tools, planned, SCOPE)
    (record, *_) = await records(opened, status=status)
    assert (outcome.label, record["errorType"], record["status"]) == (kind, kind, status)
    assert record["error"] == outcome.output["error"]
    assert record["retryable"] == outcome.output["retryable"]
    assert record["endMs"] >= record["startMs"]
    assert "hunter2" not in str(record)


async def test_a_call_under_way_is_recorded_as_executing_and_keeps_its_record_after_a_crash(opened):
    """C-R7: one record for one call of one message, whichever attempt executes it."""
    errors = [Fenced("lost")]

    async def probe(args, call):
        if errors:
            raise errors.pop()
        return await write(args, call)

    tools = registry_with_tool(probe, writes=("music",))
    with pytest.raises(Fenced):
        await guard.call(tools, step(), SCOPE)
    executing = await only_record(opened)
    assert (executing["status"], "endMs" in executing) == ("executing", False)
    await guard.call(tools, step(), replace(SCOPE, epoch=2))
    record = await only_record(opened)
    assert (record["status"], record["startMs"]) == ("completed", executing["startMs"])
    await guard.call(tools, step(), replace(SCOPE, plan="another-message"))
    assert len(await records(opened)) == 2


async def test_a_cancelled_call_is_recorded_as_failed(opened):
    began = asyncio.Event()

    async def probe(args, call):
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(guard.call(registry_with_tool(probe), step(), SCOPE))
    await began.wait()
    task.cancel()
    await asyncio.wait((task,))
    record = await only_record(opened)
    assert (record["status"], record["errorType"]) == ("failed", "execution_error")
    assert "cancelled" in record["error"]


async def test_a_call_that_waits_for_its_rate_limit_is_recorded_as_pending(opened):
    tools = registry_with_tool(write, writes=("music",), options=ToolOptions(calls=1, window_s=60))
    await guard.call(tools, step(call="c0"), SCOPE)
    task = asyncio.create_task(guard.call(tools, step(), replace(SCOPE, patient=True)))

    async def list_pending():
        return await records(opened, status="pending")

    await eventually(list_pending, "the call waits")
    task.cancel()
    await asyncio.wait((task,))
    assert not await list_pending()


async def test_calls_are_listed_newest_first_by_thread_tool_status_and_page(opened):
    tools = {
        **registry_with_tool(write, "one", writes=("music",)),
        **registry_with_tool(write, "two", writes=("music",)),
    }
    for i in range(6):
        name, thread = ("one", "two")[i % 2], ("t", "u")[i % 3 == 0]
        await guard.call(tools, step({"n": i}, tool=name, call=f"c{i}"), replace(SCOPE, thread=thread))
    everything = await records(opened)
    # Calls of the same millisecond are in no order of their own.
    assert sorted(record["input"]["n"] for record in everything) == list(range(6))
    starts = [record["startMs"] for record in everything]
    assert starts == sorted(starts, reverse=True)
    assert {record["input"]["n"] for record in await records(opened, thread="u")} == {0, 3}
    assert {record["input"]["n"] for record in await records(opened, tool="two")} == {1, 3, 5}
    assert {record["input"]["n"] for record in await records(opened, thread="t", tool="two")} == {1, 5}
    assert await records(opened, status="failed") == []
    first = await records(opened, limit=4)
    rest = await records(opened, before=first[-1]["id"])
    assert [*first, *rest] == everything
    assert await records(opened, before="unknown") == []
    assert await records(opened, owner="ana") == []
    assert await tool_calls.find(opened, "local", first[0]["id"]) == first[0]
    assert await tool_calls.find(opened, "ana", first[0]["id"]) is None


async def test_a_long_output_is_recorded_by_its_beginning(opened):
    async def probe(args, call):
        return {"text": "น" * 20_000}

    await guard.call(registry_with_tool(probe), step({"n": 10**9}), SCOPE)
    output = (await only_record(opened))["output"]
    assert output["truncated"]
    assert output["characters"] > 20_000
    assert len(output["beginning"]) == MAX_CHARS


async def test_only_the_newest_records_of_an_owner_are_kept_and_listed(opened):
    for i in range(5):
        fields = {"toolName": "probe", "conversationId": "t"}
        await execute_all(
            opened.redis,
            [tool_calls.write_call("local", "t", f"{i:032}", fields, ended=True, retention=KEPT)],
        )
    kept = await records(opened)
    assert len(kept) == 3
    assert {record["id"] for record in await records(opened, thread="t")} == {one["id"] for one in kept}
    for record in kept:
        await opened.redis.delete(keys.tool_call_records("local", "t", record["id"]).record)
    assert await records(opened) == []


async def test_a_call_left_executing_by_a_dead_process_is_closed_when_its_thread_continues(opened):
    """C32: no record stays "executing" after its conversation went on."""

    async def lose_lease(args, call):
        raise Fenced("lost")

    scope = replace(SCOPE, plan="message-1")
    for call in ("c1", "c2"):
        with pytest.raises(Fenced):
            await guard.call(registry_with_tool(lose_lease), step(call=call), scope)
    await close(
        opened,
        scope,
        {("message-1", "c1"): abandoned_outcome(None), ("message-1", "c9"): abandoned_outcome(None)},
    )
    status = {record["toolCallId"]: record["status"] for record in await records(opened)}
    assert status == {"c1": "failed", "c2": "executing"}


def test_an_abandoned_external_effect_is_unknown_unless_it_is_idempotent():
    outside = registry_with_tool(write, "post", outside=True)["post"]
    harmless = registry_with_tool(write, "put", outside=True, idempotent=True)["put"]
    assert [abandoned_outcome(one).label for one in (outside, harmless, None)] == [
        "timeout_error",
        "execution_error",
        "execution_error",
    ]
