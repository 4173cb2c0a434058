"""Executions of videos through REST: plans, concurrency, failures, live control (D1-D14, D26-D45)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.state.video.scene import Scene
from callsheet.storage import Storage
from tests.doubles.chat_double import Fail
from tests.doubles.wire_server import running_server
from tests.video.video_double import SCENES, PlanningModel, VideoClient, edit, status_is


@pytest.fixture
async def watched(valkey_url: str, planning_model: PlanningModel) -> AsyncIterator[VideoClient]:
    """The same project on a server of its own port, whose streams arrive as they are sent."""
    with running_server(valkey_url, None) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            one = VideoClient(client, planning_model)
            await one.create()
            yield one


def events(text: str) -> list[tuple[str, dict[str, Any], str]]:
    """The events of a stream: name, data and id."""
    blocks = [block.split("\n") for block in text.split("\n\n") if "event: " in block]
    fields = [dict(line.split(": ", 1) for line in block) for block in blocks]
    return [(one["event"], json.loads(one["data"]), one.get("id", "")) for one in fields]


async def test_all_scenes_are_edited_at_once(video: VideoClient):
    """D4, D7, D11, D52: one message; a step for each scene, none waits; a title is for people."""
    before = await video.contents()
    started = await video.started("make all faster", edit("scene-1", "scene-2", "scene-3", "scene-4"))
    plan = started["plan"]
    assert (plan["type"], plan["totalSteps"], plan["estimatedTime"]) == ("parallel", 4, 10.0)
    assert [step["dependencies"] for step in plan["steps"]] == [[]] * 4
    assert plan["steps"][0]["displayName"] == "Editing scene 1 “Scene 1”"
    done = await video.ended(started["executionId"])
    assert (done["status"], done["success"], done["counts"]) == ("completed", True, {"completed": 4})
    assert await video.revisions() == {f"scene-{n}": 2 for n in range(1, 5)}
    after = await video.contents()
    for name, scene in after.items():
        assert scene == {**before[name], "background": {**before[name]["background"], "color": "#abcdef"}}


async def test_three_steps_run_at_once_and_the_next_starts_with_the_first_end(video: VideoClient):
    """D26, D29, D49: a limit on what runs at once."""
    video.director.hold("a", "b", "c", "d")
    name = await video.start(
        "x", *(edit(f"scene-{n}", prompt=letter) for n, letter in zip((1, 2, 3, 4), "abcd", strict=True))
    )
    await video.until(name, lambda one: one["counts"].get("in-progress") == 3)
    assert await video.statuses(name) == {
        "s1": "in-progress",
        "s2": "in-progress",
        "s3": "in-progress",
        "s4": "pending",
    }
    video.director.release("b")
    await video.until(name, status_is("s4", "in-progress"))
    assert await video.statuses(name) == {
        "s1": "in-progress",
        "s2": "completed",
        "s3": "in-progress",
        "s4": "in-progress",
    }
    video.director.release()
    assert (await video.ended(name))["success"]


async def test_a_reference_is_read_and_never_written(video: VideoClient):
    """D9, D12, D20, D49, D-R12: analyse 3, then edit 1, 2 and 4; scene 3 is byte-identical."""
    before = await video.contents()
    name = await video.start(
        "make 1, 2 and 4 like 3",
        {"tool": "contextGatherer", "scenes": ["scene-3"], "id": "analyze"},
        edit("scene-1", "scene-2", "scene-4", prompt="like scene 3", like=["scene-3"], id="e"),
    )
    done = await video.ended(name)
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
    sent = json.loads(video.director.requests[-2].messages[1]["content"])
    assert sent["examples"]["scene-3"]["name"] == "Scene 3"
    assert sent["context"]["style:scene-3"]["palette"][0]["color"] == "#333333"


async def test_a_chain_reads_the_new_version(video: VideoClient):
    """D27, D-R14: "make 1 blue, then 2 match 1"."""
    name = await video.start(
        "x", edit("scene-1", prompt="blue"), edit("scene-2", prompt="match", like=["scene-1"])
    )
    done = await video.ended(name)
    assert done["plan"]["type"] == "sequential"
    assert [step["dependencies"] for step in done["plan"]["steps"]] == [[], ["s1"]]
    [sent] = [
        r
        for r in video.director.requests
        if '"match"' in json.dumps(r.messages[1]["content"]).replace("\\", "")
    ]
    assert json.loads(sent.messages[1]["content"])["examples"]["scene-1"]["background"]["color"] == "#abcdef"


async def test_positions_are_ids_before_the_first_deletion(video: VideoClient):
    """D-R13: "delete scenes 3 and 4", named by position."""
    name = await video.start("x", {"tool": "deleteScene", "scenes": ["3", "scene 4"]})
    await video.ended(name)
    assert [one["id"] for one in await video.scenes()] == ["scene-1", "scene-2"]
    shown = await video.call("GET", "/api/projects/launch")
    assert {one["id"] for one in shown["deleted"]} == {"scene-3", "scene-4"}
    name = await video.start("bring 4 back", {"tool": "restoreScene", "scenes": ["scene-4"]})
    await video.ended(name)
    assert [one["id"] for one in await video.scenes()] == ["scene-1", "scene-2", "scene-4"]


async def test_new_scenes_stand_in_the_plans_order_though_made_at_once(video: VideoClient):
    """D10, D13, D14: ids are new, positions are the plan's; a search comes first."""
    video.director.hold("first")
    name = await video.start(
        "x",
        {"tool": "contextGatherer", "queries": ["app promo"], "sources": ["examples", "trends"]},
        {"tool": "addScene", "scenes": ["new-1"], "prompt": "first", "behind": "scene-1"},
        {"tool": "addScene", "scenes": ["new-2"], "prompt": "second", "behind": "new-1"},
        edit("new-2", prompt="calmer"),
    )
    await video.until(name, status_is("s3", "completed"))
    video.director.release()
    done = await video.ended(name)
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


