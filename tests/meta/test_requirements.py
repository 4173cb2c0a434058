"""Every requirement of docs/requirements.md is named by a test, or has a reason why it is not met."""

import ast
import re
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^- ([A-EX](?:-R)?\d+): (.+)$", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w-])[A-EX](?:-R)?\d+\b")
RANGE = re.compile(r"(?<![\w-])([A-EX](?:-R)?)\d+\s?(?:[-–…]|to)\s?(?:\1)?\d+\b")
NOT_MET = "**Not met**: "


@cache
def requirements() -> dict[str, str]:
    """Return the requirements by number."""
    return dict(LINE.findall((ROOT / "docs/requirements.md").read_text()))


def numbers_in(text: str) -> set[str]:
    """Return the numbers that a text names one by one; a range such as `A1-A6` names none."""
    return set(NUMBER.findall(RANGE.sub("", text)))


@cache
def numbers_of_tests() -> frozenset[str]:
    """Return the numbers in the docstrings of tests."""
    numbers: set[str] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                numbers |= numbers_in(ast.get_docstring(node) or "")
    return frozenset(numbers)


def not_met() -> dict[str, str]:
    """Return the reasons of the requirements that are not met."""
    return {number: text.partition(NOT_MET)[2] for number, text in requirements().items() if NOT_MET in text}


def listing(numbers: AbstractSet[str]) -> str:
    """Return the numbers by series, as text."""
    return ", ".join(
        sorted(numbers, key=lambda number: (number.rstrip("0123456789"), int(re.sub(r"\D", "", number))))
    )


def test_every_requirement_has_a_test_that_names_it_or_is_listed_as_not_met() -> None:
    gaps = requirements().keys() - numbers_of_tests() - not_met().keys()
    assert not gaps, f"no test names {listing(gaps)}"


def test_a_requirement_that_is_listed_as_not_met_is_named_by_no_test() -> None:
    both = numbers_of_tests() & not_met().keys()
    assert not both, f"docs/requirements.md says that there is no test of {listing(both)}"


def test_every_number_that_a_test_names_is_a_requirement() -> None:
    unknown = numbers_of_tests() - requirements().keys()
    assert not unknown, f"docs/requirements.md has no {listing(unknown)}"


def test_every_requirement_that_is_not_met_has_a_reason() -> None:
    assert all(len(reason) > 40 for reason in not_met().values())


def test_the_numbers_of_a_series_are_consecutive_and_unique() -> None:
    lines = [number for number, _ in LINE.findall((ROOT / "docs/requirements.md").read_text())]
    assert len(lines) == len(set(lines))
    for series in {number.rstrip("0123456789") for number in lines}:
        counted = [int(one.removeprefix(series)) for one in lines if one.rstrip("0123456789") == series]
        assert sorted(counted) == [*range(1, len(counted) + 1)]


@pytest.mark.parametrize("package", ["state", "providers", "storage", "tools", "nodes", "graphs", "server"])
def test_no_product_source_names_a_requirement_number(package: str) -> None:
    """Readers of docstrings, comments and the OpenAPI document do not have the list."""
    places = {
        f"{file.relative_to(ROOT)}:{line}"
        for file in (ROOT / package).rglob("*.py")
        for line, text in enumerate(file.read_text().splitlines(), 1)
        if requirements().keys() & set(NUMBER.findall(re.sub(r"# noqa: \w+", "", text)))
    }
    assert not places


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("A12", {"A12"}),
        ("A1-A3, X9", {"X9"}),
        ("A29–A31, D-R3: a title", {"D-R3"}),
        ("D15 to D19, E-R1", {"E-R1"}),
        ("A-R5, A-R7 (B2)", {"A-R5", "A-R7", "B2"}),
        ("ANSI XA1 UTF-8 AES-128", set()),
    ],
)
def test_ranges_and_parts_of_words_are_no_requirement_numbers(text: str, numbers: set[str]) -> None:
    assert numbers_in(text) == numbers
