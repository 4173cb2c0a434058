"""Benches: each runs in its smallest size, and one that fails does not hide the others."""

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import bench

ROOT = Path(__file__).parents[2]
SKIPPED = {
    "campaign_quality": "it embeds the whole sample library: more than a minute of processor time",
    "campaign_scale": "it loads the embeddings and full text once for each size: up to a minute",
    "crons": "it waits until its crons are due, beside a server of its own: up to half a minute",
    "start": "it starts `langgraph dev` and the server twice each: more than half a minute",
    "workers": "it calibrates a processor's work: its nodes take longest beside other tests",
}
NAMES = sorted(one.name for one in pkgutil.iter_modules(bench.__path__) if not one.name.startswith("_"))


def run(*names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *names, "--short"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "REDIS_URL"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", NAMES)
def test_each_bench_prints_its_figures_in_its_short_form(name: str) -> None:
    if name in SKIPPED:
        pytest.skip(SKIPPED[name])
    done = run(name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout
    assert len(done.stdout.splitlines()) > 3


@pytest.mark.slow
def test_a_bench_that_fails_is_printed_in_its_place_and_the_next_one_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "drafts", "guard", "--short"],
        cwd=ROOT,
        env={**os.environ, "CALLSHEET_LOG_LEVEL": "loud"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 1
    drafts, _, guard = done.stdout.partition("== guard ==")
    assert "drafts failed:" in drafts
    assert "look-up, remembered after" in guard
    assert done.stdout.endswith("failed: drafts\n")


def test_an_unknown_bench_is_refused_with_the_known_ones() -> None:
    done = run("nothing")
    assert done.returncode == 2
    assert "no bench 'nothing'; there are: campaign_quality" in done.stdout


def test_a_missing_module_is_one_line_with_the_command_that_installs_it(tmp_path: Path) -> None:
    """The module is hidden by one that raises what its absence would."""
    hidden = "raise ModuleNotFoundError(\"No module named 'psutil'\", name='psutil')"
    (tmp_path / "psutil.py").write_text(hidden)
    done = subprocess.run(
        [sys.executable, "-m", "bench", "runs", "--short"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    line = "runs: the module psutil is missing; run `make bench` or `make .venv/dev` first\n"
    assert (done.returncode, done.stderr) == (1, line)
    assert "Traceback" not in done.stdout
