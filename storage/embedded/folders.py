"""Where data lives on this machine: the default folder, private folders, paths short enough for a socket."""

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
"""Longest path a unix socket may have on macOS (104 bytes with the closing zero); Linux allows four more."""
_ELSEWHERE: Final = f"set {DATA_DIR_VARIABLE} to a directory on another disk or with another owner"


def default_data_dir(system: str = sys.platform) -> Path:
    """The data folder: `CALLSHEET_DATA_DIR`, else `callsheet` in the user's folder for data.

    That folder is `$XDG_DATA_HOME` or `~/.local/share`, and `~/Library/Application Support` on macOS.
    """
    chosen = os.environ.get(DATA_DIR_VARIABLE)
    try:
        return Path(chosen).expanduser() if chosen else _users_own(system) / "callsheet"
    except RuntimeError as error:
        rule = f"there is no home directory for the data folder {chosen or '~'!r}"
        raise Invalid(rule, remedy=f"Set {DATA_DIR_VARIABLE} to a directory.") from error


def _users_own(system: str) -> Path:
    if system == "darwin":
        return Path.home() / "Library" / "Application Support"
    shared = Path(os.environ.get("XDG_DATA_HOME", ""))
    return shared if shared.is_absolute() else Path.home() / ".local" / "share"


def private_folder(folder: Path) -> Path:
    """`folder`, made if it is not there, after checking that nobody but this user can reach into it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise folder_error(folder, error) from error
    if not stat.S_ISDIR(found.st_mode):
        raise Invalid(
            f"{str(folder)!r} must be a directory and no link", remedy=f"Remove it, or {_ELSEWHERE}."
        )
    if found.st_uid != os.geteuid():
        rule = f"{str(folder)!r} belongs to user id {found.st_uid}, not to {os.geteuid()} who needs it"
        raise Invalid(rule, remedy=f"Remove it, or {_ELSEWHERE}.")
    if found.st_mode & 0o077:
        mode = stat.filemode(found.st_mode)
        raise Invalid(f"{str(folder)!r} is open to others ({mode})", remedy=f"Run: chmod 700 {str(folder)!r}")
    return folder


def socket_path(folder: Path, name: str, *, temp: Path | None = None) -> Path:
    """A path of `name` in `folder` that a unix socket can have.

    When the plain one is too long, it leads through a link in a private folder of the temp folder, named by
    the folder's hash. The socket itself stays in `folder`, so processes with other temp folders still meet.
    """
    if _fits(folder / name):
        return folder / name
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    shortcut = (temp or Path(tempfile.gettempdir())) / f"callsheet-{os.geteuid()}-{digest}" / "d"
    if not _fits(shortcut / name):
        rule = f"a unix socket's path may have {SOCKET_PATH_BYTES} bytes, so neither {str(folder / name)!r}"
        remedy = f"Set {DATA_DIR_VARIABLE} or TMPDIR to a shorter path."
        raise Invalid(f"{rule} nor {str(shortcut / name)!r} can be one", remedy=remedy)
    private_folder(shortcut.parent)
    _point(shortcut, folder)
    return shortcut / name


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES


def _point(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target)
        # Atomic, so that another process which is connecting right now sees the old link or the new one.
        fresh.replace(link)
    except OSError as error:
        raise folder_error(link.parent, error) from error


def folder_error(folder: Path, error: OSError) -> CallsheetError:
    """What to tell the user when the system refuses an operation in `folder`."""
    name, why = repr(str(folder)), error.strerror or str(error)
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            remedy = f"Give this user write permission, or {_ELSEWHERE}."
            return Invalid(f"the data directory {name} cannot be written: {why}", remedy=remedy)
        case errno.EEXIST | errno.ENOTDIR:
            remedy = f"Move the file away, or {_ELSEWHERE}."
            return Invalid(f"the data directory {name}, or a parent of it, is not a directory", remedy=remedy)
        case errno.ENOSPC | errno.EDQUOT:
            remedy = f"Free some space, or {_ELSEWHERE}."
            return StorageDown(f"the disk with the data directory {name} is full: {why}", remedy=remedy)
    return Broken(f"the data directory {name} cannot be used: {why}", remedy=f"Repair it, or {_ELSEWHERE}.")