async def test_a_failed_step_blocks_its_dependants_alone_and_is_retried_with_them(video: VideoClient):
    """D49, D50, D-R5, D-R16: scenes that are done are not touched again."""
    broken = True
    video.director.patch = lambda prompt: (
        Fail(400, "no") if broken and "break" in prompt else {"background": "#00ff00"}
    )
    name = await video.start(
        "x",
        edit("scene-1", prompt="break"),
        edit("scene-2", prompt="like 1", like=["scene-1"]),
        edit("scene-3"),
    )
    done = await video.ended(name)
    assert (done["status"], done["success"]) == ("failed", False)
    assert await video.statuses(name) == {"s1": "error", "s2": "blocked", "s3": "completed"}
    assert done["counts"] == {"error": 1, "blocked": 1, "completed": 1}
    await video.call("POST", f"/api/executions/{name}/steps/s2/retry", 409)
    await video.call("POST", f"/api/executions/{name}/steps/s3/retry", 409)
    broken = False
    await video.call("POST", f"/api/executions/{name}/steps/s1/retry")
    done = await video.until(name, lambda one: one["status"] == "completed")
    await video.idle()
    assert await video.revisions() == {"scene-1": 2, "scene-2": 2, "scene-3": 2, "scene-4": 1}
    assert [one["kind"] for one in done["changes"]] == ["retried"]
    state = (await video.http.get("/threads/launch/state")).json()["values"]
    assert "Retry" in state["messages"][-2]["content"], "the conversation knows"


async def test_a_completed_step_is_repeated_and_what_used_it_is_stale(video: VideoClient):
    """D50."""
    name = await video.start("x", edit("scene-1"), edit("scene-2", like=["scene-1"]))
    await video.ended(name)
    video.director.patch = lambda _: {"background": "#123456"}
    await video.call("POST", f"/api/executions/{name}/steps/s1/rerun")
    done = await video.until(
        name, lambda one: one["status"] == "completed" and one["plan"]["steps"][1]["stale"]
    )
    await video.idle()
    assert [step["stale"] for step in done["plan"]["steps"]] == [False, True]
    assert await video.revisions() == {"scene-1": 3, "scene-2": 2, "scene-3": 1, "scene-4": 1}


