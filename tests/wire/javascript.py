"""Programs of `tests/wire/js`, run by Node.js with LangGraph's own clients."""

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
_MANIFESTS: Final = ("package.json", "package-lock.json")
_NPM: Final = ("ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")


def packages() -> Path:
    """The folder of the clients, installed once into the cache of the user; else as `skip_or_fail`."""
    npm = need("npm")
    wanted = hashlib.sha256(b"".join((SCRIPTS / name).read_bytes() for name in _MANIFESTS)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "callsheet-tests"
    folder = cache / f"js-{wanted}"
    cache.mkdir(parents=True, exist_ok=True)
    with file_lock(cache / "lock"):
        return folder if folder.exists() else _installed(npm, folder)


def _installed(npm: Path, folder: Path) -> Path:
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    for name in _MANIFESTS:
        shutil.copy(SCRIPTS / name, made)
    done = subprocess.run([npm, *_NPM], cwd=made, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        shutil.rmtree(made)
        return skip_or_fail(f"the clients cannot be installed: {done.stderr.strip()[-200:]}")
    return made.rename(folder)


@contextmanager
def file_lock(file: Path) -> Iterator[None]:
    """One process at a time."""
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def run_script(script: str, *given: str, beside: Path, patience_s: float = 30) -> Any:
    """What a script prints, as JSON; a copy of it is put into the new folder `beside`, with its packages."""
    node = need("node")
    shutil.copytree(SCRIPTS, beside)
    (beside / "node_modules").symlink_to(packages() / "node_modules")
    process = await asyncio.create_subprocess_exec(
        *(str(node), "--experimental-websocket", str(beside / script), *given),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(patience_s):
            out, problems = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, problems.decode()
    return json.loads(out)
