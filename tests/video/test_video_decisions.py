"""Decisions of people about executions: cancel, pause, approve, lock (D-R5, D-R8, D-R15)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.doubles.chat_double import Fail
from tests.video.video_double import VideoClient, edit, status_is

KIND_OF_CHANGE = {"retry": "retried", "rerun": "repeated"}
UNTOUCHED = {f"scene-{n}": 1 for n in range(1, 5)}
DELETION = {"tool": "deleteScene", "scenes": ["scene-1", "scene-2"]}


async def assert_cancelled(video: VideoClient, name: str, revisions: dict[str, int]) -> None:
    """Assert that the execution stays cancelled without further changes, and that the next message works."""
    await video.wait_until_idle()
    assert (await video.execution(name))["status"] == "cancelled"
    assert await video.revisions() == revisions
    assert (await video.http.get(f"/threads/{video.thread}")).json()["status"] == "idle"
    following = await video.wait_for_end(await video.start("continue", edit("scene-4")))
    assert following["success"]
    assert (await video.execution(name))["status"] == "cancelled"
    assert await video.revisions() == {**revisions, "scene-4": revisions["scene-4"] + 1}


async def start_unapproved(video: VideoClient, *steps: dict[str, Any]) -> str:
    """Start a plan that waits for approval, and return its id."""
    name = await video.start("x", *steps, approve=True)
    await video.wait_until_idle()
    return name


async def start_and_pause(video: VideoClient) -> str:
    """Start two edits, pause between them, and return the execution's id."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    await video.call("POST", f"/api/executions/{name}/pause")
    video.model.release()
    await video.wait_until(name, status_is("s1", "completed"))
    await video.wait_until_idle()
    return name


async def open_question(video: VideoClient) -> dict[str, Any]:
    """Return the value of the open question."""
    thread = (await video.http.get(f"/threads/{video.thread}")).json()
    [[one]] = thread["interrupts"].values()
    return dict(one["value"])


async def resume_with(video: VideoClient, value: Any) -> None:
    """Answer the question as a LangGraph client does."""
    body = {"assistant_id": "scene_edit", "command": {"resume": value}}
    reply = await video.http.post(f"/threads/{video.thread}/runs/wait", json=body)
    assert reply.status_code == 200, reply.text
    await video.wait_until_idle()


async def test_a_plan_cancelled_before_its_approval_is_not_executed(video: VideoClient):
    """D-R15."""
    name = await start_unapproved(video, DELETION)
    execution = await video.call("POST", f"/api/executions/{name}/cancel")
    assert (execution["status"], execution["counts"]) == ("cancelled", {"cancelled": 2})
    assert execution["totalTime"] == 0
    await assert_cancelled(video, name, UNTOUCHED)
    state = (await video.http.get(f"/threads/{video.thread}/state")).json()["values"]
    results = [one["content"] for one in state["messages"] if one["type"] == "tool"]
    assert len(results) == 2
    assert '"cancelled"' in results[0]


async def test_a_paused_execution_that_is_cancelled_executes_no_more_steps(video: VideoClient):
    """D-R15: completed steps are kept."""
    name = await start_and_pause(video)
    await video.call("POST", f"/api/executions/{name}/cancel")
    await assert_cancelled(video, name, {**UNTOUCHED, "scene-1": 2})
    assert "second" not in video.model.prompts


@pytest.mark.slow
async def test_an_execution_cancelled_right_after_its_start_stays_cancelled(video: VideoClient):
    """D-R15: a running step ends, and no other step starts."""
    for number in range(6):
        name = await video.start(f"x{number}", edit("scene-1"), edit("scene-1"), edit("scene-1"))
        await video.call("POST", f"/api/executions/{name}/cancel")
        await video.wait_until_idle()
        execution = await video.execution(name)
        assert execution["status"] == "cancelled"
        assert set(execution["counts"]) <= {"cancelled", "completed", "unchanged"}
        assert execution["counts"]["cancelled"] >= 2
    assert (await video.revisions())["scene-1"] <= 7


