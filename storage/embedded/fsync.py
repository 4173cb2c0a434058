"""Periodic fsync of the embedded server's append-only log.

With `appendfsync everysec` the server delays its writes to the log, for up to two seconds, while the disk is
busy with an fsync, but replies all the same: if it is killed then, acknowledged writes are lost. So it runs
with `appendfsync no`, which writes before each reply, and the processes that use it do the fsync.

Source: `flushAppendOnlyFile`, https://github.com/valkey-io/valkey/blob/9.1/src/aof.c
"""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

EVERY_S: Final = 1.0
"""Period of the fsync, and so the longest loss after a power failure."""
_LOGS: Final = "appendonlydir/*.incr.aof"
_log = logging.getLogger(__name__)


class FsyncTask:
    """Thread that syncs the log of the server in `home` every `every_s` seconds until `close`.

    `sync` gets the descriptor of a log that changed. Several processes may sync the same server: data already
    on disk costs nothing.
    """

    def __init__(
        self, home: Path, *, every_s: float = EVERY_S, sync: Callable[[int], object] = os.fsync
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
