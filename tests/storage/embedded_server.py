"""Helpers for tests of the embedded server: a data directory, its processes, and other users."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from redis import Redis

from callsheet.storage.embedded import server as embedded
from tests.doubles.waiting import until

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@contextmanager
def data_directory() -> Iterator[Path]:
    """A new data directory with a short path; at the end no process may live in it any more."""
    folder = Path(tempfile.mkdtemp(prefix="callsheet-"))
    try:
        yield folder
        until(lambda: not server_processes(folder), f"the end of the server in {folder}")
        until(lambda: not embedded.is_running(folder), f"the release of the lock in {folder}")
    finally:
        for process in server_processes(folder):
            process.kill()
        shutil.rmtree(folder)


@contextmanager
def leased_server(data_dir: Path, **options: Any) -> Iterator[Redis]:
    """A client of the data directory's server; the lease is given back at the end."""
    lease = embedded.ensure_running(data_dir, **options)
    try:
        with Redis.from_url(lease.url) as server:
            yield server
    finally:
        lease.close()


def server_processes(data_dir: Path) -> list[psutil.Process]:
    """The data directory's server and its watchdog: all processes that work in it."""
    home = os.path.realpath(data_dir / "valkey")
    return [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == home]


def pid_of(server: Redis) -> int:
    """The server's process id."""
    return int(server.info("server")["process_id"])


def has_exited(pid: int) -> bool:
    """True if the process has ended, even if its parent has not reaped it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextmanager
def as_unprivileged_user() -> Iterator[None]:
    """Run as a user whom permissions bind, also when the tests run as root."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


class EmbeddedServerUser:
    """Another process that uses the server and appends numbers to the list `name`."""

    def __init__(self, data_dir: Path, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.storage.embedded_user", str(data_dir), name],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read_number(self) -> int:
        """Read the next line: first the server's process id, then each number that was acknowledged."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.endswith("\n"), f"user {self.name!r} ended"
        return int(line)

    def wait_for(self, number: int) -> None:
        """Wait until `number` was acknowledged."""
        while self.read_number() < number:
            pass

    def kill(self) -> int:
        """Kill it with SIGKILL and return the last acknowledged number that was not read, or -1."""
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        if self._process.stdout.closed:
            return -1
        with self._process.stdout as rest:
            # What follows the last line break may be half a number.
            numbers = rest.read().split("\n")[:-1]
        return int(numbers[-1]) if numbers else -1
