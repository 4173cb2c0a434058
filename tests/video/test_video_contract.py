"""The contract with clients of videos: fields of a plan, events and their lifetime, context by key."""

import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from callsheet.state.video.plan import RULES
from callsheet.storage import Storage
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.redis import keys
from tests.doubles.wire_server import running_server
from tests.video.video_double import PlanningModel, VideoClient, edit

GATHER_STEP = {"tool": "contextGatherer", "queries": ["bakery"], "sources": ["web", "examples"]}


async def events_of(http: httpx.AsyncClient, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of an execution that has ended."""
    text = (await http.get(f"/api/execution-progress/{name}")).text
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n")[:-1]]
    return [(one["event"], json.loads(one["data"])) for one in blocks]


async def test_a_plan_has_all_fields_even_if_the_model_left_some_out(video: VideoClient) -> None:
    """D3, D5, D-R3: defaults are filled in, and totals are counted from the steps."""
    styled_edit = edit("scene-2", like=["scene-3"])
    name = await video.start("x", GATHER_STEP, edit("scene-1"), {**styled_edit, "alone": True})
    plan = (await video.wait_for_end(name))["plan"]
    assert plan["context"] == {
        "needsWebSearch": True,
        "searchQueries": ["bakery"],
        "sharedStyle": None,
        "referenceSceneId": "scene-3",
    }
    fields = {"id", "toolName", "displayName", "params", "dependencies", "canParallelize", "contextKeys"}
    assert all(step.keys() >= fields for step in plan["steps"])
    gathering, plain, alone = plan["steps"]
    assert gathering["params"] == {"queries": ["bakery"], "sources": ["web", "examples"]}
    assert plain["params"] == {
        "sceneId": "scene-1",
        "prompt": "change it",
        "contextKeys": plain["contextKeys"],
    }
    assert (gathering["contextKeys"], gathering["dependencies"]) == ([], [])
    assert [step["canParallelize"] for step in plan["steps"]] == [True, True, False]
    assert (plan["totalSteps"], plan["estimatedTime"] > 0) == (3, True)
    assert alone["reads"] != alone["writes"]


async def test_the_events_are_enough_to_follow_the_state_of_an_execution(video: VideoClient) -> None:
    """D28, D30, D31, D33, D47: a plan with all steps pending, each change of a step, and the end."""
    await video.call("PUT", "/api/projects/launch/locks/scene-3")
    name = await video.start("x", edit("scene-1", "scene-2"), edit("scene-3"))
    done = await video.wait_for_end(name)
    assert uuid.UUID(name).hex == name
    events = await events_of(video.http, name)
    assert {step["status"] for step in events[0][1]["steps"]} == {"pending"}
    assert (events[0][0], events[0][1]["totalSteps"]) == ("execution-plan", 3)
    state: dict[str, Any] = {"steps": {}, "scenes": {}, "over": None}
    for kind, data in events:
        if kind == "execution-plan":
            state["steps"] = {step["id"]: step["status"] for step in data["steps"]}
        elif kind == "step-update":
            state["steps"][data["stepId"]] = data["status"]
        elif kind == "scene-update":
            state["scenes"][data["sceneId"]] = data["versionId"]
        else:
            state["over"] = (data["success"], data["totalTime"])
    assert state == {
        "steps": {step["id"]: step["status"] for step in done["plan"]["steps"]},
        "scenes": {"scene-1": "v2", "scene-2": "v2"},
        "over": (False, done["totalTime"]),
    }
    assert {*state["steps"].values()} == {"completed", "error"}
    assert [data["error"] for _, data in events if data.get("status") == "error"] == [
        done["plan"]["steps"][2]["error"]
    ]


async def test_the_log_of_a_run_has_the_start_and_the_end_of_each_step(video: VideoClient) -> None:
    """D30, D32, D-R6: under these names only there."""
    name = await video.start("x", edit("scene-1"))
    await video.wait_for_end(name)
    [run] = (await video.http.get("/threads/launch/runs")).json()
    path = f"/threads/launch/runs/{run['run_id']}/stream"
    text = (await video.http.get(path, headers={"Last-Event-ID": "-1"})).text
    lines = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if '"type":"' in line]
    log = [one for one in lines if isinstance(one, dict) and str(one.get("type")).startswith("step-")]
    assert [(one["type"], one["stepId"]) for one in log if one["type"] != "step-update"] == [
        ("step-started", "s1"),
        ("step-completed", "s1"),
    ]
    assert {name for name, _ in await events_of(video.http, name)}.isdisjoint({"step-started"})


async def test_an_execution_is_stored_with_plan_times_and_results(video: VideoClient) -> None:
    """D45, D32: events have a preview, the record has the whole result."""
    name = await video.start("gather", GATHER_STEP)
    await video.wait_for_end(name)
    execution = await video.execution(name)
    assert (execution["id"], execution["projectId"], execution["status"]) == (name, "launch", "completed")
    assert execution["createdAt"] <= execution["startedAt"] <= execution["completedAt"]
    [step] = execution["plan"]["steps"]
    assert step["result"].keys() >= {"webResults", "examples", "trends", "summary", "generatedContext"}
    assert step["preview"] == {"message": step["result"]["message"]}
    assert all("result" not in data for _, data in await events_of(video.http, name))


async def test_events_expire_ten_minutes_after_the_end_and_the_execution_is_kept(
    video: VideoClient, storage: Storage
) -> None:
    """D46: a client that connects later gets the plan and the end."""
    name = await video.start("x", edit("scene-1"))
    done = await video.wait_for_end(name)
    stored = keys.execution_keys("video", "launch", name)
    assert 0 < await storage.redis.ttl(stored.events) <= 600
    assert await storage.redis.ttl(stored.record) == -1
    await storage.redis.delete(stored.events)
    assert await Executions(storage, "video", "launch", "local", RULES).first_event(name) is None
    plan, end = await events_of(video.http, name)
    assert (plan[0], plan[1]["steps"][0]["status"]) == ("execution-plan", "completed")
    assert (end[0], end[1]["totalTime"]) == ("execution-complete", done["totalTime"])
    assert await video.execution(name) == done


async def test_events_of_a_paused_execution_do_not_expire(video: VideoClient, storage: Storage) -> None:
    """D46: an execution that waits for a person is kept."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.call("POST", f"/api/executions/{name}/pause")
    video.model.release()
    await video.wait_until_idle()
    assert await storage.redis.ttl(keys.execution_keys("video", "launch", name).events) == -1


async def step_starts(http: httpx.AsyncClient, name: str) -> AsyncIterator[str]:
    """Yield the id of each step when the stream has the event of its start."""
    async with http.stream("GET", f"/api/execution-progress/{name}") as reply:
        async for line in reply.aiter_lines():
            data = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if "stepId" in data and data.get("status") == "in-progress":
                yield data["stepId"]


@pytest.mark.slow
async def test_progress_events_are_sent_at_most_twice_a_second(
    valkey_url: str, planning_model: PlanningModel
) -> None:
    """D39: each of five steps ends only after the client got the event of its start."""
    prompts = ["one", "two", "three", "four", "five"]
    planning_model.hold(*prompts)
    start_times_s: list[float] = []
    with running_server(valkey_url, None) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            video = VideoClient(http, planning_model)
            await video.create()
            name = await video.start("x", *(edit("scene-1", prompt=one) for one in prompts))
            async for _ in step_starts(http, name):
                planning_model.release(prompts[len(start_times_s)])
                start_times_s.append(time.monotonic())
    assert len(start_times_s) == 5
    assert start_times_s[-1] - start_times_s[0] > 1.5, "four collections of half a second"


@pytest.mark.parametrize("key", ["web:https://example.com/a?b=c", "style:scene-1", "search:latte art"])
async def test_context_is_stored_and_searched_by_key(video: VideoClient, key: str) -> None:
    """D15, D16, D19: one value for a project and a key, kept until it is deleted."""
    path = f"/api/projects/launch/context/{quote(key, safe='')}"
    for value in ({"n": 1}, {"n": 2}):
        await video.call("PUT", path, json={"value": value})
    part = key.partition(":")[0]
    assert (await video.call("GET", f"/api/projects/launch/context?contains={part}"))["entries"] == {
        key: {"n": 2}
    }
    other = VideoClient(video.http, video.model, "other")
    await other.create()
    assert (await video.call("GET", "/api/projects/other/context"))["entries"] == {}


async def test_gathered_context_is_sent_to_the_steps_that_name_it(video: VideoClient) -> None:
    """D20, D21, D25."""
    name = await video.start("x", GATHER_STEP, edit("scene-1", prompt="use it"))
    steps = (await video.wait_for_end(name))["plan"]["steps"]
    stored = (await video.call("GET", "/api/projects/launch/context?contains=gathered:"))["entries"]
    assert steps[0]["result"]["generatedContext"] == [*stored]
    assert {"gathered:latest", "gathered:styles", "gathered:colors"} <= {*stored}
    [sent] = [one for one in video.model.requests if '"request"' in str(one.messages[1]["content"])]
    context = json.loads(sent.messages[1]["content"])["context"]
    assert {key: context[key] for key in steps[1]["contextKeys"]} == {
        key: stored[key] for key in steps[1]["contextKeys"]
    }
    assert steps[1]["contextKeys"]
