"""The embedded server's log is synced to disk, and a busy disk loses no acknowledged write."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from callsheet.storage.embedded.server import FsyncTask
from tests.doubles.waiting import until
from tests.storage.embedded_server import data_directory, leased_server, pid_of

JUNK = bytes(2**24)
KILLS = 5


def append_to_log(home: Path, text: str) -> Path:
    log = home / "appendonlydir" / "appendonly.aof.1.incr.aof"
    log.parent.mkdir(exist_ok=True)
    with log.open("a") as file:
        file.write(text)
    return log


@contextmanager
def running_sync(home: Path, *, fails: bool = False) -> Iterator[list[int]]:
    """The sizes of the log at each sync."""
    sizes: list[int] = []

    def sync(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        if fails:
            raise OSError(5, "the disk is broken")

    syncing = FsyncTask(home, every_s=0.001, sync=sync)
    try:
        yield sizes
    finally:
        syncing.close()


def test_a_changed_log_is_synced_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    log = append_to_log(tmp_path, "one")
    with running_sync(tmp_path) as sizes:
        until(lambda: sizes == [3], "the first")
        append_to_log(tmp_path, "two")
        until(lambda: sizes[-1] == 6, "the second")
        # A third sync if a write fell between the check and the sync.
        assert len(sizes) <= 3
        log.unlink()
        append_to_log(tmp_path, "rewritten")
        until(lambda: sizes[-1] == 9, "the log that took its place")


def log_messages(caplog: pytest.LogCaptureFixture, home: Path) -> list[str]:
    return [message for record in caplog.records if str(home) in (message := record.getMessage())]


def test_a_failing_sync_is_logged_once_and_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    append_to_log(tmp_path, "one")
    with running_sync(tmp_path, fails=True) as sizes:
        until(lambda: len(sizes) > 3, "more tries")
    [message] = log_messages(caplog, tmp_path)
    assert "does not reach the disk" in message


def test_a_missing_folder_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running_sync(tmp_path / "gone") as sizes:
        append_to_log(tmp_path, "one")
        threading.Event().wait(0.02)
    assert not sizes
    assert not log_messages(caplog, tmp_path)


@contextmanager
def busy_disk(folder: Path) -> Iterator[None]:
    """Keep the disk busy with other writes."""
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.is_set():
            # A new file each time, because allocating its blocks is slow.
            with (folder / "junk").open("wb") as file:
                for _ in range(20):
                    file.write(JUNK)
                os.fsync(file.fileno())

    thread = threading.Thread(target=keep_writing)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        (folder / "junk").unlink()


def increment_for(server: Redis, for_s: float) -> int:
    """Increment a number for a while; the last one that the server acknowledged."""
    until_at, last = time.monotonic() + for_s, 0
    while time.monotonic() < until_at:
        last = int(server.incr("n"))
    return last


@pytest.mark.slow
@pytest.mark.fault
def test_a_server_killed_on_a_busy_disk_keeps_every_acknowledged_write(tmp_path: Path) -> None:
    """X17."""
    acknowledged = 0
    with data_directory() as folder, busy_disk(tmp_path):
        for _ in range(KILLS):
            with leased_server(folder) as server:
                assert int(server.get("n") or 0) == acknowledged
                acknowledged = increment_for(server, 1.2)
                os.kill(pid_of(server), signal.SIGKILL)
