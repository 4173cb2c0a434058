"""Every requirement of a finished part is named by a test, or DESIGN.md says why not."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = {"A": 82, "A-R": 21, "B": 69, "B-R": 17, "C": 58, "C-R": 12, "X": 18}
"""Finished parts and how many numbers each has."""
NUMBER = re.compile(r"\b(A-R|A|B-R|B|C-R|C|X)(\d+)(?:\s?[-–]\s?(?:\1)?(\d+))?\b")


def named(text: str) -> set[str]:
    """Return the numbers a text names; `A1-A6` and `A1–6` name all six."""
    found = set()
    for part, first, last in NUMBER.findall(text):
        found |= {f"{part}{number}" for number in range(int(first), int(last or first) + 1)}
    return found


def excused() -> dict[str, str]:
    """Return the numbers DESIGN.md gives a reason for, with it."""
    text = (ROOT / "DESIGN.md").read_text()
    section = text.partition("## Requirements without a test")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("- ")]
    return {number: line for line in lines for number in named(line.split(":")[0])}


def wanted() -> set[str]:
    return {f"{part}{number}" for part, count in PARTS.items() for number in range(1, count + 1)}


def tried() -> set[str]:
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if file != Path(__file__)]
    return {number for file in files for number in named(file.read_text())}


def in_order(numbers):
    return sorted(numbers, key=lambda number: (number.rstrip("0123456789"), int(re.sub(r"\D", "", number))))


def test_every_requirement_is_named_by_a_test_or_excused_with_a_reason():
    gaps = wanted() - tried() - set(excused())
    assert not gaps, f"no test and no reason: {', '.join(in_order(gaps))}"


def test_no_requirement_is_excused_that_a_test_names():
    both = tried() & set(excused())
    assert not both, f"DESIGN.md says there is no test, but there is one: {', '.join(in_order(both))}"


def test_every_excuse_gives_a_reason():
    assert all(len(line.split(":", 1)[1].strip()) > 20 for line in excused().values())


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("A12", {"A12"}),
        ("A1-A3, X9", {"A1", "A2", "A3", "X9"}),
        ("A29–A31", {"A29", "A30", "A31"}),
        ("A-R5…A-R7", {"A-R5", "A-R7"}),
        ("ANSI D12 XA1", set()),
    ],
)
def test_numbers_are_read_from_prose(text, numbers):
    assert named(text) == numbers
