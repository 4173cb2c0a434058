"""What people decide about executions: cancel, pause, approve, lock (D-R5, D-R8, D-R15)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.doubles.chat_double import Fail
from tests.video.video_double import VideoClient, edit, status_is

CHANGE_OF = {"retry": "retried", "rerun": "repeated"}
UNTOUCHED = {f"scene-{n}": 1 for n in range(1, 5)}
DELETION = {"tool": "deleteScene", "scenes": ["scene-1", "scene-2"]}


async def require_cancelled(video: VideoClient, name: str, revisions: dict[str, int]) -> None:
    """The execution stays cancelled and changed no more, and the next message is carried out."""
    await video.idle()
    assert (await video.execution(name))["status"] == "cancelled"
    assert await video.revisions() == revisions
    assert (await video.http.get(f"/threads/{video.thread}")).json()["status"] == "idle"
    following = await video.ended(await video.start("go on", edit("scene-4")))
    assert following["success"]
    assert (await video.execution(name))["status"] == "cancelled"
    assert await video.revisions() == {**revisions, "scene-4": revisions["scene-4"] + 1}


async def asked(video: VideoClient, *steps: dict[str, Any]) -> str:
    """Start a plan that waits for approval, and return its id."""
    name = await video.start("x", *steps, approve=True)
    await video.idle()
    return name


async def paused(video: VideoClient) -> str:
    """Start two edits, and pause between them."""
    video.director.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.until(name, status_is("s1", "in-progress"))
    await video.call("POST", f"/api/executions/{name}/pause")
    video.director.release()
    await video.until(name, status_is("s1", "completed"))
    await video.idle()
    return name


async def question(video: VideoClient) -> dict[str, Any]:
    """The value of the question that waits."""
    thread = (await video.http.get(f"/threads/{video.thread}")).json()
    [[one]] = thread["interrupts"].values()
    return dict(one["value"])


async def answer(video: VideoClient, value: Any) -> None:
    """Answer the question as a LangGraph client does."""
    body = {"assistant_id": "scene_edit", "command": {"resume": value}}
    reply = await video.http.post(f"/threads/{video.thread}/runs/wait", json=body)
    assert reply.status_code == 200, reply.text
    await video.idle()


async def test_a_plan_cancelled_before_its_approval_is_not_carried_out(video: VideoClient):
    """D-R15."""
    name = await asked(video, DELETION)
    shown = await video.call("POST", f"/api/executions/{name}/cancel")
    assert (shown["status"], shown["counts"]) == ("cancelled", {"cancelled": 2})
    assert shown["totalTime"] == 0
    await require_cancelled(video, name, UNTOUCHED)
    state = (await video.http.get(f"/threads/{video.thread}/state")).json()["values"]
    results = [one["content"] for one in state["messages"] if one["type"] == "tool"]
    assert len(results) == 2
    assert '"cancelled"' in results[0]


async def test_a_paused_plan_that_is_cancelled_does_no_more(video: VideoClient):
    """D-R15: what was done before is kept."""
    name = await paused(video)
    await video.call("POST", f"/api/executions/{name}/cancel")
    await require_cancelled(video, name, {**UNTOUCHED, "scene-1": 2})
    assert "second" not in video.director.prompts


@pytest.mark.slow
async def test_a_plan_cancelled_right_after_its_start_stays_cancelled(video: VideoClient):
    """D-R15: a step that has begun ends, and nothing else begins."""
    for number in range(6):
        name = await video.start(f"x{number}", edit("scene-1"), edit("scene-1"), edit("scene-1"))
        await video.call("POST", f"/api/executions/{name}/cancel")
        await video.idle()
        shown = await video.execution(name)
        assert shown["status"] == "cancelled"
        assert set(shown["counts"]) <= {"cancelled", "completed"}
        assert shown["counts"]["cancelled"] >= 2
    assert (await video.revisions())["scene-1"] <= 7


async def test_a_cancellation_right_beside_a_question_or_its_answer_counts(video: VideoClient):
    """D-R15: it does not fail because the run that asks, or the one that approves, has not ended."""
    for number in range(4):
        name = await video.start(f"x{number}", DELETION, approve=True)
        await video.call("POST", f"/api/executions/{name}/cancel")
        await video.idle()
        assert (await video.execution(name))["status"] == "cancelled"
    name = await asked(video, DELETION)
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{name}/decision", json=approval)
    shown = await video.call("POST", f"/api/executions/{name}/cancel")
    assert shown["status"] == "cancelled"
    await video.idle()
    assert set((await video.execution(name))["counts"]) <= {"cancelled", "completed"}
    following = await video.ended(await video.start("go on", edit("scene-4")))
    assert following["success"]


async def test_cancelling_again_leaves_the_question_of_a_later_plan(video: VideoClient):
    """D-R15: an execution's cancellation answers no question about another one."""
    first = await asked(video, edit("scene-1"))
    await video.call("POST", f"/api/executions/{first}/cancel")
    await video.idle()
    second = await asked(video, edit("scene-2"))
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{first}/cancel")
    await video.call("POST", f"/api/executions/{first}/decision", 409, json=approval)
    await video.idle()
    assert (await video.execution(second))["status"] == "planned"
    await video.call("POST", f"/api/executions/{second}/decision", json=approval)
    assert (await video.ended(second))["success"]


