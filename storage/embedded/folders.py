"""Local data folders: the default folder, private folders, and paths short enough for a socket."""

import errno
import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final

from callsheet.state.errors import Broken, CallsheetError, Invalid, StorageDown

DATA_DIR_VARIABLE: Final = "CALLSHEET_DATA_DIR"
SOCKET_PATH_BYTES: Final = 103
"""Longest path of a unix socket on macOS (104 bytes with the final NUL); Linux allows four more."""
_OTHER_DIRECTORY: Final = f"set {DATA_DIR_VARIABLE} to another directory, which begins without your data"
_OWN_TEMP: Final = "Set TMPDIR to a directory that belongs to you."


def default_data_dir(system: str = sys.platform) -> Path:
    """Return `CALLSHEET_DATA_DIR`, else the folder `callsheet` in the user's data folder.

    The latter is `$XDG_DATA_HOME` or `~/.local/share`; on macOS, `~/Library/Application Support`.
    """
    configured = os.environ.get(DATA_DIR_VARIABLE)
    try:
        return Path(configured).expanduser() if configured else _user_data_dir(system) / "callsheet"
    except RuntimeError as error:
        rule = f"there is no home directory for the data folder {configured or '~'!r}"
        raise Invalid(rule, remedy=f"Set {DATA_DIR_VARIABLE} to a directory.") from error


def _user_data_dir(system: str) -> Path:
    if system == "darwin":
        return Path.home() / "Library" / "Application Support"
    shared = Path(os.environ.get("XDG_DATA_HOME", ""))
    return shared if shared.is_absolute() else Path.home() / ".local" / "share"


def private_folder(folder: Path, remedy: str = "") -> Path:
    """Create `folder` if needed and return it; raise `Invalid` unless it belongs to this user alone.

    `remedy` replaces the advice for a folder with data, which never costs the data.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise folder_error(folder, error) from error
    if not stat.S_ISDIR(status.st_mode):
        rule = f"{str(folder)!r} must be a directory, not a link or file"
        move = f"Move the directory {str(folder.resolve())!r}, which has the data, to {str(folder)!r}"
        raise Invalid(rule, remedy=remedy or f"{move}; or {_OTHER_DIRECTORY}.")
    if status.st_uid != os.geteuid():
        rule = f"{str(folder)!r} belongs to user id {status.st_uid}, not to this user ({os.geteuid()})"
        raise Invalid(rule, remedy=remedy or _of_another_user(folder, status.st_uid))
    if status.st_mode & 0o077:
        mode = stat.filemode(status.st_mode)
        raise Invalid(f"{str(folder)!r} is open to others ({mode})", remedy=f"Run: chmod 700 {str(folder)!r}")
    return folder


def _of_another_user(folder: Path, owner: int) -> str:
    take_over = f"chown -R {os.geteuid()} {str(folder)!r}"
    return f"Run as user {owner}, or take the folder and its data over: {take_over}; or {_OTHER_DIRECTORY}."


def socket_path(folder: Path, name: str, *, temp: Path | None = None) -> Path:
    """Return a path to `name` in `folder` that is short enough for a unix socket.

    If the plain path is too long, the result leads through a link in a private folder of the temp folder. The
    socket stays in `folder`, so processes with other temp folders reach it too.
    """
    if _fits(folder / name):
        return folder / name
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    shortcut = (temp or Path(tempfile.gettempdir())) / f"callsheet-{os.geteuid()}-{digest}" / "d"
    if not _fits(shortcut / name):
        rule = f"a unix socket's path may have {SOCKET_PATH_BYTES} bytes; neither {str(folder / name)!r}"
        remedy = f"Set {DATA_DIR_VARIABLE} or TMPDIR to a shorter path."
        raise Invalid(f"{rule} nor {str(shortcut / name)!r} is short enough", remedy=remedy)
    private_folder(shortcut.parent, _OWN_TEMP)
    _replace_link(shortcut, folder)
    return shortcut / name


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES


def _replace_link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target)
        # Atomic, so that a process connecting now sees the old link or the new one.
        fresh.replace(link)
    except OSError as error:
        raise folder_error(link.parent, error) from error


def folder_error(folder: Path, error: OSError) -> CallsheetError:
    """Return our error for a failed operation in `folder`."""
    name, reason = repr(str(folder)), error.strerror or str(error)
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            remedy = f"Give this user write permission, or {_OTHER_DIRECTORY}."
            return Invalid(f"the data directory {name} cannot be written: {reason}", remedy=remedy)
        case errno.EEXIST | errno.ENOTDIR:
            remedy = f"Move the file away, or {_OTHER_DIRECTORY}."
            return Invalid(f"the data directory {name}, or a parent of it, is not a directory", remedy=remedy)
        case errno.ENOSPC | errno.EDQUOT:
            move = f"move the directory to another disk and set {DATA_DIR_VARIABLE}"
            remedy = f"Free some space outside of it, or {move}."
            return StorageDown(f"the disk with the data directory {name} is full: {reason}", remedy=remedy)
    return Broken(
        f"the data directory {name} cannot be used: {reason}", remedy=f"Repair it, or {_OTHER_DIRECTORY}."
    )
