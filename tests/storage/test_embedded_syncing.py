"""The embedded server's log reaches the disk, and a busy disk loses nothing that was acknowledged."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from callsheet.storage.embedded.fsync import FsyncTask
from tests.doubles.waiting import until
from tests.storage.embedded_server import data_directory, leased_server, pid_of

JUNK = bytes(2**24)
KILLS = 5


def logged(home: Path, text: str) -> Path:
    log = home / "appendonlydir" / "appendonly.aof.1.incr.aof"
    log.parent.mkdir(exist_ok=True)
    with log.open("a") as file:
        file.write(text)
    return log


@contextmanager
def synced(home: Path, *, fails: bool = False) -> Iterator[list[int]]:
    """The sizes that the log had when it was brought to the disk."""
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


def test_what_was_written_reaches_the_disk_and_nothing_is_done_for_what_is_there(tmp_path: Path) -> None:
    log = logged(tmp_path, "one")
    with synced(tmp_path) as sizes:
        until(lambda: sizes == [3], "the first")
        logged(tmp_path, "two")
        until(lambda: sizes[-1] == 6, "the second")
        # Once more where the writing fell between the looking and the doing.
        assert len(sizes) <= 3
        log.unlink()
        logged(tmp_path, "rewritten")
        until(lambda: sizes[-1] == 9, "the log that took its place")


def complaints(caplog: pytest.LogCaptureFixture, home: Path) -> list[str]:
    return [told for record in caplog.records if str(home) in (told := record.getMessage())]


def test_a_disk_that_fails_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logged(tmp_path, "one")
    with synced(tmp_path, fails=True) as sizes:
        until(lambda: len(sizes) > 3, "more tries")
    [told] = complaints(caplog, tmp_path)
    assert "does not reach the disk" in told


def test_a_folder_that_is_swept_away_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with synced(tmp_path / "gone") as sizes:
        logged(tmp_path, "one")
        threading.Event().wait(0.02)
    assert not sizes
    assert not complaints(caplog, tmp_path)


@contextmanager
def busy(folder: Path) -> Iterator[None]:
    """The disk is, with what others bring to it."""
    ended = threading.Event()

    def keep_writing() -> None:
        while not ended.is_set():
            # Made anew each time, for room on the disk is what takes long to find.
            with (folder / "junk").open("wb") as file:
                for _ in range(20):
                    file.write(JUNK)
                os.fsync(file.fileno())

    thread = threading.Thread(target=keep_writing)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        (folder / "junk").unlink()


def counted(server: Redis, for_s: float) -> int:
    """The last number that the server acknowledged."""
    until_at, last = time.monotonic() + for_s, 0
    while time.monotonic() < until_at:
        last = int(server.incr("n"))
    return last


@pytest.mark.slow
@pytest.mark.fault
def test_a_server_killed_on_a_busy_disk_keeps_every_acknowledged_write(tmp_path: Path) -> None:
    """X17."""
    written = 0
    with data_directory() as folder, busy(tmp_path):
        for _ in range(KILLS):
            with leased_server(folder) as server:
                assert int(server.get("n") or 0) == written
                written = counted(server, 1.2)
                os.kill(pid_of(server), signal.SIGKILL)