async def test_steps_of_a_cancelled_plan_are_retried(video: VideoClient):
    """D50: a retry starts a cancelled execution again, also across a pause."""
    video.director.patch = lambda prompt: {"name": prompt}
    name = await asked(video, edit("scene-1", prompt="first"), edit("scene-2", prompt="second"))
    await video.call("POST", f"/api/executions/{name}/cancel")
    await video.idle()
    video.director.hold("first")
    await video.call("POST", f"/api/executions/{name}/steps/s1/retry")
    await video.until(name, status_is("s1", "in-progress"))
    await video.call("POST", f"/api/executions/{name}/steps/s2/retry")
    await video.until(name, status_is("s2", "completed"))
    step = edit("scene-1", prompt="third", after=["s1"])
    await video.call("POST", f"/api/executions/{name}/steps", json={"step": step})
    await video.call("POST", f"/api/executions/{name}/pause")
    video.director.release()
    await video.until(name, status_is("s1", "completed"))
    await video.idle()
    assert (await video.execution(name))["status"] == "paused"
    await video.call("POST", f"/api/executions/{name}/resume")
    done = await video.ended(name)
    assert (done["success"], done["counts"]) == (True, {"completed": 3})
    assert await video.revisions() == {**UNTOUCHED, "scene-1": 3, "scene-2": 2}


@pytest.mark.slow
async def test_an_execution_is_paused_before_its_first_step(video: VideoClient):
    """D-R5: the start's reply is early enough; a plan that waits for approval has nothing to pause."""
    for number in range(6):
        name = await video.start(f"x{number}", edit("scene-1"), edit("scene-1"))
        shown = await video.call("POST", f"/api/executions/{name}/pause")
        assert shown["status"] == "paused"
        await video.until(name, lambda one: "in-progress" not in one["counts"])
        await video.idle()
        assert (await question(video))["executionId"] == name
        await video.call("POST", f"/api/executions/{name}/resume")
        assert (await video.ended(name))["success"]
    name = await asked(video, edit("scene-1"))
    refused = await video.call("POST", f"/api/executions/{name}/pause", 409)
    assert "waits for approval" in refused["error"]


