"""The embedded Valkey: one server for all processes that use a data directory, gone when the last of them is.

It listens on a unix socket only, in a folder that only this user can enter, and writes every change to a log
before it answers. Killing every user, or the server itself, loses no acknowledged write; a machine that loses
its power may lose those of the last second.
"""

import contextlib
import errno
import fcntl
import io
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from callsheet.state.errors import Broken, CallsheetError, TimedOut
from callsheet.storage.embedded import folders, watchdog
from callsheet.storage.embedded.fsync import FsyncTask

_STARTING: Final = "starting.lock"
_PAUSE_S: Final = 0.002
_PROBE_S: Final = 2.0
_ROOM_BYTES: Final = 2**16

PingReply = Literal["none", "loading", "ready"]


@dataclass(frozen=True, slots=True)
class ServerPaths:
    """Where one embedded server lives."""

    home: Path
    """The server's private folder: its data, log, lease and socket."""
    socket: Path
    """The socket's path, as short as sockets need it."""
    binary: Path
    """The server program."""
    patience_s: float
    """How long another process, or a server that does not answer, is waited for."""


class Lease:
    """This process's share in the server; it runs while anyone anywhere holds one."""

    def __init__(self, place: ServerPaths) -> None:
        self._place = place
        self._guard = threading.Lock()
        self._held: io.FileIO | None = None
        self._syncing: FsyncTask | None = None
        self._held = _held(place)
        self._syncing = FsyncTask(place.home)

    def __del__(self) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The server's address as redis-py spells it."""
        return f"unix://{quote(str(self._place.socket))}"

    @property
    def socket(self) -> Path:
        """The server's socket."""
        return self._place.socket

    @property
    def home(self) -> Path:
        """The folder the server keeps its data in."""
        return self._place.home

    def revive(self) -> None:
        """Start the server again if it died. Safe from several threads; nothing happens after `close`."""
        with self._guard:
            if self._held is None:
                return
            # The shortcut to a long path lies in the temp folder, which the system may have swept.
            folders.socket_path(self._place.home, watchdog.SOCKET)
            before, self._held = self._held, _held(self._place)
            before.close()

    def close(self) -> None:
        """Give up the share. Twice is safe."""
        with self._guard:
            if self._held is not None:
                self._held.close()
            if self._syncing is not None:
                self._syncing.close()
            self._held = self._syncing = None


def ensure_running(data_dir: Path, *, binary: Path | None = None, patience_s: float = 20.0) -> Lease:
    """A lease on the server of `data_dir`, which is started if it is not running and answers on return.

    It blocks: in a coroutine, call it in a thread. `Invalid` when the directory cannot be used, `StorageDown`
    when the disk is full, `Broken` when there is no server program or it does not start, `TimedOut` after
    `patience_s` seconds of waiting for another process; loading a large log takes the time it takes.
    """
    if binary is not None and not binary.is_file():
        raise watchdog.missing_binary_error(str(binary))
    program = binary.absolute() if binary else watchdog.binary()
    home = folders.private_folder(Path(os.path.realpath(data_dir)) / "valkey")
    try:
        return Lease(ServerPaths(home, folders.socket_path(home, watchdog.SOCKET), program, patience_s))
    except OSError as error:
        raise folders.folder_error(home, error) from error


def is_running(data_dir: Path) -> bool:
    """Whether the server of `data_dir` is running, or has not quite ended."""
    return watchdog.is_running(Path(os.path.realpath(data_dir)) / "valkey")


def probe(path: Path) -> PingReply:
    """What the server behind the socket `path` says to a PING."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(_PROBE_S)
            link.connect(str(path))
            link.sendall(b"*1\r\n$4\r\nPING\r\n")
            reply = link.recv(64)
    except OSError:
        return "none"
    if not reply:
        return "none"
    return "loading" if reply.startswith(b"-LOADING") else "ready"


def _held(place: ServerPaths) -> io.FileIO:
    deadline = time.monotonic() + place.patience_s
    with _alone(place, deadline):
        lease = _answering(place, deadline)
    try:
        _await_data(place, lease)
    except BaseException:
        lease.close()
        raise
    return lease


@contextlib.contextmanager
def _alone(place: ServerPaths, deadline: float) -> Iterator[None]:
    """Keep other processes from starting a server in the same place."""
    with (place.home / _STARTING).open("ab") as lock:
        while not _locked(lock):
            if time.monotonic() > deadline:
                raise _overdue(place, "another process is still starting it")
            time.sleep(_PAUSE_S)
        yield


def _locked(lock: io.BufferedWriter) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _answering(place: ServerPaths, deadline: float) -> io.FileIO:
    """A lease on a server that answers: the one that runs, else a new one."""
    while time.monotonic() < deadline:
        lease = watchdog.join(place.home)
        launched = None if lease else watchdog.launch(place.home, place.binary)
        held = lease or launched
        if held is None:
            _dismiss(place)
        elif _answers(place, held, deadline):
            return held
        elif launched:
            raise _died(place)
        time.sleep(_PAUSE_S)
    raise _overdue(place, "an earlier server does not end")


def _answers(place: ServerPaths, lease: io.FileIO, deadline: float) -> bool:
    """Wait for the first answer; False, and the lease is given up, when the server is gone."""
    while watchdog.is_watched(lease):
        if probe(place.socket) != "none":
            return True
        if time.monotonic() > deadline:
            lease.close()
            raise _overdue(place, "it does not answer")
        time.sleep(_PAUSE_S)
    lease.close()
    return False


def _await_data(place: ServerPaths, lease: io.FileIO) -> None:
    while probe(place.socket) != "ready":
        if not watchdog.is_watched(lease):
            raise _died(place)
        time.sleep(_PAUSE_S)


def _dismiss(place: ServerPaths) -> None:
    """Ask a server whose watchdog was killed to end; one that is being ended is left to it."""
    if (place.home / watchdog.STOPPING).exists():
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as link:
        link.settimeout(_PROBE_S)
        link.connect(str(place.socket))
        link.sendall(b"*1\r\n$8\r\nSHUTDOWN\r\n")


def _died(place: ServerPaths) -> CallsheetError:
    words = watchdog.log_tail(place.home)
    full = os.strerror(errno.ENOSPC)
    # A server on a full disk often has no room for its last words either.
    if full in words or shutil.disk_usage(place.home).free < _ROOM_BYTES:
        return folders.folder_error(place.home, OSError(errno.ENOSPC, full))
    remedy = "The log says why. If the data is damaged, copy it, then repair it with valkey-check-aof --fix."
    rule = f"the embedded Valkey in {str(place.home)!r} ended at its start; its log ends:\n{words}"
    return Broken(rule, remedy=remedy)


def _overdue(place: ServerPaths, why: str) -> TimedOut:
    rule = f"the embedded Valkey in {str(place.home)!r} was not ready after {place.patience_s:g} s: {why}"
    remedy = "Try again; if it stays so, end the valkey-server process whose working directory that is."
    return TimedOut(rule, remedy=remedy)
