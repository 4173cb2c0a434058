"""The guard across processes, and the number of its round trips to storage."""

import asyncio
import os
from pathlib import Path

import pytest

from callsheet.storage import connect, use
from callsheet.tools.guard import guard
from callsheet.tools.policy import ToolOptions
from tests.doubles.killing import KillingProxy
from tests.guard.guarded import SCOPE, registry_with_tool, step, write

TEN_CALLS = ToolOptions(calls=10, cache_s=0)
UNCACHED = ToolOptions(cache_s=0)


async def look(args, call):
    return {}


async def fail(args, call):
    raise RuntimeError


async def call_tools(name):
    """Call a tool with a limit of ten six times, and a failing one four times; return the labels."""
    tools = {
        **registry_with_tool(look, "often", options=TEN_CALLS),
        **registry_with_tool(fail, "weak", options=UNCACHED),
    }
    calls = [("often", i) for i in range(6)] + [("weak", i) for i in range(4)]
    outcomes = [
        await guard.call(tools, step(tool=tool, call=f"{name}-{tool}-{i}"), SCOPE) for tool, i in calls
    ]
    return [one.label + (" rests" if "rests" in str(one.output) else "") for one in outcomes]


def call_tools_in_process(url):
    """Call the tools as another process."""

    async def connect_and_call():
        async with connect(url) as opened:
            use(opened)
            return await call_tools("theirs")

    return asyncio.run(connect_and_call())


@pytest.mark.slow
async def test_rate_limits_and_breakers_count_calls_of_all_processes(opened, warm_parent, valkey_url):
    """C46, C48: the counts bind each of two processes."""
    other_labels, code = await asyncio.to_thread(
        warm_parent.call, "tests.guard.test_guard_shared:call_tools_in_process", url=valkey_url
    )
    assert code == 0
    own_labels = await call_tools("ours")
    assert other_labels == ["ok"] * 6 + ["execution_error"] * 4
    assert (
        own_labels
        == ["ok"] * 4 + ["rate_limit_error"] * 2 + ["execution_error"] + ["execution_error rests"] * 3
    )


@pytest.fixture
async def counting_proxy(valkey_url):
    """Storage behind a proxy that counts what is sent."""
    target = valkey_url.removeprefix("unix://").split("?")[0]
    async with (
        KillingProxy(f"{target}-counting-{os.getpid()}", target) as proxy,
        connect(f"unix://{proxy.path}?db=0") as opened,
    ):
        use(opened)
        yield proxy
        use(None)
    # From Python 3.13 on a server removes its socket itself.
    await asyncio.to_thread(Path(proxy.path).unlink, missing_ok=True)


async def test_a_call_takes_two_round_trips_besides_those_of_its_tool(counting_proxy):
    """Counted as messages on the way to Redis, once it knows the scripts."""

    async def count_trips(tools, name, **more):
        counting_proxy.kill.message_count = 0
        await guard.call(tools, step(more, tool=name, call=f"call-{next(calls)}"), SCOPE)
        return counting_proxy.kill.message_count

    calls = iter(range(100))
    tools = {
        **registry_with_tool(look, "read"),
        **registry_with_tool(look, "peek", reads=("music",)),
        **registry_with_tool(look, "change", writes=("music",)),
        **registry_with_tool(look, "post", outside=True),
        **registry_with_tool(write, "draw", writes=("music",)),
    }
    for name in tools:
        await count_trips(tools, name)
    counting_proxy.kill.armed = True
    assert [await count_trips(tools, name, n=2) for name in ("read", "read", "peek", "change", "post")] == [
        2
    ] * 5
    assert await count_trips(tools, "draw") == 3, "the effect is the tool's own"
    assert await count_trips(tools, "read", n=-1) == 1
    assert await count_trips(tools, "nope") == 1
