"""The build of the page: once for each state of its sources, and never a reason not to start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from callsheet.server.console import build
from tests.doubles.needs import need

BUILD = """
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
mkdirSync("static", { recursive: true });
writeFileSync("static/index.html", readFileSync("src/title.txt", "utf8") + process.hrtime.bigint());
"""
MANIFEST = '{"name": "page", "version": "1.0.0", "private": true}'
LOCK = '{"name": "page", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "page"}}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sources that need no package."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/title.txt").write_text("first ")
    (tmp_path / "build.mjs").write_text(BUILD)
    (tmp_path / "package.json").write_text(MANIFEST)
    (tmp_path / "package-lock.json").write_text(LOCK)
    return tmp_path


def index(folder: Path) -> str:
    return (folder / "static/index.html").read_text()


def problem(folder: Path) -> str:
    return (folder / "static" / build.PROBLEM).read_text()


@pytest.mark.slow
def test_a_page_is_built_once_for_each_state_of_its_sources(folder: Path) -> None:
    need("npm")
    assert build.main(folder) == 0
    first = index(folder)
    assert first.startswith("first ")
    (folder / "pages.py").write_text("# not a source of the page")
    assert build.main(folder) == 0
    assert index(folder) == first
    (folder / "src/title.txt").write_text("second ")
    assert build.main(folder) == 0
    assert index(folder).startswith("second ")


@pytest.mark.slow
def test_a_build_that_fails_keeps_the_older_page_and_gives_the_reason(folder: Path) -> None:
    need("npm")
    assert build.main(folder) == 0
    first = index(folder)
    (folder / "build.mjs").write_text("throw new Error('a misspelt import')")
    assert build.main(folder) == 1
    assert index(folder) == first
    assert "a misspelt import" in problem(folder)
    (folder / "build.mjs").write_text(BUILD)
    assert build.main(folder) == 0
    assert not (folder / "static" / build.PROBLEM).exists()


def test_without_sources_the_reason_names_them(tmp_path: Path) -> None:
    assert build.main(tmp_path) == 1
    assert "build.mjs" in problem(tmp_path)


@pytest.mark.parametrize("version", ["", "v18.20.4"])
def test_without_a_new_enough_node_the_exit_code_asks_for_one(folder: Path, version: str) -> None:
    programs = folder / "bin"
    programs.mkdir()
    for name in ("node", "npm") if version else ():
        (programs / name).write_text(f"#!/bin/sh\necho {version}\n")
        (programs / name).chmod(0o755)
    start = f"runpy.run_path({build.__file__!r})['main'](pathlib.Path())"
    program = f"import pathlib, runpy, sys; sys.exit({start})"
    environ = {**os.environ, "PATH": str(programs)}
    process = subprocess.run(
        # Without site-packages, where the package of Node.js may be.
        [sys.executable, "-I", "-S", "-c", program],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 3, process.stderr
    assert "Node.js 20" in problem(folder)