async def test_pending_steps_are_edited_and_skipped_and_others_are_not(video: VideoClient):
    """D41, D42, D43, D-R16: 409 once a step has started, and after it has ended."""
    video.director.hold("first")
    name = await video.start(
        "make it pop",
        edit("scene-1", prompt="first"),
        edit("scene-1", prompt="second"),
        edit("scene-1", prompt="third"),
    )
    await video.until(name, status_is("s1", "in-progress"))
    path = f"/api/executions/{name}/steps"
    shown = await video.call("PATCH", f"{path}/s2", json={"params": {"prompt": "quieter"}})
    assert shown["plan"]["steps"][1]["params"]["prompt"] == "quieter"
    assert (shown["plan"]["steps"][1]["canEdit"], shown["plan"]["steps"][0]["canEdit"]) == (True, False)
    await video.call("POST", f"{path}/s3/skip")
    for wrong in ("s1", "s3"):
        await video.call("PATCH", f"{path}/{wrong}", 409, json={"params": {"prompt": "x"}})
        await video.call("POST", f"{path}/{wrong}/skip", 409)
    await video.call("PATCH", f"{path}/s2", 400, json={"params": {"sceneId": "scene-2"}})
    await video.call("PATCH", f"{path}/none", 404, json={"params": {"prompt": "x"}})
    video.director.release()
    done = await video.ended(name)
    assert done["counts"] == {"completed": 2, "skipped": 1}
    assert video.director.prompts == ["first", "quieter"]
    assert [(one["kind"], one["step"]) for one in done["changes"]] == [("edited", "s2"), ("skipped", "s3")]
    for status in ("s2", "s3"):
        await video.call("PATCH", f"{path}/{status}", 409, json={"params": {"prompt": "x"}})
    result, _, _ = video.director.requests[-1].messages[-1]["content"].partition("\n\n<state>\n")
    told = json.loads(result)
    assert told["changes"] == [
        'The person edited s2: {"sceneId": "scene-1", "prompt": "quieter"}',
        "The person skipped s3",
    ]
    learnt = (await video.call("GET", "/api/preferences"))["preferences"]
    assert [one["text"] for one in learnt] == [
        "for 'make it pop' the person changed the step 'second' to 'quieter'"
    ]
    await video.call("DELETE", f"/api/preferences/{learnt[0]['id']}", 204)
    assert (await video.call("GET", "/api/preferences"))["preferences"] == []


async def test_a_step_is_inserted_while_the_others_run(video: VideoClient):
    video.director.patch = lambda prompt: {"name": prompt}
    video.director.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"))
    await video.until(name, status_is("s1", "in-progress"))
    path = f"/api/executions/{name}/steps"
    await video.call("POST", path, json={"step": edit("scene-1", prompt="then this")})
    shown = await video.call("POST", path, json={"step": edit("scene-2", prompt="and this", after=["s1"])})
    assert [step["dependencies"] for step in shown["plan"]["steps"]] == [[], ["s1"], ["s1"]]
    await video.call("POST", path, 400, json={"step": edit("scene-9")})
    await video.call("POST", path, 400, json={"step": edit("scene-2", after=["s9"])})
    video.director.release()
    done = await video.ended(name)
    assert done["counts"] == {"completed": 3}
    assert await video.revisions() == {"scene-1": 3, "scene-2": 2, "scene-3": 1, "scene-4": 1}
    await video.call("POST", path, 409, json={"step": edit("scene-1")})


async def test_a_paused_execution_waits_without_a_run_and_is_resumed(video: VideoClient):
    """D-R8, D-R16: what waits for a person is kept."""
    video.director.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.until(name, status_is("s1", "in-progress"))
    assert (await video.call("POST", f"/api/executions/{name}/pause"))["status"] == "paused"
    video.director.release()
    await video.until(name, status_is("s1", "completed"))
    await video.idle()
    thread = (await video.http.get("/threads/launch")).json()
    assert thread["status"] == "interrupted"
    assert await video.statuses(name) == {"s1": "completed", "s2": "pending"}
    await video.call("PATCH", f"/api/executions/{name}/steps/s2", json={"params": {"prompt": "later"}})
    await video.call("POST", f"/api/executions/{name}/resume")
    done = await video.ended(name)
    assert (done["success"], video.director.prompts) == (True, ["first", "later"])
    await video.call("POST", f"/api/executions/{name}/pause", 409)
    await video.call("POST", f"/api/executions/{name}/resume", 409)


async def test_a_cancelled_execution_keeps_what_is_done(video: VideoClient):
    """D-R15, D-R16."""
    video.director.hold("second")
    name = await video.start(
        "x",
        edit("scene-1", prompt="first"),
        edit("scene-2", prompt="second"),
        edit("scene-2", prompt="third"),
    )
    await video.until(name, status_is("s1", "completed"))
    await video.until(name, status_is("s2", "in-progress"))
    assert (await video.call("POST", f"/api/executions/{name}/cancel"))["status"] == "cancelled"
    video.director.release()
    await video.idle()
    assert await video.statuses(name) == {"s1": "completed", "s2": "completed", "s3": "cancelled"}
    assert await video.revisions() == {"scene-1": 2, "scene-2": 2, "scene-3": 1, "scene-4": 1}
    await video.call("POST", f"/api/executions/{name}/cancel")
    assert (await video.execution(name))["success"] is False


