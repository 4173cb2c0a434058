"""The built page in a browser, with servers in processes of their own.

`python -m tests.console.browser [--pictures FOLDER] [PART OF A NAME]` runs the browser tests alone, and with
a folder takes pictures of every view.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from callsheet.server.console import build
from tests.doubles.command import ROOT, environment
from tests.doubles.needs import need, skip_or_fail
from tests.wire.javascript import installed_packages

SCRIPTS: Final = Path(__file__).parent / "js"
_TEST: Final = re.compile(r'^test\("([^"]+)"', re.MULTILINE)
_TIMEOUT_S: Final = 560


def test_names() -> list[str]:
    """Return the names of the browser tests, in order."""
    scripts = ("views.mjs", "journeys.mjs", "versions.mjs", "hostile.mjs", "limits.mjs")
    return [name for script in scripts for name in _TEST.findall((SCRIPTS / script).read_text())]


def built_page() -> Path:
    """Return the folder of the page's sources once the page is built; skip the test if it cannot be."""
    if build.main() != 0:
        skip_or_fail(f"the page is not built: {(build.FOLDER / build.STATIC / build.PROBLEM).read_text()}")
    return build.FOLDER


def run_browser_tests(folder: Path, only: str = "", pictures: Path | None = None) -> dict[str, Any]:
    """Return the report of the browser tests whose names contain `only`; `folder` is empty."""
    sources = built_page()
    browser = need("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    scripts, work = folder / "js", folder / "work"
    shutil.copytree(SCRIPTS, scripts)
    (scripts / "node_modules").symlink_to(installed_packages(sources) / "node_modules")
    work.mkdir()
    project = _project()
    (work / "langgraph.json").write_text(json.dumps(project))
    own = {"ordering": project["graphs"]["ordering"]}
    (work / "own.json").write_text(json.dumps({**project, "graphs": own}))
    options = {
        "python": sys.executable,
        "browserPath": str(browser),
        "folder": str(work),
        "pictures": str(pictures or ""),
    }
    output = _run_node([str(need("node")), str(scripts / "main.mjs"), json.dumps(options), only])
    report: dict[str, Any] = json.loads(output)
    return report


def _project() -> Mapping[str, Any]:
    project: dict[str, Any] = json.loads((ROOT / "langgraph.json").read_text())
    project["graphs"]["ordering"] = "tests.console.own_graph:graph"
    return project


def _run_node(command: list[str]) -> str:
    """Return the output of a program; what it started ends with it."""
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=_TIMEOUT_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, f"exit code {process.returncode}"
    return output


def main() -> None:
    """Run the browser tests, and print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("only", nargs="?", default="")
    arguments = parser.parse_args()
    pictures: Path | None = arguments.pictures
    if pictures:
        pictures = pictures.resolve()
        pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        report = run_browser_tests(Path(folder), arguments.only, pictures)
    for name, result in report["tests"].items():
        if result["error"]:
            sys.stdout.write(f"\n{name}\n{result['error']}\n")
    sys.stdout.write(f"{json.dumps(report['figures'], indent=2)}\n")


if __name__ == "__main__":
    main()
