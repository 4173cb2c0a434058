"""Open files: a server takes as many as it may, and streams leave some to all other requests."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.doubles.command import COMMAND, environment
from tests.doubles.redis_server import free_port
from tests.doubles.waiting import eventually, until

pytestmark = pytest.mark.slow
SOFT, HARD = 150, 300
_LIMITED = ["sh", "-c", f'ulimit -Sn {SOFT}; ulimit -Hn {HARD}; exec "$0" "$@"', *COMMAND]


@contextmanager
def limited_server(folder: Path, redis_url: str) -> Iterator[str]:
    """A server in a process that may open `SOFT` files, and allow itself `HARD`."""
    output = folder / "out"
    environ = environment(REDIS_URL=redis_url, CALLSHEET_STREAMS_PER_OWNER="0")
    with output.open("w") as log:
        command = [*_LIMITED, "serve", "--port", "0"]
        process = subprocess.Popen(command, env=environ, cwd=folder, stdout=log, stderr=log)
    try:
        until(lambda: "Ctrl-C" in output.read_text() or process.poll() is not None, "greeting", patience_s=30)
        yield next(word for word in output.read_text().split() if word.startswith("http://"))
    finally:
        process.kill()
        process.wait()


async def open_streams(
    http: httpx.AsyncClient, stack: AsyncExitStack, path: str
) -> tuple[int, httpx.Response]:
    """Open streams until one is refused; their number and the refusal."""
    for count in range(HARD):
        reply = await stack.enter_async_context(http.stream("GET", path))
        if reply.status_code != 200:
            await reply.aread()
            return count, reply
    raise AssertionError("no stream was refused")


async def test_streams_are_refused_before_the_last_files_and_other_requests_go_on(
    tmp_path: Path, valkey_url: str
) -> None:
    no_limits = httpx.Limits(max_connections=None)
    with limited_server(tmp_path, valkey_url) as url:
        async with httpx.AsyncClient(base_url=url, timeout=20, limits=no_limits) as http:
            path = f"/threads/{(await http.post('/threads', json={})).json()['thread_id']}/stream"
            async with AsyncExitStack() as stack:
                count, refusal = await open_streams(http, stack, path)
                assert SOFT - 100 < count < HARD - 100
                assert (refusal.status_code, refusal.headers["Retry-After"]) == (503, "5")
                assert "open connections" in refusal.text
                replies = await asyncio.gather(*(http.get("/ok") for _ in range(60)))
                assert {each.status_code for each in replies} == {200}

            async def is_admitted() -> bool:
                async with http.stream("GET", path) as again:
                    return again.status_code == 200

            await eventually(is_admitted, "a stream is admitted again")


def test_doctor_shows_how_many_files_a_server_may_open(tmp_path: Path) -> None:
    command = [*_LIMITED, "doctor", "--json", "--port", str(free_port()), "--data-dir", str(tmp_path)]
    done = subprocess.run(
        command, env=environment(), cwd=tmp_path, capture_output=True, check=False, timeout=50
    )
    [finding] = [one for one in json.loads(done.stdout) if one["part"] == "Open files"]
    assert finding["status"] == "warn"
    assert f"may open {HARD} files" in finding["message"]
    assert "LimitNOFILE" in finding["remedy"]