EDIT = {"type": "edit", "edited_action": {"args": {"sceneId": "scene-1", "prompt": "new"}}}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "decisions"),
        ({"decision": "reject"}, "decision"),
        ({"decisions": [{"type": "approve"}], "plan": "x"}, "plan"),
        ({"decisions": []}, "decisions"),
        ({"decisions": [{"type": "foo"}]}, "'approve', 'reject' or 'edit'"),
        ({"decisions": [{"type": "edit"}]}, "an edit needs edited_action"),
        ({"decisions": [{"type": "edit", "edited_action": {"prompt": "x"}}]}, "args"),
        ({"decisions": [{"type": "approve", "message": "but not 2"}]}, "has no message"),
        ({"decisions": [{"type": "approve", "edited_action": {"args": {"x": 1}}}]}, "has no edited_action"),
        ({"decisions": [{"type": "approve"}] * 3}, "3 decisions were sent for 2 actions"),
        ({"decisions": [EDIT]}, "one edit was sent for 2 actions"),
        (
            {"decisions": [{**EDIT, "edited_action": {"name": "deleteScene", "args": {"x": 1}}}] * 2},
            "names the tool 'deleteScene'",
        ),
    ],
)
async def test_a_decision_that_is_none_approves_nothing(video: VideoClient, body: dict[str, Any], words: str):
    """D-R15: it is refused with what is wrong, and the question still waits."""
    name = await asked(video, edit("scene-1"), edit("scene-2"))
    before = await question(video)
    reply = await video.http.post(f"/api/executions/{name}/decision", json=body)
    assert reply.status_code in {400, 422}, reply.text
    assert words in reply.text
    assert await question(video) == before
    assert await video.revisions() == UNTOUCHED
    decisions = [{"type": "edit", "editedAction": EDIT["edited_action"]}, {"type": "approve"}]
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": decisions})
    assert (await video.ended(name))["success"]
    assert sorted(video.director.prompts) == ["change it", "new"]


@pytest.mark.parametrize(
    "value", [{"decisions": [{"type": "foo"}]}, {"decisions": [{"type": "edit"}]}, {"decision": "approve"}, 7]
)
async def test_an_invalid_answer_of_a_langgraph_client_is_asked_again(video: VideoClient, value: Any):
    """D-R15: LangGraph keeps the first answer of a node that fails, and the plan could never be decided."""
    name = await asked(video, edit("scene-1"), edit("scene-2"))
    before = await question(video)
    await answer(video, value)
    again = await question(video)
    assert again["problem"]
    assert [one["args"] for one in again["action_requests"]] == [
        one["args"] for one in before["action_requests"]
    ]
    assert await video.revisions() == UNTOUCHED
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": [{"type": "approve"}]})
    assert (await video.ended(name))["success"]


async def test_a_paused_execution_is_decided_by_a_plain_yes_or_no(video: VideoClient):
    """D-R8: anything else is refused, and the question asked again with the reason."""
    name = await paused(video)
    assert (await question(video))["problem"] == ""
    for wrong in ({"decisions": [{"type": "foo"}]}, "perhaps", {"resume": "later"}):
        await answer(video, wrong)
        shown = await question(video)
        assert "is no yes and no no" in shown["problem"]
        assert shown["message"].startswith(shown["problem"])
        assert (await video.execution(name))["status"] == "paused"
    refused = await video.call("POST", f"/api/executions/{name}/decision", 400, json={"decisions": [EDIT]})
    assert "resumed or cancelled" in refused["error"]
    await answer(video, {"resume": False})
    await require_cancelled(video, name, {**UNTOUCHED, "scene-1": 2})
    name = await video.start("x", edit("scene-2"), edit("scene-2"))
    await video.call("POST", f"/api/executions/{name}/pause")
    await video.idle()
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{name}/decision", json=approval)
    assert (await video.ended(name))["success"]


async def test_a_locked_scene_stays_in_the_project(video: VideoClient):
    """D-R15: it is neither deleted nor restored, by a plan or by undoing one; the order is not the scene."""
    lock = "/api/projects/launch/locks"
    await video.call("PUT", f"{lock}/scene-1")
    done = await video.ended(await video.start("x", {"tool": "deleteScene", "scenes": ["scene-1"]}))
    assert (done["status"], "locked" in done["plan"]["steps"][0]["error"]) == ("failed", True)
    added = await video.start("y", {"tool": "addScene", "prompt": "new"})
    await video.ended(added)
    await video.call("PUT", f"{lock}/scene-5")
    undone = await video.call("POST", "/api/projects/launch/undo")
    assert "locked" in (await video.ended(undone["executionId"]))["plan"]["steps"][0]["error"]
    await video.ended(await video.start("z", {"tool": "deleteScene", "scenes": ["scene-2"]}))
    await video.call("PUT", f"{lock}/scene-2")
    done = await video.ended(await video.start("z", {"tool": "restoreScene", "scenes": ["scene-2"]}))
    assert "locked" in done["plan"]["steps"][0]["error"]
    order = ["scene-5", "scene-4", "scene-3", "scene-1"]
    done = await video.ended(await video.start("w", {"tool": "reorderScenes", "order": order}))
    assert done["success"], done
    assert [one["id"] for one in await video.scenes()] == order
    await video.call("DELETE", f"{lock}/scene-1")
    assert (await video.ended(await video.start("v", {"tool": "deleteScene", "scenes": ["scene-1"]})))[
        "success"
    ]


