"""Every documented target of the Makefile works: quick ones are run, the others are checked in a dry run."""

import os
import re
import shutil
import signal
import subprocess
from importlib.util import find_spec

import httpx
import pytest

from tests.doubles.command import environment
from tests.doubles.redis_server import free_port
from tests.doubles.waiting import until
from tests.meta.syntax import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
DOCUMENTED = re.findall(r"^(\w+):[^#\n]*  ## \S", MAKEFILE, re.MULTILINE)
PARTS = ("tested", "covered", "slow", "thresholds", "linted")
"""Targets of which others are made."""
MARKERS = (".venv/uv", ".venv/run", ".venv/dev", ".venv/peers", ".venv-fuzz/done")
INSTALLED = [word for marker in MARKERS for word in ("-o", marker)]
"""Options that mark every environment as installed, so that a test changes none."""


def make_environment(**variables):
    """Return the environment of a make that was not started by another make."""
    environ = environment(**variables)
    return {
        name: value for name, value in environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }


def make(*words, folder=ROOT, timeout_s=20, **env):
    """Run a target, which must succeed; return its output."""
    process = subprocess.run(
        ["make", *words],
        cwd=folder,
        env=make_environment(**env),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_every_target_without_a_file_is_phony_and_every_public_one_is_documented():
    [phony] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    named = set(re.findall(r"^(\w+):(?!=)", MAKEFILE, re.MULTILINE))
    assert set(phony.split()) == named
    assert named - set(DOCUMENTED) == set(PARTS)


def test_in_the_activated_environment_the_python_outside_it_installs():
    """That of the environment has no pip."""
    path = f"{ROOT / '.venv/bin'}:{os.environ['PATH'].replace(str(ROOT / '.venv/bin') + ':', '')}"
    script = make("--dry-run", "--always-make", ".venv/uv", PATH=path)
    [program] = re.findall(r"(\S+) -m pip --python", script)
    show = [program, "-c", "import sys; print(sys.prefix)"]
    prefix = subprocess.run(show, env={"PATH": path}, capture_output=True, text=True, check=True, timeout=20)
    assert prefix.stdout.strip() != str(ROOT / ".venv")


def test_uv_accepts_the_locks(tmp_path):
    """Locks that it refuses are installed by pip, which takes ten times as long."""
    script = make("--dry-run", "--always-make", ".venv/dev")
    commands = re.findall(r"\S+/uv pip install [^|]*--require-hashes[^|]*", script)
    assert commands
    words = [*commands[0].split(), "--dry-run", "--offline", "--target", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=20)
    # What is not in its cache is another error.
    assert "--require-hashes" not in done.stderr


@pytest.mark.parametrize("target", [*DOCUMENTED, *PARTS])
def test_the_programs_modules_and_files_of_a_target_exist(target):
    script = make("--dry-run", *INSTALLED, target)
    assert script.strip()
    for program in re.findall(r"\.venv/bin/([\w-]+)", script):
        assert (ROOT / ".venv/bin" / program).exists(), program
    for module in re.findall(r"bin/python -m ([\w.]+)", script):
        assert find_spec(module), module
    for file in re.findall(r"\b(?:tests/\w+\.py|requirements[\w-]*\.txt|pyproject\.toml)\b", script):
        assert (ROOT / file).is_file(), file


def test_every_target_that_a_document_names_is_documented():
    documents = {ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")}
    documents |= {ROOT / "examples/README.md", ROOT / "evals/README.md"}
    # The requests in docs/offline.md begin with "make", too.
    for document in documents - {ROOT / "docs/offline.md"}:
        targets = set(re.findall(r"(?:`|\$ |=true )make ([a-z]+)", document.read_text()))
        assert targets <= set(DOCUMENTED), document


def test_with_ci_set_the_tests_are_run_with_coverage():
    assert "coverage run" in make("--dry-run", *INSTALLED, "test", CI="true")
    assert "coverage run" not in make("--dry-run", *INSTALLED, "test", CI="")


def test_clean_removes_generated_folders_and_nothing_else(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (".venv/bin", ".venv-fuzz", ".mypy_cache", ".hypothesis", "state"):
        (tmp_path / name).mkdir(parents=True)
    make("clean", folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"Makefile", "state"}


@pytest.mark.slow
def test_eval_scores_one_recorded_task():
    output = make(*INSTALLED, "eval", "ARGS=--only ad_creation --limit 1", timeout_s=50)
    assert "ad_creation" in output


@pytest.mark.slow
def test_run_serves_until_ctrl_c(tmp_path):
    port = free_port()
    variables = {"CALLSHEET_PORT": str(port), "CALLSHEET_DATA_DIR": str(tmp_path / "data")}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            ["make", *INSTALLED, "run"],
            cwd=ROOT,
            env=make_environment(**variables),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until(lambda: is_serving(port) or server.poll() is not None, "make run serves", patience_s=40)
        assert server.poll() is None, (tmp_path / "log").read_text()
    finally:
        # Like Ctrl-C in a terminal: make and its child processes get the signal.
        os.killpg(server.pid, signal.SIGINT)
        server.wait(20)


def is_serving(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ok").is_success
    except httpx.TransportError:
        return False