async def test_a_cancellation_concurrent_with_a_question_or_an_approval_is_accepted(video: VideoClient):
    """D-R15: also while the run that asks, or the run that approves, has not ended."""
    for number in range(4):
        name = await video.start(f"x{number}", DELETION, approve=True)
        await video.call("POST", f"/api/executions/{name}/cancel")
        await video.wait_until_idle()
        assert (await video.execution(name))["status"] == "cancelled"
    name = await start_unapproved(video, DELETION)
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{name}/decision", json=approval)
    execution = await video.call("POST", f"/api/executions/{name}/cancel")
    assert execution["status"] == "cancelled"
    await video.wait_until_idle()
    assert set((await video.execution(name))["counts"]) <= {"cancelled", "completed", "unchanged"}
    following = await video.wait_for_end(await video.start("continue", edit("scene-4")))
    assert following["success"]


async def test_cancelling_twice_does_not_answer_the_question_of_a_later_plan(video: VideoClient):
    """D-R15: a cancellation concerns one execution only."""
    first = await start_unapproved(video, edit("scene-1"))
    await video.call("POST", f"/api/executions/{first}/cancel")
    await video.wait_until_idle()
    second = await start_unapproved(video, edit("scene-2"))
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{first}/cancel")
    await video.call("POST", f"/api/executions/{first}/decision", 409, json=approval)
    await video.wait_until_idle()
    assert (await video.execution(second))["status"] == "planned"
    await video.call("POST", f"/api/executions/{second}/decision", json=approval)
    assert (await video.wait_for_end(second))["success"]


async def test_steps_of_a_cancelled_execution_can_be_retried(video: VideoClient):
    """D50: a retry reopens a cancelled execution, also across a pause."""
    video.model.patch = lambda prompt: {"name": prompt}
    name = await start_unapproved(video, edit("scene-1", prompt="first"), edit("scene-2", prompt="second"))
    await video.call("POST", f"/api/executions/{name}/cancel")
    await video.wait_until_idle()
    video.model.hold("first")
    await video.call("POST", f"/api/executions/{name}/steps/s1/retry")
    await video.wait_until(name, status_is("s1", "in-progress"))
    await video.call("POST", f"/api/executions/{name}/steps/s2/retry")
    await video.wait_until(name, status_is("s2", "completed"))
    step = edit("scene-1", prompt="third", after=["s1"])
    await video.call("POST", f"/api/executions/{name}/steps", json={"step": step})
    await video.call("POST", f"/api/executions/{name}/pause")
    video.model.release()
    await video.wait_until(name, status_is("s1", "completed"))
    await video.wait_until_idle()
    assert (await video.execution(name))["status"] == "paused"
    await video.call("POST", f"/api/executions/{name}/resume")
    done = await video.wait_for_end(name)
    assert (done["success"], done["counts"]) == (True, {"completed": 3})
    assert await video.revisions() == {**UNTOUCHED, "scene-1": 3, "scene-2": 2}


@pytest.mark.slow
async def test_an_execution_can_be_paused_before_its_first_step(video: VideoClient):
    """D-R5: the start's reply is early enough; a plan that waits for approval has nothing to pause."""
    for number in range(6):
        name = await video.start(f"x{number}", edit("scene-1"), edit("scene-1"))
        execution = await video.call("POST", f"/api/executions/{name}/pause")
        assert execution["status"] == "paused"
        await video.wait_until(name, lambda one: "in-progress" not in one["counts"])
        await video.wait_until_idle()
        assert (await open_question(video))["executionId"] == name
        await video.call("POST", f"/api/executions/{name}/resume")
        assert (await video.wait_for_end(name))["success"]
    name = await start_unapproved(video, edit("scene-1"))
    refused = await video.call("POST", f"/api/executions/{name}/pause", 409)
    assert "waits for approval" in refused["error"]


