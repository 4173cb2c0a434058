"""The embedded Valkey: one server for all processes that use a data directory, stopped after the last one.

It listens only on a unix socket, in a folder that only this user can enter, and writes every change to a log
before it replies. Killing its users or the server itself loses no acknowledged write; a power failure may
lose those of the last second.

With `appendfsync everysec` the server delays its writes to the log, for up to two seconds, while the disk is
busy with an fsync, but replies all the same: if it is killed then, acknowledged writes are lost. So it runs
with `appendfsync no`, which writes before each reply, and the processes that use it do the fsync. Source:
`flushAppendOnlyFile`, https://github.com/valkey-io/valkey/blob/9.1/src/aof.c
"""

import contextlib
import errno
import io
import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from callsheet.state.errors import Broken, CallsheetError, TimedOut
from callsheet.storage.embedded import folders, watchdog

_START_LOCK: Final = "starting.lock"
_POLL_S: Final = 0.002
_SOCKET_TIMEOUT_S: Final = 2.0
_MIN_FREE_BYTES: Final = 2**16

PingReply = Literal["none", "loading", "ready"]
_FSYNC_PERIOD_S: Final = 1.0
"""Period of the fsync, and so the longest loss after a power failure."""
_LOGS: Final = "appendonlydir/*.incr.aof"
_MANIFEST: Final = "appendonlydir/*.manifest"
_HAS_DATA: Final = "has-data"
"""File that shows that a server has had its data here."""
_SNAPSHOT: Final = "dump.rdb"
_CUT_LOG: Final = "aof-load-truncated is enabled"
"""Words in the server's log after it has dropped an unfinished end of its data."""
_log = logging.getLogger(__name__)


class FsyncTask:
    """Thread that syncs the log of the server in `home` every `every_s` seconds until `close`.

    `sync` gets the descriptor of a log that changed. Several processes may sync the same server: data already
    on disk costs nothing.
    """

    def __init__(
        self, home: Path, *, every_s: float = _FSYNC_PERIOD_S, sync: Callable[[int], object] = os.fsync
    ) -> None:
        self._closed = threading.Event()
        threading.Thread(
            target=_run, args=(home, every_s, sync, self._closed), name="callsheet-fsync", daemon=True
        ).start()

    def close(self) -> None:
        """Stop without a last fsync: a server that shuts down does its own. Safe to call twice."""
        self._closed.set()


def _run(home: Path, every_s: float, sync: Callable[[int], object], closed: threading.Event) -> None:
    synced: dict[Path, int] = {}
    failing = False
    while not closed.wait(every_s):
        try:
            for log in home.glob(_LOGS):
                _sync_if_changed(log, synced, sync)
            failing = False
        # The log was rewritten, or the folder deleted.
        except FileNotFoundError:
            continue
        except OSError:
            if not failing:
                _log.exception("The log of the embedded Valkey in %s does not reach the disk", home)
            failing = True


