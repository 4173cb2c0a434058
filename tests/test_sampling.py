"""What a quick run leaves out of long tables, and that nothing is out of reach."""

from itertools import chain
from typing import Any

import pytest

from tests.sampling import left

pytestmark = pytest.mark.table

LETTERS = "abcdefgh"


@pytest.mark.parametrize("letter", LETTERS)
def test_one_test_of_a_row(letter: str) -> None:
    assert letter


@pytest.mark.parametrize("letter", LETTERS)
def test_another_of_it(letter: str) -> None:
    assert letter


@pytest.mark.parametrize(("letter", "case"), [(one, one.upper()) for one in LETTERS])
def test_and_a_third(letter: str, case: str) -> None:
    assert letter.upper() == case


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("number", range(4))
def test_a_table_of_two_sides(letter: str, number: int) -> None:
    assert letter * number == "".join([letter] * number)


@pytest.mark.parametrize("letter", "abc")
def test_a_short_table(letter: str) -> None:
    assert letter


def _run(request: pytest.FixtureRequest, name: str) -> list[dict[str, Any]]:
    """The parameters with which a test of this file runs in a quick run."""
    file = list(request.node.parent.collect())
    out = {one.nodeid for one in left(file)}
    assert out
    return [one.callspec.params for one in file if one.nodeid not in out and one.name.startswith(f"{name}[")]


def test_three_tests_on_the_same_rows_have_every_row_between_them(request: pytest.FixtureRequest) -> None:
    tests = ("test_one_test_of_a_row", "test_another_of_it", "test_and_a_third")
    rows = [[one["letter"] for one in _run(request, name)] for name in tests]
    assert sorted(map(len, rows)) == [2, 3, 3]
    assert sorted(chain.from_iterable(rows)) == list(LETTERS)


def test_a_table_of_two_sides_has_every_value_of_either(request: pytest.FixtureRequest) -> None:
    rows = _run(request, "test_a_table_of_two_sides")
    assert 9 <= len(rows) <= 12
    assert {one["letter"] for one in rows} == set(LETTERS)
    assert {one["number"] for one in rows} == set(range(4))


def test_a_short_table_runs_whole(request: pytest.FixtureRequest) -> None:
    assert len(_run(request, "test_a_short_table")) == 3
