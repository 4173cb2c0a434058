"""Outputs in the documents are those that the documented commands print."""

import re
import shlex
from collections.abc import Iterator

import pytest

from tests.cli.conftest import RunCommand
from tests.meta.syntax import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_LEFT_OUT = "…"
_COLUMNS = "90"
"""Width of the terminal in which the documented outputs were printed."""


def documented_commands(name: str, beginning: str, end: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands in a part of a document, each with the lines of its output."""
    part = (ROOT / name).read_text(encoding="utf-8").partition(beginning)[2].partition(end)[0]
    for block in _CONSOLE.findall(part):
        for text in block.split("$ ")[1:]:
            command, *lines = text.splitlines()
            yield command, lines


def plain(line: str) -> str:
    """Return a line without what differs from run to run: times, ids and the place of the program."""
    without_times = re.sub(r" \(\d+\.\d+ s\)", "", line)
    without_ids = re.sub(r"\b[0-9a-f]{32}\b", "ID", without_times)
    return " ".join(re.sub(r"\S*callsheet (?=lessons)", "callsheet ", without_ids).split())


@pytest.mark.parametrize(
    ("document", "beginning", "end"),
    [
        ("docs/lessons.md", "## In the terminal", "## The chat"),
        ("README.md", "<!-- session -->", "A lesson's choice"),
    ],
)
def test_a_documented_output_is_what_the_command_prints(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, document: str, beginning: str, end: str
) -> None:
    monkeypatch.setenv("COLUMNS", _COLUMNS)
    thread, count = "", 0
    for command, lines in documented_commands(document, beginning, end):
        words = shlex.split(command)
        if "callsheet" not in words[0] or "listen" in words:
            continue
        arguments = [re.sub(r"\A[0-9a-f]{32}\Z", thread, word) for word in words[1:]]
        if "--file" in arguments:
            at = arguments.index("--file") + 1
            arguments[at] = str(ROOT / arguments[at])
        result = run_command(*arguments)
        printed = {plain(line) for line in (result.out + result.err).splitlines()}
        named = re.search(r"lessons chat ([0-9a-f]{32})", result.out)
        thread = named[1] if named else thread
        for line in lines:
            assert plain(line) in printed or line.strip() == _LEFT_OUT, line
        count += 1
    assert count >= 2
