"""docs/graphs.md, followed literally in the folder of its example."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand
from tests.doubles.command import ROOT, command_in_process

PAGE = (ROOT / "docs/graphs.md").read_text(encoding="utf-8")
THREAD = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


@pytest.fixture
def run_command(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[RunCommand]:
    shutil.copytree(ROOT / "examples/own_graph", tmp_path, dirs_exist_ok=True)
    with command_in_process(valkey_url, tmp_path, monkeypatch, capsys) as command:
        yield command


def plain(line: str) -> str:
    """A line without the place of the program and the id of the thread."""
    return " ".join(THREAD.sub("ID", re.sub(r"\S*callsheet (?=questions)", "callsheet ", line)).split())


def test_the_first_run_prints_what_the_page_shows(run_command: RunCommand) -> None:
    [session] = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    first, *commands = session.split("$ ")[1:]
    assert first == "cd examples/own_graph\n"
    thread, count = "", 0
    for command, *lines in (one.splitlines() for one in commands):
        result = run_command(*shlex.split(THREAD.sub(thread, command))[1:])
        assert result.code == 0
        thread = (THREAD.findall(result.out) or [thread])[-1]
        printed = [plain(line) for line in result.out.splitlines()]
        assert [plain(line) for line in lines] == [line for line in printed if line]
        count += 1
    assert count == 2
