"""Folders of indexes on this machine: several processes may use one, and nobody's is removed while in use."""

import fcntl
import os
import shutil
import weakref
from pathlib import Path
from typing import Final

from callsheet.storage.embedded.folders import folder_error, private_folder

_LOCK_SUFFIX: Final = ".used"


class IndexFolder:
    """The folder `name` in `parent`, in use until it is closed or this object is gone.

    Siblings that nobody uses are removed: they are indexes of earlier generations, other models, or damaged.
    """

    def __init__(self, parent: Path, name: str) -> None:
        private_folder(parent)
        self.path: Final = parent / name
        try:
            self._lock = _open_lock(self.path)
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            self._release = weakref.finalize(self, os.close, self._lock)
            self.path.mkdir(exist_ok=True)
            remove_unused(parent)
        except OSError as error:
            raise folder_error(self.path, error) from error

    def close(self) -> None:
        """Let others remove the folder. Safe to call twice."""
        self._release()


def _open_lock(folder: Path) -> int:
    return os.open(folder.with_name(folder.name + _LOCK_SUFFIX), os.O_RDWR | os.O_CREAT, 0o600)


def remove_unused(parent: Path) -> None:
    """Remove the folders in `parent` that no process uses."""
    for folder in parent.iterdir() if parent.exists() else ():
        if folder.is_dir():
            _remove_if_unused(folder)


def _remove_if_unused(folder: Path) -> None:
    lock = _open_lock(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)
