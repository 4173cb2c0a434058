"""Servers under measurement: started as people start them, asked until they answer, and ended."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import psutil

ROOT: Final = Path(__file__).parent.parent
PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.005


@dataclass(frozen=True)
class ReadinessCheck:
    """A request that a server answers 200 once it can do what is asked."""

    path: str
    method: str = "GET"

    def is_answered(self, client: httpx.Client) -> bool:
        """Ask once."""
        body: dict[str, str] | None = {} if self.method == "POST" else None
        try:
            return client.request(self.method, self.path, json=body).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


@dataclass(frozen=True)
class Server:
    """A started server."""

    process: subprocess.Popen[bytes]
    url: str
    began: float
    """`time.monotonic()` just before the process was started."""

    def answers_s(self, question: ReadinessCheck) -> float:
        """Return the seconds from the start until `question` is answered."""
        with httpx.Client(base_url=self.url, timeout=PATIENCE_S) as client:
            while not question.is_answered(client):
                if self.process.poll() is not None or time.monotonic() - self.began > PATIENCE_S:
                    raise RuntimeError(f"{self.process.args!r} does not answer {question.path}")
                time.sleep(_PAUSE_S)
        return time.monotonic() - self.began

    def rss_mib(self) -> float:
        """Return the resident memory of the process and its children."""
        root = psutil.Process(self.process.pid)
        return sum(one.memory_info().rss for one in (root, *root.children(recursive=True))) / 2**20


def serve_command(port: int) -> list[str]:
    """Return `callsheet serve`, from this checkout."""
    return [sys.executable, "-m", "callsheet.server.cli.main", "serve", "--port", str(port)]


@contextmanager
def running(
    command: Sequence[str], port: int, folder: Path, environment: Mapping[str, str]
) -> Iterator[Server]:
    """A server started with `command` in `folder`; at the end it has ended, and its children too."""
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield Server(process, f"http://127.0.0.1:{port}", began)
    finally:
        _end(process)


def free_port() -> int:
    """Return a port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rss_of_folder_mib(folder: Path) -> float:
    """Return the resident memory of the processes that work in `folder`, as the embedded Valkey does."""
    total = 0
    for one in psutil.process_iter():
        try:
            if Path(one.cwd()).is_relative_to(folder):
                total += one.memory_info().rss
        except (psutil.Error, OSError):
            continue
    return total / 2**20


def cpu_of_folder_s(folder: Path) -> float:
    """Return the processor time that the processes which work in `folder` have used so far."""
    total = 0.0
    for one in psutil.process_iter():
        try:
            if Path(one.cwd()).is_relative_to(folder):
                used = one.cpu_times()
                total += used.user + used.system
        except (psutil.Error, OSError):
            continue
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE_S / 4)
    except subprocess.TimeoutExpired:
        # The session is the server's own, so nothing of ours is in it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
