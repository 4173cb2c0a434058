"""Isolated tools: fresh processes with limits of the system (C51-C53)."""

import asyncio
import os
from dataclasses import replace

import psutil
import pytest

from callsheet.tools.guard import guard
from callsheet.tools.policy import ToolOptions
from callsheet.tools.registry import index
from tests.doubles.waiting import until
from tests.guard import heavy_tools
from tests.guard.guarded import SCOPE, step

# On a loaded machine an interpreter may take seconds to start.
LIMITS = ToolOptions(timeout_s=30, memory_bytes=64 * 1024 * 1024, output_bytes=10_000, cache_s=0, failures=0)


EARLIER_PROCESSES: set[psutil.Process] = set()


def registry(**changed):
    options = replace(LIMITS, **changed)
    return index(heavy=[replace(one, options=options) for one in heavy_tools.TOOLS])


async def call_tool(name, n=1, **changed):
    return await guard.call(registry(**changed), step({"n": n}, tool=name, call=name), SCOPE)


@pytest.fixture(autouse=True)
def record_earlier_processes():
    """Remember the processes that other tests of this session keep."""
    EARLIER_PROCESSES.clear()
    EARLIER_PROCESSES.update(psutil.Process().children(recursive=True))


def sandbox_processes():
    return set(psutil.Process().children(recursive=True)) - EARLIER_PROCESSES


async def test_a_sandboxed_tool_gets_its_arguments_and_scope_and_none_of_our_environment(opened, monkeypatch):
    """C51."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    output = (await call_tool("reckon", 4)).output
    assert (output["n"], output["owner"]) == (5, "local")
    assert output["pid"] != os.getpid()
    assert set(output["variables"]) == {"HOME", "LC_ALL", "PYTHONPATH", "TMPDIR"}
    assert output["heavy"] == [], "it imports its tool's module alone (C5)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "changed", "kind", "message"),
    [
        ("hoard", 500_000_000, {}, "execution_error", "took over 67108864 bytes"),
        ("sleep", 1, {"timeout_s": 0.5}, "timeout_error", "no answer within 0.5 s"),
        ("spin", 1, {"cpu_s": 0.1}, "execution_error", "of processor"),
        # A fresh interpreter takes half a second of processor, so the suite starts few.
        pytest.param("chatter", 200_000, {}, "execution_error", "over 10000 bytes", marks=pytest.mark.long),
        pytest.param("chatter", 20_000, {}, "execution_error", "limit of 10000", marks=pytest.mark.long),
        pytest.param("refuse", 1, {}, "validation_error", "not like that", marks=pytest.mark.long),
    ],
)
async def test_a_tool_that_exceeds_a_limit_or_refuses_ends_with_an_error_that_names_the_reason(
    opened, name, n, changed, kind, message
):
    """Memory, processor, time and output are limited by the system; no process remains."""
    outcome = await call_tool(name, n, **changed)
    assert outcome.label == kind
    assert message in outcome.output["error"]
    until(lambda: not sandbox_processes(), "the end of its process")


@pytest.mark.long
async def test_an_unexpected_error_in_the_sandbox_is_logged_and_hidden_from_the_model(opened, caplog):
    """C41."""
    outcome = await call_tool("crash")
    assert outcome.label == "execution_error"
    assert "hunter2" not in str(outcome.output)
    assert "hunter2" in caplog.text


async def test_the_process_of_a_cancelled_call_is_killed(opened):
    task = asyncio.create_task(call_tool("sleep"))
    async with asyncio.timeout(10):
        while not sandbox_processes():
            await asyncio.wait((task,), timeout=0.02)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    until(lambda: not sandbox_processes(), "the end of its process")
