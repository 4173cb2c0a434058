"""The place of a library's index: a file that processes share, and that nobody removes while it is in use."""

import fcntl
import logging
import os
import shutil
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from callsheet.state.errors import Broken, Unavailable
from callsheet.storage.campaigns.words import TOKENIZER
from callsheet.storage.embedded.folders import folder_error, private_folder

_log = logging.getLogger(__name__)

_NAME: Final = "index-1"
"""Beginning of a file's name, with the version of the schema."""
_LOCK_SUFFIX: Final = ".used"
_SCHEMA: Final = (
    "CREATE TABLE state (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    # No number is used again, so whoever has seen one knows what came after it.
    """CREATE TABLE campaigns (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    channel TEXT, company TEXT, company_key TEXT, brand_key TEXT, product TEXT, product_key TEXT,
    value_props TEXT, sentiment TEXT, visual_style TEXT, has_offer INTEGER, day INTEGER, spend REAL,
    volume INTEGER)""",
    "CREATE INDEX campaigns_by_day ON campaigns (day, id)",
    "CREATE INDEX campaigns_by_company ON campaigns (company, spend, volume)",
    f"CREATE VIRTUAL TABLE words USING fts5 (copy, offer, tokenize = '{TOKENIZER}')",
    """CREATE TABLE vectors (field TEXT, number INTEGER, vector BLOB NOT NULL, PRIMARY KEY (field, number))
    WITHOUT ROWID""",
)
_TABLES: Final = ("state", "campaigns", "words", "vectors")
_OTHER_FAULTS: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY}
    | {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_INTERRUPT}
)
"""Codes of errors that are not the file's fault."""


class ClaimedFile:
    """A file that others do not remove, until it is released or this object is gone."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        lock = _open_lock(path)
        fcntl.flock(lock, fcntl.LOCK_SH)
        self._release = weakref.finalize(self, os.close, lock)

    def release(self) -> None:
        """Let others remove the file. Safe to call twice."""
        self._release()

    def mark_damaged(self) -> None:
        """Let nobody open the file any more; it is removed when no process uses it."""
        _damage_mark(self.path).touch()


def claim_file(folder: Path, wait_s: float) -> ClaimedFile:
    """Return the library's file in `folder`, made if needed, and remove what nobody uses."""
    private_folder(folder)
    try:
        while True:
            file = ClaimedFile(_usable_path(folder))
            remove_unused(folder)
            if not _damage_mark(file.path).exists() and _create(file, wait_s):
                return file
            file.release()
    except OSError as error:
        raise folder_error(folder, error) from error


def _usable_path(folder: Path) -> Path:
    """Return the file that is there, or another name for one that is damaged, which others may still use."""
    paths = (folder / f"{_NAME}-{number}.sqlite" for number in count())
    undamaged = (path for path in paths if not _damage_mark(path).exists())
    known = sorted(path for path in folder.glob(f"{_NAME}-*.sqlite") if not _damage_mark(path).exists())
    return known[0] if known else next(undamaged)


def _create(file: ClaimedFile, wait_s: float) -> bool:
    """Create the tables unless they are there; return False for a damaged file."""
    try:
        with closing(connect(file.path, wait_s)) as connection:
            connection.execute("SELECT count(*) FROM state")
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise unavailable(error, wait_s) from error
        _log.warning("An index of campaigns is built again: %r cannot be read: %s", str(file.path), error)
        file.mark_damaged()
        return False
    return True


def connect(file: Path | str, wait_s: float) -> sqlite3.Connection:
    """Return a connection to the tables, made if needed; one thread at a time may use it."""
    connection = sqlite3.connect(file, timeout=wait_s, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    # After a crash of the machine the last changes are read from Redis again.
    connection.execute("PRAGMA synchronous = NORMAL")
    if not _has_tables(connection):
        _create_tables(connection)
    return connection


def _create_tables(connection: sqlite3.Connection) -> None:
    try:
        with transaction(connection, "BEGIN IMMEDIATE"):
            # Another process may have been first.
            for statement in () if _has_tables(connection) else _SCHEMA:
                connection.execute(statement)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            rule = f"the index of campaigns cannot be created: {error}"
            raise Broken(rule, remedy="Use a Python whose SQLite has FTS5.") from error
        raise


def _has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchone())


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commit at the end, or nothing."""
    connection.execute(begin)
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether a file cannot be read, and will not be later."""
    return error.sqlite_errorcode & 0xFF not in _OTHER_FAULTS


def unavailable(error: sqlite3.Error, wait_s: float) -> Unavailable:
    """Return the error for a file that may be used later."""
    if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
        rule = f"another process has written the index of campaigns for {wait_s:g} s: {error}"
        return Unavailable(rule, remedy="Try again; end a process that hangs.")
    rule = f"the index of campaigns cannot be used: {error}"
    return Unavailable(
        rule, remedy="Make room on the disk of the data folder, and see that it can be written."
    )


def _open_lock(path: Path) -> int:
    return os.open(path.with_name(path.name + _LOCK_SUFFIX), os.O_RDWR | os.O_CREAT, 0o600)


def _damage_mark(path: Path) -> Path:
    return path.with_name(path.name + ".damaged")


def remove_unused(folder: Path) -> None:
    """Remove the indexes in `folder` that are damaged or of other releases, if no process uses them."""
    for lock in folder.glob(f"*{_LOCK_SUFFIX}"):
        path = lock.with_name(lock.name.removesuffix(_LOCK_SUFFIX))
        _remove_if_unused(path)


def _remove_if_unused(path: Path) -> None:
    lock = _open_lock(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        for suffix in ("-wal", "-shm", "", ".damaged"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


def clear(connection: sqlite3.Connection) -> None:
    """Begin again, inside a transaction."""
    for table in _TABLES:
        connection.execute(f"DROP TABLE {table}")
    for statement in _SCHEMA:
        connection.execute(statement)
