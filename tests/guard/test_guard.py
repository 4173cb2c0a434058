"""The one way a tool is called: its order, its six errors, its fences."""

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
from callsheet.tools.guard.application import NoCounters, ToolEnvironment, use_application
from callsheet.tools.guard.outcome import SUGGESTION, tool_message
from callsheet.tools.policy import ToolOptions
from tests.guard.guarded import SCOPE, registry_with_tool, step, write


async def versions(opened):
    return (await Artefact(opened, "ad", "kopi", LOCAL).stream("music")).versions


async def test_an_unknown_tool_is_named_with_the_known_ones(opened):
    """A25, C38."""
    outcome = await guard.call(registry_with_tool(write), step(tool="nope"), SCOPE)
    assert outcome.output == {
        "error": "Unknown tool: nope",
        "suggestion": "Use one of: probe",
        "type": "unknown_tool",
        "retryable": False,
    }


@pytest.mark.parametrize("params", [{"n": "many"}, {"n": -1}, {"n": [1]}])
async def test_arguments_that_break_the_schema_run_nothing(opened, params):
    """C33, C49."""

    async def never(args, call):
        raise AssertionError

    outcome = await guard.call(registry_with_tool(never), step(params), SCOPE)
    assert outcome.output["type"] == "validation_error"
    assert next(iter(params)) in outcome.output["error"]
    assert outcome.output["suggestion"] == SUGGESTION


async def test_raw_arguments_are_repaired_once_and_then_checked(opened):
    """C42."""
    tools = registry_with_tool(write, writes=("music",))
    assert (await guard.call(tools, step(raw="{n: 4,}"), SCOPE)).output["versionId"] == "v1"
    assert (await guard.call(tools, step(raw="{n: "), SCOPE)).output["type"] == "validation_error"
    assert [version.data for version in await versions(opened)] == [{"n": 4}]


async def test_the_model_cannot_name_another_artefact(opened):
    """C34, B23: the context is the server's."""
    outcome = await guard.call(registry_with_tool(write, writes=("music",)), step({"adId": "theirs"}), SCOPE)
    assert outcome.output["type"] == "permission_denied"
    assert "'kopi'" in outcome.output["suggestion"]
    assert not await versions(opened)


async def test_a_write_outside_the_steps_write_set_is_refused(opened):
    outcome = await guard.call(registry_with_tool(write, writes=("music",)), step(writes=()), SCOPE)
    assert outcome.output["type"] == "permission_denied"
    assert not await versions(opened)


async def test_a_tool_cannot_write_what_it_did_not_declare(opened):
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
async def test_what_a_tool_raises_becomes_one_of_six_types(opened, error, kind, retryable):
    """C33, C34, C35, C36, C37, C39."""

    async def fails(args, call):
        raise error

    output = (await guard.call(registry_with_tool(fails), step(), SCOPE)).output
    assert (output["type"], output["retryable"], output["error"]) == (kind, retryable, "no")
    assert output["suggestion"] == (error.remedy or SUGGESTION)


async def test_details_of_an_error_reach_the_model(opened):
    async def fails(args, call):
        raise Invalid("no", details={"valid": "0 to 2"})

    assert (await guard.call(registry_with_tool(fails), step(), SCOPE)).output["details"] == {
        "valid": "0 to 2"
    }


async def test_an_unexpected_error_is_logged_and_never_leaks(opened, caplog):
    """C41."""

    async def fails(args, call):
        raise RuntimeError("the password is hunter2")

    output = (await guard.call(registry_with_tool(fails), step(), SCOPE)).output
    assert output["error"] == "An unexpected error occurred during tool execution"
    assert "hunter2" not in str(output)
    assert "probe failed on thread t" in caplog.text


@pytest.mark.parametrize("error", [StorageDown("away"), Fenced("lost")])
async def test_storage_that_is_away_and_a_lost_lease_end_the_attempt(opened, error):
    async def fails(args, call):
        raise error

    with pytest.raises(type(error)):
        await guard.call(registry_with_tool(fails), step(), SCOPE)


