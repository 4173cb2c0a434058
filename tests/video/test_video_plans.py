"""Plans: resolving, faults, types and estimates (D1-D14, D-R1, D-R11), and undo."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from callsheet.state import approvals, live_plan, plan_progress, plan_recovery
from callsheet.state.errors import Conflict, Fenced, Invalid, Missing
from callsheet.state.live_plan import Execution
from callsheet.state.plan import Step, plan_type, without_left_out
from callsheet.state.plan_progress import events_between
from callsheet.state.video import plan, plan_forms, project, undo
from callsheet.state.video.plan import RULES, PlannedStep, Project, SubmittedPlan
from callsheet.state.video.project import DeletedScene, Order, about, scene_line, state_block

ORDER = Order(
    scenes=("scene-1", "scene-2", "scene-4"), deleted=(DeletedScene(id="scene-3", position=3),), next=5
)


def plan_steps(*planned: dict[str, object], order: Order = ORDER, **options: object) -> list[Step]:
    submitted = SubmittedPlan.model_validate({"steps": [*planned]})
    return plan.checked_steps(submitted, Project(order, **options))  # type: ignore[arg-type]


def fault_message(*planned: dict[str, object], **more: Any) -> str:
    with pytest.raises(Invalid) as refused:
        plan_steps(*planned, **more)
    return refused.value.message


def edit(*scenes: str, **more: object) -> dict[str, object]:
    return {"tool": "editScene", "scenes": [*scenes], "prompt": "x", **more}


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (edit(), "editScene names no scene"),
        (edit("scene-1", prompt=" "), "editScene needs a prompt"),
        (edit("scene-3"), "there is no scene 'scene-3'; the scenes are: scene-1, scene-2, scene-4"),
        (edit("9"), "there is no scene '9'"),
        ({"tool": "trimScene", "scenes": ["scene-1"]}, "trimScene needs `seconds`"),
        ({"tool": "restoreVersion", "scenes": ["scene-1"]}, "restoreVersion needs `version`"),
        ({"tool": "restoreScene", "scenes": ["scene-1"]}, "there is no deleted scene 'scene-1'"),
        ({"tool": "reorderScenes", "order": ["scene-1"]}, "differs in: scene-2, scene-4"),
        ({"tool": "reorderScenes", "order": ["1", "1", "2", "3"]}, "one is named twice"),
        ({"tool": "contextGatherer"}, "contextGatherer needs `queries`"),
        ({"tool": "contextGatherer", "scenes": ["scene-9"]}, "there is no scene 'scene-9'"),
        ({"tool": "addScene", "scenes": ["scene-1"], "prompt": "x"}, "'scene-1' is taken"),
        ({"tool": "duplicateScene"}, "there is no scene ''"),
    ],
)
def test_the_error_for_an_invalid_step_names_the_fault(planned: dict[str, object], words: str):
    assert words in fault_message(planned)


def test_all_faults_of_a_plan_are_reported_together():
    """D-R11."""
    text = fault_message(
        {"tool": "deleteScene", "scenes": ["scene-1"]}, edit("scene-1"), edit("scene-2", id="s2")
    )
    assert "it is deleted by an earlier step" in text
    assert "two steps have the id 's2'" in text
    many_steps = [edit("scene-1", "scene-2", "scene-4", id=f"x{n}") for n in range(34)]
    assert "it has 102 steps, and 100 are allowed" in fault_message(*many_steps)
    assert "only" not in fault_message(edit("scene-1"), attached=("scene-2",))
    assert "may not change: the person attached scene-2" in fault_message(
        edit("scene-1"), attached=("scene-2",)
    )


def test_a_single_tool_decision_becomes_a_plan_of_one_step():
    """D6."""
    single = {"toolName": "editScene", "reasoning": "r", "targetSceneId": "scene-2", "prompt": "x"}
    submitted = SubmittedPlan.model_validate(plan_forms.as_plan(single))
    [step] = plan.checked_steps(submitted, Project(ORDER))
    assert (step["tool"], step["params"]["sceneId"]) == ("editScene", "scene-2")
    assert plan_forms.as_plan({"steps": []}) == {"steps": []}
    several = {"toolName": "editScene", "targetSceneId": ["scene-1"], "prompt": "x"}
    assert plan_forms.as_plan(several)["steps"][0]["scenes"] == ["scene-1"]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"steps": "no json"}, {"steps": "no json"}),
        ({"steps": '{"tool": "addScene"}'}, {"steps": [{"tool": "addScene"}]}),
        ({"type": "circular", "steps": []}, {"type": "circular", "steps": []}),
        ({"context": {"mood": "x"}, "steps": []}, {"context": {"mood": "x"}, "steps": []}),
        ({"context": {"sharedStyle": ""}, "steps": []}, {"steps": []}),
        ({"steps": [{"tool": "x", "params": 5}]}, {"steps": [{"tool": "x", "params": 5}]}),
        (
            {"steps": [{"prompt": "a", "params": {"prompt": "b", "sceneId": None}}]},
            {"steps": [{"prompt": "a", "prompt beside prompt": "b"}]},
        ),
        (
            {"steps": [{"canParallelize": "no", "dependencies": ""}]},
            {"steps": [{"canParallelize": "no", "after": []}]},
        ),
        (
            {"steps": [{"tool": "addScene", "params": {"placeAfter": ["scene-2", "scene-1"]}}]},
            {"steps": [{"tool": "addScene", "behind": "scene-2"}]},
        ),
        (
            {"steps": [{"tool": "reorderScenes", "sceneIds": ["scene-2", "scene-1"], "placeAfter": []}]},
            {"steps": [{"tool": "reorderScenes", "order": ["scene-2", "scene-1"], "behind": "start"}]},
        ),
        (
            {"context": {"referenceSceneId": "scene-1"}, "steps": [{"tool": "x", "like": ["scene-1"]}]},
            {"steps": [{"tool": "x", "like": ["scene-1"]}]},
        ),
    ],
)
def test_every_form_of_a_plan_is_read_and_what_has_no_meaning_stays(given: dict[str, Any], read: Any):
    """D3, D5."""
    assert plan_forms.as_plan(given) == read


@pytest.mark.parametrize(
    "context", [{"searchQueries": ["x"]}, {"needsWebSearch": True}, {"referenceSceneId": "scene-1"}]
)
def test_a_context_that_no_step_uses_is_refused(context: dict[str, Any]):
    """D5."""
    with pytest.raises(Invalid) as refused:
        plan_forms.as_plan({"context": context, "steps": [{"tool": "editScene", "scenes": ["scene-2"]}]})
    assert refused.value.remedy


def test_a_name_with_two_meanings_is_refused_and_context_keys_belong_to_steps_that_read_them():
    assert "'scene 1' may mean scene-1, scene-4; give its id" in fault_message(
        edit("scene 1"), names={"scene-4": "Scene 1"}
    )
    assert "'End' may mean scene-1, scene-2; give its id" in fault_message(
        edit("End"), names={"scene-1": "end", "scene-2": "END"}
    )
    trim = {"tool": "trimScene", "scenes": ["scene-1"], "seconds": 2, "context": ["style:scene-2"]}
    assert "trimScene reads no gathered `context`" in fault_message(trim)
    assert plan_steps(edit("SCENE-2"))[0]["params"]["sceneId"] == "scene-2"


def test_positions_and_names_of_new_scenes_are_resolved_to_ids():
    """D14, D-R13."""
    steps = plan_steps(
        edit("3", like=["scene 1"], title="Making it calm"),
        {
            "tool": "addScene",
            "scenes": ["new"],
            "prompt": "p",
            "behind": "start",
            "name": "First",
            "seconds": 2,
        },
        {"tool": "duplicateScene", "like": ["scene-2"], "prompt": "red"},
        {"tool": "restoreScene", "scenes": ["scene-3"]},
        {"tool": "trimScene", "scenes": ["new"], "seconds": 3, "alone": True},
        {"tool": "addAudio", "scenes": ["new"], "prompt": "piano", "title": "Adding sound"},
        {"tool": "restoreVersion", "scenes": ["scene-1"], "version": "v1"},
        names={"scene-4": "Ending"},
    )
    assert steps[0]["params"] == {"sceneId": "scene-4", "prompt": "x", "referenceSceneIds": ["scene-1"]}
    assert steps[0]["display"] == "Making it calm"
    assert steps[1]["params"] == {
        "sceneId": "scene-5",
        "placeAfter": [],
        "prompt": "p",
        "name": "First",
        "durationSeconds": 2,
    }
    assert steps[1]["display"] == "Adding a scene “First”"
    assert steps[2]["params"] == {
        "sceneId": "scene-2",
        "newSceneId": "scene-6",
        "placeAfter": ["scene-2", "scene-1", "scene-5"],
        "prompt": "red",
    }
    assert steps[4]["dependencies"] == ["s2"]
    assert steps[4]["alone"]
    assert steps[5]["dependencies"] == ["s2", "s5"]
    assert steps[6]["after"] == ["s1"], "a scene that an earlier step reads is written after it"
    assert plan_type(steps) == "mixed"


def test_scenes_are_moved_by_a_complete_order_or_behind_a_scene():
    def order(**more: object) -> list[str]:
        return list(plan_steps({"tool": "reorderScenes", **more})[0]["params"]["sceneIds"])

    assert order(order=["3", "1", "2"]) == ["scene-4", "scene-1", "scene-2"]
    assert order(scenes=["scene-4"], behind="start") == ["scene-4", "scene-1", "scene-2"]
    assert order(scenes=["scene-1"], behind="scene-2") == ["scene-2", "scene-1", "scene-4"]
    assert order(scenes=["scene-1"]) == ["scene-2", "scene-4", "scene-1"]
    steps = plan_steps(
        {"tool": "deleteScene", "scenes": ["1"]},
        {"tool": "reorderScenes", "scenes": ["scene-4"], "behind": "start"},
    )
    assert steps[1]["dependencies"] == ["s1"], "an order follows what changes it"
    assert steps[0]["display"] == "Deleting scene 1"
    assert steps[1]["display"] == "Changing the order of the scenes"


def test_the_plan_type_and_the_estimated_time_follow_the_dependencies():
    """D2, D-R1, D11 to D13."""
    assert plan_type(plan_steps(edit("scene-1"))) == "single"
    assert plan_type(plan_steps(edit("scene-1", "scene-2"))) == "parallel"
    tree = plan_steps(edit("scene-1"), edit("scene-2", like=["scene-1"]), edit("scene-4", like=["scene-1"]))
    assert plan_type(tree) == "mixed"
    assert plan_type(plan_steps(edit("scene-1"), edit("scene-2", like=["scene-1"]))) == "sequential"
    four = plan_steps(
        edit("scene-1", "scene-2", "scene-4"), {"tool": "addAudio", "scenes": ["scene-1"], "prompt": "x"}
    )
    assert plan.estimated_seconds(four, {"editScene": 2.0}, 3) == 7.0
    alone = plan_steps(edit("scene-1", alone=True), edit("scene-2"))
    assert plan.estimated_seconds(alone, {}, 3) == 10.0
    assert plan.estimated_seconds([], {}, 3) == 0.0


def test_ids_of_pending_new_scenes_are_not_reused():
    steps = plan_steps({"tool": "addScene", "prompt": "x"}, {"tool": "duplicateScene", "source": "scene-1"})
    later = plan.order_after(ORDER, steps)
    assert later.next == 7
    [new] = plan_steps({"tool": "addScene", "prompt": "y"}, order=later)
    assert new["params"]["sceneId"] == "scene-7"


def test_scenes_are_added_to_removed_from_and_restored_in_an_order():
    order = project.without_scene(ORDER, "scene-1")
    assert order.scenes == ("scene-2", "scene-4")
    assert project.with_restored(order, "scene-1").scenes == ("scene-1", "scene-2", "scene-4")
    assert project.with_scene(order, "scene-2") == order
    assert project.with_scene(order, "scene-9", ["scene-8", "scene-2"]).scenes == (
        "scene-2",
        "scene-9",
        "scene-4",
    )
    assert order.position("scene-1") is None
    full = Order(
        scenes=tuple(f"scene-{n}" for n in range(1, 101)), deleted=(DeletedScene(id="scene-200", position=1),)
    )
    for refused, error in (
        (lambda: project.with_scene(full, "scene-101"), Invalid),
        (lambda: project.with_restored(full, "scene-200"), Invalid),
        (lambda: project.with_restored(order, "scene-2"), Missing),
        (lambda: project.without_scene(order, "scene-7"), Missing),
        (lambda: project.without_scene(Order(), "scene-7"), Missing),
        (lambda: project.number_of("first"), Invalid),
    ):
        with pytest.raises(error):
            refused()
    assert project.order_of(None) == Order()


def record(*planned: dict[str, object]) -> Execution:
    return Execution(
        id="e",
        thread="t",
        project="p",
        run="r",
        kind="plan",
        request="x",
        reasoning="",
        feedback="",
        status="running",
        approved="",
        task="task",
        epoch=2,
        estimated_s=0,
        created_ms=1,
        started_ms=2,
        ended_ms=0,
        steps=live_plan.live_steps(plan_steps(*planned)),
        changes=[],
    )


def test_a_step_marked_alone_never_runs_with_others():
    """D-R2."""
    execution = record(edit("scene-1"), edit("scene-2", alone=True), edit("scene-4"))
    assert [one["step"]["id"] for one in live_plan.startable(execution)] == ["s1", "s3"]
    execution = live_plan.claim_step(execution, "s1", 5)
    assert [one["step"]["id"] for one in live_plan.startable(execution)] == ["s1", "s3"]
    execution = live_plan.finish_step(
        live_plan.finish_step(execution, "s1", "completed", {}, 6), "s3", "completed", {}, 6
    )
    assert [one["step"]["id"] for one in live_plan.startable(execution)] == ["s2"]
    execution = live_plan.claim_step(execution, "s2", 7)
    assert [one["step"]["id"] for one in live_plan.startable(execution)] == ["s2"]
    first = record(edit("scene-1", alone=True), edit("scene-2"))
    assert [one["step"]["id"] for one in live_plan.startable(first)] == ["s1"]
    assert live_plan.startable({**first, "status": "paused"}) == []


def test_a_later_attempt_takes_over_an_execution():
    execution = live_plan.claim_step(record(edit("scene-1"), edit("scene-2")), "s1", 5)
    with pytest.raises(Fenced):
        plan_recovery.begin(execution, "task", 1, 9)
    taken_over = plan_recovery.begin(execution, "task", 3, 9)
    assert (taken_over["epoch"], taken_over["steps"][0]["status"]) == (3, "in-progress"), (
        "its receipt is looked up"
    )
    other = plan_recovery.begin(execution, "other", 3, 9)
    assert other["steps"][0]["status"] == "pending"
    with pytest.raises(Fenced):
        live_plan.require_newest(other, "task", 3)
    failed = live_plan.end(
        live_plan.finish_step(
            live_plan.finish_step(execution, "s1", "completed", {}, 6), "s2", "error", {}, 6
        ),
        8,
    )
    assert failed["status"] == "failed"
    fork = plan_recovery.begin(failed, "third", 4, 9)
    assert [one["status"] for one in fork["steps"]] == ["pending", "pending"], (
        "a fork starts from the beginning"
    )
    assert plan_recovery.begin({**execution, "status": "paused"}, "other", 3, 9)["status"] == "paused"
    cancelled = live_plan.cancel(execution, 8)
    cancelled_again = plan_recovery.begin(cancelled, "other", 3, 9)
    assert cancelled_again["status"] == "cancelled", "a cancelled execution is not forked"
    assert [one["status"] for one in cancelled_again["steps"]] == ["cancelled", "cancelled"]
    assert (
        live_plan.startable(plan_recovery.begin(live_plan.retry_step(cancelled, "s2", 9), "other", 3, 9))
        != []
    )
    assert live_plan.end(execution, 9) == execution


def test_an_abandoned_execution_continues_unless_a_person_cancelled_it():
    """D-R15."""
    execution = live_plan.claim_step(record(edit("scene-1"), edit("scene-2"), edit("scene-4")), "s1", 5)
    execution = plan_recovery.begin({**execution, "started_ms": 5}, "task", 4, 6)
    abandoned = plan_recovery.abandon(execution, 7)
    assert plan_progress.counts(abandoned) == {"cancelled": 3}
    assert plan_progress.counts(plan_recovery.begin(abandoned, "task", 5, 9)) == {"pending": 3}
    assert plan_recovery.begin(live_plan.cancel(abandoned, 8), "task", 5, 9)["status"] == "cancelled"
    partly_cancelled = live_plan.retry_step(live_plan.cancel(execution, 7), "s2", 8)
    continued = plan_recovery.begin(plan_recovery.abandon(partly_cancelled, 9), "other", 5, 10)
    assert [one["status"] for one in continued["steps"]] == ["pending", "pending", "cancelled"], (
        "s3 was cancelled"
    )
    planned = plan_recovery.abandon({**record(edit("scene-1")), "status": "planned"}, 7)
    assert plan_recovery.reopen(planned)["status"] == "planned"


def test_changes_of_ended_or_started_steps_are_refused():
    """D43: 409."""
    execution = record(edit("scene-1"))
    ended = live_plan.end(live_plan.finish_step(execution, "s1", "completed", {}, 6), 7)
    for change in (
        lambda: live_plan.pause(ended, 8),
        lambda: live_plan.pause({**execution, "status": "planned"}, 8),
        lambda: live_plan.resume(ended, 8),
        lambda: live_plan.cancel(ended, 8),
        lambda: live_plan.insert_steps(ended, [], 8),
        lambda: live_plan.retry_step(ended, "s1", 8),
        lambda: live_plan.repeat_step(execution, "s1", 8),
        lambda: live_plan.skip_step(ended, "s1", 8),
        lambda: live_plan.edit_step({**execution, "status": "planned"}, "s1", {"prompt": "y"}, 8),
    ):
        with pytest.raises(Conflict):
            change()
    assert live_plan.edit_step(execution, "s1", {"prompt": "x"}, 8) == execution
    paused = live_plan.pause(execution, 8)
    assert live_plan.pause(paused, 9) == paused
    assert live_plan.resume(execution, 9) == execution
    stopped = live_plan.cancel(execution, 8)
    assert live_plan.cancel(stopped, 9) == stopped
    assert live_plan.end(stopped, 9) == stopped


def test_a_started_step_can_be_released():
    execution = live_plan.claim_step(record(edit("scene-1")), "s1", 5)
    assert live_plan.release_step(execution, "s1")["steps"][0]["status"] == "pending"


def test_a_skipped_step_is_not_stale_after_its_dependency_is_repeated():
    execution = live_plan.finish_step(
        record(edit("scene-1"), edit("scene-2", like=["scene-1"])), "s1", "completed", {}, 5
    )
    repeated = live_plan.repeat_step(live_plan.skip_step(execution, "s2", 6), "s1", 7)
    assert [bool(one.get("stale")) for one in repeated["steps"]] == [False, False]


def test_skipping_a_step_that_adds_a_scene_blocks_its_dependents():
    execution = record({"tool": "addScene", "scenes": ["new"], "prompt": "p"}, edit("new"), edit("scene-1"))
    execution = live_plan.skip_step(execution, "s1", 8, RULES)
    assert [one["status"] for one in execution["steps"]] == ["skipped", "blocked", "pending"]
    repeated = live_plan.repeat_step(live_plan.finish_step(execution, "s3", "completed", {}, 9), "s3", 10)
    assert repeated["steps"][2]["generation"] == 1
    before = record(edit("scene-1"), edit("scene-2", like=["scene-1"]))
    assert [one["step"]["id"] for one in live_plan.startable(live_plan.skip_step(before, "s1", 8))] == ["s2"]


def test_every_change_of_a_status_is_one_event():
    """D-R6, D-R7."""
    execution = record(edit("scene-1"))
    started = live_plan.claim_step(execution, "s1", 3)
    step_completed = live_plan.finish_step(
        started, "s1", "completed", {"versionId": "v2", "sceneId": "scene-1"}, 4
    )
    ended = live_plan.end(step_completed, 5)
    names = [
        name
        for before, after in (
            (None, execution),
            (execution, started),
            (started, step_completed),
            (step_completed, ended),
        )
        for name, _ in events_between(before, after, RULES)
    ]
    assert names == ["execution-plan", "step-update", "step-update", "scene-update", "execution-complete"]
    assert [*events_between(ended, ended)] == []
    stopped = live_plan.cancel(started, 5)
    assert [name for name, _ in events_between(started, stopped)] == [], "its step still runs"
    last_step_ended = live_plan.finish_step(stopped, "s1", "completed", {}, 6)
    assert [name for name, _ in events_between(stopped, last_step_ended)] == [
        "step-update",
        "execution-complete",
    ]


def test_the_outline_has_scenes_contents_and_preferences():
    text = {"id": "a", "kind": "text", "text": "word " * 30, "animations": [{"kind": "fade"}]}
    scene = {
        "name": "One",
        "durationInFrames": 90,
        "elements": [text, {"id": "b", "kind": "image"}],
        "fonts": ["Inter"],
        "audio": {},
    }
    lines = [scene_line("scene-1", ORDER, "v3", scene), scene_line("scene-2", ORDER, "v1", {})]
    block = state_block(ORDER, lines, preferences=["likes blue"], context=["style:scene-1"])
    assert "Untitled: 3 scenes, 3 s" in block
    assert "\n1. scene-1 v3 'One', 3 s: text \"word word" in block
    assert '…"; image; fonts Inter; animations fade' in block
    assert "\n2. scene-2 v1, 0 s: no text" in block
    assert "Deleted, can be restored: scene-3 (was 3)" in block
    assert "Preference of the person: likes blue" in block
    assert "Gathered context: style:scene-1" in block
    assert "audio" in about({"audio": {"description": "x"}})
    assert PlannedStep(tool="editScene").scenes == []


HISTORY = {"scene-1": {"v1": "old", "v2": "new", "v3": "newer"}, "scene-2": {"v1": "a", "v2": "b", "v3": "c"}}


def undo_history(order: Order = ORDER, newest: Mapping[str, str] = MappingProxyType({})) -> undo.History:
    current = {"scene-1": "v2", "scene-2": "v2", **newest}
    return undo.History(
        order,
        current,
        lambda stream, version: HISTORY[stream][version],
        lambda _, version: {"v2": "v1", "v3": "v2"}.get(version),
        lambda _: ["scene-2", "scene-1"],
    )


def completed_execution(*planned: dict[str, object], kind: str = "plan") -> Execution:
    execution: Execution = {**record(*planned), "kind": kind}
    newest: dict[str, int] = {}
    for one in execution["steps"]:
        stream = one["step"]["writes"][0]
        newest[stream] = newest.get(stream, 1) + 1
        execution = live_plan.finish_step(
            execution, one["step"]["id"], "completed", {"versionId": f"v{newest[stream]}"}, 9
        )
    return live_plan.end(execution, 10)


def undo_calls(execution: Execution, history: undo.History, *ids: str) -> list[tuple[str, dict[str, object]]]:
    return [(step["tool"], step["params"]) for step in undo.undo_steps(execution, ids, history)]


def test_every_kind_of_step_has_an_undo_step():
    """D50."""
    execution = completed_execution(edit("scene-1"), {"tool": "reorderScenes", "order": ["2", "1", "3"]})
    assert undo_calls(execution, undo_history()) == [
        ("reorderScenes", {"sceneIds": ["scene-2", "scene-1"]}),
        ("restoreVersion", {"sceneId": "scene-1", "versionId": "v1"}),
    ]
    new = completed_execution(
        {"tool": "addScene", "scenes": ["n"], "prompt": "x"}, {"tool": "deleteScene", "scenes": ["scene-1"]}
    )
    later = Order(scenes=("scene-2", "scene-5"), deleted=(DeletedScene(id="scene-1", position=1),))
    plan_of_undo = undo.undo_steps(new, [], undo_history(later))
    assert [(step["tool"], step["params"]) for step in plan_of_undo] == [
        ("restoreScene", {"sceneId": "scene-1"}),
        ("deleteScene", {"sceneId": "scene-5"}),
    ]
    assert plan_of_undo[1]["dependencies"] == ["u1"], "changes of the order come one after another"


def test_undo_reverts_only_the_versions_that_a_step_made():
    two_edits = completed_execution(edit("scene-1"), edit("scene-1"))
    assert undo_calls(two_edits, undo_history(newest={"scene-1": "v3"})) == [
        ("restoreVersion", {"sceneId": "scene-1", "versionId": "v1"})
    ]
    for later_history, words in (
        (undo_history(newest={"scene-2": "v3"}), "scene-2 has changed since"),
        (undo_history(newest={"scene-2": "v1"}), "as it was before already"),
    ):
        with pytest.raises(Conflict, match=words):
            undo.undo_steps(completed_execution(edit("scene-2")), [], later_history)
    with pytest.raises(Conflict, match="as it was before already"):
        undo.undo_steps(
            completed_execution({"tool": "restoreScene", "scenes": ["scene-3"]}), [], undo_history()
        )
    with pytest.raises(Conflict, match="no completed step"):
        undo.undo_steps(record(edit("scene-1")), [], undo_history())
    with pytest.raises(Missing):
        undo.undo_steps(two_edits, ["s9"], undo_history())


def test_undo_of_a_repeated_step_restores_the_version_before_the_first_execution():
    """D50."""
    execution = live_plan.repeat_step(completed_execution(edit("scene-1"), edit("scene-1")), "s1", 11)
    execution = live_plan.end(
        live_plan.finish_step(execution, "s1", "completed", {"versionId": "v4"}, 12), 13
    )
    history = undo_history(newest={"scene-1": "v4"})._replace(
        content=lambda _, version: version,
        earlier=lambda _, version: {"v2": "v1", "v3": "v2", "v4": "v3"}.get(version),
    )
    assert undo_calls(execution, history) == [("restoreVersion", {"sceneId": "scene-1", "versionId": "v1"})]


def test_repeated_undo_and_redo_go_through_the_executions_in_order():
    plan_, undone, redone = (
        completed_execution(edit("scene-1")),
        completed_execution(edit("scene-1"), kind="undo"),
        completed_execution(edit("scene-1"), kind="redo"),
    )
    older: Execution = {**plan_, "id": "older"}
    nothing: Execution = {**record(edit("scene-1")), "id": "nothing"}
    assert undo.undone_execution([nothing, plan_])["id"] == "e"
    assert undo.undone_execution([undone, plan_, older])["id"] == "older"
    assert undo.undone_execution([redone, undone, plan_]) is redone
    assert undo.redone_execution([undone, plan_]) is undone
    assert undo.redone_execution([redone, undone, undone])["kind"] == "undo"
    for refused in (
        lambda: undo.undone_execution([undone, plan_]),
        lambda: undo.redone_execution([plan_, undone]),
        lambda: undo.redone_execution([redone, undone]),
    ):
        with pytest.raises(Conflict, match="nothing to"):
            refused()


def test_an_answer_may_leave_steps_out_of_a_plan():
    """D42."""
    question = {
        "action_requests": [{"name": "editScene", "args": {}}] * 2,
        "review_configs": [{"action_name": "editScene"}],
        "steps": ["a", "b"],
        "plan_steps": 2,
    }
    approve, skip, reject = ({"type": kind} for kind in ("approve", "skip", "reject"))
    answer = {"decisions": [approve], "leaveOut": ["b"]}
    assert approvals.plan_decisions(answer, question) == [approve, skip]
    for wrong, words in (
        ({"decisions": [approve], "leaveOut": ["c"]}, "not all are steps"),
        ({"decisions": [approve], "leaveOut": "a"}, "not all are steps"),
        ({"decisions": [reject, skip]}, "ends the whole plan"),
        ({"decisions": [skip]}, "every step"),
    ):
        with pytest.raises(Invalid, match=words):
            approvals.plan_decisions(wrong, question)
    lines = approvals.approval_sentence(["x" * 200, *"b" * 24]).splitlines()
    assert lines[1::20] == [f"1. {'x' * 120}…", "and 5 more"]


def test_a_queued_repetition_is_shown_unless_it_has_been_done():
    """D50."""
    done = live_plan.finish_step(record(edit("scene-1")), "s1", "completed", {"versionId": "v2"}, 5)
    ended = live_plan.end({**done, "status": "running"}, 6)
    queued = live_plan.QueuedRepetition(run="r", step="s1", completed=True)
    held = plan_recovery.queue_repetition(ended, queued, 0)
    assert plan_recovery.as_queued(held)["steps"][0]["status"] == "pending"
    assert plan_recovery.queue_repetition(ended, queued, 1) == ended
    assert plan_recovery.as_queued(ended) == ended
    failed = live_plan.end({**live_plan.finish_step(done, "s1", "error", {}, 5), "status": "running"}, 6)
    retried = plan_recovery.queue_repetition(failed, {**queued, "completed": False}, 0)
    assert plan_recovery.as_queued(retried)["status"] == "running"


def test_steps_that_lack_what_a_left_out_step_would_make_are_left_out():
    """D42."""
    steps = plan_steps(
        {"tool": "addScene", "scenes": ["new"], "prompt": "x"}, edit("new"), edit("scene-1"), edit("scene-1")
    )
    left = without_left_out(steps, ["s1", "s3"], RULES.creators)
    assert [one["status"] for one in live_plan.live_steps(left)] == [
        "skipped",
        "skipped",
        "skipped",
        "pending",
    ]
    assert [one["step"] for one in live_plan.left_out_changes(left, 5)] == ["s1", "s2", "s3"]