EDIT_DECISION = {"type": "edit", "edited_action": {"args": {"sceneId": "scene-1", "prompt": "new"}}}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "decisions"),
        ({"decision": "reject"}, "decision"),
        ({"decisions": [{"type": "approve"}], "plan": "x"}, "plan"),
        ({"decisions": []}, "decisions"),
        ({"decisions": [{"type": "foo"}]}, "'approve', 'reject', 'edit' or 'skip'"),
        ({"decisions": [{"type": "edit"}]}, "an edit needs edited_action"),
        ({"decisions": [{"type": "edit", "edited_action": {"prompt": "x"}}]}, "args"),
        ({"decisions": [{"type": "approve", "message": "but not 2"}]}, "has no message"),
        ({"decisions": [{"type": "approve", "edited_action": {"args": {"x": 1}}}]}, "has no edited_action"),
        ({"decisions": [{"type": "approve"}] * 3}, "3 decisions were sent for 2 actions"),
        ({"decisions": [EDIT_DECISION]}, "one edit was sent for 2 actions"),
        (
            {
                "decisions": [{**EDIT_DECISION, "edited_action": {"name": "deleteScene", "args": {"x": 1}}}]
                * 2
            },
            "names the tool 'deleteScene'",
        ),
    ],
)
async def test_an_invalid_decision_is_refused_and_approves_nothing(
    video: VideoClient, body: dict[str, Any], words: str
):
    """D-R15: the error has the reason, and the question stays open."""
    name = await start_unapproved(video, edit("scene-1"), edit("scene-2"))
    before = await open_question(video)
    reply = await video.http.post(f"/api/executions/{name}/decision", json=body)
    assert reply.status_code in {400, 422}, reply.text
    assert words in reply.text
    assert await open_question(video) == before
    assert await video.revisions() == UNTOUCHED
    decisions = [{"type": "edit", "editedAction": EDIT_DECISION["edited_action"]}, {"type": "approve"}]
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": decisions})
    assert (await video.wait_for_end(name))["success"]
    assert sorted(video.model.prompts) == ["change it", "new"]


async def test_an_edited_step_is_called_by_what_it_does_now(video: VideoClient):
    """The model's own title tells of the prompt that the person has replaced; a page shows it for ever."""
    steps = [edit(f"scene-{n}", prompt=f"old {n}", title=f"Old title {n}") for n in (1, 2)]
    name = await start_unapproved(video, *steps)
    video.model.hold("new")
    decisions = [EDIT_DECISION, {"type": "approve"}]
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": decisions})
    await video.wait_until(name, status_is("s1", "in-progress"))
    step = {"tool": "editScene", "scenes": ["scene-1"], "prompt": "then", "title": "Then"}
    await video.call("POST", f"/api/executions/{name}/steps", json={"step": {**step, "id": "late"}})
    edited = {"params": {"prompt": "later"}}
    await video.call("PATCH", f"/api/executions/{name}/steps/late", json=edited)
    titles = {one["id"]: one["displayName"] for one in (await video.execution(name))["plan"]["steps"]}
    assert titles["s1"].startswith("Editing scene 1")
    assert titles["late"] == titles["s1"]
    assert titles["s2"] == "Old title 2"
    video.model.release()
    await video.wait_for_end(name)
    await video.wait_until_idle()
    state = (await video.http.get(f"/threads/{video.thread}/state")).json()["values"]
    [reply] = [one for one in state["messages"] if one["type"] == "tool"]
    assert reply["artifact"] == {"plan": name, "titles": titles}


