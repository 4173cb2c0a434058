"""The controls: every check fails a bad answer and passes a good one in other words."""

from pathlib import Path

import pytest

from callsheet.state.errors import Invalid
from evals import controls
from evals.__main__ import main
from evals.controls import Control
from evals.turns import ForJudge, score_turn

CONTROLS = controls.load()
ANSWERS = [one for one in CONTROLS if not one.check]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda one: f"{one.workflow} {one.name}".replace(" ", "-"))
def test_a_check_is_right_about_the_control(control: Control) -> None:
    assert control.problem() == ""


def test_no_check_is_without_a_good_and_a_bad_control() -> None:
    assert controls.missing_controls(CONTROLS) == []
    without = [one for one in CONTROLS if not (one.check == "darker" and one.is_good)]
    assert controls.missing_controls(without) == [
        "page_builder.darker has no good control",
        "scene_edit.darker has no good control",
    ]


def test_the_command_fails_if_a_check_is_wrong_about_a_control(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad answer that passes: the scene is deleted, as the control's check wants it to be."""
    answer = "{name: x, fails: [deleted_scenes], after: {delete: [scene-1]}}"
    wrong = f"- {{task: scene_edit.delete-02, bad: [{answer}]}}"
    (tmp_path / "answers.yaml").write_text(wrong, "utf-8")
    assert main(["--only", "page_builder", "--task", "text-02", "--controls", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "scene_edit delete-02: x: a bad answer passes deleted_scenes" in printed
    assert "page_builder.touches has no bad control" in printed


def test_full_answers_to_real_tasks_are_among_the_controls() -> None:
    assert sum(one.is_good for one in ANSWERS) >= 22
    assert sum(not one.is_good for one in ANSWERS) >= 22
    assert {one.workflow for one in ANSWERS} == {one.workflow for one in CONTROLS}


@pytest.mark.parametrize(
    ("kind", "problem"), [("good", "a bad answer passes touches"), ("bad", "a good answer fails")]
)
def test_a_check_that_is_wrong_about_a_control_is_a_problem(kind: str, problem: str) -> None:
    """The control is turned round, so that a check that is right about it is wrong."""
    is_good = kind == "good"
    control = next(one for one in CONTROLS if one.check == "touches" and one.is_good is is_good)
    turned = Control(**{**vars(control), "is_good": not is_good, "fails": ["touches"]})
    assert problem in turned.problem()


async def test_a_run_without_a_judge_counts_what_needs_one_as_skipped() -> None:
    problems, summary = await controls.run(None)
    assert problems == []
    skipped = sum(one.needs_judge for one in CONTROLS)
    assert f"{skipped} skipped, since they need a judge" in summary
    for one in CONTROLS:
        if one.needs_judge:
            outcome = one.score()
            assert outcome.rubrics
            assert not outcome.failures


def test_a_rubric_is_never_counted_as_passed() -> None:
    control = next(one for one in CONTROLS if one.check == "rubric" and one.needs_judge)
    [name] = control.score().rubrics
    assert name == "rubric"
    checks = {"rubric": lambda *_: ForJudge("It is so.")}
    assert score_turn(checks, control.turn).rubrics == {"rubric": "It is so."}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "- {check: order, expect: {order: []}, good: [{name: a, aftr: {}}]}",
            "unknown field or check: aftr",
        ),
        ("- {check: ordr, given: {project: x}, expect: {order: []}}", "unknown field or check: ordr"),
        ("- {task: scene_edit.text-01, bad: [{name: a}]}", "fails no check"),
        ("- {task: scene_edit.text-99, bad: [{name: a}]}", "there is no 'text-99'"),
    ],
)
def test_an_invalid_control_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "scene_edit.yaml").write_text(text, "utf-8")
    with pytest.raises(Invalid, match=problem):
        controls.load(tmp_path)