async def test_an_approved_plan_is_what_runs(video: VideoClient):
    """Nothing is written before; a rejected plan changes nothing and tells the model why."""
    started = await video.started("x", edit("scene-1"), edit("scene-2"), approve=True)
    name = started["executionId"]
    await video.idle()
    assert (await video.execution(name))["status"] == "planned"
    assert set((await video.revisions()).values()) == {1}
    await video.call("PATCH", f"/api/executions/{name}/steps/s1", 409, json={"params": {"prompt": "x"}})
    approved = (await video.execution(name))["approvedPlan"]
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{name}/decision", json=approval)
    done = await video.ended(name)
    assert (done["success"], done["approvedPlan"]) == (True, approved)
    again = (await video.started("y", edit("scene-3"), approve=True))["executionId"]
    await video.idle()
    decision = {"decisions": [{"type": "reject", "message": "keep 3"}]}
    await video.call("POST", f"/api/executions/{again}/decision", json=decision)
    done = await video.ended(again)
    assert done["status"] == "cancelled"
    assert (await video.revisions())["scene-3"] == 1
    assert "keep 3" in video.director.requests[-1].messages[-1]["content"]


async def test_a_bad_plan_goes_back_once_and_is_then_explained(video: VideoClient):
    """D-R11: every fault is named."""
    audio = {"tool": "addAudio", "scenes": ["scene-1"]}
    bad = {"steps": [edit("scene-9", id="a"), edit("scene-1", id="a", after=["b"]), audio]}
    video.director.plans += [bad, {"steps": [edit("scene-1")]}]
    started = await video.started("x")
    await video.ended(started["executionId"])
    refusal = video.director.requests[1].messages[-1]["content"]
    for fault in (
        "two steps have the id 'a'",
        "there is no scene 'scene-9'",
        "waits for 'b'",
        "addAudio needs a prompt",
    ):
        assert fault in refusal
    assert (await video.revisions())["scene-1"] == 2
    cycle = {"steps": [edit("scene-1", id="a", after=["b"]), edit("scene-2", id="b", after=["a"])]}
    video.director.plans += [cycle, {"steps": []}]
    started = await video.started("y")
    assert started["executionId"] is None
    assert "could not make a plan" in started["message"]
    assert set((await video.revisions()).values()) == {1, 2}


async def test_scenes_that_are_attached_are_the_only_ones_edited(video: VideoClient):
    """Attached ids beat words."""
    video.director.plans += [{"steps": [edit("scene-1")]}, {"steps": [edit("scene-2", like=["scene-1"])]}]
    name = await video.start("make this like the first", sceneIds=["scene-2"])
    await video.ended(name)
    assert await video.revisions() == {"scene-1": 1, "scene-2": 2, "scene-3": 1, "scene-4": 1}
    assert "Attached by the person, meant by their words: scene-2" in video.director.outlines[0]


async def test_the_model_sees_the_project_and_the_last_plan(video: VideoClient):
    await video.ended(await video.start("x", edit("scene-2")))
    started = await video.started("what is there?")
    assert (started["executionId"], started["message"]) == (None, "There is nothing to do.")
    outline = video.director.outlines[-1]
    assert "4 scenes, 14 s" in outline
    line = 'text "Two"; colours #222222 #ffffff; animations fade; pace normal'
    assert f"\n2. scene-2 v2 'Scene 2', 3 s: {line}" in outline
    assert "- s1 editScene scene-2: completed (scene-2 now v2)" in outline
    stored = (await video.http.get("/threads/launch/state")).json()["values"]["messages"]
    assert all("<project>" not in one["content"] for one in stored), "the outline is not stored"


async def test_a_locked_scene_is_left_alone(video: VideoClient):
    await video.call("PUT", "/api/projects/launch/locks/scene-1")
    name = await video.start("x", edit("scene-1", "scene-2"))
    done = await video.ended(name)
    assert done["counts"] == {"error": 1, "completed": 1}
    assert "locked" in done["plan"]["steps"][0]["error"]
    await video.call("DELETE", "/api/projects/launch/locks/scene-1")
    await video.call("POST", f"/api/executions/{name}/steps/s1.1/retry")
    await video.until(name, lambda one: one["status"] == "completed")
    await video.idle()
    assert (await video.revisions())["scene-1"] == 2