@pytest.mark.parametrize(
    "value", [{"decisions": [{"type": "foo"}]}, {"decisions": [{"type": "edit"}]}, {"decision": "approve"}, 7]
)
async def test_an_invalid_resume_of_a_langgraph_client_repeats_the_question(video: VideoClient, value: Any):
    """D-R15: if the node failed instead, LangGraph would keep the invalid answer for ever."""
    name = await start_unapproved(video, edit("scene-1"), edit("scene-2"))
    before = await open_question(video)
    await resume_with(video, value)
    next_question = await open_question(video)
    assert next_question["problem"]
    assert [one["args"] for one in next_question["action_requests"]] == [
        one["args"] for one in before["action_requests"]
    ]
    assert await video.revisions() == UNTOUCHED
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": [{"type": "approve"}]})
    assert (await video.wait_for_end(name))["success"]


async def test_a_paused_execution_accepts_only_a_plain_yes_or_no(video: VideoClient):
    """D-R8: any other answer repeats the question with the reason."""
    name = await start_and_pause(video)
    assert (await open_question(video))["problem"] == ""
    for wrong in ({"decisions": [{"type": "foo"}]}, "perhaps", {"resume": "later"}):
        await resume_with(video, wrong)
        question = await open_question(video)
        assert "is no yes and no no" in question["problem"]
        assert question["message"].startswith(question["problem"])
        assert (await video.execution(name))["status"] == "paused"
    refused = await video.call(
        "POST", f"/api/executions/{name}/decision", 422, json={"decisions": [EDIT_DECISION]}
    )
    assert "resumed or cancelled" in refused["error"]
    await resume_with(video, {"resume": False})
    await assert_cancelled(video, name, {**UNTOUCHED, "scene-1": 2})
    name = await video.start("x", edit("scene-2"), edit("scene-2"))
    await video.call("POST", f"/api/executions/{name}/pause")
    await video.wait_until_idle()
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{name}/decision", json=approval)
    assert (await video.wait_for_end(name))["success"]


async def test_a_locked_scene_is_neither_deleted_nor_restored(video: VideoClient):
    """D-R15: neither by a plan nor by an undo; it can still be moved."""
    lock = "/api/projects/launch/locks"
    await video.call("PUT", f"{lock}/scene-1")
    done = await video.wait_for_end(await video.start("x", {"tool": "deleteScene", "scenes": ["scene-1"]}))
    assert (done["status"], "locked" in done["plan"]["steps"][0]["error"]) == ("failed", True)
    added = await video.start("y", {"tool": "addScene", "prompt": "new"})
    await video.wait_for_end(added)
    await video.call("PUT", f"{lock}/scene-5")
    undo_reply = await video.call("POST", "/api/projects/launch/undo")
    assert "locked" in (await video.wait_for_end(undo_reply["executionId"]))["plan"]["steps"][0]["error"]
    await video.wait_for_end(await video.start("z", {"tool": "deleteScene", "scenes": ["scene-2"]}))
    await video.call("PUT", f"{lock}/scene-2")
    done = await video.wait_for_end(await video.start("z", {"tool": "restoreScene", "scenes": ["scene-2"]}))
    assert "locked" in done["plan"]["steps"][0]["error"]
    order = ["scene-5", "scene-4", "scene-3", "scene-1"]
    done = await video.wait_for_end(await video.start("w", {"tool": "reorderScenes", "order": order}))
    assert done["success"], done
    assert [one["id"] for one in await video.scenes()] == order
    await video.call("DELETE", f"{lock}/scene-1")
    assert (await video.wait_for_end(await video.start("v", {"tool": "deleteScene", "scenes": ["scene-1"]})))[
        "success"
    ]


async def test_undo_works_without_a_request_body(video: VideoClient):
    """D50: like redo."""
    await video.wait_for_end(await video.start("x", edit("scene-1")))
    undo_reply = await video.call("POST", "/api/projects/launch/undo")
    assert (await video.wait_for_end(undo_reply["executionId"]))["kind"] == "undo"
    assert (await video.contents())["scene-1"]["background"]["color"] == "#111111"


