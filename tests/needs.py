"""What a test needs from the machine it runs on."""

import os
import shutil
from pathlib import Path

import pytest


def need(program: str) -> Path:
    """The path of `program`; without it the test is skipped, or fails where `CI` is set."""
    if found := shutil.which(program):
        return Path(found)
    return unmet(f"{program!r} is not installed")


def unmet(reason: str) -> Path:
    """Skip the test for `reason`; where `CI` is set, fail it, for a skip would hide what was not tested."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}, and in CI nothing may be skipped")
    pytest.skip(reason)
