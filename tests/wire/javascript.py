"""JavaScript programs of tests, run by Node.js with the packages of a lock file."""

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.doubles.needs import need, skip_or_fail

SCRIPTS: Final = Path(__file__).parent / "js"
"""Programs with LangGraph's own clients."""
_MANIFESTS: Final = ("package.json", "package-lock.json")
_NPM: Final = ("ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")


def installed_packages(source: Path = SCRIPTS) -> Path:
    """Return a folder with the packages of `source`, installed once into the user's cache.

    Skips the test without npm.
    """
    npm = need("npm")
    digest = hashlib.sha256(b"".join((source / name).read_bytes() for name in _MANIFESTS)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "callsheet-tests"
    folder = cache / f"js-{digest}"
    cache.mkdir(parents=True, exist_ok=True)
    with file_lock(cache / "lock"):
        return folder if folder.exists() else _install(npm, source, folder)


def _install(npm: Path, source: Path, target: Path) -> Path:
    temporary = Path(tempfile.mkdtemp(dir=target.parent))
    for name in _MANIFESTS:
        shutil.copy(source / name, temporary)
    result = subprocess.run(
        [npm, *_NPM], cwd=temporary, capture_output=True, text=True, timeout=120, check=False
    )
    if result.returncode:
        shutil.rmtree(temporary)
        return skip_or_fail(
            f"the packages of {source.name} cannot be installed: {result.stderr.strip()[-200:]}"
        )
    return temporary.rename(target)


@contextmanager
def file_lock(file: Path) -> Iterator[None]:
    """Hold a lock that one process has at a time."""
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def run_script(script: str, *arguments: str, folder: Path, patience_s: float = 30) -> Any:
    """Run a script; return the JSON that it prints.

    It is copied to the new folder `folder`, beside the packages that its lock file names.
    """
    node = need("node")
    shutil.copytree(SCRIPTS, folder)
    (folder / "node_modules").symlink_to(installed_packages() / "node_modules")
    process = await asyncio.create_subprocess_exec(
        *(str(node), "--experimental-websocket", str(folder / script), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(patience_s):
            out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return json.loads(out)
