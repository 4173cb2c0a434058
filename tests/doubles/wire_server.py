"""The server on a port of its own, in this process, for LangGraph's own clients."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn
from langgraph_sdk.client import LangGraphClient

from callsheet.server.app import create_app
from callsheet.server.http.connections import HEADERS_S, bind_sockets
from callsheet.server.processes.serving import server_config
from callsheet.server.settings.settings import Settings
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.threads import threads
from tests.doubles.waiting import until
from tests.doubles.wire_graphs import GRAPHS


@contextmanager
def running_server(
    redis_url: str, graphs: Mapping[str, Any] | None = GRAPHS, headers_s: float = HEADERS_S, **chosen: Any
) -> Iterator[str]:
    """A server in a thread; its URL."""
    settings = Settings(redis_url=redis_url, **chosen)
    sockets = bind_sockets("127.0.0.1", 0)
    server = uvicorn.Server(server_config(create_app(settings, graphs), settings, 2, headers_s))
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, daemon=True)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), "the server has started", patience_s=30)
        assert server.started
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        for one in sockets:
            one.close()
        assert not thread.is_alive()


async def run_on_new_thread(
    client: LangGraphClient, storage: Storage, graph: str, graph_input: Any, **more: Any
) -> str:
    """Run a graph on a new thread until its end or its first question; the thread's id."""
    thread: Any = await client.threads.create(metadata={"graph_id": graph, **more})
    await run_on_thread(storage, thread["thread_id"], graph, graph_input)
    return str(thread["thread_id"])


async def run_on_thread(storage: Storage, thread_id: str, graph: str, graph_input: Any) -> None:
    """Run a graph on a thread without the server, and record the thread's status."""
    saver = RedisSaver(storage.redis)
    copied = GRAPHS[graph].copy(update={"checkpointer": saver})
    config: Any = {"configurable": {"thread_id": thread_id}, "metadata": {"graph_id": graph}}
    await copied.ainvoke(graph_input, config, durability="sync")
    state = await copied.aget_state(config)
    record = await threads.get(storage, thread_id, "local")
    interrupts = {
        task.id: [{"id": one.id, "value": one.value} for one in task.interrupts]
        for task in state.tasks
        if task.interrupts
    }
    await threads.record_edit(storage, record, "interrupted" if state.next else "idle", interrupts)
    await saver.aclose()
