"""Programs that a test needs on its machine."""

import os
import shutil
from pathlib import Path

import pytest


def need(*programs: str) -> Path:
    """The path of a program, by the first of its names that is there; without it, as `skip_or_fail`."""
    for name in programs:
        if path := shutil.which(name):
            return Path(path)
    return skip_or_fail(f"{programs[0]!r} is not installed")


def skip_or_fail(reason: str) -> Path:
    """Skip the test for `reason`; where `CI` is set, fail it, for a skip would hide what was not tested."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and in CI nothing may be skipped")
    pytest.skip(reason)
