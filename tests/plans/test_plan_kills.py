"""Kill -9 of a server during the plan of an ad: another goes on with its record, and every effect is once."""

import asyncio
from functools import partial
from typing import Any

import httpx
import pytest

from tests.doubles.killing import Kill, KillableServer, sample_points
from tests.doubles.served import BRIEF

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(1800)]


async def generate(base: str, ad: str) -> dict[str, Any]:
    """The reply to a brief, whose plan makes three drafts at once; sent again it is the same request."""
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        body = {"adId": ad, "brief": BRIEF, "provider": "offline"}
        reply = await http.post("/api/ai/generate", json=body, headers={"Idempotency-Key": "brief"})
        assert reply.status_code == 200, reply.text
        return dict(reply.json())


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_plan_of_an_ad_killed_anywhere_makes_each_draft_once(
    killable_server: KillableServer, when: Any, request: pytest.FixtureRequest
) -> None:
    """A50, D33: one version of each stream, and an execution in which each step is completed."""
    count = await killable_server.count_messages(lambda base, turn: generate(base, f"dry-{turn}"))
    assert count > 10, "enough points to kill at"
    for at in sample_points(count, 2, seed=7, all_points=request.config.getoption("--long")):
        ad = f"ad-{when}-{at}"
        await killable_server.run_until_killed(Kill(at=at, when=when), partial(generate, ad=ad))
        async with killable_server.serve() as base:
            reply = await asyncio.wait_for(generate(base, ad), 60)
            assert reply["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}, (at, reply)
            async with httpx.AsyncClient(base_url=base, timeout=30) as http:
                values = (await http.get(f"/threads/{ad}/state")).json()["values"]
                plans = {one["plan"] for one in values["results"] if one["tool"].startswith("create_")}
                executions = [(await http.get(f"/api/executions/{plan}")).json() for plan in plans]
                ad_reply = (await http.get(f"/api/ads/{ad}")).json()
        assert [one["counts"] for one in executions] == [{"completed": 3}], (at, executions)
        newest = {name: one["newest"]["id"] for name, one in ad_reply["streams"].items()}
        assert newest == {"voices": "v1", "music": "v1", "sfx": "v1"}, (at, newest)
