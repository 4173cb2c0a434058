"""The programs in examples/, run against real servers as examples/README.md says."""

import os
import re
import subprocess
import sys

import pytest

from tests.doubles.command import environment, start_server, stop_server
from tests.meta.syntax import ROOT

pytestmark = pytest.mark.timeout(120)

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(EXAMPLES.rglob("*.py"))
MAX_LINES = 100
CONFIG = "langgraph.json"


def run_example(program, *args, **env):
    """Run an example, which must succeed; return the lines that it prints."""
    process = subprocess.run(
        [sys.executable, str(EXAMPLES / program), *args],
        cwd=ROOT,
        env=environment(**env),
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout.splitlines()


@pytest.fixture(scope="module")
def start_example_server(warm_parent, tmp_path_factory):
    """A function that starts a server for the graphs of a folder and returns its URL."""
    servers = []

    def start(folder):
        out = tmp_path_factory.mktemp("server")
        servers.append(start_server(out, out / "data", warm_parent, CALLSHEET_CONFIG=str(folder / CONFIG)))
        return servers[-1].url

    yield start
    for running in servers:
        assert stop_server(running) == 0


@pytest.fixture(scope="module")
def url(start_example_server):
    """A server of Callsheet's own workflows."""
    return start_example_server(ROOT)


@pytest.mark.slow
def test_the_front_end_writes_an_ad_shows_its_progress_refines_it_and_lists_versions(url):
    lines = run_example("ad_front_end.py", SERVER_URL=url)
    assert "  Writing and casting the voices: completed" in lines
    assert "Ready to review: voices v1, music v1, sound effects v1." in lines
    assert "Ready to review: music v2." in lines
    assert lines[-2:] == ["music v1: frozen, made from the brief", "music v2: draft, made from v1"]


@pytest.mark.slow
def test_the_front_end_shows_the_error_and_its_remedy(url):
    process = subprocess.run(
        [sys.executable, str(EXAMPLES / "ad_front_end.py"), ""],
        env=environment(SERVER_URL=url),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert process.returncode == 1
    assert "Traceback" not in process.stderr
    assert len(process.stderr.splitlines()) == 2


@pytest.mark.slow
def test_a_remote_graph_runs_alone_and_as_a_node(url):
    lines = run_example("remote_graph.py", SERVER_URL=url)
    assert lines[0] == "node: planner"
    assert "refined: {'music': 'v2'}" in lines
    assert lines[-1] == "The ad is written: music, sfx, voices"


@pytest.mark.slow
def test_a_graph_of_an_own_project_interrupts_and_resumes_with_the_answer(start_example_server):
    url = start_example_server(EXAMPLES / "own_graph")
    lines = run_example("own_graph/answer.py", "yes", SERVER_URL=url)
    assert lines == [
        "Two nights in Porto, 240 EUR",
        "Book this? yes",
        "The thread waits at: approve",
        "Booked: Two nights in Porto, 240 EUR",
    ]
    assert run_example("own_graph/answer.py", "no", SERVER_URL=url)[-1] == "Nothing was booked."


@pytest.mark.slow
def test_the_guard_validates_asks_approval_for_and_records_calls_of_own_tools(start_example_server):
    lines = run_example("own_tool/shop.py", SERVER_URL=start_example_server(EXAMPLES / "own_tool"))
    assert lines[:2] == ["add_item: completed, v1", "add_item: completed, v2"]
    assert re.fullmatch(r"add_item: error, .*count: Input should be less than or equal to 99", lines[2])
    assert lines[3:] == [
        "Question: Emptying the list",
        "Now: {'list': 'v3'}",
        "Versions: v1, v2, v3",
        "Recorded calls: 4",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", ["ad_front_end.py", "remote_graph.py", "own_graph/answer.py", "own_tool/shop.py"]
)
def test_an_example_without_its_server_says_how_to_start_it(program):
    process = subprocess.run(
        [sys.executable, str(EXAMPLES / program)],
        env=environment(SERVER_URL="http://127.0.0.1:1"),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert (process.returncode, process.stdout.count("Traceback")) == (1, 0)
    assert len(process.stderr.splitlines()) == 1
    assert process.stderr.startswith("start the server first: ")


@pytest.mark.slow
def test_a_thread_continues_at_another_server():
    assert run_example("two_servers.py") == [
        "first server:  {'voices': 'v1', 'music': 'v1', 'sfx': 'v1'}",
        "second server: {'music': 'v2'}",
        "runs of the thread: 2",
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=os.path.basename)
def test_an_example_is_short_and_linked_from_the_readme(program):
    assert len(program.read_text().splitlines()) <= MAX_LINES
    assert f"({program.relative_to(EXAMPLES)})" in (EXAMPLES / "README.md").read_text()