async def test_a_step_tried_again_returns_its_receipt_without_running(opened):
    runs = []

    async def counted(args, call):
        runs.append(1)
        return await write(args, call)

    tools = registry_with_tool(counted, writes=("music",))
    first = await guard.call(tools, step(), SCOPE)
    again = await guard.call(tools, step(), SCOPE)
    assert first == again
    assert runs == [1]
    assert len(await versions(opened)) == 1


async def test_a_tool_that_takes_too_long_is_answered_for_and_its_late_write_refused(opened):
    """C36, C-R10: the late write comes, and is refused."""
    late = asyncio.Event()
    refused = asyncio.Event()

    async def write_late(args, call):
        await late.wait()
        try:
            await write(args, call)
        except Fenced:
            refused.set()

    async def slow(args, call):
        background.append(asyncio.create_task(write_late(args, call)))
        await asyncio.Event().wait()

    background = []
    outcome = await guard.call(
        registry_with_tool(slow, writes=("music",), options=ToolOptions(timeout_s=0.05)), step(), SCOPE
    )
    assert outcome.output["type"] == "timeout_error"
    assert outcome.output["retryable"]
    late.set()
    async with asyncio.timeout(5):
        await refused.wait()
    assert not await versions(opened)


async def test_an_effect_that_came_just_before_the_deadline_counts(opened):
    async def slow_after(args, call):
        await write(args, call)
        await asyncio.Event().wait()

    outcome = await guard.call(
        registry_with_tool(slow_after, writes=("music",), options=ToolOptions(timeout_s=0.3)), step(), SCOPE
    )
    assert outcome.ok
    assert outcome.output["versionId"] == "v1"


async def test_a_read_that_takes_too_long_is_answered_for(opened):
    async def slow(args, call):
        await asyncio.Event().wait()

    outcome = await guard.call(
        registry_with_tool(slow, options=ToolOptions(timeout_s=0.01)), step(writes=()), SCOPE
    )
    assert outcome.output["type"] == "timeout_error"


class Seen(NoCounters):
    """Counters that only remember."""

    def __init__(self):
        self.told = []

    @contextmanager
    def call(self, tool, scope):
        outcome = ["aborted"]
        try:
            yield outcome.append
        finally:
            self.told.append((tool, outcome[-1]))

    def count_lookup(self, tool, *, hit):
        self.told.append((tool, hit))


async def test_every_call_is_counted_by_how_it_ended(opened):
    """C39, C54: refused and aborted ones too; a name that a model made up is no name of its own."""

    async def lost(args, call):
        raise Fenced("lost")

    seen = Seen()
    with use_application(ToolEnvironment(counters=seen)):
        await guard.call(registry_with_tool(write, writes=("music",)), step(), SCOPE)
        await guard.call(registry_with_tool(write, writes=("music",)), step({"n": -1}), SCOPE)
        await guard.call(registry_with_tool(write), step(tool="made_up_4711"), SCOPE)
        with pytest.raises(Fenced):
            await guard.call(registry_with_tool(lost), step(), SCOPE)
    assert seen.told == [
        ("probe", "ok"),
        ("probe", "validation_error"),
        ("unknown", "unknown_tool"),
        ("probe", "aborted"),
    ]


HALF = "half \ud800 of a pair"


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (step({"n": HALF}), "validation_error"),
        (step({HALF: 1}), "ok"),
        (step(tool=HALF), "unknown_tool"),
        (step(call=HALF), "ok"),
    ],
)
async def test_half_a_surrogate_pair_from_a_model_gets_an_answer_and_a_record(opened, asked, kind):
    """C41, C50: vendors pass on what their models write, and UTF-8 has no bytes for it."""
    outcome = await guard.call(registry_with_tool(write, writes=("music",)), asked, SCOPE)
    assert outcome.label == kind
    (record,) = await tool_calls.list_calls(opened, "local", CallFilter(), 10)
    assert record["status"] == ("completed" if outcome.ok else "failed")
    assert "endMs" in record
    assert HALF not in str(tool_message("c1", "probe", outcome.output).content)
