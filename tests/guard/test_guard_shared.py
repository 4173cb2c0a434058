"""The guard over several processes, and how often it speaks to storage."""

import asyncio
import os
from pathlib import Path

import pytest

from callsheet.storage import connect, use
from callsheet.tools.guard import guard
from callsheet.tools.policy import ToolOptions
from tests.doubles.killing import KillingProxy
from tests.guard.guarded import SCOPE, registry_with_tool, step, write

OFTEN = ToolOptions(calls=10, cache_s=0)
WEAK = ToolOptions(cache_s=0)


async def look(args, call):
    return {}


async def fall(args, call):
    raise RuntimeError


async def side(name):
    """What one process gets for six calls of a tool with a limit of ten, and four of one that fails."""
    tools = {
        **registry_with_tool(look, "often", options=OFTEN),
        **registry_with_tool(fall, "weak", options=WEAK),
    }
    asked = [("often", i) for i in range(6)] + [("weak", i) for i in range(4)]
    told = [await guard.call(tools, step(tool=tool, call=f"{name}-{tool}-{i}"), SCOPE) for tool, i in asked]
    return [one.label + (" rests" if "rests" in str(one.output) else "") for one in told]


def elsewhere(url):
    """As `side`, for another process."""

    async def theirs():
        async with connect(url) as opened:
            use(opened)
            return await side("theirs")

    return asyncio.run(theirs())


@pytest.mark.slow
async def test_limits_and_breakers_hold_across_processes(opened, warm_parent, valkey_url):
    """C46, C48: what two processes do counts together, and binds each of them."""
    theirs, code = await asyncio.to_thread(
        warm_parent.returned, "tests.guard.test_guard_shared:elsewhere", url=valkey_url
    )
    assert code == 0
    ours = await side("ours")
    assert theirs == ["ok"] * 6 + ["execution_error"] * 4
    assert ours == ["ok"] * 4 + ["rate_limit_error"] * 2 + ["execution_error"] + ["execution_error rests"] * 3


@pytest.fixture
async def proxied(valkey_url):
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


async def test_a_call_takes_two_round_trips_and_those_of_its_tool(proxied):
    """Counted as messages on the way to Redis, once it knows the scripts."""

    async def trips(tools, name, **more):
        proxied.kill.seen = 0
        await guard.call(tools, step(more, tool=name, call=f"call-{next(calls)}"), SCOPE)
        return proxied.kill.seen

    calls = iter(range(100))
    tools = {
        **registry_with_tool(look, "read"),
        **registry_with_tool(look, "peek", reads=("music",)),
        **registry_with_tool(look, "change", writes=("music",)),
        **registry_with_tool(look, "post", outside=True),
        **registry_with_tool(write, "draw", writes=("music",)),
    }
    for name in tools:
        await trips(tools, name)
    proxied.kill.armed = True
    assert [await trips(tools, name, n=2) for name in ("read", "read", "peek", "change", "post")] == [2] * 5
    assert await trips(tools, "draw") == 3, "the effect is the tool's own"
    assert await trips(tools, "read", n=-1) == 1
    assert await trips(tools, "nope") == 1
