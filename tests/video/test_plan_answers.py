"""A person's answers about plans, through REST: sentences, steps left out, messages to a paused plan."""

from typing import Any

import httpx
import pytest

from tests.doubles.chat_double import Fail
from tests.doubles.waiting import eventually
from tests.video.video_double import VideoClient, edit, status_is

APPROVE = {"type": "approve"}


async def decide(video: VideoClient, name: str, status: int = 200, **body: Any) -> dict[str, Any]:
    return await video.call("POST", f"/api/executions/{name}/decision", status, json=body)


async def start_unapproved(video: VideoClient, *steps: dict[str, Any]) -> dict[str, Any]:
    started = await video.post_execution("x", *steps, approve=True)
    await video.wait_until_idle()
    return started


async def pause_after_first(video: VideoClient) -> str:
    """Start two edits, pause between them, and return the execution's id."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    await video.call("POST", f"/api/executions/{name}/pause")
    video.model.release()
    await video.wait_until(name, status_is("s1", "completed"))
    await video.wait_until_idle()
    return name


async def test_a_waiting_plan_asks_in_a_sentence(video: VideoClient):
    """D-R15: the reply, the plan and the question have words."""
    started = await start_unapproved(video, edit("scene-1", "scene-2"))
    steps = ("1. Editing scene 1 “Scene 1”: change it", "2. Editing scene 2 “Scene 2”: change it")
    words = "\n".join(("2 steps wait for your approval:", *steps))
    assert started["message"] == words
    execution = await video.execution(started["executionId"])
    assert execution["message"] == words
    thread = (await video.http.get(f"/threads/{video.thread}")).json()
    [[question]] = thread["interrupts"].values()
    assert question["value"]["message"] == words
    await decide(video, started["executionId"], decisions=[APPROVE])
    done = await video.wait_for_end(started["executionId"])
    assert (done["success"], done["message"]) == (True, "")


async def test_a_waiting_plan_names_the_values_that_its_steps_set_and_no_word_twice(video: VideoClient):
    started = await start_unapproved(
        video,
        {"tool": "trimScene", "scenes": ["scene-2"], "seconds": 5},
        {"tool": "reorderScenes", "scenes": ["scene-2"], "behind": "start"},
        edit("scene-1", prompt="faster", title="Making scene-1 faster"),
    )
    assert started["message"].splitlines()[1:] == [
        "1. Changing the length of scene 2 “Scene 2”: 5 s",
        "2. Changing the order of the scenes: scene-2, scene-1, scene-3, scene-4",
        "3. Making scene-1 faster",
    ]


async def test_a_paused_plan_asks_in_a_sentence(video: VideoClient):
    """D-R8."""
    name = await pause_after_first(video)
    message = (await video.execution(name))["message"]
    assert message == "The plan is paused, and 1 step is pending: Editing scene 1 “Scene 1”: second."
    await video.call("POST", f"/api/executions/{name}/cancel")
    ended = await video.execution(name)
    edits = ("Editing scene 1 “Scene 1”: first", "Editing scene 1 “Scene 1”: second")
    assert ended["message"] == f"1 step done: {edits[0]}; 1 cancelled: {edits[1]}."


async def test_steps_can_be_left_out_when_a_plan_is_approved(video: VideoClient):
    """D42, D-R16: what needs a scene that is not made is left out, too."""
    started = await start_unapproved(
        video,
        edit("scene-1", prompt="one", id="a"),
        {"tool": "addScene", "scenes": ["new"], "prompt": "a new one", "id": "b"},
        edit("new", prompt="of the new one", id="c"),
        edit("scene-2", prompt="two", id="d"),
        edit("scene-3", prompt="three", id="e"),
    )
    name = started["executionId"]
    refused = await decide(video, name, 422, decisions=[APPROVE], leaveOut=["z"])
    assert "a, b, c, d, e" in refused["remedy"]
    await decide(video, name, 422, decisions=[APPROVE], leaveOut=["a", "b", "c", "d", "e"])
    await decide(video, name, 422, decisions=[{"type": "reject"}], leaveOut=["a"])
    await decide(video, name, decisions=[APPROVE], leaveOut=["b", "e"])
    done = await video.wait_for_end(name)
    assert done["success"], done
    assert await video.statuses(name) == {
        "a": "completed",
        "b": "skipped",
        "c": "skipped",
        "d": "completed",
        "e": "skipped",
    }
    assert await video.revisions() == {"scene-1": 2, "scene-2": 2, "scene-3": 1, "scene-4": 1}
    assert [(one["kind"], one["step"]) for one in done["changes"]] == [
        ("skipped", "b"),
        ("skipped", "c"),
        ("skipped", "e"),
    ]
    results = [one["content"] for one in video.model.requests[-1].messages if one["role"] == "tool"]
    assert "The person skipped e" in results[-1], "the model hears of it"


async def test_a_step_can_be_left_out_by_its_own_decision(video: VideoClient):
    """D42: beside an edit of another one."""
    started = await start_unapproved(video, edit("scene-1"), edit("scene-2"))
    action = {"args": {"sceneId": "scene-2", "prompt": "other"}}
    decisions = [{"type": "skip"}, {"type": "edit", "edited_action": action}]
    await decide(video, started["executionId"], decisions=decisions)
    await video.wait_for_end(started["executionId"])
    assert await video.revisions() == {"scene-1": 1, "scene-2": 2, "scene-3": 1, "scene-4": 1}
    assert video.model.prompts == ["other"]


async def test_an_edit_that_the_tool_would_refuse_approves_nothing(video: VideoClient):
    """D41: 422, and the question waits."""
    started = await start_unapproved(video, {"tool": "trimScene", "scenes": ["scene-1"], "seconds": 1.5})
    action = {"args": {"sceneId": "scene-1", "durationSeconds": -3}}
    refused = await decide(
        video, started["executionId"], 422, decisions=[{"type": "edit", "edited_action": action}]
    )
    assert "durationSeconds" in refused["error"]
    assert (await video.execution(started["executionId"]))["status"] == "planned"
    await decide(video, started["executionId"], decisions=[APPROVE])
    assert (await video.wait_for_end(started["executionId"]))["success"]


async def test_a_message_to_a_paused_plan_is_refused_with_the_ways_out(video: VideoClient):
    """D-R8: it had ended the plan without a word."""
    name = await pause_after_first(video)
    body = {"message": "and scene 2", "provider": "openai"}
    refused = await video.call("POST", "/api/projects/launch/executions", 409, json=body)
    assert f"/api/executions/{name}/resume" in refused["remedy"]
    assert await video.statuses(name) == {"s1": "completed", "s2": "pending"}
    await video.call("POST", f"/api/executions/{name}/cancel")
    await video.wait_until_idle()
    following = await video.wait_for_end(await video.start("and scene 2", edit("scene-2")))
    assert following["success"]


@pytest.mark.parametrize("verb", ["retry", "rerun"])
async def test_a_step_that_is_to_be_done_again_is_pending_at_once(video: VideoClient, verb: str):
    """D50: the plan is not shown as ended while the run that repeats a step waits for its turn."""
    if verb == "retry":
        video.model.patch = lambda _: Fail(400, "no")
    name = await video.start("x", edit("scene-1"))
    await video.wait_for_end(name)
    video.model.patch = lambda _: {"background": "#123456"}
    video.model.hold("slow")
    slow = await video.start("x", edit("scene-2", prompt="slow"))
    changed = await video.call("POST", f"/api/executions/{name}/steps/s1/{verb}")
    for shown in (changed, await video.execution(name)):
        assert (shown["status"], shown["success"], shown["counts"]) == ("running", None, {"pending": 1})
    runs = (await video.http.get(f"/threads/{video.thread}/runs?status=pending")).json()
    video.model.release()
    await video.wait_for_end(slow)
    assert len(runs) == 1
    assert (await video.wait_for_end(name))["counts"] == {"completed": 1}


async def test_a_repetition_whose_run_was_cancelled_leaves_the_plan_as_it_ended(video: VideoClient):
    """D50."""
    name = await video.start("x", edit("scene-1"))
    await video.wait_for_end(name)
    video.model.hold("slow")
    slow = await video.start("x", edit("scene-2", prompt="slow"))
    await video.call("POST", f"/api/executions/{name}/steps/s1/rerun")
    [run] = (await video.http.get(f"/threads/{video.thread}/runs?status=pending")).json()
    cancelled = await video.http.post(f"/threads/{video.thread}/runs/{run['run_id']}/cancel?wait=true")
    assert cancelled.is_success, cancelled.text
    shown = await video.execution(name)
    assert (shown["status"], shown["counts"]) == ("completed", {"completed": 1})
    video.model.release()
    await video.wait_for_end(slow)


async def test_undo_and_redo_name_the_step_that_they_concern(video: VideoClient):
    """D50: however often they are asked for."""
    await video.wait_for_end(await video.start("make it blue", edit("scene-1")))
    names, requests = [], []
    for verb in ("undo", "redo", "undo", "redo"):
        started = await video.call("POST", f"/api/projects/launch/{verb}")
        done = await video.wait_for_end(started["executionId"])
        names.append(done["plan"]["steps"][0]["displayName"])
        requests.append(done["request"])
    step = "Editing scene 1 “Scene 1”"
    assert names == [f"Undoing: {step}", f"Redoing: {step}"] * 2
    assert requests == ["Undo: make it blue", "Redo: make it blue"] * 2


async def test_a_wrong_scene_of_ones_own_is_refused_with_the_form_of_a_scene(video: VideoClient):
    """The fields that a scene may have are in the remedy."""
    body = {"scenes": [{"title": "One"}]}
    refused = await video.call("POST", "/api/projects", 422, json=body)
    assert "title" in refused["error"]
    assert "durationInFrames" in refused["remedy"]


async def test_the_offline_model_tells_outcomes_in_counts_and_names(api: httpx.AsyncClient):
    """A rejection and a cancellation are said once, not for each step."""
    project = {"id": "launch", "starter": "product-launch"}
    assert (await api.post("/api/projects", json=project)).is_success
    for answer, words in (
        ({"decisions": [APPROVE], "leaveOut": ["s1.2", "s1.3"]}, "2 left out: Scene 2, Scene 3."),
        ({"decisions": [{"type": "reject"}]}, "None of 5 steps was carried out. A person rejected"),
    ):
        body = {"message": "make all scenes faster", "approve": True, "provider": "offline"}
        started = (await api.post("/api/projects/launch/executions", json=body)).json()
        path = f"/api/executions/{started['executionId']}/decision"
        assert (await api.post(path, json=answer)).is_success

        async def has_words(words: str = words) -> bool:
            thread = (await api.get("/threads/launch")).json()
            return thread["status"] == "idle" and words in str(thread["values"]["messages"][-1]["content"])

        await eventually(has_words, words)
