"""The judge: grades, rubrics, preferences in both orders, and its agreement with given grades."""

import json
from pathlib import Path
from typing import Any

import pytest

from callsheet.state.errors import Invalid
from evals import controls, pairs
from evals.judging import WITH_CONTROL, Judge, graded_products
from evals.reporting import Report
from evals.running import Score
from tests.doubles.chat_double import ChatDouble, Say


def fills(form: str, **fields: Any) -> Say:
    return Say(calls=[("call_1", form, json.dumps({"reason": "It is so.", **fields}))])


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch):
    """A judge's server, which the environment names."""
    with ChatDouble(vendor="llama.cpp", key="none") as server:
        monkeypatch.setenv("COMPATIBLE_BASE_URL", server.url)
        monkeypatch.setenv("COMPATIBLE_MODEL", "judge")
        yield server


JUDGE = Judge("compatible/judge", at_once=1)


async def test_agreement_with_given_grades_is_a_kappa_by_source(double: ChatDouble) -> None:
    examples = graded_products()
    assert len(examples) == 20
    assert {one.points for one in examples} == {1, 2, 3, 4, 5}
    for one in examples:
        double.script(fills("Verdict", points=max(1, one.points - 1)))
    report = await JUDGE.agreement()
    assert "the same as 3 of 20 grades written with the control, Cohen's κ -0.03" in report
    assert "by people" not in report, "no person has graded any of them"
    assert "dentists" not in double.requests[0].messages[0]["content"]


def test_no_grade_claims_to_be_a_persons() -> None:
    assert {one.source for one in graded_products()} == {WITH_CONTROL}


async def test_a_judge_grades_products_and_skips_empty_ones(double: ChatDouble) -> None:
    double.script(fills("Verdict", points=4))
    graded = await JUDGE.with_grades(
        [Score("page_builder", "x", product="Bread"), Score("page_builder", "y")]
    )
    assert [one.quality for one in graded] == [4, None]


async def test_a_ruling_decides_a_rubric(double: ChatDouble) -> None:
    waiting = Score("page_builder", "x", rubrics={"admits": "It admits."}, transcript=["model: No unicorn."])
    double.script(fills("Ruling", holds=True), fills("Ruling", holds=False), Say("I would rather not."))
    double.script(Say("Really not."), Say("No."))
    yes, no, none = await JUDGE.with_grades([waiting] * 3)
    assert (yes.ok, yes.rubrics) == (True, {})
    assert no.failures == {"admits": "the judge denies: It admits."}
    assert none.is_open
    assert "No unicorn" in json.dumps(double.requests[0].messages)


@pytest.mark.parametrize(
    ("answers", "preferred"),
    [
        (("first", "second"), "first"),
        (("second", "first"), "second"),
        (("first", "first"), "neither"),
        (("neither", "second"), "neither"),
    ],
)
async def test_a_preference_counts_only_if_it_holds_in_both_orders(
    double: ChatDouble, answers: tuple[str, str], preferred: str
) -> None:
    double.script(*(fills("PairVerdict", better=one) for one in answers))
    assert await JUDGE.prefer("page_builder", "A page", ("Bread", "Buns")) == preferred
    sent = [json.loads(one.messages[-1]["content"]) for one in double.requests]
    assert [one["first"] for one in sent] == ["Bread", "Buns"]


async def test_two_results_are_compared_in_pairs(double: ChatDouble, tmp_path: Path) -> None:
    for name, text in {"A": "Bread", "B": "Buns"}.items():
        scores = [Score("page_builder", str(at), product=f"{text} {at}") for at in range(6)]
        (tmp_path / name).write_text(json.dumps(Report("m/x", {}, scores).data()), "utf-8")
    for _ in range(6):
        double.script(fills("PairVerdict", better="second"), fills("PairVerdict", better="first"))
    line = await pairs.preferences(JUDGE, tmp_path / "A", tmp_path / "B")
    assert "prefers the second in 6, the first in 0 and neither in 0 of 6 pairs" in line
    assert "p = 0.031: more than noise" in line


async def test_controls_that_need_a_judge_test_the_judge(double: ChatDouble) -> None:
    for_judge = [one for one in controls.load() if one.needs_judge]
    for one in for_judge:
        double.script(*(fills("Ruling", holds=one.is_good) for _ in one.score().rubrics))
    problems, summary = await controls.run(JUDGE)
    assert problems == []
    assert f"{len(for_judge)} judged" in summary
    for one in for_judge:
        double.script(*(fills("Ruling", holds=True) for _ in one.score().rubrics))
    problems, _ = await controls.run(JUDGE)
    assert len(problems) == sum(not one.is_good for one in for_judge), "a judge that approves of everything"


def test_the_offline_model_cannot_judge() -> None:
    with pytest.raises(Invalid, match="cannot judge"):
        Judge("offline")
