"""The record of an execution, as a value."""

from typing import Any

import pytest

from callsheet.state import live_plan, plan_progress, plan_recovery
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.state.live_plan import Execution, PlanRules
from callsheet.state.plan import Plan, Step, StepResult, with_dependencies
from callsheet.state.plan_progress import events_between
from callsheet.state.workflow import is_repetition


def step(name: str, *writes: str, reads: tuple[str, ...] = ()) -> Step:
    return Step(
        id=name,
        tool=f"make-{name}",
        display=name,
        params={"prompt": name},
        dependencies=[],
        reads=[*reads],
        writes=[*writes],
    )


def record(*steps: Step) -> Execution:
    plan = Plan(id="p", steps=with_dependencies(steps))
    return Execution(
        id="p",
        thread="t",
        project="a",
        run="r",
        kind="plan",
        request="x",
        reasoning="",
        feedback="",
        status="running",
        approved=live_plan.plan_digest(plan),
        task="task",
        epoch=1,
        estimated_s=0,
        created_ms=1,
        started_ms=2,
        ended_ms=0,
        steps=live_plan.live_steps(plan["steps"]),
        changes=[],
    )


def statuses(held: Execution) -> list[str]:
    return [one["status"] for one in held["steps"]]


def test_as_many_steps_are_claimed_as_fit() -> None:
    held = record(step("v", "voices"), step("m", "music"), step("s", "sfx"), step("v2", "voices"))
    two = live_plan.claim_steps(held, (), 2, 5)
    assert statuses(two) == ["in-progress", "in-progress", "pending", "pending"]
    assert live_plan.claim_steps(two, {"v", "m"}, 2, 6) == two
    assert statuses(live_plan.claim_steps(two, {"v", "m"}, 3, 6))[2] == "in-progress"
    again = live_plan.claim_steps(two, (), 2, 6)
    assert again == two, "a step that is in progress is started again after a crash, and claimed once"


@pytest.mark.parametrize("status", ["error", "blocked", "cancelled"])
def test_results_of_an_earlier_task_are_in_the_record(status: Any) -> None:
    held = record(step("v", "voices"), step("x", reads=("voices",)), step("m", "music"))
    done = [
        StepResult(id=name, plan=plan, tool="t", status=status, output={"error": "no"}, duration_s=0)
        for name, plan in (("v", "p"), ("m", "other"))
    ]
    known = plan_recovery.with_results(held, done)
    assert statuses(known) == [status, "pending", "pending"]
    assert known["steps"][0]["output"] == {"error": "no"}
    assert [one["id"] for one in plan_progress.results(known)] == ["v"]
    assert plan_progress.results(known, since_ms=1) == []


def test_a_repetition_is_another_call() -> None:
    held = live_plan.finish_step(record(step("v", "voices")), "v", "completed", {"versionId": "v1"}, 5)
    assert live_plan.call_of(held["steps"][0])["id"] == "v"
    assert live_plan.call_of(live_plan.repeat_step(held, "v", 6)["steps"][0])["id"] == "v#1"


def test_rules_of_a_workflow_hold_for_its_plans() -> None:
    rules = PlanRules(
        creators=frozenset({"make-v"}), once=frozenset({"make-m"}), editable=frozenset({"prompt"})
    )
    held = record(step("v", "voices"), step("x", reads=("voices",)), step("m", "music"))
    with pytest.raises(Invalid):
        live_plan.edit_step(held, "v", {"volume": 1}, 5, rules)
    assert live_plan.edit_step(held, "v", {"volume": 1}, 5)["steps"][0]["step"]["params"]["volume"] == 1
    assert statuses(live_plan.skip_step(held, "v", 5, rules)) == ["skipped", "blocked", "pending"]
    assert statuses(live_plan.skip_step(held, "v", 5)) == ["skipped", "pending", "pending"]
    done = live_plan.finish_step(held, "m", "completed", {}, 5)
    with pytest.raises(Conflict):
        live_plan.repeat_step(done, "m", 6, rules)
    with pytest.raises(Missing):
        live_plan.find(held, "none")


def test_an_edit_replaces_arguments_that_were_no_json() -> None:
    broken: Step = {**step("v", "voices"), "raw": "{prompt"}
    edited = live_plan.edit_step(record(broken), "v", {"prompt": "y"}, 5)["steps"][0]["step"]
    assert ("raw" in edited, edited["params"]) == (False, {"prompt": "y"})


def test_an_edited_name_stands_in_the_title_of_its_step() -> None:
    named: Step = {**step("a"), "display": "Adding a scene “Old”", "params": {"name": "Old"}}
    edited = live_plan.edit_step(record(named), "a", {"name": "New"}, 5)
    assert edited["steps"][0]["step"]["display"] == "Adding a scene “New”"


def test_a_version_is_announced_unless_its_stream_is_not() -> None:
    held = record(step("v", "voices"))
    done = live_plan.finish_step(held, "v", "completed", {"versionId": "v1"}, 4)
    assert ("version-update", {"stepId": "v", "stream": "voices", "versionId": "v1"}) in [
        *events_between(held, done)
    ]
    silent = PlanRules(unannounced=frozenset({"voices"}))
    assert [name for name, _ in events_between(held, done, silent)] == ["step-update"]


