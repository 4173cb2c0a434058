"""Two servers and a worker on one storage: a thread that begins at one server goes on at the other.

    .venv/bin/python examples/two_servers.py

It starts the three processes itself, and ends them. With `REDIS_URL=redis://127.0.0.1:6379/0` they use that
Redis or Valkey, as they would on three machines; without it, an embedded Valkey in a temporary folder.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import httpx
from langgraph_sdk import get_client


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def process(*words: str, folder: str) -> Iterator[None]:
    """Run `callsheet …` for the length of the `with`."""
    storage = [] if "REDIS_URL" in os.environ else ["--data-dir", folder]
    # The servers leave all runs to the worker; by default a server executes runs, too.
    environ = os.environ | {"CALLSHEET_CARRY_RUNS": "false", "CALLSHEET_LOG_LEVEL": "warning"}
    command = [sys.executable, "-m", "callsheet", *words, *storage]
    started = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        started.terminate()
        started.wait(30)


def wait_for(url: str) -> None:
    """Return when the server answers; fail after a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/health").is_success:
                return
        time.sleep(0.1)
    sys.exit(f"{url} does not answer")


async def talk(first: str, second: str) -> None:
    """Begin an ad at the first server; refine it, and read its history, at the second."""
    async with get_client(url=first) as one, get_client(url=second) as other:
        thread = (await one.threads.create())["thread_id"]
        brief = "A 15 second spot for Nordic Sauna in Oslo, calm"
        state: Any = await one.runs.wait(thread, "ad_creation", input=message(brief))
        print("first server: ", state["drafts"])
        state = await other.runs.wait(thread, "ad_creation", input=message("make the music slower"))
        print("second server:", state["drafts"])
        print("runs of the thread:", len(await one.runs.list(thread)))


def message(text: str) -> dict[str, Any]:
    """Return a person's message as input of a run."""
    return {"messages": [{"role": "user", "content": text}]}


def main() -> None:
    """Start everything, talk, end everything."""
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        for port in ports:
            stack.enter_context(process("serve", "--port", str(port), folder=folder))
        stack.enter_context(process("worker", folder=folder))
        for url in urls:
            wait_for(url)
        asyncio.run(talk(*urls))


if __name__ == "__main__":
    main()
