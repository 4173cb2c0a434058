"""The embedded server's log on its way to the disk.

A server that brings its log to the disk once a second by itself (`appendfsync everysec`) does not write to
the log while the disk is busy with that, for up to two seconds, and answers all the same: killed then, it has
lost what it acknowledged. So it is told to write before it answers, and its users bring the log to the disk.

Source: `flushAppendOnlyFile`, https://github.com/valkey-io/valkey/blob/9.1/src/aof.c
"""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

EVERY_S: Final = 1.0
"""What a machine that loses its power may lose."""
_LOGS: Final = "appendonlydir/*.incr.aof"
_log = logging.getLogger(__name__)


class FsyncTask:
    """Brings what the server in `home` wrote to the disk every `every_s` seconds, until `close`.

    `sync` gets a descriptor of a log that changed. Several processes may do this for one server: for what is
    on the disk already it costs nothing.
    """

    def __init__(
        self, home: Path, *, every_s: float = EVERY_S, sync: Callable[[int], object] = os.fsync
    ) -> None:
        self._ended = threading.Event()
        work = threading.Thread(
            target=_keep_syncing,
            args=(home, every_s, sync, self._ended),
            name="callsheet-syncing",
            daemon=True,
        )
        work.start()

    def close(self) -> None:
        """Stop: a server that ends because nobody needs it brings its log to the disk. Twice is safe."""
        self._ended.set()


def _keep_syncing(home: Path, every_s: float, sync: Callable[[int], object], ended: threading.Event) -> None:
    synced: dict[Path, int] = {}
    told = False
    while not ended.wait(every_s):
        try:
            for log in home.glob(_LOGS):
                _brought(log, synced, sync)
            told = False
        # Rewritten, or swept away with the folder.
        except FileNotFoundError:
            continue
        except OSError:
            if not told:
                _log.exception("The log of the embedded Valkey in %s does not reach the disk", home)
            told = True


def _brought(log: Path, synced: dict[Path, int], sync: Callable[[int], object]) -> None:
    # Looked at before, so that what is written meanwhile is brought the next time.
    changed = log.stat().st_mtime_ns
    if synced.get(log) == changed:
        return
    descriptor = os.open(log, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
    synced[log] = changed
