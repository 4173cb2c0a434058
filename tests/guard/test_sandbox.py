"""Tools in processes of their own, with real limits (C51-C53)."""

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


OTHERS: set[psutil.Process] = set()


def tools(**changed):
    terms = replace(LIMITS, **changed)
    return index(heavy=[replace(one, options=terms) for one in heavy_tools.TOOLS])


async def called(name, n=1, **changed):
    return await guard.call(tools(**changed), step({"n": n}, tool=name, call=name), SCOPE)


@pytest.fixture(autouse=True)
def before():
    """The processes that other tests of this session keep."""
    OTHERS.clear()
    OTHERS.update(psutil.Process().children(recursive=True))


def children():
    return set(psutil.Process().children(recursive=True)) - OTHERS


async def test_it_gets_its_arguments_and_scope_and_nothing_of_ours(opened, monkeypatch):
    """C51."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    output = (await called("reckon", 4)).output
    assert (output["n"], output["owner"]) == (5, "local")
    assert output["pid"] != os.getpid()
    assert set(output["variables"]) == {"HOME", "LC_ALL", "PYTHONPATH", "TMPDIR"}
    assert output["heavy"] == [], "it starts with its tool's module, not with all that tools need (C5)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "changed", "kind", "told"),
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
async def test_what_it_must_not_do_ends_it_and_is_said(opened, name, n, changed, kind, told):
    """Memory, processor, time and output are limited by the system; nothing is left behind."""
    outcome = await called(name, n, **changed)
    assert outcome.label == kind
    assert told in outcome.output["error"]
    until(lambda: not children(), "the end of its process")


@pytest.mark.long
async def test_what_it_breaks_with_is_logged_and_not_told(opened, caplog):
    """C41."""
    outcome = await called("crash")
    assert outcome.label == "execution_error"
    assert "hunter2" not in str(outcome.output)
    assert "hunter2" in caplog.text


async def test_a_cancelled_one_is_killed(opened):
    task = asyncio.create_task(called("sleep"))
    async with asyncio.timeout(10):
        while not children():
            await asyncio.wait((task,), timeout=0.02)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    until(lambda: not children(), "the end of its process")
