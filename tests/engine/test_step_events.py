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
from tests.engine.fault_processes import CONFIG, run_events, server_processes

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(600)]

MODES = {
    "updates": ["updates"],
    "values": ["values"],
    "updates and custom": ["updates", "custom"],
    "tasks": ["tasks"],
    "messages-tuple": ["messages-tuple"],
    "all": ["values", "updates", "custom", "tasks", "checkpoints", "debug", "messages-tuple"],
}
SHORT = ("all",)
"""Modes of the short form, which has the events of all; `--long` has each alone, too."""
REPEATED = ("metadata", "custom", "messages")
"""Events that belong to an attempt, or to nodes that are executed again."""
TIMES = {"timestamp", "ts", "created_at"}


async def create_run(base: str, modes: list[str], location: dict[str, str]) -> None:
    """Create a run and store its thread and id in `location`."""
    async with httpx.AsyncClient(base_url=base, timeout=30) as http:
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        body = {
            "assistant_id": "relay",
            "input": {"path": []},
            "stream_mode": modes,
            "stream_subgraphs": True,
            "stream_resumable": True,
        }
        location["thread"] = thread
        reply = await http.post(f"/threads/{thread}/runs", json=body)
        location["run"] = reply.json()["run_id"]


async def read_stream(base: str, location: dict[str, str], received: list[tuple[str, str, str]]) -> None:
    """Append the events (id, name, data) after the last one to `received`, as they come."""
    headers = {"Last-Event-ID": received[-1][0] if received else "-1"}
    path = f"/threads/{location['thread']}/runs/{location['run']}/stream"
    async with (
        httpx.AsyncClient(base_url=base, timeout=30) as http,
        http.stream("GET", path, headers=headers) as reply,
    ):
        fields: dict[str, str] = {}
        async for line in reply.aiter_lines():
            name, _, value = line.partition(": ")
            fields[name] = value
            if not line and "id" in fields:
                received.append((fields["id"], fields["event"], fields["data"]))
                fields = {}


async def create_and_read(base: str, modes: list[str], location: Any, received: Any) -> None:
    await create_run(base, modes, location)
    await read_stream(base, location, received)


def contents(received: list[tuple[str, str, str]], *, repeated: bool) -> Counter[tuple[str, str]]:
    """Count the events, without ids and times, which differ from run to run."""
    return Counter(
        (name.partition("|")[0], json.dumps(without_ids_and_times(name, json.loads(data)), sort_keys=True))
        for _, name, data in received
        if name.startswith(REPEATED) == repeated
    )


def without_ids_and_times(name: str, data: Any) -> Any:
    """Return the content of an event without ids and times."""
    if name.startswith("debug"):
        return [data["type"], data["step"], without_ids_and_times(data["type"], data["payload"])]
    if name.startswith("checkpoint"):
        return [data["values"], data["next"], data["metadata"]["step"]]
    if name.startswith("task"):
        return [data["name"], data.get("input"), data.get("result")]
    if name.startswith("messages"):
        return data[0]
    return data


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "mode",
    [
        mode_name if mode_name in SHORT else pytest.param(mode_name, marks=pytest.mark.long)
        for mode_name in MODES
    ],
)
async def test_a_run_killed_anywhere_sends_every_event_of_a_step_once(
    killable_server: KillableServer, mode: str, when: Any, request: pytest.FixtureRequest
) -> None:
    """Checked in the replay and for a reader that rejoined, for kills at any message to Redis."""
    killable_server.config, modes = CONFIG, MODES[mode]
    undisturbed: list[tuple[str, str, str]] = []

    async def use(base: str, turn: int) -> None:
        undisturbed.clear()
        await create_and_read(base, modes, {}, undisturbed)

    count = await killable_server.count_messages(use)
    expected = contents(undisturbed, repeated=False)
    repeatable = contents(undisturbed, repeated=True)
    for at in sample_points(count, 1, seed=11, all_points=request.config.getoption("--long")):
        location: dict[str, str] = {}
        live: list[tuple[str, str, str]] = []
        use_server = partial(create_and_read, modes=modes, location=location, received=live)
        await killable_server.run_until_killed(Kill(at=at, when=when), use_server)
        if "run" not in location:
            continue
        async with killable_server.serve() as base:
            await read_stream(base, location, live)
            replay: list[tuple[str, str, str]] = []
            await read_stream(base, location, replay)
        assert live == replay, (at, "a reader that rejoins gets the events of the replay")
        actual = contents(live, repeated=False)
        assert actual == expected, (at, count, actual - expected, expected - actual)
        repeated_events = contents(live, repeated=True)
        assert not [event for event in repeatable if event[0] != "metadata" and not repeated_events[event]], (
            at,
            count,
        )


async def test_runs_send_every_update_once_after_redis_hung_for_longer_than_a_lease(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    """All attempts give up then, while their last commands are still on their way."""
    pages, lease_s = 12, 1.0
    with running_redis(watchdog.binary(), tmp_path) as server:
        async with server_processes(
            warm_parent, server.url, lease_s, executes_runs=True, servers=1, workers=0
        ) as processes:
            url = processes.any_url()
            runs = []
            for number in range(12):
                thread = (await processes.http.post(f"{url}/threads", json={})).json()["thread_id"]
                body = {
                    "assistant_id": "clerk",
                    "input": {"pages": pages, "pace_s": 0.004 + number / 2000, "stamped": []},
                    "stream_mode": ["updates"],
                    "stream_resumable": True,
                }
                reply = await processes.http.post(f"{url}/threads/{thread}/runs", json=body)
                runs.append((thread, reply.json()["run_id"]))
            server.hang()
            await asyncio.sleep(3 * lease_s)
            server.go_on()
            attempts = 0
            for thread, run in runs:
                received = [event async for event in run_events(processes, url, thread, run, "-1")]
                stamped = [event.data["page"]["stamped"] for event in received if event.name == "updates"]
                assert stamped == [[f"v{number + 1}"] for number in range(pages)]
                attempts = max(attempts, *(event.data.get("attempt", 0) for event in received))
            assert attempts > 1, "some runs were under way"
