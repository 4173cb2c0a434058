"""The guard: the order of its checks, its six types of errors, its fences."""

import asyncio
from contextlib import contextmanager

import pytest

from callsheet.state.errors import (
    Broken,
    Fenced,
    Forbidden,
    Invalid,
    Limited,
    StorageDown,
    TimedOut,
    Unavailable,
)
from callsheet.state.owners import LOCAL
from callsheet.storage import tool_calls
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.tool_calls import CallFilter
from callsheet.tools.guard import guard
from callsheet.tools.guard.outcome import SUGGESTION, tool_message
from callsheet.tools.guard.tool_environment import NoCounters, ToolEnvironment, use_tool_environment
from callsheet.tools.policy import ToolOptions
from tests.guard.guarded import SCOPE, registry_with_tool, step, write


async def versions(opened):
    return (await Artefact(opened, "ad", "kopi", LOCAL).stream("music")).versions


async def test_an_unknown_tool_is_refused_with_the_names_of_known_tools(opened):
    """A25, C38."""
    outcome = await guard.call(registry_with_tool(write), step(tool="nope"), SCOPE)
    assert outcome.output == {
        "error": "Unknown tool: nope",
        "suggestion": "Use one of: probe",
        "type": "unknown_tool",
        "retryable": False,
    }


@pytest.mark.parametrize("params", [{"n": "many"}, {"n": -1}, {"n": [1]}])
async def test_arguments_that_break_the_schema_are_refused_without_calling_the_tool(opened, params):
    """C33, C49."""

    async def must_not_run(args, call):
        raise AssertionError

    outcome = await guard.call(registry_with_tool(must_not_run), step(params), SCOPE)
    assert outcome.output["type"] == "validation_error"
    assert next(iter(params)) in outcome.output["error"]
    assert outcome.output["suggestion"].startswith("Call it again in this form: {")


async def test_raw_arguments_are_repaired_and_then_validated(opened):
    """C42."""
    tools = registry_with_tool(write, writes=("music",))
    assert (await guard.call(tools, step(raw="{n: 4,}"), SCOPE)).output["versionId"] == "v1"
    assert (await guard.call(tools, step(raw="{n: "), SCOPE)).output["type"] == "validation_error"
    assert [version.data for version in await versions(opened)] == [{"n": 4}]


async def test_arguments_that_name_another_artefact_are_refused(opened):
    """C34, B23: the artefact is set by the server."""
    outcome = await guard.call(registry_with_tool(write, writes=("music",)), step({"adId": "theirs"}), SCOPE)
    assert outcome.output["type"] == "permission_denied"
    assert "'kopi'" in outcome.output["suggestion"]
    assert not await versions(opened)


async def test_a_write_outside_the_steps_write_set_is_refused(opened):
    outcome = await guard.call(registry_with_tool(write, writes=("music",)), step(writes=()), SCOPE)
    assert outcome.output["type"] == "permission_denied"
    assert not await versions(opened)


async def test_a_write_to_a_stream_that_the_tool_did_not_declare_is_refused(opened):
    outcome = await guard.call(
        registry_with_tool(write, writes=("voices",)), step(writes=("voices", "music")), SCOPE
    )
    assert outcome.output["type"] == "permission_denied"
    assert not await versions(opened)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (Invalid("no", remedy="do so"), "validation_error", False),
        (Forbidden("no"), "permission_denied", False),
        (Limited("no"), "rate_limit_error", True),
        (TimedOut("no"), "timeout_error", True),
        (Unavailable("no"), "execution_error", True),
        (Broken("no"), "execution_error", True),
    ],
)
async def test_an_error_raised_by_a_tool_becomes_one_of_six_error_types(opened, error, kind, retryable):
    """C33, C34, C35, C36, C37, C39."""

    async def fail(args, call):
        raise error

    output = (await guard.call(registry_with_tool(fail), step(), SCOPE)).output
    assert (output["type"], output["retryable"], output["error"]) == (kind, retryable, "no")
    assert output["suggestion"] == (error.remedy or SUGGESTION)


async def test_details_of_an_error_reach_the_model(opened):
    async def fail(args, call):
        raise Invalid("no", details={"valid": "0 to 2"})

    assert (await guard.call(registry_with_tool(fail), step(), SCOPE)).output["details"] == {
        "valid": "0 to 2"
    }


async def test_an_unexpected_error_is_logged_and_hidden_from_the_model(opened, caplog):
    """C41."""

    async def fail(args, call):
        raise RuntimeError("the password is hunter2")

    output = (await guard.call(registry_with_tool(fail), step(), SCOPE)).output
    assert output["error"] == "An unexpected error occurred during tool execution"
    assert "hunter2" not in str(output)
    assert "probe failed on thread t" in caplog.text


