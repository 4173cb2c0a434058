"""The statistics of the evaluation, on data with known values."""

import pytest

from evals.statistics import kappa, paired_differences, pass_hat_k, sign_flip, wilson


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    [(0.5, 10, 0.2366, 0.7634), (1.0, 10, 0.7225, 1.0), (0.0, 10, 0.0, 0.2775), (0.8, 100, 0.7112, 0.8666)],
)
def test_the_interval_of_a_share_is_wilsons(share: float, count: int, low: float, high: float) -> None:
    assert wilson(share, count) == pytest.approx((low, high), abs=1e-4)


def test_the_interval_of_nothing_is_everything() -> None:
    assert wilson(0.0, 0) == (0.0, 1.0)


def test_pass_hat_k_is_the_chance_that_all_k_runs_pass() -> None:
    always, often, never = [True] * 5, [True, True, True, True, False], [False] * 5
    assert pass_hat_k([always], 5) == 1
    assert pass_hat_k([often], 5) == 0
    assert pass_hat_k([often], 1) == pytest.approx(0.8)
    assert pass_hat_k([often], 2) == pytest.approx(0.6)
    assert pass_hat_k([always, often, never], 2) == pytest.approx((1 + 0.6 + 0) / 3)


def test_a_few_differences_are_noise_and_many_of_one_sign_are_not() -> None:
    assert sign_flip([]) == 1
    assert sign_flip([0.0, 0.0]) == 1
    assert sign_flip([1.0] * 5) == pytest.approx(2 / 32)
    assert sign_flip([1.0] * 6) == pytest.approx(2 / 64)
    assert sign_flip([1.0] * 6 + [-1.0] * 6) == pytest.approx(1.0)
    assert sign_flip([0.2] * 30 + [0.0] * 70) < 0.001
    assert sign_flip([0.2] * 15 + [-0.2] * 15) > 0.9


def test_only_tasks_of_both_results_are_compared() -> None:
    first = {"a": [True, False], "b": [True], "c": [False]}
    second = {"a": [True, True], "b": [False], "d": [True]}
    assert paired_differences(first, second) == [0.5, -1.0]


def test_kappa_of_a_published_table() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: agreement 0.70, by chance 0.50, kappa 0.40."""
    pairs = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    assert kappa(pairs, [0, 1]) == pytest.approx(0.4)


def test_kappa_is_one_for_agreement_none_without_variety_and_less_for_chance() -> None:
    assert kappa([(1, 1), (2, 2), (5, 5)], range(1, 6)) == 1
    assert kappa([(3, 3), (3, 3)], range(1, 6)) is None
    assert kappa([], range(1, 6)) is None
    assert kappa([(1, 5), (5, 1)], range(1, 6)) == pytest.approx(-1.0)


def test_weighted_kappa_forgives_a_neighbouring_grade() -> None:
    near = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 4)]
    simple, weighted = kappa(near, range(1, 6)), kappa(near, range(1, 6), weighted=True)
    assert simple is not None
    assert weighted is not None
    assert simple < 0
    assert weighted > 0.6
