"""The built page in a browser, with a server that has something to show.

`python -m tests.console.browser FOLDER` takes pictures of every view.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import httpx

from callsheet.server.console import build
from callsheet.server.http import api_keys
from callsheet.storage import connect
from tests.doubles.needs import need, skip_or_fail
from tests.doubles.wire_served import running_redis_for_file
from tests.doubles.wire_server import running_server
from tests.wire import javascript

SCRIPTS: Final = Path(__file__).parent / "js"
VIEWS: Final = {
    "home": "/",
    "conversation": "/c/{thread}",
    "inspector": "/inspect/{thread}",
    "artefacts": "/artefacts",
    "campaigns": "/campaigns",
    "settings": "/settings",
}


def built_page() -> Path:
    """Return the folder of the page's sources once the page is built; skip the test if it cannot be."""
    if build.main() != 0:
        skip_or_fail(f"the page is not built: {(build.FOLDER / build.STATIC / build.PROBLEM).read_text()}")
    return build.FOLDER


def visit_all(folder: Path, pictures: Path | None = None) -> dict[str, Any]:
    """Return a report of each view, in a light and wide window and in a dark and narrow one."""
    sources = built_page()
    browser = need("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    with (
        running_redis_for_file() as redis,
        running_server(redis, None) as url,
        running_server(redis, None, auth=("keys",)) as guarded_url,
    ):
        thread = make_page(url)
        views = {name: path.format(thread=thread) for name, path in VIEWS.items()}
        key = asyncio.run(_create_key(redis))
        arguments = (str(browser), url, guarded_url, key, json.dumps(views), str(pictures or ""))
        script = javascript.run_script(
            "visit.mjs", *arguments, folder=folder, scripts=SCRIPTS, packages=sources, patience_s=200
        )
        reports: dict[str, Any] = asyncio.run(script)
        return reports


def make_page(url: str) -> str:
    """Make a landing page that waits for a person's approval; return its thread."""
    with httpx.Client(base_url=url, timeout=30) as client:
        for message in ("make a landing page for Miel, a bakery in Lyon", "clear the page"):
            body = {"message": message, "provider": "offline"}
            client.post("/api/pages/miel/chat", json=body).raise_for_status()
        [question] = client.get("/api/questions").json()["questions"]
        return str(question["thread"])


async def _create_key(redis: str) -> str:
    async with connect(redis) as storage:
        return (await api_keys.create_key(storage, "alice", "write")).text


def main() -> None:
    """Take pictures of every view into the folder that the command names."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        visit_all(Path(folder) / "js", target.resolve())
    sys.stdout.write(f"{len([*target.glob('*.png')])} pictures in {target}\n")


if __name__ == "__main__":
    main()