@pytest.mark.parametrize("error", [StorageDown("away"), Fenced("lost")])
async def test_a_storage_outage_or_a_lost_lease_ends_the_attempt(opened, error):
    async def fail(args, call):
        raise error

    with pytest.raises(type(error)):
        await guard.call(registry_with_tool(fail), step(), SCOPE)


async def test_a_repeated_step_returns_its_receipt_without_calling_the_tool(opened):
    runs = []

    async def count_and_write(args, call):
        runs.append(1)
        return await write(args, call)

    tools = registry_with_tool(count_and_write, writes=("music",))
    first = await guard.call(tools, step(), SCOPE)
    again = await guard.call(tools, step(), SCOPE)
    assert first == again
    assert runs == [1]
    assert len(await versions(opened)) == 1


async def test_a_tool_over_its_time_limit_is_a_timeout_error_and_its_late_write_is_refused(opened):
    """C36, C-R10: the tool tries to write after its timeout."""
    late = asyncio.Event()
    refused = asyncio.Event()

    async def write_late(args, call):
        await late.wait()
        try:
            await write(args, call)
        except Fenced:
            refused.set()

    async def start_late_write(args, call):
        background.append(asyncio.create_task(write_late(args, call)))
        await asyncio.Event().wait()

    background = []
    outcome = await guard.call(
        registry_with_tool(start_late_write, writes=("music",), options=ToolOptions(timeout_s=0.05)),
        step(),
        SCOPE,
    )
    assert outcome.output["type"] == "timeout_error"
    assert outcome.output["retryable"]
    late.set()
    async with asyncio.timeout(20):
        await refused.wait()
    assert not await versions(opened)


async def test_a_tool_that_times_out_after_its_write_is_a_success(opened):
    async def write_and_hang(args, call):
        await write(args, call)
        await asyncio.Event().wait()

    outcome = await guard.call(
        registry_with_tool(write_and_hang, writes=("music",), options=ToolOptions(timeout_s=0.3)),
        step(),
        SCOPE,
    )
    assert outcome.ok
    assert outcome.output["versionId"] == "v1"


async def test_a_read_over_its_time_limit_is_a_timeout_error(opened):
    async def hang(args, call):
        await asyncio.Event().wait()

    outcome = await guard.call(
        registry_with_tool(hang, options=ToolOptions(timeout_s=0.01)), step(writes=()), SCOPE
    )
    assert outcome.output["type"] == "timeout_error"


class RecordingCounters(NoCounters):
    """Counters that only record."""

    def __init__(self):
        self.counts = []

    @contextmanager
    def call(self, tool, scope):
        outcome = ["aborted"]
        try:
            yield outcome.append
        finally:
            self.counts.append((tool, outcome[-1]))

    def count_lookup(self, tool, *, hit):
        self.counts.append((tool, hit))


async def test_every_call_is_counted_by_its_outcome(opened):
    """C39, C54: refused and aborted calls too; an invented tool name counts as `unknown`."""

    async def lose_lease(args, call):
        raise Fenced("lost")

    counters = RecordingCounters()
    with use_tool_environment(ToolEnvironment(counters=counters)):
        await guard.call(registry_with_tool(write, writes=("music",)), step(), SCOPE)
        await guard.call(registry_with_tool(write, writes=("music",)), step({"n": -1}), SCOPE)
        await guard.call(registry_with_tool(write), step(tool="made_up_4711"), SCOPE)
        with pytest.raises(Fenced):
            await guard.call(registry_with_tool(lose_lease), step(), SCOPE)
    assert counters.counts == [
        ("probe", "ok"),
        ("probe", "validation_error"),
        ("unknown", "unknown_tool"),
        ("probe", "aborted"),
    ]


HALF = "half \ud800 of a pair"


@pytest.mark.parametrize(
    ("planned", "kind"),
    [
        (step({"n": HALF}), "validation_error"),
        (step({HALF: 1}), "ok"),
        (step(tool=HALF), "unknown_tool"),
        (step(call=HALF), "ok"),
    ],
)
async def test_a_call_with_half_a_surrogate_pair_gets_an_answer_and_a_record(opened, planned, kind):
    """C41, C50: vendors pass it on from their models, and UTF-8 cannot encode it."""
    outcome = await guard.call(registry_with_tool(write, writes=("music",)), planned, SCOPE)
    assert outcome.label == kind
    (record,) = await tool_calls.list_calls(opened, "local", CallFilter(), 10)
    assert record["status"] == ("completed" if outcome.ok else "failed")
    assert "endMs" in record
    assert HALF not in str(tool_message("c1", "probe", outcome.output).content)
