"""A Redis and a server for a whole file of tests: nothing is emptied, so every test uses new threads."""

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph_sdk.client import LangGraphClient
from redis import Redis

from callsheet.storage.embedded import server as embedded
from tests.doubles.key_leaks import leaks
from tests.doubles.waiting import until
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server

HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}
APPROVED: Any = {"decisions": [{"type": "approve"}]}


@contextmanager
def running_server_on_own_redis(graphs: Any = GRAPHS, **chosen: Any) -> Iterator[str]:
    """The URL of a server on a Redis of its own."""
    with running_redis_for_file() as url, running_server(url, graphs, **chosen) as server_url:
        yield server_url


@contextmanager
def running_redis_for_file() -> Iterator[str]:
    """The URL of a Redis; at the end every key must be a declared one."""
    folder = Path(tempfile.mkdtemp(prefix="callsheet-test-"))
    lease = embedded.ensure_running(folder)
    url = f"{lease.url}?db=0"
    try:
        yield url
        with Redis.from_url(url) as server:
            assert not (leaked := leaks(server)), "\n".join(leaked)
    finally:
        lease.close()
        until(lambda: not embedded.is_running(folder), "the end of the file's server")
        shutil.rmtree(folder)


async def create_thread(client: LangGraphClient) -> str:
    """A new thread's id."""
    return str((await client.threads.create())["thread_id"])


def graph_input(**values: Any) -> Any:
    """A graph's input."""
    return values


def new_id() -> str:
    """An unused id."""
    return str(uuid.uuid4())


async def thread_status(client: LangGraphClient, thread: str) -> str:
    """The status of a thread."""
    return str((await client.threads.get(thread))["status"])


async def collect(source: Any, most: int = 0) -> list[Any]:
    """The events of a stream, all or the first `most`."""
    events = []
    async for event in source:
        events.append(event)
        if len(events) == most:
            break
    await asyncio.sleep(0)
    return events