async def test_undo_needs_no_body(video: VideoClient):
    """D50: as redo."""
    await video.ended(await video.start("x", edit("scene-1")))
    undone = await video.call("POST", "/api/projects/launch/undo")
    assert (await video.ended(undone["executionId"]))["kind"] == "undo"
    assert (await video.contents())["scene-1"]["background"]["color"] == "#111111"


async def require_refused_beside_a_question(video: VideoClient, before: str) -> None:
    """Nothing that would end a question is begun while it waits."""
    for path in (
        "/api/projects/launch/undo",
        "/api/projects/launch/redo",
        "/api/projects/launch/scenes/scene-1/versions/v1/restore",
        f"/api/executions/{before}/steps/s1/rerun",
    ):
        refused = await video.call("POST", path, 409)
        assert "waits" in refused["error"] or "to redo" in refused["error"], path


async def test_a_plan_that_waits_is_not_discarded_by_an_undo_a_restore_or_a_repetition(video: VideoClient):
    """D50, D-R5: the question stays, and its answer counts."""
    before = await video.start("before", edit("scene-1"))
    await video.ended(before)
    name = await asked(video, edit("scene-2"))
    await require_refused_beside_a_question(video, before)
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": [{"type": "approve"}]})
    assert (await video.ended(name))["success"]
    paused_name = await paused(video)
    await require_refused_beside_a_question(video, before)
    await video.call("POST", f"/api/executions/{paused_name}/resume")
    assert (await video.ended(paused_name))["success"]


async def test_a_plan_that_runs_is_not_undone_by_half(video: VideoClient):
    """D50: its finished steps are undone by name, or all of it once it has ended."""
    video.director.hold("second")
    name = await video.start("x", edit("scene-1"), edit("scene-2", prompt="second"))
    await video.until(name, status_is("s1", "completed"))
    refused = await video.call("POST", "/api/projects/launch/undo", 409)
    assert "has not ended" in refused["error"]
    video.director.release()
    await video.ended(name)
    undone = await video.call("POST", "/api/projects/launch/undo")
    assert (await video.ended(undone["executionId"]))["counts"] == {"completed": 2}


@pytest.mark.slow
async def test_an_approval_may_follow_the_start_at_once(video: VideoClient):
    """D-R5: the reply that shows the plan comes when the question can be answered."""
    for number in range(8):
        name = await video.start(f"x{number}", edit("scene-1"), approve=True)
        approval = {"decisions": [{"type": "approve"}]}
        await video.call("POST", f"/api/executions/{name}/decision", json=approval)
        assert (await video.ended(name))["success"]


@pytest.mark.parametrize("verb", ["retry", "rerun"])
async def test_a_step_that_two_people_want_again_is_done_again_once(video: VideoClient, verb: str):
    """D50: their runs wait for another one meanwhile."""
    if verb == "retry":
        video.director.patch = lambda _: Fail(400, "no")
    name = await edited(video, 1)
    video.director.patch = lambda _: {"background": "#123456"}
    before = (await video.revisions())["scene-1"]
    video.director.hold("slow")
    slow = await video.start("x", edit("scene-2", prompt="slow"))
    for _ in range(3):
        await video.call("POST", f"/api/executions/{name}/steps/s1/{verb}")
    video.director.release()
    await video.ended(slow)
    shown = await video.execution(name)
    assert (shown["status"], [one["kind"] for one in shown["changes"]]) == ("completed", [CHANGE_OF[verb]])
    assert (await video.revisions())["scene-1"] == before + 1
    runs = (await video.http.get(f"/threads/{video.thread}/runs")).json()
    assert {one["status"] for one in runs} == {"success"}
    assert (await video.http.get(f"/threads/{video.thread}")).json()["status"] == "idle"


