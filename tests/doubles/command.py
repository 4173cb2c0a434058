"""The `callsheet` command under test: in a process of its own, or in this one beside a server in a thread."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from callsheet.server.cli import main as cli
from callsheet.server.settings.local_sockets import project_config
from tests.doubles.killing import WarmParent
from tests.doubles.waiting import until
from tests.doubles.wire_server import running_server

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "callsheet.server.cli.main"]
LOCAL_COMMANDS = {"serve", "worker", "doctor", "keys", "completion"}
"""Commands that need no server."""
BRIEF = "A 30 second spot for Nordlys, a bakery in Oslo that opens at six. For early commuters."
UPBEAT = "Make the music more upbeat"


@dataclass
class Finished:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


@dataclass
class ForkedCommand:
    """The command in a process of its own, which did not have to import anything first."""

    pid: int
    folder: Path
    """The folder with the files `out` and `err`."""

    @classmethod
    def of(cls, warm: WarmParent, folder: Path, *words: str, **env: str) -> "ForkedCommand":
        arguments = {"words": words, "folder": str(folder), "environ": environment(**env)}
        return cls(warm.fork("tests.doubles.warm_work:command", **arguments), folder)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def poll(self) -> int | None:
        code = self.folder / "code"
        return int(code.read_text()) if code.exists() else None

    def wait(self, timeout: float) -> int:
        until(lambda: self.poll() is not None, "the end of the process", patience_s=timeout)
        return self.poll() or 0

    def result(self) -> Finished:
        code = self.wait(50)
        return Finished(code, *((self.folder / name).read_text() for name in ("out", "err")))


@dataclass
class RunningServer:
    """A running `callsheet serve`."""

    process: subprocess.Popen[str] | ForkedCommand
    url: str
    data_dir: Path
    greeting: str


def environment(**more: str) -> dict[str, str]:
    """The environment without keys, and without storage but that in `more`."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("CALLSHEET_", "OPENAI_"))
    }
    environ.pop("REDIS_URL", None)
    return environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"} | more


def run(*args: str, folder: Path, stdin: bytes = b"", **env: str) -> Finished:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [*COMMAND, *args],
        env=environment(**env),
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=50,
    )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


def start_server(folder: Path, data_dir: Path, warm: WarmParent | None = None, **env: str) -> RunningServer:
    """Start a server, forked from `warm` if given; its output goes to the file `out`."""
    words = ("serve", "--port", "0", "--data-dir", str(data_dir))
    output = folder / "out"
    output.touch()
    process = ForkedCommand.of(warm, folder, *words, **env) if warm else _start_process(folder, words, env)
    try:
        until(lambda: "Ctrl-C" in output.read_text() or process.poll() is not None, "greeting", patience_s=30)
        assert process.poll() is None, output.read_text()
    except AssertionError:
        process.send_signal(signal.SIGKILL)
        raise
    greeting = output.read_text()
    url = next(word for word in greeting.split() if word.startswith("http://"))
    return RunningServer(process, url, data_dir, greeting)


def _start_process(folder: Path, words: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
    with (folder / "out").open("w") as log:
        return subprocess.Popen(
            [*COMMAND, *words],
            env=environment(**env),
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )


def stop_server(serving: RunningServer) -> int:
    serving.process.send_signal(signal.SIGINT)
    return serving.process.wait(timeout=20)


@contextmanager
def command_in_process(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Finished]]:
    """The command in this process: the same code without an interpreter's start.

    The first command that is a client starts a server in a thread, on the session's Valkey and the working
    folder's graphs.
    """
    for name in [name for name in os.environ if name.startswith(("CALLSHEET_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REDIS_URL", valkey_url)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def command(*args: str) -> Finished:
        is_client = bool(args) and args[0] not in LOCAL_COMMANDS and "--data-dir" not in args
        if is_client and "CALLSHEET_URL" not in os.environ:
            url = stack.enter_context(running_server(valkey_url, None, config=project_config()))
            monkeypatch.setenv("CALLSHEET_URL", url)
        root = logging.getLogger()
        handlers, level = [*root.handlers], root.level
        try:
            with pytest.raises(SystemExit) as ended:
                cli.main(args)
        finally:
            # A server logs to the stream of this test, which the next one no longer has.
            root.handlers[:] = handlers
            root.setLevel(level)
        output = capsys.readouterr()
        return Finished(int(ended.value.code or 0), output.out, output.err)

    with ExitStack() as stack:
        yield command


def assert_refused(done: Finished, *words: str, code: int = 1) -> None:
    """Two lines on stderr that name these words, nothing on stdout, no trace."""
    assert (done.code, done.out) == (code, ""), done
    lines = done.err.splitlines()
    assert [line.partition(":")[0] for line in lines[-2:]] == ["error", "remedy"], done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in " ".join(lines[-2:]), (word, done.err)