def test_a_turn_repeats_a_step_only_while_the_persons_message_is_the_last() -> None:
    class Message:
        id = "m1"

    state: Any = {"messages": [Message()], "decided": True, "decision": "m1"}
    assert is_repetition(state)
    for other in ({"decision": "m0"}, {"decided": False}):
        state = {"messages": [Message()], "decided": True, "decision": "m1", **other}
        assert not is_repetition(state)


def test_a_step_in_progress_of_a_paused_or_cancelled_plan_is_finished_by_its_task_alone() -> None:
    """A50, D33: after a kill its receipt is looked up; another task would not find it."""
    running = live_plan.claim_step(record(step("v", "voices"), step("m", "music")), "v", 5)
    for stopped in (live_plan.pause(running, 6), live_plan.cancel(running, 6)):
        continued = plan_recovery.begin(stopped, "task", 2, 7)
        assert [one["step"]["id"] for one in live_plan.to_start(continued, (), 3)] == ["v"]
        assert live_plan.to_start(continued, {"v"}, 3) == []
        finished = live_plan.finish_step(continued, "v", "completed", {}, 8)
        assert live_plan.to_start(finished, (), 3) == []
    other = plan_recovery.begin(live_plan.cancel(running, 6), "other", 2, 7)
    assert (statuses(other), live_plan.to_start(other, (), 3)) == (["cancelled", "cancelled"], [])
    assert "was begun and then interrupted" in other["steps"][0]["output"]["error"]
    assert other["steps"][1]["output"] == {}, "it never began"


def test_a_receipt_completes_only_a_step_whose_end_is_not_known() -> None:
    """A50: also of a step that was cut with its run."""
    held = record(step("v", "voices"), step("m", "music"), step("s", "sfx"))
    held = live_plan.claim_steps(held, (), 2, 5)
    held = live_plan.finish_step(held, "m", "error", {"error": "no"}, 6)
    receipts = {"v": {"versionId": "v1"}, "m": {"versionId": "v1"}}
    assert plan_recovery.open_calls(held) == ["v", "s"]
    for before in (held, plan_recovery.abandon(held, 7)):
        known = plan_recovery.with_receipts(before, receipts, 7)
        assert [one["status"] for one in known["steps"]][:2] == ["completed", "error"]
        assert known["steps"][0]["output"] == {"versionId": "v1"}
    cut = plan_recovery.abandon(live_plan.cancel(held, 7), 8)
    assert (cut["status"], statuses(cut), cut.get("abandoned")) == (
        "cancelled",
        ["cancelled", "error", "cancelled"],
        None,
    )
    again = plan_recovery.reopen(plan_recovery.abandon(held, 7))
    assert (again["steps"][0]["status"], again["steps"][0]["output"]) == ("pending", {})


def test_a_lost_record_keeps_what_is_done_and_begins_nothing() -> None:
    held = live_plan.finish_step(record(step("v", "voices"), step("m", "music")), "v", "completed", {}, 5)
    lost = plan_recovery.lose(held, 6)
    assert (lost["status"], statuses(lost)) == ("cancelled", ["completed", "cancelled"])
    assert "was lost" in lost["steps"][1]["output"]["error"]


def test_the_answer_to_a_pause_is_applied_once_and_a_second_pause_waits_for_it() -> None:
    """D44: the mark stays from the question to the run that goes on."""
    held = live_plan.pause(record(step("v", "voices")), 5)
    asking = live_plan.ask_to_resume(held, 6)
    assert live_plan.ask_to_resume(live_plan.resume(held, 6), 7).get("waits") is None
    resumed = live_plan.resume(asking, 7)
    with pytest.raises(Conflict, match="has not begun again"):
        live_plan.pause(resumed, 8)
    assert live_plan.pause(plan_recovery.begin(resumed, "task", 2, 9), 9)["status"] == "paused"
    agreed = live_plan.answer_pause(asking, 8, agreed=True, run="r2")
    assert (agreed["status"], agreed["executed_by"], agreed["waits"]) == ("running", "r2", False)
    declined = live_plan.answer_pause(asking, 8, agreed=False, run="r2")
    assert (declined["status"], declined["waits"]) == ("cancelled", False)
    assert live_plan.answer_pause(declined, 9, agreed=True, run="r3") == declined


def test_steps_and_changes_of_a_plan_are_limited() -> None:
    held = record(step("v", "voices"))
    with pytest.raises(Conflict, match="more than 100 steps, 500 changes"):
        live_plan.insert_steps(held, [step(f"s{number}") for number in range(100)], 5)
    for number in range(live_plan.MAX_CHANGES):
        held = live_plan.edit_step(held, "v", {"prompt": str(number)}, 5)
    for change in (
        lambda: live_plan.edit_step(held, "v", {"prompt": "one more"}, 5),
        lambda: live_plan.pause(held, 5),
    ):
        with pytest.raises(Conflict, match="more than 100 steps"):
            change()
    assert live_plan.cancel(held, 6)["status"] == "cancelled"


def test_changes_of_a_plan_are_limited_in_bytes_and_no_step_joins_a_plan_that_waits_for_approval() -> None:
    held = record(step("v", "voices"))
    for number in range(8):
        held = live_plan.edit_step(held, "v", {"prompt": str(number) * 60_000}, 5)
    with pytest.raises(Conflict, match="bytes of changes"):
        live_plan.edit_step(held, "v", {"prompt": "x" * 60_000}, 5)
    waiting: Execution = {**record(step("v", "voices")), "status": "planned", "asks": True}
    with pytest.raises(Conflict, match="waits for approval"):
        live_plan.insert_steps(waiting, [step("w", "music")], 5)