async def test_an_edit_without_a_required_argument_is_refused_and_still_waits(video: VideoClient):
    """D-R5."""
    name = await asked(video, edit("scene-1"))
    decision = {"type": "edit", "edited_action": {"args": {"sceneId": "scene-1"}}}
    refused = await video.call(
        "POST", f"/api/executions/{name}/decision", 400, json={"decisions": [decision]}
    )
    assert "has no 'prompt'" in refused["error"]
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": [EDIT]})
    assert (await video.ended(name))["success"]


async def test_an_edit_that_does_not_fit_the_tool_is_asked_about_again(video: VideoClient):
    """D-R5: the reason is in the question, and nothing is carried out."""
    name = await asked(video, {"tool": "trimScene", "scenes": ["scene-1"], "seconds": 1.5})
    [shown] = (await question(video))["action_requests"]
    for seconds in ("soon", 1):
        action = {"args": {**shown["args"], "durationSeconds": seconds}}
        body = {"decisions": [{"type": "edit", "edited_action": action}]}
        await video.call("POST", f"/api/executions/{name}/decision", json=body)
        await video.idle()
        if seconds == "soon":
            assert (await video.execution(name))["status"] == "planned"
            assert "durationSeconds" in (await question(video))["problem"]
    assert (await video.ended(name))["success"]
    assert (await video.scenes())[0]["durationInFrames"] == 30


async def test_an_undo_and_a_redo_that_are_sent_again_with_their_key_are_done_once(video: VideoClient):
    """X13."""
    video.director.patch = lambda prompt: {"name": prompt}
    names = []
    for number in range(3):
        names.append(await video.start(f"x{number}", edit("scene-1", prompt=f"name {number}")))
        await video.ended(names[-1])
    for path, key, revision in (("undo", "u", 5), ("redo", "r", 6)):
        replies = []
        for _ in range(2):
            reply = await video.call("POST", f"/api/projects/launch/{path}", headers={"Idempotency-Key": key})
            await video.ended(reply["executionId"])
            replies.append(reply["executionId"])
        assert replies[0] == replies[1]
        assert (await video.revisions())["scene-1"] == revision
    body = {"executionId": names[0]}
    await video.call("POST", "/api/projects/launch/undo", 409, headers={"Idempotency-Key": "u"}, json=body)


async def test_an_edit_that_changes_nothing_is_nothing_to_undo(video: VideoClient):
    """D50: the execution before it is undone; by its id, it is refused."""
    first, same = [await edited(video, number) for number in range(2)]
    await video.call("POST", "/api/projects/launch/undo", 409, json={"executionId": same})
    undone = await video.call("POST", "/api/projects/launch/undo")
    await video.ended(undone["executionId"])
    assert undone["plan"]["steps"][0]["params"]["versionId"] == "v1", first
    assert (await video.contents())["scene-1"]["background"]["color"] == "#111111"


async def edited(video: VideoClient, number: int) -> str:
    name = await video.start(f"x{number}", edit("scene-1"))
    await video.ended(name)
    return name


def repeated(times: int) -> Callable[[dict[str, Any]], bool]:
    return lambda one: len(one["changes"]) == times


async def test_a_repeated_step_is_undone_to_what_was_there_before_the_plan(video: VideoClient):
    """D50: also where the repetition failed."""
    names = iter(["second", "third"])
    video.director.patch = lambda _: {"name": name} if (name := next(names, "")) else Fail(400, "no")
    execution = await edited(video, 1)
    for number in (1, 2):
        await video.call("POST", f"/api/executions/{execution}/steps/s1/rerun")
        await video.until(execution, repeated(number))
        await video.ended(execution)
    assert [one["status"] for one in (await video.execution(execution))["plan"]["steps"]] == ["error"]
    for path, name in (("undo", "Scene 1"), ("redo", "third")):
        started = await video.call("POST", f"/api/projects/launch/{path}")
        await video.ended(started["executionId"])
        assert (await video.contents())["scene-1"]["name"] == name


