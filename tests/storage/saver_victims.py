"""Work of other processes with a saver until they are killed, and the start of such processes."""

import asyncio
import hashlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from callsheet.storage.checkpoints import RedisSaver
from tests.storage.saver_graphs import (
    message_contents,
    newest_checkpoint,
    talk_graph,
    thread_config,
    user_message,
)
from tests.storage.saver_values import new_id

_processes = multiprocessing.get_context("forkserver")
# Processes are forked from one that has LangGraph imported, which takes a second.
_processes.set_forkserver_preload(["tests.storage.saver_victims"])


class ChildProcess:
    """A process of its own that reports what it has done, and can be killed."""

    def __init__(self, work: Callable[..., None], *args: Any) -> None:
        self._reports, child_end = _processes.Pipe(duplex=False)
        self._process: ForkServerProcess = _processes.Process(target=work, args=(*args, child_end))
        self._process.start()
        child_end.close()

    def report(self) -> Any:
        """Its next report; fails if there is none in time."""
        assert self._reports.poll(30), "the other process reports nothing"
        return self._reports.recv()

    def kill(self) -> list[Any]:
        """End it with SIGKILL; return its unread reports."""
        if self._process.pid:
            os.kill(self._process.pid, signal.SIGKILL)
        return self.join()

    def join(self) -> list[Any]:
        """Wait for its end; return its unread reports."""
        unread = list(self._rest())
        self._process.join()
        self.exit_code = self._process.exitcode
        self._process.close()
        self._reports.close()
        return unread

    def _rest(self) -> Iterator[Any]:
        try:
            while True:
                yield self._reports.recv()
        except EOFError:
            return


@contextmanager
def child_process(work: Callable[..., None], *args: Any) -> Iterator[ChildProcess]:
    """A process that does `work` with `args` and a pipe to report to, killed at the end at the latest."""
    child = ChildProcess(work, *args)
    try:
        yield child
    finally:
        if not hasattr(child, "exit_code"):
            child.kill()


def converse(url: str, name: str, reports: Connection) -> None:
    """Continue a conversation turn by turn, for ever, and report the number of each turn that ended."""

    async def turns() -> None:
        async with RedisSaver.from_url(url) as saver:
            graph = talk_graph(saver)
            state = await graph.aget_state(thread_config(name))
            if state.next:
                await graph.ainvoke(None, thread_config(name), durability="sync")
            turn = len(message_contents((await graph.aget_state(thread_config(name))).values)) // 2
            reports.send("ready")
            while True:
                await graph.ainvoke(user_message(str(turn)), thread_config(name), durability="sync")
                reports.send(turn)
                turn += 1

    asyncio.run(turns())


def contend(url: str, name: str, steps: int, mark: str, reports: Connection) -> None:
    """Store `steps` checkpoints on a thread others write on too, each the child of whatever is newest.

    A checkpoint's `digest` is that of the list it was stored with.
    """

    async def work() -> None:
        async with RedisSaver.from_url(url) as saver:
            for step in range(steps):
                parent = await newest_checkpoint(saver, name)
                values = dict(parent.checkpoint["channel_values"]) if parent else {"messages": []}
                message = HumanMessage(f"{mark}{step}", id=f"{mark}{step}")
                # Every tenth list is shortened, as by a compaction.
                kept = values["messages"][-5:] if step % 10 == 9 else values["messages"]
                values["messages"] = [*kept, message]
                values["digest"] = digest(values["messages"])
                await _store(saver, name, parent, values)
                if step % 17 == 16:
                    await saver.aprune([name])

    asyncio.run(work())
    reports.send("done")


def digest(messages: list[Any]) -> str:
    """A digest of a list of messages, to compare it with the list that was stored."""
    return hashlib.sha256(repr([(each.id, each.content) for each in messages]).encode()).hexdigest()


async def _store(saver: RedisSaver, name: str, parent: Any, values: dict[str, Any]) -> None:
    old = parent.checkpoint["channel_versions"] if parent else {}
    versions = {channel: saver.get_next_version(old.get(channel), None) for channel in values}
    checkpoint: Any = empty_checkpoint() | {
        "id": new_id(),
        "channel_values": values,
        "channel_versions": versions,
    }
    await saver.aput(parent.config if parent else thread_config(name), checkpoint, {}, dict(versions))