async def assert_other_executions_are_refused(video: VideoClient, before: str) -> None:
    """Assert that requests that would discard an open question are refused."""
    for path in (
        "/api/projects/launch/undo",
        "/api/projects/launch/redo",
        "/api/projects/launch/scenes/scene-1/versions/v1/restore",
        f"/api/executions/{before}/steps/s1/rerun",
    ):
        refused = await video.call("POST", path, 409)
        assert "waits" in refused["error"] or "to redo" in refused["error"], path


async def test_undo_restore_and_rerun_are_refused_while_a_plan_waits_for_approval(video: VideoClient):
    """D50, D-R5: the question stays open and can be answered."""
    before = await video.start("before", edit("scene-1"))
    await video.wait_for_end(before)
    name = await start_unapproved(video, edit("scene-2"))
    await assert_other_executions_are_refused(video, before)
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": [{"type": "approve"}]})
    assert (await video.wait_for_end(name))["success"]
    paused_name = await start_and_pause(video)
    await assert_other_executions_are_refused(video, before)
    await video.call("POST", f"/api/executions/{paused_name}/resume")
    assert (await video.wait_for_end(paused_name))["success"]


async def test_a_running_execution_cannot_be_undone(video: VideoClient):
    """D50: undo works once the execution has ended."""
    video.model.hold("second")
    name = await video.start("x", edit("scene-1"), edit("scene-2", prompt="second"))
    await video.wait_until(name, status_is("s1", "completed"))
    refused = await video.call("POST", "/api/projects/launch/undo", 409)
    assert "has not ended" in refused["error"]
    video.model.release()
    await video.wait_for_end(name)
    undo_reply = await video.call("POST", "/api/projects/launch/undo")
    assert (await video.wait_for_end(undo_reply["executionId"]))["counts"] == {"completed": 2}


@pytest.mark.slow
async def test_a_plan_can_be_approved_right_after_its_start(video: VideoClient):
    """D-R5: the reply with the plan is sent when the question can be answered."""
    for number in range(8):
        name = await video.start(f"x{number}", edit("scene-1"), approve=True)
        approval = {"decisions": [{"type": "approve"}]}
        await video.call("POST", f"/api/executions/{name}/decision", json=approval)
        assert (await video.wait_for_end(name))["success"]


@pytest.mark.parametrize("verb", ["retry", "rerun"])
async def test_concurrent_retries_of_a_step_execute_it_once(video: VideoClient, verb: str):
    """D50: the runs of the retries wait for another run."""
    if verb == "retry":
        video.model.patch = lambda _: Fail(400, "no")
    name = await edit_scene_1(video, 1)
    video.model.patch = lambda _: {"background": "#123456"}
    before = (await video.revisions())["scene-1"]
    video.model.hold("slow")
    slow = await video.start("x", edit("scene-2", prompt="slow"))
    for _ in range(3):
        await video.call("POST", f"/api/executions/{name}/steps/s1/{verb}")
    video.model.release()
    await video.wait_for_end(slow)
    execution = await video.execution(name)
    assert (execution["status"], [one["kind"] for one in execution["changes"]]) == (
        "completed",
        [KIND_OF_CHANGE[verb]],
    )
    assert (await video.revisions())["scene-1"] == before + 1
    runs = (await video.http.get(f"/threads/{video.thread}/runs")).json()
    assert {one["status"] for one in runs} == {"success"}
    assert (await video.http.get(f"/threads/{video.thread}")).json()["status"] == "idle"


async def test_an_edit_without_a_required_argument_is_refused(video: VideoClient):
    """D-R5."""
    name = await start_unapproved(video, edit("scene-1"))
    decision = {"type": "edit", "edited_action": {"args": {"sceneId": "scene-1"}}}
    refused = await video.call(
        "POST", f"/api/executions/{name}/decision", 422, json={"decisions": [decision]}
    )
    assert "has no 'prompt'" in refused["error"]
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": [EDIT_DECISION]})
    assert (await video.wait_for_end(name))["success"]


