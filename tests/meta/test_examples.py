"""The programs in examples/, run as examples/README.md says, against real servers."""

import os
import re
import subprocess
import sys

import pytest

from tests.doubles.command import environment, start_server, stop_server
from tests.meta.syntax import ROOT

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(EXAMPLES.rglob("*.py"))
MAX_LINES = 100
CONFIG = "langgraph.json"


def run(program, *args, **env):
    """Return what an example prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / program), *args],
        cwd=ROOT,
        env=environment(**env),
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def server(warm_parent, tmp_path_factory):
    """Starts a server of the graphs in a folder, and returns its URL."""
    servers = []

    def start(folder):
        out = tmp_path_factory.mktemp("server")
        servers.append(start_server(out, out / "data", warm_parent, CALLSHEET_CONFIG=str(folder / CONFIG)))
        return servers[-1].url

    yield start
    for one in servers:
        assert stop_server(one) == 0


@pytest.fixture(scope="module")
def url(server):
    """A server of Callsheet's own workflows."""
    return server(ROOT)


@pytest.mark.slow
def test_the_front_end_writes_an_ad_shows_its_progress_refines_it_and_lists_versions(url):
    lines = run("ad_front_end.py", CALLSHEET_URL=url)
    assert "  Writing and casting the voices: completed" in lines
    assert "Ready to review: voices v1, music v1, sound effects v1." in lines
    assert "Ready to review: music v2." in lines
    assert lines[-2:] == ["music v1: frozen, made from the brief", "music v2: draft, made from v1"]


@pytest.mark.slow
def test_the_front_end_shows_the_error_and_its_remedy(url):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "ad_front_end.py"), ""],
        env=environment(CALLSHEET_URL=url),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.slow
def test_a_graph_elsewhere_runs_alone_and_as_a_node(url):
    lines = run("remote_graph.py", CALLSHEET_URL=url)
    assert lines[0] == "node: planner"
    assert "refined: {'music': 'v2'}" in lines
    assert lines[-1] == "The ad is written: music, sfx, voices"


@pytest.mark.slow
def test_an_own_graph_asks_a_person_and_goes_on_with_the_answer(server):
    there = server(EXAMPLES / "own_graph")
    lines = run("own_graph/answer.py", "yes", CALLSHEET_URL=there)
    assert lines == [
        "Two nights in Porto, 240 EUR",
        "Book this? yes",
        "The thread waits at: approve",
        "Booked: Two nights in Porto, 240 EUR",
    ]
    assert run("own_graph/answer.py", "no", CALLSHEET_URL=there)[-1] == "Nothing was booked."


@pytest.mark.slow
def test_own_tools_are_checked_refused_approved_and_recorded_by_the_guard(server):
    lines = run("own_tool/shop.py", CALLSHEET_URL=server(EXAMPLES / "own_tool"))
    assert lines[:2] == ["add_item: completed, v1", "add_item: completed, v2"]
    assert re.fullmatch(r"add_item: error, .*count: Input should be less than or equal to 99", lines[2])
    assert lines[3:] == [
        "Question: Emptying the list",
        "Now: {'list': 'v3'}",
        "Versions: v1, v2, v3",
        "Recorded calls: 4",
    ]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_thread_goes_on_at_another_server():
    assert run("two_servers.py") == [
        "first server:  {'voices': 'v1', 'music': 'v1', 'sfx': 'v1'}",
        "second server: {'music': 'v2'}",
        "runs of the thread: 2",
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=os.path.basename)
def test_an_example_is_short_and_linked_from_the_page(program):
    assert len(program.read_text().splitlines()) <= MAX_LINES
    assert f"({program.relative_to(EXAMPLES)})" in (EXAMPLES / "README.md").read_text()
