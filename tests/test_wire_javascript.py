"""LangGraph's JavaScript client against our server, on both wires.

Node.js runs it; its packages are installed once, into the user's cache folder.
"""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.wire_served import APPROVED, home

SCRIPTS: Final = Path(__file__).parent / "js"
MANIFESTS: Final = ("package.json", "package-lock.json")
WORDS: Final = ["I", " ", "plan", " ", "to", " ", "do", " ", "X"]
LIVES: Final = ["running", "interrupted", "running", "completed"]


@pytest.fixture(scope="module")
def packages() -> Path:
    """The folder with the client's packages; skips where they cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        pytest.skip("there is no Node.js here")
    wanted = hashlib.sha256(b"".join((SCRIPTS / name).read_bytes() for name in MANIFESTS)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "callsheet-tests"
    folder = cache / f"js-{wanted}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cache))
        for name in MANIFESTS:
            shutil.copy(SCRIPTS / name, made)
        command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            shutil.rmtree(made)
            pytest.skip(f"the client's packages cannot be installed: {done.stderr.strip()[-200:]}")
        _moved(made, folder)
    return folder


def _moved(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:
        # Another test session was quicker.
        shutil.rmtree(made)
        assert folder.exists()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with home() as found:
        yield found


async def test_a_conversation_goes_on_over_every_wire(url: str, packages: Path) -> None:
    # A module finds packages beside itself, so it is put there.
    script = shutil.copy(SCRIPTS / "conversation.mjs", packages)
    process = await asyncio.create_subprocess_exec(
        *("node", "--experimental-websocket", script, url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, problems = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, problems.decode()
    told: dict[str, Any] = json.loads(out)
    assert told["runs"] == {
        "events": ["metadata", "values", "updates", "values", "updates", "values"],
        "paused": "interrupted",
        "questions": 1,
        "decision": APPROVED,
        "next": [],
        "history": 5,
        "runs": ["success", "success"],
    }
    expected = {"words": WORDS, "lives": LIVES, "decision": APPROVED}
    assert told["sse"] == expected
    assert told["socket"] == expected