async def test_a_change_between_a_step_and_its_repetition_stays(video: VideoClient):
    """D50: undo takes back the repetition alone."""
    names = iter(["first", "between", "again"])
    video.director.patch = lambda _: {"name": next(names)}
    execution, _ = [await edited(video, number) for number in range(2)]
    await video.call("POST", f"/api/executions/{execution}/steps/s1/rerun")
    await video.until(execution, repeated(1))
    await video.ended(execution)
    undone = await video.call("POST", "/api/projects/launch/undo", json={"executionId": execution})
    await video.ended(undone["executionId"])
    assert (await video.contents())["scene-1"]["name"] == "between"


async def test_a_repeated_order_is_undone_to_the_first(video: VideoClient):
    """D50."""
    before = [*await video.contents()]
    execution = await video.start("x", {"tool": "reorderScenes", "order": before[::-1]})
    await video.ended(execution)
    await video.call("POST", f"/api/executions/{execution}/steps/s1/rerun")
    await video.until(execution, repeated(1))
    await video.ended(execution)
    undone = await video.call("POST", "/api/projects/launch/undo")
    await video.ended(undone["executionId"])
    assert [*await video.contents()] == before


async def test_a_scene_that_was_added_or_deleted_is_not_so_again(video: VideoClient):
    """D50: the execution stays as it is, and can be undone."""
    for step in ({"tool": "deleteScene", "scenes": ["scene-1"]}, {"tool": "addScene", "prompt": "prices"}):
        name = await video.start("x", step)
        await video.ended(name)
        refused = await video.call("POST", f"/api/executions/{name}/steps/s1/rerun", 409)
        assert "is done already" in refused["error"]
        undone = await video.call("POST", "/api/projects/launch/undo", json={"executionId": name})
        assert (await video.ended(undone["executionId"]))["success"]
    assert [*await video.contents()] == ["scene-1", "scene-2", "scene-3", "scene-4"]


async def test_each_idempotency_key_names_an_edit_of_its_own(video: VideoClient):
    """X9: the same words under another key are another request, and under the same key the same."""
    body = {"message": "brighter", "provider": "openai"}
    path, replies = "/api/projects/launch/executions", []
    for key in ("k1", "k2", "k3", "k1", "k3"):
        video.director.plans = [{"steps": [edit("scene-1", prompt=f"under {key}")]}]
        video.director.patch = lambda prompt: {"name": prompt}
        replies.append(await video.call("POST", path, headers={"Idempotency-Key": key}, json=body))
        await video.ended(replies[-1]["executionId"])
    first, second, third, first_again, third_again = [reply["executionId"] for reply in replies]
    assert len({first, second, third}) == 3
    assert (first_again, third_again) == (first, third)
    assert (await video.revisions())["scene-1"] == 4


async def test_an_equal_edit_under_another_key_waits_for_the_running_one(video: VideoClient):
    """X8: 409 as for any other request on a busy project, and nothing of it is done."""
    video.director.hold("first")
    video.director.plans = [{"steps": [edit("scene-1", prompt="first")]}]
    body = {"message": "brighter", "provider": "openai"}
    path, keys = "/api/projects/launch/executions", [{"Idempotency-Key": key} for key in ("k1", "k2")]
    first = await video.call("POST", path, headers=keys[0], json=body)
    refused = await video.call("POST", path, 409, headers=keys[1], json=body)
    assert refused["type"] == "busy"
    again = await video.call("POST", path, headers=keys[0], json=body)
    assert again["executionId"] == first["executionId"]
    video.director.release()
    await video.ended(first["executionId"])
    video.director.plans = [{"steps": [edit("scene-1", prompt="second")]}]
    second = await video.call("POST", path, headers=keys[1], json=body)
    assert second["executionId"] != first["executionId"]
    await video.ended(second["executionId"])
