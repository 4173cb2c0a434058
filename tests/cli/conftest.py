"""The command line in this process: a fixture that runs one command, and standard input of a terminal."""

from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest

from tests.doubles.command import Finished, command_in_process

RunCommand = Callable[..., Finished]


class TerminalInput(StringIO):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run_command(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[RunCommand]:
    """Run `callsheet` with these arguments in an empty folder."""
    with command_in_process(valkey_url, tmp_path, monkeypatch, capsys) as command:
        yield command