async def lines_until(video: VideoClient, path: str, wanted: str) -> list[str]:
    """The lines of a stream until a step that is completed."""
    lines: list[str] = []
    async with video.http.stream("GET", path) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        async for line in reply.aiter_lines():
            lines.append(line)
            if line.startswith("data: ") and wanted in line and "completed" in line:
                break
    return lines


UI_FIELDS = {"id", "name", "status", "detail", "progress", "canEdit", "canCancel"}


async def test_progress_is_streamed_and_resumed_without_gap_or_repetition(watched: VideoClient):
    """D34, D35, D36, D37, D38, D40, D44, D-R7."""
    video = watched
    video.director.patch = lambda prompt: {"name": prompt}
    video.director.hold("b")
    name = await video.start(
        "x", edit("scene-1", prompt="a"), edit("scene-2", prompt="b"), edit("scene-2", prompt="c")
    )
    path = f"/api/execution-progress/{name}"
    first = await lines_until(video, path, '"stepId":"s1"')
    seen = events("\n".join([*first, "", ""]))
    video.director.release()
    await video.ended(name)
    rest = events((await video.http.get(path, headers={"Last-Event-ID": seen[-1][2]})).text)
    whole = events((await video.http.get(path)).text)
    ids = [one[2] for one in whole]
    assert ids == sorted(ids, key=lambda one: [int(part) for part in one.split("-")])
    assert whole[0][0] == "execution-plan"
    assert set(whole[0][1]["steps"][0]) >= UI_FIELDS
    assert whole[-1][0] == "execution-complete"
    assert (whole[-1][1]["success"], whole[-1][1]["counts"]) == (True, {"completed": 3})
    for step in ("s1", "s2", "s3"):
        statuses = [
            data["status"] for kind, data, _ in whole if kind == "step-update" and data["stepId"] == step
        ]
        assert statuses == ["in-progress", "completed"]
    changed = [data["sceneId"] for kind, data, _ in whole if kind == "scene-update"]
    assert changed == ["scene-1", "scene-2", "scene-2"]
    assert {one[2] for one in seen}.isdisjoint({one[2] for one in rest})
    assert {one[2] for one in whole} <= {one[2] for one in [*seen, *rest]}


@pytest.mark.parametrize("last", ["first event", ""])
async def test_progress_that_is_not_kept_any_more_is_named_with_the_plan_as_it_is(
    watched: VideoClient, storage: Storage, last: str
):
    """D38: whoever goes on behind what is kept sees where everything stands."""
    video = watched
    video.director.patch = lambda prompt: {"name": prompt}
    name = await video.start("x", edit("scene-1", prompt="a"), edit("scene-2", prompt="b"))
    await video.ended(name)
    path = f"/api/execution-progress/{name}"
    whole = events((await video.http.get(path)).text)
    (stream,) = [key async for key in storage.redis.scan_iter(match=f"*-events:{name}")]
    await storage.redis.xtrim(stream, minid=whole[2][2], approximate=False)
    headers = {"Last-Event-ID": whole[0][2]} if last else {}
    gap, plan, *rest = events((await video.http.get(path, headers=headers)).text)
    assert gap[:2] == ("gap", {"first": whole[2][2]})
    assert (plan[0], {one["status"] for one in plan[1]["steps"]}) == ("execution-plan", {"completed"})
    assert [one[2] for one in rest] == [one[2] for one in whole[2:]]
    after = events((await video.http.get(path, headers={"Last-Event-ID": whole[2][2]})).text)
    assert after == whole[3:]


async def test_only_a_known_execution_is_followed_from_a_known_place(video: VideoClient):
    name = await video.start("x", edit("scene-1"))
    await video.ended(name)
    wrong = await video.http.get(f"/api/execution-progress/{name}", headers={"Last-Event-ID": "x"})
    assert wrong.status_code == 400
    assert (await video.http.get("/api/execution-progress/none")).status_code == 404


async def executions_by_page(video: VideoClient, limit: int) -> list[dict[str, Any]]:
    """All executions; each page says whether there are more."""
    path = f"/api/projects/launch/executions?limit={limit}"
    await video.call("GET", f"{path}&after=none", 404)
    page = await video.call("GET", path)
    listed = page["executions"]
    while page["next"]:
        page = await video.call("GET", f"{path}&after={page['next']}")
        listed += page["executions"]
    return list(listed)


