"""Executions of videos through REST: plans, concurrency, failures, live control (D1-D14, D26-D45)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.state.video.scene import Scene
from callsheet.storage import Storage
from callsheet.storage.redis import keys
from tests.doubles.chat_double import Fail
from tests.doubles.wire_server import running_server
from tests.video.video_double import SCENES, PlanningModel, VideoClient, edit, status_is


@pytest.fixture
async def served_video(valkey_url: str, planning_model: PlanningModel) -> AsyncIterator[VideoClient]:
    """The project on a server with a port, so that streams arrive while they are sent."""
    with running_server(valkey_url, None) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            client_of_project = VideoClient(client, planning_model)
            await client_of_project.create()
            yield client_of_project


def parse_stream(text: str) -> list[tuple[str, dict[str, Any], str]]:
    """Return name, data and id of the events of a stream."""
    blocks = [block.split("\n") for block in text.split("\n\n") if "event: " in block]
    fields = [dict(line.split(": ", 1) for line in block) for block in blocks]
    return [(one["event"], json.loads(one["data"]), one.get("id", "")) for one in fields]


async def test_all_scenes_are_edited_in_parallel(video: VideoClient):
    """D4, D7, D11, D52: one message makes a step for each scene, without dependencies and with a title."""
    before = await video.contents()
    started = await video.post_execution("make all faster", edit("scene-1", "scene-2", "scene-3", "scene-4"))
    plan = started["plan"]
    assert (plan["type"], plan["totalSteps"], plan["estimatedTime"]) == ("parallel", 4, 10.0)
    assert [step["dependencies"] for step in plan["steps"]] == [[]] * 4
    assert plan["steps"][0]["displayName"] == "Editing scene 1 “Scene 1”"
    done = await video.wait_for_end(started["executionId"])
    assert (done["status"], done["success"], done["counts"]) == ("completed", True, {"completed": 4})
    assert await video.revisions() == {f"scene-{n}": 2 for n in range(1, 5)}
    after = await video.contents()
    for name, scene in after.items():
        assert scene == {**before[name], "background": {**before[name]["background"], "color": "#abcdef"}}


async def test_a_step_that_changes_nothing_is_counted_apart(video: VideoClient):
    trim = {"tool": "trimScene", "scenes": ["scene-1"], "seconds": 2}
    done = await video.wait_for_end(await video.start("2 s for 1, and 2 in blue", trim, edit("scene-2")))
    assert done["counts"] == {"completed": 2, "unchanged": 1}
    assert [step["unchanged"] for step in done["plan"]["steps"]] == [True, False]
    [run] = (await video.http.get(f"/threads/{done['threadId']}/runs")).json()
    values = (await video.http.get(f"/threads/{done['threadId']}/runs/{run['run_id']}/join")).json()
    line = "Changed: Scene 2 (scene-2) v2 · 1 unchanged."
    assert (values["receipt"]["text"], values["messages"][-1]["content"][-1]["text"]) == (line, f"\n\n{line}")


async def test_at_most_three_steps_run_at_once(video: VideoClient):
    """D26, D29, D49: the next step starts when one ends."""
    video.model.hold("a", "b", "c", "d")
    name = await video.start(
        "x", *(edit(f"scene-{n}", prompt=letter) for n, letter in zip((1, 2, 3, 4), "abcd", strict=True))
    )
    await video.wait_until(name, lambda one: one["counts"].get("in-progress") == 3)
    assert await video.statuses(name) == {
        "s1": "in-progress",
        "s2": "in-progress",
        "s3": "in-progress",
        "s4": "pending",
    }
    video.model.release("b")
    await video.wait_until(name, status_is("s4", "in-progress"))
    assert await video.statuses(name) == {
        "s1": "in-progress",
        "s2": "completed",
        "s3": "in-progress",
        "s4": "in-progress",
    }
    video.model.release()
    assert (await video.wait_for_end(name))["success"]


async def test_a_reference_scene_is_read_and_never_written(video: VideoClient):
    """D9, D12, D20, D49, D-R12: analyse 3, then edit 1, 2 and 4; scene 3 is byte-identical."""
    before = await video.contents()
    name = await video.start(
        "make 1, 2 and 4 like 3",
        {"tool": "contextGatherer", "scenes": ["scene-3"], "id": "analyze"},
        edit("scene-1", "scene-2", "scene-4", prompt="like scene 3", like=["scene-3"], id="e"),
    )
    done = await video.wait_for_end(name)
    steps = {step["id"]: step for step in done["plan"]["steps"]}
    assert done["plan"]["totalSteps"] == 4
    assert steps["analyze"]["params"] == {"targetSceneId": "scene-3", "extractStyle": True}
    for one in ("e.1", "e.2", "e.3"):
        assert steps[one]["dependencies"] == ["analyze"]
        assert steps[one]["contextKeys"] == ["style:scene-3"]
        assert "scene-3" not in steps[one]["writes"]
    assert done["plan"]["context"]["referenceSceneId"] == "scene-3"
    assert await video.revisions() == {"scene-1": 2, "scene-2": 2, "scene-3": 1, "scene-4": 2}
    assert (await video.contents())["scene-3"] == before["scene-3"]
    sent = json.loads(video.model.requests[-2].messages[1]["content"])
    assert sent["examples"]["scene-3"]["name"] == "Scene 3"
    assert sent["context"]["style:scene-3"]["palette"][0]["color"] == "#333333"


async def test_a_step_reads_the_version_that_an_earlier_step_wrote(video: VideoClient):
    """D27, D-R14: "make 1 blue, then 2 match 1"."""
    name = await video.start(
        "x", edit("scene-1", prompt="blue"), edit("scene-2", prompt="match", like=["scene-1"])
    )
    done = await video.wait_for_end(name)
    assert done["plan"]["type"] == "sequential"
    assert [step["dependencies"] for step in done["plan"]["steps"]] == [[], ["s1"]]
    [sent] = [
        r for r in video.model.requests if '"match"' in json.dumps(r.messages[1]["content"]).replace("\\", "")
    ]
    assert json.loads(sent.messages[1]["content"])["examples"]["scene-1"]["background"]["color"] == "#abcdef"


async def test_positions_are_resolved_before_the_first_deletion(video: VideoClient):
    """D-R13: "delete scenes 3 and 4", named by position."""
    name = await video.start("x", {"tool": "deleteScene", "scenes": ["3", "scene 4"]})
    await video.wait_for_end(name)
    assert [one["id"] for one in await video.scenes()] == ["scene-1", "scene-2"]
    project = await video.call("GET", "/api/projects/launch")
    assert {one["id"] for one in project["deleted"]} == {"scene-3", "scene-4"}
    name = await video.start("bring 4 back", {"tool": "restoreScene", "scenes": ["scene-4"]})
    await video.wait_for_end(name)
    assert [one["id"] for one in await video.scenes()] == ["scene-1", "scene-2", "scene-4"]


async def test_new_scenes_made_in_parallel_are_in_the_plans_order(video: VideoClient):
    """D10, D13, D14: new ids, positions from the plan, and a search first."""
    video.model.hold("first")
    name = await video.start(
        "x",
        {"tool": "contextGatherer", "queries": ["app promo"], "sources": ["examples", "trends"]},
        {"tool": "addScene", "scenes": ["new-1"], "prompt": "first", "behind": "scene-1"},
        {"tool": "addScene", "scenes": ["new-2"], "prompt": "second", "behind": "new-1"},
        edit("new-2", prompt="calmer"),
    )
    await video.wait_until(name, status_is("s3", "completed"))
    video.model.release()
    done = await video.wait_for_end(name)
    assert done["counts"] == {"completed": 4}, done
    assert [one["id"] for one in await video.scenes()] == [
        "scene-1",
        "scene-5",
        "scene-6",
        "scene-2",
        "scene-3",
        "scene-4",
    ]
    steps = {step["id"]: step for step in done["plan"]["steps"]}
    assert steps["s2"]["contextKeys"] == [
        "gathered:latest",
        "gathered:styles",
        "gathered:colors",
        "gathered:animations",
    ]
    assert steps["s4"]["params"]["sceneId"] == "scene-6"
    assert steps["s4"]["dependencies"] == ["s1", "s3"]
    assert [one["revision"] for one in await video.scenes()][1:3] == [1, 2]


async def test_a_failed_step_blocks_only_its_dependents_and_is_retried_with_them(video: VideoClient):
    """D49, D50, D-R5, D-R16: completed steps are not repeated."""
    broken = True
    video.model.patch = lambda prompt: (
        Fail(400, "no") if broken and "break" in prompt else {"background": "#00ff00"}
    )
    name = await video.start(
        "x",
        edit("scene-1", prompt="break"),
        edit("scene-2", prompt="like 1", like=["scene-1"]),
        edit("scene-3"),
    )
    done = await video.wait_for_end(name)
    assert (done["status"], done["success"]) == ("failed", False)
    assert await video.statuses(name) == {"s1": "error", "s2": "blocked", "s3": "completed"}
    assert done["counts"] == {"error": 1, "blocked": 1, "completed": 1}
    await video.call("POST", f"/api/executions/{name}/steps/s2/retry", 409)
    await video.call("POST", f"/api/executions/{name}/steps/s3/retry", 409)
    broken = False
    await video.call("POST", f"/api/executions/{name}/steps/s1/retry")
    done = await video.wait_until(name, lambda one: one["status"] == "completed")
    await video.wait_until_idle()
    assert await video.revisions() == {"scene-1": 2, "scene-2": 2, "scene-3": 2, "scene-4": 1}
    assert [one["kind"] for one in done["changes"]] == ["retried"]
    state = (await video.http.get("/threads/launch/state")).json()["values"]
    assert "Retry" in state["messages"][-2]["content"], "the conversation has the retry"


async def test_repeating_a_completed_step_marks_its_dependents_as_stale(video: VideoClient):
    """D50."""
    name = await video.start("x", edit("scene-1"), edit("scene-2", like=["scene-1"]))
    await video.wait_for_end(name)
    video.model.patch = lambda _: {"background": "#123456"}
    await video.call("POST", f"/api/executions/{name}/steps/s1/rerun")
    done = await video.wait_until(
        name, lambda one: one["status"] == "completed" and one["plan"]["steps"][1]["stale"]
    )
    await video.wait_until_idle()
    assert [step["stale"] for step in done["plan"]["steps"]] == [False, True]
    assert await video.revisions() == {"scene-1": 3, "scene-2": 2, "scene-3": 1, "scene-4": 1}


async def test_only_pending_steps_can_be_edited_or_skipped(video: VideoClient):
    """D41, D42, D43, D-R16: 409 for a step that has started or ended."""
    video.model.hold("first")
    name = await video.start(
        "make it pop",
        edit("scene-1", prompt="first"),
        edit("scene-1", prompt="second"),
        edit("scene-1", prompt="third"),
    )
    await video.wait_until(name, status_is("s1", "in-progress"))
    path = f"/api/executions/{name}/steps"
    execution = await video.call("PATCH", f"{path}/s2", json={"params": {"prompt": "quieter"}})
    first, second, _ = execution["plan"]["steps"]
    assert second["params"]["prompt"] == "quieter"
    assert (second["canEdit"], first["canEdit"]) == (True, False)
    await video.call("POST", f"{path}/s3/skip")
    for wrong in ("s1", "s3"):
        await video.call("PATCH", f"{path}/{wrong}", 409, json={"params": {"prompt": "x"}})
        await video.call("POST", f"{path}/{wrong}/skip", 409)
    await video.call("PATCH", f"{path}/s2", 422, json={"params": {"sceneId": "scene-2"}})
    await video.call("PATCH", f"{path}/none", 404, json={"params": {"prompt": "x"}})
    video.model.release()
    done = await video.wait_for_end(name)
    assert done["counts"] == {"completed": 2, "skipped": 1, "unchanged": 1}
    assert video.model.prompts == ["first", "quieter"]
    assert [(one["kind"], one["step"]) for one in done["changes"]] == [("edited", "s2"), ("skipped", "s3")]
    for status in ("s2", "s3"):
        await video.call("PATCH", f"{path}/{status}", 409, json={"params": {"prompt": "x"}})
    result, _, _ = video.model.requests[-1].messages[-1]["content"].partition("\n\n<state>\n")
    summary = json.loads(result)
    assert summary["changes"] == [
        'The person edited s2: {"sceneId": "scene-1", "prompt": "quieter"}',
        "The person skipped s3",
    ]
    preferences = (await video.call("GET", "/api/preferences"))["preferences"]
    assert [one["text"] for one in preferences] == [
        "for 'make it pop' the person changed the step 'second' to 'quieter'"
    ]
    await video.call("DELETE", f"/api/preferences/{preferences[0]['id']}", 204)
    assert (await video.call("GET", "/api/preferences"))["preferences"] == []


async def test_a_step_can_be_inserted_while_others_run(video: VideoClient):
    video.model.patch = lambda prompt: {"name": prompt}
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    path = f"/api/executions/{name}/steps"
    await video.call("POST", path, json={"step": edit("scene-1", prompt="then this")})
    execution = await video.call(
        "POST", path, json={"step": edit("scene-2", prompt="and this", after=["s1"])}
    )
    assert [step["dependencies"] for step in execution["plan"]["steps"]] == [[], ["s1"], ["s1"]]
    await video.call("POST", path, 422, json={"step": edit("scene-9")})
    await video.call("POST", path, 422, json={"step": edit("scene-2", after=["s9"])})
    video.model.release()
    done = await video.wait_for_end(name)
    assert done["counts"] == {"completed": 3}
    assert await video.revisions() == {"scene-1": 3, "scene-2": 2, "scene-3": 1, "scene-4": 1}
    await video.call("POST", path, 409, json={"step": edit("scene-1")})


async def test_a_paused_execution_has_no_run_and_can_be_resumed(video: VideoClient):
    """D-R8, D-R16."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    assert (await video.call("POST", f"/api/executions/{name}/pause"))["status"] == "paused"
    video.model.release()
    await video.wait_until(name, status_is("s1", "completed"))
    await video.wait_until_idle()
    thread = (await video.http.get("/threads/launch")).json()
    assert thread["status"] == "interrupted"
    assert await video.statuses(name) == {"s1": "completed", "s2": "pending"}
    await video.call("PATCH", f"/api/executions/{name}/steps/s2", json={"params": {"prompt": "later"}})
    await video.call("POST", f"/api/executions/{name}/resume")
    done = await video.wait_for_end(name)
    assert (done["success"], video.model.prompts) == (True, ["first", "later"])
    await video.call("POST", f"/api/executions/{name}/pause", 409)
    await video.call("POST", f"/api/executions/{name}/resume", 409)


