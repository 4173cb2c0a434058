"""A run that another process takes over sends every event of every step once, in each stream mode."""

import asyncio
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.storage.embedded import watchdog
from tests.doubles.killing import Kill, KillableServer, WarmParent, sample_points
from tests.doubles.redis_server import running_redis
from tests.engine.fault_house import CONFIG, events, server_processes

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(600)]

MODES = {
    "updates": ["updates"],
    "values": ["values"],
    "updates and custom": ["updates", "custom"],
    "tasks": ["tasks"],
    "messages-tuple": ["messages-tuple"],
    "all": ["values", "updates", "custom", "tasks", "checkpoints", "debug", "messages-tuple"],
}
SHORT = ("updates", "values", "all")
"""Modes of the short form; `--long` has all."""
REPEATED = ("metadata", "custom", "messages")
"""Events that belong to an attempt, or to nodes that are executed again."""
TIMES = {"timestamp", "ts", "created_at"}


async def begin(base: str, modes: list[str], place: dict[str, str]) -> None:
    """Create a run and note where it is in `place`."""
    async with httpx.AsyncClient(base_url=base, timeout=30) as http:
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        body = {
            "assistant_id": "relay",
            "input": {"path": []},
            "stream_mode": modes,
            "stream_subgraphs": True,
            "stream_resumable": True,
        }
        place["thread"] = thread
        reply = await http.post(f"/threads/{thread}/runs", json=body)
        place["run"] = reply.json()["run_id"]


async def read(base: str, place: dict[str, str], read_events: list[tuple[str, str, str]]) -> None:
    """Add the events (id, name, data) after the last one to `read_events`, as they come."""
    headers = {"Last-Event-ID": read_events[-1][0] if read_events else "-1"}
    path = f"/threads/{place['thread']}/runs/{place['run']}/stream"
    async with (
        httpx.AsyncClient(base_url=base, timeout=30) as http,
        http.stream("GET", path, headers=headers) as reply,
    ):
        fields: dict[str, str] = {}
        async for line in reply.aiter_lines():
            name, _, value = line.partition(": ")
            fields[name] = value
            if not line and "id" in fields:
                read_events.append((fields["id"], fields["event"], fields["data"]))
                fields = {}


async def run_through(base: str, modes: list[str], place: Any, read_events: Any) -> None:
    await begin(base, modes, place)
    await read(base, place, read_events)


def contents(events: list[tuple[str, str, str]], *, repeated: bool) -> Counter[tuple[str, str]]:
    """The events without what differs from run to run, counted."""
    return Counter(
        (name.partition("|")[0], json.dumps(_plain(name, json.loads(data)), sort_keys=True))
        for _, name, data in events
        if name.startswith(REPEATED) == repeated
    )


def _plain(name: str, data: Any) -> Any:
    """What an event says, without ids and times."""
    if name.startswith("debug"):
        return [data["type"], data["step"], _plain(data["type"], data["payload"])]
    if name.startswith("checkpoint"):
        return [data["values"], data["next"], data["metadata"]["step"]]
    if name.startswith("task"):
        return [data["name"], data.get("input"), data.get("result")]
    if name.startswith("messages"):
        return data[0]
    return data


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "mode", [one if one in SHORT else pytest.param(one, marks=pytest.mark.long) for one in MODES]
)
async def test_a_run_killed_anywhere_sends_every_event_of_a_step_once(
    killable_server: KillableServer, mode: str, when: Any, request: pytest.FixtureRequest
) -> None:
    """Whichever message to Redis was the server's last, in the replay and for a reader that rejoined."""
    killable_server.config, modes = CONFIG, MODES[mode]
    undisturbed: list[tuple[str, str, str]] = []

    async def use(base: str, turn: int) -> None:
        undisturbed.clear()
        await run_through(base, modes, {}, undisturbed)

    count = await killable_server.count_messages(use)
    expected = contents(undisturbed, repeated=False)
    often = contents(undisturbed, repeated=True)
    for at in sample_points(count, 2, seed=11, all_points=request.config.getoption("--long")):
        place: dict[str, str] = {}
        live: list[tuple[str, str, str]] = []
        killed = partial(run_through, modes=modes, place=place, read_events=live)
        await killable_server.run_until_killed(Kill(at=at, when=when), killed)
        if "run" not in place:
            continue
        async with killable_server.serve() as base:
            await read(base, place, live)
            replay: list[tuple[str, str, str]] = []
            await read(base, place, replay)
        assert live == replay, (at, "who rejoins reads what the replay has")
        found = contents(live, repeated=False)
        assert found == expected, (at, count, found - expected, expected - found)
        again = contents(live, repeated=True)
        assert not [told for told in often if told[0] != "metadata" and not again[told]], (at, count)


async def test_runs_go_on_with_every_update_once_when_redis_stood_still(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    """Longer than a lease, so that all attempts give up while their last commands are on their way."""
    pages, lease_s = 12, 1.0
    with running_redis(watchdog.binary(), tmp_path) as server:
        async with server_processes(
            warm_parent, server.url, lease_s, carry=True, servers=1, workers=0
        ) as here:
            url = here.any()
            places = []
            for number in range(12):
                thread = (await here.http.post(f"{url}/threads", json={})).json()["thread_id"]
                body = {
                    "assistant_id": "clerk",
                    "input": {"pages": pages, "pace_s": 0.004 + number / 2000, "stamped": []},
                    "stream_mode": ["updates"],
                    "stream_resumable": True,
                }
                reply = await here.http.post(f"{url}/threads/{thread}/runs", json=body)
                places.append((thread, reply.json()["run_id"]))
            server.hang()
            await asyncio.sleep(3 * lease_s)
            server.go_on()
            attempts = 0
            for thread, run in places:
                read_events = [one async for one in events(here, url, thread, run, "-1")]
                stamped = [one.data["page"]["stamped"] for one in read_events if one.name == "updates"]
                assert stamped == [[f"v{number + 1}"] for number in range(pages)]
                attempts = max(attempts, *(one.data.get("attempt", 0) for one in read_events))
            assert attempts > 1, "some runs were under way"