async def test_an_edit_that_the_tool_rejects_repeats_the_question_with_the_reason(video: VideoClient):
    """D-R5: of a LangGraph client; nothing is executed."""
    name = await start_unapproved(video, {"tool": "trimScene", "scenes": ["scene-1"], "seconds": 1.5})
    [proposed] = (await open_question(video))["action_requests"]
    for seconds in ("soon", 1):
        action = {"args": {**proposed["args"], "durationSeconds": seconds}}
        await resume_with(video, {"decisions": [{"type": "edit", "edited_action": action}]})
        if seconds == "soon":
            assert (await video.execution(name))["status"] == "planned"
            problem = "“Changing the length” cannot be done as edited. Duration seconds: "
            assert (await open_question(video))["problem"].startswith(problem)
    assert (await video.wait_for_end(name))["success"]
    assert (await video.scenes())[0]["durationInFrames"] == 30


async def test_an_undo_or_redo_repeated_with_its_idempotency_key_is_executed_once(video: VideoClient):
    """X13."""
    video.model.patch = lambda prompt: {"name": prompt}
    names = []
    for number in range(3):
        names.append(await video.start(f"x{number}", edit("scene-1", prompt=f"name {number}")))
        await video.wait_for_end(names[-1])
    for path, key, revision in (("undo", "u", 5), ("redo", "r", 6)):
        replies = []
        for _ in range(2):
            reply = await video.call("POST", f"/api/projects/launch/{path}", headers={"Idempotency-Key": key})
            await video.wait_for_end(reply["executionId"])
            replies.append(reply["executionId"])
        assert replies[0] == replies[1]
        assert (await video.revisions())["scene-1"] == revision
    body = {"executionId": names[0]}
    await video.call("POST", "/api/projects/launch/undo", 409, headers={"Idempotency-Key": "u"}, json=body)


async def test_an_edit_without_a_change_is_skipped_by_undo(video: VideoClient):
    """D50: the execution before it is undone; an undo by its id is refused."""
    first, same = [await edit_scene_1(video, number) for number in range(2)]
    await video.call("POST", "/api/projects/launch/undo", 409, json={"executionId": same})
    undo_reply = await video.call("POST", "/api/projects/launch/undo")
    await video.wait_for_end(undo_reply["executionId"])
    assert undo_reply["plan"]["steps"][0]["params"]["versionId"] == "v1", first
    assert (await video.contents())["scene-1"]["background"]["color"] == "#111111"


async def edit_scene_1(video: VideoClient, number: int) -> str:
    name = await video.start(f"x{number}", edit("scene-1"))
    await video.wait_for_end(name)
    return name


def has_changes(times: int) -> Callable[[dict[str, Any]], bool]:
    return lambda one: len(one["changes"]) == times


async def test_undo_of_a_repeated_step_restores_the_scene_from_before_the_plan(video: VideoClient):
    """D50: also where the repetition failed."""
    names = iter(["second", "third"])
    video.model.patch = lambda _: {"name": name} if (name := next(names, "")) else Fail(400, "no")
    execution = await edit_scene_1(video, 1)
    for number in (1, 2):
        await video.call("POST", f"/api/executions/{execution}/steps/s1/rerun")
        await video.wait_until(execution, has_changes(number))
        await video.wait_for_end(execution)
    assert [one["status"] for one in (await video.execution(execution))["plan"]["steps"]] == ["error"]
    for path, name in (("undo", "Scene 1"), ("redo", "third")):
        started = await video.call("POST", f"/api/projects/launch/{path}")
        await video.wait_for_end(started["executionId"])
        assert (await video.contents())["scene-1"]["name"] == name