async def test_a_paused_execution_whose_record_redis_has_lost_ends_with_what_it_has_done(
    video: VideoClient, storage: Storage
):
    """D-R8: it does not begin again from the plan as it was approved."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    await video.call("POST", f"/api/executions/{name}/pause")
    video.model.release()
    await video.wait_until(name, status_is("s1", "completed"))
    await video.wait_until_idle()
    await storage.redis.delete(keys.execution_keys("video", "launch", name).record)
    lost = await video.call("POST", f"/api/executions/{name}/resume", 404)
    assert "was lost" in lost["error"]
    body = {"assistant_id": "scene_edit", "command": {"resume": {"resume": True}}}
    assert (await video.http.post("/threads/launch/runs/wait", json=body)).status_code == 200
    await video.wait_until_idle()
    assert await video.statuses(name) == {"s1": "completed", "s2": "cancelled"}
    assert video.model.prompts == ["first"]
    assert (await video.revisions())["scene-1"] == 2


async def test_a_cancelled_execution_keeps_its_completed_steps(video: VideoClient):
    """D-R15, D-R16."""
    video.model.hold("second")
    name = await video.start(
        "x",
        edit("scene-1", prompt="first"),
        edit("scene-2", prompt="second"),
        edit("scene-2", prompt="third"),
    )
    await video.wait_until(name, status_is("s1", "completed"))
    await video.wait_until(name, status_is("s2", "in-progress"))
    assert (await video.call("POST", f"/api/executions/{name}/cancel"))["status"] == "cancelled"
    video.model.release()
    await video.wait_until_idle()
    assert await video.statuses(name) == {"s1": "completed", "s2": "completed", "s3": "cancelled"}
    assert await video.revisions() == {"scene-1": 2, "scene-2": 2, "scene-3": 1, "scene-4": 1}
    await video.call("POST", f"/api/executions/{name}/cancel")
    assert (await video.execution(name))["success"] is False


async def test_a_plan_is_executed_exactly_as_approved(video: VideoClient):
    """Nothing is written before; a rejected plan changes nothing, and the model gets the reason."""
    started = await video.post_execution("x", edit("scene-1"), edit("scene-2"), approve=True)
    name = started["executionId"]
    await video.wait_until_idle()
    assert (await video.execution(name))["status"] == "planned"
    assert set((await video.revisions()).values()) == {1}
    await video.call("PATCH", f"/api/executions/{name}/steps/s1", 409, json={"params": {"prompt": "x"}})
    approved = (await video.execution(name))["approvedPlan"]
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{name}/decision", json=approval)
    done = await video.wait_for_end(name)
    assert (done["success"], done["approvedPlan"]) == (True, approved)
    second = (await video.post_execution("y", edit("scene-3"), approve=True))["executionId"]
    await video.wait_until_idle()
    decision = {"decisions": [{"type": "reject", "message": "keep 3"}]}
    await video.call("POST", f"/api/executions/{second}/decision", json=decision)
    done = await video.wait_for_end(second)
    assert done["status"] == "cancelled"
    assert (await video.revisions())["scene-3"] == 1
    assert "keep 3" in video.model.requests[-1].messages[-1]["content"]


async def test_an_invalid_plan_is_returned_to_the_model_once_and_then_reported(video: VideoClient):
    """D-R11: with every fault."""
    audio = {"tool": "addAudio", "scenes": ["scene-1"]}
    bad = {"steps": [edit("scene-9", id="a"), edit("scene-1", id="a", after=["b"]), audio]}
    video.model.plans += [bad, {"steps": [edit("scene-1")]}]
    started = await video.post_execution("x")
    await video.wait_for_end(started["executionId"])
    refusal = video.model.requests[1].messages[-1]["content"]
    for fault in (
        "two steps have the id 'a'",
        "there is no scene 'scene-9'",
        "waits for 'b'",
        "addAudio needs a prompt",
    ):
        assert fault in refusal
    assert (await video.revisions())["scene-1"] == 2
    cycle = {"steps": [edit("scene-1", id="a", after=["b"]), edit("scene-2", id="b", after=["a"])]}
    video.model.plans += [cycle, {"steps": []}]
    started = await video.post_execution("y")
    assert started["executionId"] is None
    assert "could not make a plan" in started["message"]
    assert set((await video.revisions()).values()) == {1, 2}


async def test_only_attached_scenes_can_be_edited(video: VideoClient):
    """Attached ids override scenes named in the message."""
    video.model.plans += [{"steps": [edit("scene-1")]}, {"steps": [edit("scene-2", like=["scene-1"])]}]
    name = await video.start("make this like the first", sceneIds=["scene-2"])
    await video.wait_for_end(name)
    assert await video.revisions() == {"scene-1": 1, "scene-2": 2, "scene-3": 1, "scene-4": 1}
    assert "Attached by the person, meant by their words: scene-2" in video.model.outlines[0]


async def test_the_model_gets_an_outline_of_the_project_and_the_last_plan(video: VideoClient):
    await video.wait_for_end(await video.start("x", edit("scene-2")))
    started = await video.post_execution("what is there?")
    assert (started["executionId"], started["message"][:23]) == (None, "There is nothing to do.")
    outline = video.model.outlines[-1]
    assert "4 scenes, 14 s" in outline
    line = 'text "Two"; colours #abcdef #ffffff; animations fade; pace normal'
    assert f"\n2. scene-2 v2 'Scene 2', 3 s: {line}" in outline
    assert "- s1 editScene scene-2: completed (scene-2 now v2)" in outline
    stored = (await video.http.get("/threads/launch/state")).json()["values"]["messages"]
    assert all("<project>" not in one["content"] for one in stored), "the outline is not stored"


async def test_an_edit_of_a_locked_scene_fails(video: VideoClient):
    await video.call("PUT", "/api/projects/launch/locks/scene-1")
    name = await video.start("x", edit("scene-1", "scene-2"))
    done = await video.wait_for_end(name)
    assert done["counts"] == {"error": 1, "completed": 1}
    assert "locked" in done["plan"]["steps"][0]["error"]
    await video.call("DELETE", "/api/projects/launch/locks/scene-1")
    await video.call("POST", f"/api/executions/{name}/steps/s1.1/retry")
    await video.wait_until(name, lambda one: one["status"] == "completed")
    await video.wait_until_idle()
    assert (await video.revisions())["scene-1"] == 2


async def lines_until(video: VideoClient, path: str, text: str) -> list[str]:
    """Return the lines of a stream up to the first completed event with this text."""
    lines: list[str] = []
    async with video.http.stream("GET", path) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        async for line in reply.aiter_lines():
            lines.append(line)
            if line.startswith("data: ") and text in line and "completed" in line:
                break
    return lines


UI_FIELDS = {"id", "name", "status", "detail", "progress", "canEdit", "canCancel"}


async def test_a_resumed_progress_stream_has_no_gap_and_no_repetition(served_video: VideoClient):
    """D34, D35, D36, D37, D38, D40, D44, D-R7."""
    video = served_video
    video.model.patch = lambda prompt: {"name": prompt}
    video.model.hold("b")
    name = await video.start(
        "x", edit("scene-1", prompt="a"), edit("scene-2", prompt="b"), edit("scene-2", prompt="c")
    )
    path = f"/api/execution-progress/{name}"
    lines = await lines_until(video, path, '"stepId":"s1"')
    first_events = parse_stream("\n".join([*lines, "", ""]))
    video.model.release()
    await video.wait_for_end(name)
    later_events = parse_stream(
        (await video.http.get(path, headers={"Last-Event-ID": first_events[-1][2]})).text
    )
    all_events = parse_stream((await video.http.get(path)).text)
    ids = [one[2] for one in all_events]
    assert ids == sorted(ids, key=lambda one: [int(part) for part in one.split("-")])
    assert all_events[0][0] == "execution-plan"
    assert set(all_events[0][1]["steps"][0]) >= UI_FIELDS
    assert all_events[-1][0] == "execution-complete"
    assert (all_events[-1][1]["success"], all_events[-1][1]["counts"]) == (True, {"completed": 3})
    for step in ("s1", "s2", "s3"):
        statuses = [
            data["status"] for kind, data, _ in all_events if kind == "step-update" and data["stepId"] == step
        ]
        assert statuses == ["in-progress", "completed"]
    changed = [data["sceneId"] for kind, data, _ in all_events if kind == "scene-update"]
    assert changed == ["scene-1", "scene-2", "scene-2"]
    assert {one[2] for one in first_events}.isdisjoint({one[2] for one in later_events})
    assert {one[2] for one in all_events} <= {one[2] for one in [*first_events, *later_events]}


@pytest.mark.parametrize("last", ["first event", ""])
async def test_a_stream_with_trimmed_events_starts_with_a_gap_and_the_current_plan(
    served_video: VideoClient, storage: Storage, last: str
):
    """D38."""
    video = served_video
    video.model.patch = lambda prompt: {"name": prompt}
    name = await video.start("x", edit("scene-1", prompt="a"), edit("scene-2", prompt="b"))
    await video.wait_for_end(name)
    path = f"/api/execution-progress/{name}"
    all_events = parse_stream((await video.http.get(path)).text)
    (stream,) = [key async for key in storage.redis.scan_iter(match=f"*-events:{name}")]
    await storage.redis.xtrim(stream, minid=all_events[2][2], approximate=False)
    headers = {"Last-Event-ID": all_events[0][2]} if last else {}
    gap, plan, *rest = parse_stream((await video.http.get(path, headers=headers)).text)
    assert gap[:2] == ("gap", {"first": all_events[2][2]})
    assert (plan[0], {one["status"] for one in plan[1]["steps"]}) == ("execution-plan", {"completed"})
    assert [one[2] for one in rest] == [one[2] for one in all_events[2:]]
    after = parse_stream((await video.http.get(path, headers={"Last-Event-ID": all_events[2][2]})).text)
    assert after == all_events[3:]


async def test_an_unknown_execution_or_event_position_is_refused(video: VideoClient):
    name = await video.start("x", edit("scene-1"))
    await video.wait_for_end(name)
    wrong = await video.http.get(f"/api/execution-progress/{name}", headers={"Last-Event-ID": "x"})
    assert wrong.status_code == 400
    assert (await video.http.get("/api/execution-progress/none")).status_code == 404


async def executions_by_page(video: VideoClient, limit: int) -> list[dict[str, Any]]:
    """Return all executions, read page by page."""
    path = f"/api/projects/launch/executions?limit={limit}"
    await video.call("GET", f"{path}&after=none", 404)
    page = await video.call("GET", path)
    listed = page["executions"]
    while page["next"]:
        page = await video.call("GET", f"{path}&after={page['next']}")
        listed += page["executions"]
    return list(listed)


async def test_steps_executions_and_versions_can_be_undone_and_redone(video: VideoClient):
    """D50: "keep 1 and 2, put 3 back"."""
    before = await video.contents()
    name = await video.start(
        "x", edit("scene-1", "scene-2", "scene-3"), {"tool": "deleteScene", "scenes": ["scene-4"]}
    )
    await video.wait_for_end(name)
    undo_reply = await video.call(
        "POST", "/api/projects/launch/undo", json={"executionId": name, "steps": ["s1.3"]}
    )
    await video.wait_for_end(undo_reply["executionId"])
    after = await video.contents()
    assert after["scene-3"] == before["scene-3"]
    assert [after[one]["background"]["color"] for one in ("scene-1", "scene-2")] == ["#abcdef"] * 2
    redo_reply = await video.call("POST", "/api/projects/launch/redo")
    await video.wait_for_end(redo_reply["executionId"])
    assert (await video.contents())["scene-3"]["background"]["color"] == "#abcdef"
    await video.call("POST", "/api/projects/launch/redo", 409)
    undo_all_reply = await video.call("POST", "/api/projects/launch/undo", json={"executionId": name})
    await video.wait_for_end(undo_all_reply["executionId"])
    assert await video.contents() == before
    assert [one["id"] for one in await video.scenes()] == [*before]
    state = (await video.http.get("/threads/launch/state")).json()["values"]["messages"]
    assert [one["content"] for one in state if one["type"] == "human"][-3:] == [
        "Undo: Editing scene 3 “Scene 3”",
        "Redo: Editing scene 3 “Scene 3”",
        "Undo: x",
    ]
    listed = (await video.call("GET", "/api/projects/launch/executions"))["executions"]
    assert [one["kind"] for one in listed] == ["undo", "redo", "undo", "plan"]
    assert await executions_by_page(video, 3) == listed
    restored = await video.call("POST", "/api/projects/launch/scenes/scene-1/versions/v2/restore")
    await video.wait_for_end(restored["executionId"])
    assert (await video.contents())["scene-1"]["background"]["color"] == "#abcdef"
    versions = (await video.call("GET", "/api/projects/launch/scenes/scene-1/versions"))["versions"]
    assert [one["parent"] for one in versions] == [None, "v1", "v1", "v2"]


async def test_an_edit_cannot_be_undone_after_its_scene_changed_again(video: VideoClient):
    first = await video.start("x", edit("scene-1", prompt="one"))
    await video.wait_for_end(first)
    video.model.patch = lambda _: {"name": "Other"}
    await video.wait_for_end(await video.start("y", edit("scene-1", prompt="two")))
    refused = await video.call("POST", "/api/projects/launch/undo", 409, json={"executionId": first})
    assert "scene-1 has changed since" in refused["error"]
    undo_reply = await video.call("POST", "/api/projects/launch/undo", json={})
    await video.wait_for_end(undo_reply["executionId"])
    undo_reply = await video.call("POST", "/api/projects/launch/undo", json={})
    await video.wait_for_end(undo_reply["executionId"])
    assert (await video.contents())["scene-1"] == Scene.model_validate(SCENES[0]).data()
    await video.call("POST", "/api/projects/launch/undo", 409, json={})


async def test_a_preset_is_run_by_name(video: VideoClient):
    """D50: presets."""
    await video.call("PUT", "/api/presets/faster", json={"message": "make all scenes faster"})
    started = await video.post_execution("", edit("scene-1"), preset="faster")
    done = await video.wait_for_end(started["executionId"])
    assert done["request"] == "make all scenes faster"
    assert (await video.call("GET", "/api/presets"))["presets"] == {"faster": "make all scenes faster"}
    await video.call("POST", "/api/projects/launch/executions", 404, json={"message": "", "preset": "none"})
    await video.call("DELETE", "/api/presets/faster", 204)
    await video.call("DELETE", "/api/presets/faster", 404)


async def test_estimated_times_come_from_earlier_executions(video: VideoClient):
    """D50, D1."""
    await video.wait_for_end(await video.start("x", edit("scene-1")))
    started = await video.post_execution("y", edit("scene-1", "scene-2", "scene-3"))
    assert started["plan"]["estimatedTime"] < 1
    await video.wait_for_end(started["executionId"])


async def test_invalid_requests_are_refused_with_the_reason(video: VideoClient):
    """X13."""
    path = "/api/projects/launch/executions"
    for body, words in (
        ({"message": " "}, "the message is empty"),
        ({"message": "x", "sceneIds": ["first"]}, "which is no scene"),
    ):
        reply = await video.http.post(path, json=body)
        assert (reply.status_code, words in reply.text) == (422, True), reply.text
    assert (await video.http.get("/api/executions/none")).status_code == 404
    assert (await video.http.get("/api/projects/none")).status_code == 404
    assert (await video.http.post("/api/projects", json={"id": "launch"})).status_code == 409
    bad = {**SCENES[0], "durationInFrames": 1}
    reply = await video.http.post("/api/projects", json={"scenes": [bad]})
    assert (reply.status_code, "scene 1 is not valid at durationInFrames" in reply.text) == (422, True)
    assert (await video.http.post("/api/projects", json={"starter": "x"})).status_code == 422
    assert (await video.http.get("/api/projects/launch/scenes/scene-9")).status_code == 404
    assert (await video.http.put("/api/projects/launch/locks/scene-9")).status_code == 404
