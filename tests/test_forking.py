"""Tests that run in several processes are told of as if one had run them, and none is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = """
import pytest
from tests.forking import Forking

def pytest_configure(config):
    config.pluginmanager.register(Forking(2, lambda nodeid: nodeid.partition("::")[0]))

@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    place = tmp_path_factory.mktemp("shared")
    yield place
    with open("ended", "a") as ended:
        ended.write("x")
"""
"""What a project has to do to use it, and a fixture that tells of its end."""

MEET = """
from pathlib import Path
from tests.waiting import until

def meet(this, other):
    Path(this).touch()
    until(Path(other).exists, "the other process")
"""
"""Two tests that wait for each other run in two processes."""

FIRST = """
import os, pytest
from meet import meet

SEEN = set()

def test_one(shared):
    SEEN.add((os.getpid(), shared))
    meet("first", "second")

def test_the_next_runs_where_the_first_did(shared):
    assert SEEN == {(os.getpid(), shared)}

@pytest.mark.skip(reason="not today")
def test_skipped(): ...
"""

SECOND = """
from meet import meet

def test_fails(shared):
    meet("second", "first")
    print("what it printed")
    assert 1 + 1 == 3

def test_goes_on(): ...
"""

ALONE = """
def test_alone(shared): ...
"""

BROKEN = """
import os

def test_before(): ...
def test_ends_its_process(): os._exit(7)
def test_after(): ...
"""

WAITS = """
import time
from meet import meet

def test_waits(shared):
    meet("waits", "hurries")
    time.sleep(30)
"""

HURRIES = """
from meet import meet

def test_fails():
    meet("hurries", "waits")
    assert False
"""


def told(folder: Path, *arguments: str, **files: str) -> tuple[int, str]:
    """What a run over the files says at its end, and with which code."""
    (folder / "conftest.py").write_text(PLUGIN)
    (folder / "meet.py").write_text(MEET)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-ra",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "--rootdir=.",
    ]
    environment = {"PYTHONPATH": str(Path(__file__).parent.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_what_happened_in_each_process_is_told_in_one_place(tmp_path: Path) -> None:
    code, said = told(tmp_path, first=FIRST, second=SECOND)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 3 passed, 1 skipped" in said
    assert "FAILED test_second.py::test_fails - assert (1 + 1) == 3" in said
    assert "what it printed" in said
    assert "not today" in said
    assert (tmp_path / "ended").read_text() == "xx", "each process takes down what it set up"


def test_what_goes_wrong_when_all_is_taken_down_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "ended").mkdir()
    code, said = told(tmp_path, alone=ALONE)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "IsADirectoryError" in said
    assert "1 failed, 1 passed" in said


def test_a_test_that_ends_its_process_fails_and_those_after_it_are_not_forgotten(tmp_path: Path) -> None:
    code, said = told(tmp_path, alone=ALONE, broken=BROKEN)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "FAILED test_broken.py::test_ends_its_process - its process ended with 7" in said
    assert "FAILED test_broken.py::test_after - it did not run" in said
    assert "2 failed, 2 passed" in said


def test_who_stops_at_the_first_failure_does_not_wait_for_the_others(tmp_path: Path) -> None:
    code, said = told(tmp_path, "-x", hurries=HURRIES, waits=WAITS)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "stopping after 1 failures" in said
    assert "1 failed in" in said
    assert (tmp_path / "ended").read_text() == "x", "what is broken off takes down what it set up"
