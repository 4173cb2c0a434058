"""The page's own tests of pure functions, with Node.js' test runner."""

import shutil
import subprocess
from pathlib import Path

import pytest

from callsheet.server.console import build
from tests.doubles.needs import need, skip_or_fail
from tests.wire.javascript import installed_packages

_RUNNER = "test/run.mjs"


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_functions_of_the_page_do_what_their_tests_say(tmp_path: Path) -> None:
    node = need("node")
    if not (build.FOLDER / _RUNNER).is_file():
        skip_or_fail("the page's sources are not there")
    folder = tmp_path / "console"
    foreign = shutil.ignore_patterns("node_modules", "static", "__pycache__", ".out")
    shutil.copytree(build.FOLDER, folder, ignore=foreign)
    (folder / "node_modules").symlink_to(installed_packages(build.FOLDER) / "node_modules")
    process = subprocess.run(
        [node, _RUNNER], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode == 0, process.stdout[-4_000:] + process.stderr[-2_000:]