async def test_undo_of_a_repetition_keeps_a_change_made_before_it(video: VideoClient):
    """D50: undo reverts the repetition only."""
    names = iter(["first", "between", "again"])
    video.model.patch = lambda _: {"name": next(names)}
    execution, _ = [await edit_scene_1(video, number) for number in range(2)]
    await video.call("POST", f"/api/executions/{execution}/steps/s1/rerun")
    await video.wait_until(execution, has_changes(1))
    await video.wait_for_end(execution)
    undo_reply = await video.call("POST", "/api/projects/launch/undo", json={"executionId": execution})
    await video.wait_for_end(undo_reply["executionId"])
    assert (await video.contents())["scene-1"]["name"] == "between"


async def test_undo_of_a_repeated_reordering_restores_the_first_order(video: VideoClient):
    """D50."""
    before = [*await video.contents()]
    execution = await video.start("x", {"tool": "reorderScenes", "order": before[::-1]})
    await video.wait_for_end(execution)
    await video.call("POST", f"/api/executions/{execution}/steps/s1/rerun")
    await video.wait_until(execution, has_changes(1))
    await video.wait_for_end(execution)
    undo_reply = await video.call("POST", "/api/projects/launch/undo")
    await video.wait_for_end(undo_reply["executionId"])
    assert [*await video.contents()] == before


async def test_a_step_that_added_or_deleted_a_scene_cannot_be_repeated(video: VideoClient):
    """D50: the execution is unchanged and can be undone."""
    for step in ({"tool": "deleteScene", "scenes": ["scene-1"]}, {"tool": "addScene", "prompt": "prices"}):
        name = await video.start("x", step)
        await video.wait_for_end(name)
        refused = await video.call("POST", f"/api/executions/{name}/steps/s1/rerun", 409)
        assert "is done already" in refused["error"]
        undo_reply = await video.call("POST", "/api/projects/launch/undo", json={"executionId": name})
        assert (await video.wait_for_end(undo_reply["executionId"]))["success"]
    assert [*await video.contents()] == ["scene-1", "scene-2", "scene-3", "scene-4"]


async def test_equal_requests_with_different_idempotency_keys_are_different_edits(video: VideoClient):
    """X9: with an equal key it is the same edit."""
    body = {"message": "brighter", "provider": "openai"}
    path, replies = "/api/projects/launch/executions", []
    for key in ("k1", "k2", "k3", "k1", "k3"):
        video.model.plans = [{"steps": [edit("scene-1", prompt=f"under {key}")]}]
        video.model.patch = lambda prompt: {"name": prompt}
        replies.append(await video.call("POST", path, headers={"Idempotency-Key": key}, json=body))
        await video.wait_for_end(replies[-1]["executionId"])
    first, second, third, first_again, third_again = [reply["executionId"] for reply in replies]
    assert len({first, second, third}) == 3
    assert (first_again, third_again) == (first, third)
    assert (await video.revisions())["scene-1"] == 4


async def test_an_equal_request_with_another_key_is_refused_while_the_first_runs(video: VideoClient):
    """X8: 409, as for any other request on a busy project."""
    video.model.hold("first")
    video.model.plans = [{"steps": [edit("scene-1", prompt="first")]}]
    body = {"message": "brighter", "provider": "openai"}
    path, keys = "/api/projects/launch/executions", [{"Idempotency-Key": key} for key in ("k1", "k2")]
    first = await video.call("POST", path, headers=keys[0], json=body)
    refused = await video.call("POST", path, 409, headers=keys[1], json=body)
    assert refused["type"] == "busy"
    repeated_reply = await video.call("POST", path, headers=keys[0], json=body)
    assert repeated_reply["executionId"] == first["executionId"]
    video.model.release()
    await video.wait_for_end(first["executionId"])
    video.model.plans = [{"steps": [edit("scene-1", prompt="second")]}]
    second = await video.call("POST", path, headers=keys[1], json=body)
    assert second["executionId"] != first["executionId"]
    await video.wait_for_end(second["executionId"])