def _sync_if_changed(log: Path, synced: dict[Path, int], sync: Callable[[int], object]) -> None:
    # Read before the sync, so that a concurrent write is synced the next time.
    changed_ns = log.stat().st_mtime_ns
    if synced.get(log) == changed_ns:
        return
    descriptor = os.open(log, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
    synced[log] = changed_ns


@dataclass(frozen=True, slots=True)
class ServerPaths:
    """Paths and start timeout of one embedded server."""

    home: Path
    """The server's private folder: its data, log, lease and socket."""
    socket: Path
    """A path to the socket that is short enough."""
    binary: Path
    """The server program."""
    timeout_s: float
    """Longest wait for another process, or for a server that does not answer."""


class ServerLease:
    """Keeps the server running: it stops when no process has a lease on it."""

    _fifo: io.FileIO | None = None
    _fsync: FsyncTask | None = None

    def __init__(self, paths: ServerPaths) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._fifo = _acquire(paths)
        self._fsync = FsyncTask(paths.home)

    def __del__(self) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The server's address for redis-py."""
        return f"unix://{quote(str(self.socket))}"

    @property
    def socket(self) -> Path:
        """The server's socket."""
        return self._paths.socket

    @property
    def home(self) -> Path:
        """The server's data folder."""
        return self._paths.home

    def revive(self) -> None:
        """Restart the server if it died. Safe in several threads; does nothing after `close`."""
        with self._lock:
            if self._fifo is None:
                return
            # Create the link to a long path again: the system may have cleaned the temp folder.
            folders.socket_path(self._paths.home, watchdog.SOCKET)
            previous, self._fifo = self._fifo, _acquire(self._paths)
            previous.close()

    def close(self) -> None:
        """Give up the lease. Safe to call twice."""
        with self._lock:
            if self._fifo is not None:
                self._fifo.close()
            if self._fsync is not None:
                self._fsync.close()
            self._fifo = self._fsync = None


def ensure_running(data_dir: Path, *, binary: Path | None = None, timeout_s: float = 20.0) -> ServerLease:
    """Return a lease on the server of `data_dir`, started if needed and ready for commands.

    Blocks, so call it in a thread. Raises `Invalid` if the directory cannot be used, `StorageDown` if the
    disk is full, `Broken` if there is no server program or it does not start, `TimedOut` after `timeout_s`
    seconds of waiting for another process. Loading a large log has no timeout.
    """
    if binary is not None and not binary.is_file():
        raise watchdog.missing_binary_error(str(binary))
    program = binary.absolute() if binary else watchdog.binary()
    home = folders.private_folder(Path(os.path.realpath(data_dir)) / "valkey")
    try:
        return ServerLease(ServerPaths(home, folders.socket_path(home, watchdog.SOCKET), program, timeout_s))
    except OSError as error:
        raise folders.folder_error(home, error) from error


def is_running(data_dir: Path) -> bool:
    """Return whether the server of `data_dir` is running or still stopping."""
    return watchdog.is_running(Path(os.path.realpath(data_dir)) / "valkey")


def probe(path: Path) -> PingReply:
    """Return the state of the server at the socket `path`, found with a PING."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(_SOCKET_TIMEOUT_S)
            link.connect(str(path))
            link.sendall(b"*1\r\n$4\r\nPING\r\n")
            reply = link.recv(64)
    except OSError:
        return "none"
    if not reply:
        return "none"
    return "loading" if reply.startswith(b"-LOADING") else "ready"


def _acquire(paths: ServerPaths) -> io.FileIO:
    deadline_s = time.monotonic() + paths.timeout_s
    with _start_lock(paths, deadline_s):
        fifo, launched = _join_or_launch(paths, deadline_s)
    try:
        _wait_until_loaded(paths, fifo)
    except BaseException:
        fifo.close()
        raise
    if not (paths.home / _HAS_DATA).exists():
        (paths.home / _HAS_DATA).touch()
    if launched and _CUT_LOG in watchdog.log_tail(paths.home):
        _log.warning("the data in %r was cut off, and its end is lost: see its log", str(paths.home))
    return fifo


def _require_log(home: Path) -> None:
    """Raise `Broken` for a folder that had data and has no log of it: Valkey would start without any."""
    names = [name for name in (_HAS_DATA, _SNAPSHOT) if (home / name).exists()]
    if not names or any(home.glob(_MANIFEST)):
        return
    folder = (home / _MANIFEST).parent.name
    raise Broken(
        f"the folder {str(home)!r} has {names[0]!r}, and no {folder!r}, which holds the data",
        remedy=f"Restore the whole folder. To begin anew, remove {str(home / names[0])!r}; the data is lost.",
    )


@contextlib.contextmanager
def _start_lock(paths: ServerPaths, deadline_s: float) -> Iterator[None]:
    """Keep other processes from starting a server in the same folder."""
    with (paths.home / _START_LOCK).open("ab") as lock:
        while not watchdog.try_lock(lock):
            if time.monotonic() > deadline_s:
                raise _timeout_error(paths, "another process is still starting it")
            time.sleep(_POLL_S)
        yield


def _join_or_launch(paths: ServerPaths, deadline_s: float) -> tuple[io.FileIO, bool]:
    """Return a lease on a server that answers, the running one or a new one, and True for a new one."""
    while time.monotonic() < deadline_s:
        joined = watchdog.join(paths.home)
        if not joined:
            _require_log(paths.home)
        launched = None if joined else watchdog.launch(paths.home, paths.binary)
        fifo = joined or launched
        if fifo is None:
            _shut_down_orphan(paths)
        elif _wait_for_answer(paths, fifo, deadline_s):
            return fifo, launched is not None
        elif launched:
            raise _start_error(paths)
        time.sleep(_POLL_S)
    raise _timeout_error(paths, "an earlier server does not stop")


def _wait_for_answer(paths: ServerPaths, fifo: io.FileIO, deadline_s: float) -> bool:
    """Wait for the server's first answer; close the lease and return False if the server is gone."""
    while watchdog.is_watched(fifo):
        if probe(paths.socket) != "none":
            return True
        if time.monotonic() > deadline_s:
            fifo.close()
            raise _timeout_error(paths, "it does not answer")
        time.sleep(_POLL_S)
    fifo.close()
    return False


def _wait_until_loaded(paths: ServerPaths, fifo: io.FileIO) -> None:
    while probe(paths.socket) != "ready":
        if not watchdog.is_watched(fifo):
            raise _start_error(paths)
        time.sleep(_POLL_S)


def _shut_down_orphan(paths: ServerPaths) -> None:
    """Shut down a server whose watchdog was killed; do nothing if its watchdog is stopping it."""
    if (paths.home / watchdog.STOPPING).exists():
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as link:
        link.settimeout(_SOCKET_TIMEOUT_S)
        link.connect(str(paths.socket))
        link.sendall(b"*1\r\n$8\r\nSHUTDOWN\r\n")


def _start_error(paths: ServerPaths) -> CallsheetError:
    log_tail = watchdog.log_tail(paths.home)
    disk_full = os.strerror(errno.ENOSPC)
    # On a full disk the server often cannot log the reason either.
    if disk_full in log_tail or shutil.disk_usage(paths.home).free < _MIN_FREE_BYTES:
        return folders.folder_error(paths.home, OSError(errno.ENOSPC, disk_full))
    remedy = (
        "The log says why. If the data is damaged, restore a backup; without one, copy the folder first, then"
        " run valkey-check-aof --fix: all that was written after the damage is lost."
    )
    rule = f"the embedded Valkey in {str(paths.home)!r} stopped while it started; its log ends:\n{log_tail}"
    return Broken(rule, remedy=remedy)


def _timeout_error(paths: ServerPaths, reason: str) -> TimedOut:
    rule = f"the embedded Valkey in {str(paths.home)!r} was not ready after {paths.timeout_s:g} s: {reason}"
    remedy = "Try again. If it fails again, stop the valkey-server process of this folder with a plain kill."
    return TimedOut(rule, remedy=remedy)