async def test_steps_batches_and_versions_are_undone_and_redone(video: VideoClient):
    """D50: "keep 1 and 2, put 3 back"."""
    before = await video.contents()
    name = await video.start(
        "x", edit("scene-1", "scene-2", "scene-3"), {"tool": "deleteScene", "scenes": ["scene-4"]}
    )
    await video.ended(name)
    undone = await video.call(
        "POST", "/api/projects/launch/undo", json={"executionId": name, "steps": ["s1.3"]}
    )
    await video.ended(undone["executionId"])
    after = await video.contents()
    assert after["scene-3"] == before["scene-3"]
    assert [after[one]["background"]["color"] for one in ("scene-1", "scene-2")] == ["#abcdef"] * 2
    redone = await video.call("POST", "/api/projects/launch/redo")
    await video.ended(redone["executionId"])
    assert (await video.contents())["scene-3"]["background"]["color"] == "#abcdef"
    await video.call("POST", "/api/projects/launch/redo", 409)
    everything = await video.call("POST", "/api/projects/launch/undo", json={"executionId": name})
    await video.ended(everything["executionId"])
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
    await video.ended(restored["executionId"])
    assert (await video.contents())["scene-1"]["background"]["color"] == "#abcdef"
    versions = (await video.call("GET", "/api/projects/launch/scenes/scene-1/versions"))["versions"]
    assert [one["parent"] for one in versions] == [None, "v1", "v1", "v2"]


async def test_a_scene_that_changed_again_is_not_undone_behind_a_persons_back(video: VideoClient):
    first = await video.start("x", edit("scene-1", prompt="one"))
    await video.ended(first)
    video.director.patch = lambda _: {"name": "Other"}
    await video.ended(await video.start("y", edit("scene-1", prompt="two")))
    refused = await video.call("POST", "/api/projects/launch/undo", 409, json={"executionId": first})
    assert "scene-1 has changed since" in refused["error"]
    undone = await video.call("POST", "/api/projects/launch/undo", json={})
    await video.ended(undone["executionId"])
    undone = await video.call("POST", "/api/projects/launch/undo", json={})
    await video.ended(undone["executionId"])
    assert (await video.contents())["scene-1"] == Scene.model_validate(SCENES[0]).data()
    await video.call("POST", "/api/projects/launch/undo", 409, json={})


async def test_a_saved_message_is_run_by_name(video: VideoClient):
    """D50: presets."""
    await video.call("PUT", "/api/presets/faster", json={"message": "make all scenes faster"})
    started = await video.started("", edit("scene-1"), preset="faster")
    done = await video.ended(started["executionId"])
    assert done["request"] == "make all scenes faster"
    assert (await video.call("GET", "/api/presets"))["presets"] == {"faster": "make all scenes faster"}
    await video.call("POST", "/api/projects/launch/executions", 404, json={"message": "", "preset": "none"})
    await video.call("DELETE", "/api/presets/faster", 204)
    await video.call("DELETE", "/api/presets/faster", 404)


async def test_estimates_come_from_earlier_runs(video: VideoClient):
    """D50, D1."""
    await video.ended(await video.start("x", edit("scene-1")))
    started = await video.started("y", edit("scene-1", "scene-2", "scene-3"))
    assert started["plan"]["estimatedTime"] < 1
    await video.ended(started["executionId"])


async def test_what_does_not_fit_is_refused_by_name(video: VideoClient):
    """X13."""
    path = "/api/projects/launch/executions"
    for body, words in (
        ({"message": " "}, "the message is empty"),
        ({"message": "x", "sceneIds": ["first"]}, "which is no scene"),
    ):
        reply = await video.http.post(path, json=body)
        assert (reply.status_code, words in reply.text) == (400, True), reply.text
    assert (await video.http.get("/api/executions/none")).status_code == 404
    assert (await video.http.get("/api/projects/none")).status_code == 404
    assert (await video.http.post("/api/projects", json={"id": "launch"})).status_code == 409
    bad = {**SCENES[0], "durationInFrames": 1}
    reply = await video.http.post("/api/projects", json={"scenes": [bad]})
    assert (reply.status_code, "scene 1 is not valid at durationInFrames" in reply.text) == (400, True)
    assert (await video.http.post("/api/projects", json={"starter": "x"})).status_code == 400
    assert (await video.http.get("/api/projects/launch/scenes/scene-9")).status_code == 404
    assert (await video.http.put("/api/projects/launch/locks/scene-9")).status_code == 404
