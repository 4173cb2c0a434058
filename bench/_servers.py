"""Measured servers: started as people start them, probed until they are ready, and stopped."""

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
class ReadinessProbe:
    """A request that a server answers with 200 once it is ready."""

    path: str
    method: str = "GET"

    def succeeds(self, client: httpx.Client) -> bool:
        """Send the request once; return whether the reply is 200."""
        body: dict[str, str] | None = {} if self.method == "POST" else None
        try:
            return client.request(self.method, self.path, json=body).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


@dataclass(frozen=True)
class MeasuredServer:
    """A started server."""

    process: subprocess.Popen[bytes]
    url: str
    start_s: float
    """`time.monotonic()` just before the start of the process."""

    def ready_s(self, probe: ReadinessProbe) -> float:
        """Return the seconds from the start until the probe succeeds."""
        with httpx.Client(base_url=self.url, timeout=PATIENCE_S) as client:
            while not probe.succeeds(client):
                if self.process.poll() is not None or time.monotonic() - self.start_s > PATIENCE_S:
                    raise RuntimeError(f"{self.process.args!r} does not answer {probe.path}")
                time.sleep(_PAUSE_S)
        return time.monotonic() - self.start_s

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
) -> Iterator[MeasuredServer]:
    """Start a server with `command` in `folder`; stop it and its children at the end."""
    start_s = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield MeasuredServer(process, f"http://127.0.0.1:{port}", start_s)
    finally:
        _end(process)


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rss_of_folder_mib(folder: Path) -> float:
    """Return the resident memory of the processes that work in `folder`, as the embedded Valkey does."""
    total = 0
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder):
                total += process.memory_info().rss
        except (psutil.Error, OSError):
            continue
    return total / 2**20


def cpu_of_folder_s(folder: Path) -> float:
    """Return the processor time that the processes which work in `folder` have used so far."""
    total = 0.0
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder):
                times = process.cpu_times()
                total += times.user + times.system
        except (psutil.Error, OSError):
            continue
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE_S / 4)
    except subprocess.TimeoutExpired:
        # The session contains only the server's processes.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
