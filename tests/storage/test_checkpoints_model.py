"""X3: after any operations on threads, every read answers as LangGraph's in-memory saver does."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from redis import Redis

from callsheet.storage.checkpoints import RedisSaver
from tests.storage.saver_reference import ReferenceSaver
from tests.storage.saver_values import edits, exact, new_id, plain, words

THREADS = st.sampled_from(["one", "one", "t{2}%:*"])
NAMESPACES = st.sampled_from(["", "", "", "sub:1"])
RUNS = st.sampled_from(["", "run-a", "run-b"])
TASKS = st.sampled_from(["task-a", "task-b"])
PATHS = {"task-a": "~pull, 2", "task-b": "~pull, 1"}
CHANNELS = st.sampled_from(["n", "profile", "odd\0name"])
STEPS = 30
OPERATIONS = st.sampled_from([
    *["store"] * 14, *["store_writes"] * 5, *["read"] * 4, "delete", "delete_run", "copy", "prune", "prune",
    "back_up", "lose",
])  # fmt: skip


class TwoProcesses:
    """Two savers with memories of their own share a server; one is used asynchronously, one blocking."""

    def __init__(
        self,
        server: Redis,
        draw: Any,
        run: Callable[[Any], Any],
        async_saver: RedisSaver,
        blocking_saver: RedisSaver,
    ) -> None:
        self.server = server
        self.draw = draw
        self.run = run
        self.async_saver = async_saver
        self.blocking_saver = blocking_saver
        self.reference = ReferenceSaver()
        self.lists: dict[tuple[str, str], list[Any]] = {}
        self.checkpoints: list[Any] = []
        self.back_up()

    def step(self) -> None:
        """Do something to a thread, on either saver, and compare what both then have."""
        getattr(self, self.draw(OPERATIONS))()
        for thread, namespace in self.lists:
            config = _config(thread, namespace)
            expected = exact(self.reference.get_tuple(config))
            assert exact(self.run(self.async_saver.aget_tuple(config))) == expected
            assert exact(self.blocking_saver.get_tuple(config)) == expected

    def store(self) -> None:
        """A step of a graph: some channels change, the list of messages as a graph changes it."""
        draw, thread, namespace = self.draw, self.draw(THREADS), self.draw(NAMESPACES)
        parent = self.reference.get_tuple(_config(thread, namespace, self._parent_id(thread, namespace)))
        values = dict(parent.checkpoint["channel_values"]) if parent else {}
        versions: dict[str, Any] = dict(parent.checkpoint["channel_versions"]) if parent else {}
        live = draw(edits(self.lists.get((thread, namespace), [])))
        values |= {"messages": live, draw(CHANNELS): draw(plain)}
        values.pop("delta", None)
        self.lists[thread, namespace] = live
        if draw(st.integers(0, 3)) == 0:
            values["delta"] = draw(st.lists(words, max_size=2))
        changed = {
            channel: self.async_saver.get_next_version(versions.get(channel), None)
            for channel in {*values, "delta"}
        }
        checkpoint = empty_checkpoint() | {
            "id": new_id(),
            "channel_values": values,
            "channel_versions": versions | changed,
            "versions_seen": {"node": versions},
        }
        run = draw(RUNS)
        metadata = {"source": "loop", "step": len(self.checkpoints), "parents": {}}
        metadata |= {"run_id": run} if run else {}
        metadata |= {} if "delta" in values else {"counters_since_delta_snapshot": {"delta": [1, 1]}}
        config = parent.config if parent else _config(thread, namespace)
        self._both("put", config, checkpoint, metadata, changed)
        self.checkpoints.append(_config(thread, namespace, checkpoint["id"]))

    def store_writes(self) -> None:
        """A task's writes, perhaps a second time."""
        if self.checkpoints:
            channels = st.sampled_from(["delta", "delta", "__interrupt__", "__resume__"])
            writes = self.draw(st.lists(st.tuples(channels, plain), min_size=1, max_size=3))
            config, task = self.draw(st.sampled_from(self.checkpoints[-2:])), self.draw(TASKS)
            self._both("put_writes", config, writes, task, PATHS[task])

    def delete(self) -> None:
        self._both("delete_thread", self.draw(THREADS))

    def delete_run(self) -> None:
        self._both("delete_for_runs", [self.draw(RUNS.filter(bool))])

    def copy(self) -> None:
        self._both("copy_thread", self.draw(THREADS), self.draw(THREADS))

    def prune(self) -> None:
        self._both(
            "prune",
            [self.draw(THREADS)],
            strategy=self.draw(st.sampled_from(["keep_latest"] * 4 + ["delete"])),
        )

    def back_up(self) -> None:
        """Back up the server and the reference."""
        keys = self.server.keys("*checkpoint*")
        self.backup: tuple[dict[Any, Any], Any] = (
            {key: self.server.dump(key) for key in keys},
            self.reference.contents(),
        )

    def lose(self) -> None:
        """Put everything back to what it was: a server that lost its last writes, or an older one."""
        dumps, contents = self.backup
        self.server.flushdb()
        for key, dump in dumps.items():
            self.server.restore(key, 0, dump)
        self.reference.restore(contents)

    def read(self) -> None:
        """Compare a checkpoint, a page of history, the history of channels, and the list of threads."""
        thread, namespace = self.draw(THREADS), self.draw(NAMESPACES | st.none())
        before = self.draw(st.none() | st.sampled_from(self.checkpoints)) if self.checkpoints else None
        if before:
            assert exact(self._call("get_tuple", before)) == exact(self.reference.get_tuple(before))
        options = {"filter": self.draw(st.sampled_from([None, {"run_id": "run-a"}])), "before": before}
        limit = self.draw(st.none() | st.integers(0, 4))
        config = _config(thread, namespace)
        expected = sorted(self.reference.list(config, **options), key=_id, reverse=True)
        assert exact(self._list(config, limit=limit, **options)) == exact(expected[:limit])
        query = {"config": _config(thread, namespace or ""), "channels": ["delta", "messages"]}
        expected_history = self.reference.get_delta_channel_history(**query)
        assert exact(self._call("get_delta_channel_history", **query)) == exact(expected_history)
        assert _threads(self._list(None)) == _threads(list(self.reference.list(None)))

    def _parent_id(self, thread: str, namespace: str) -> str:
        """Mostly that of the newest checkpoint, sometimes of an older one: a fork."""
        ids = [_id(each) for each in self.reference.list(_config(thread, namespace))]
        return self.draw(st.sampled_from(ids)) if ids and self.draw(st.integers(0, 3)) == 0 else ""

    def _both(self, operation: str, *args: Any, **options: Any) -> None:
        getattr(self.reference, operation)(*args, **options)
        self._call(operation, *args, **options)

    def _call(self, operation: str, *args: Any, **options: Any) -> Any:
        if self.draw(st.booleans()):
            return self.run(getattr(self.async_saver, f"a{operation}")(*args, **options))
        return getattr(self.blocking_saver, operation)(*args, **options)

    def _list(self, config: Any, **options: Any) -> list[CheckpointTuple]:
        async def list_all() -> list[CheckpointTuple]:
            return [each async for each in self.async_saver.alist(config, **options)]

        return (
            self.run(list_all())
            if self.draw(st.booleans())
            else list(self.blocking_saver.list(config, **options))
        )


def _config(thread: str, namespace: str | None, checkpoint: str = "") -> Any:
    chosen = {"thread_id": thread}
    chosen |= {} if namespace is None else {"checkpoint_ns": namespace}
    return {"configurable": chosen | ({"checkpoint_id": checkpoint} if checkpoint else {})}


def _id(saved: CheckpointTuple) -> str:
    return saved.checkpoint["id"]


def _threads(all_saved: list[CheckpointTuple]) -> set[str]:
    return {each.config["configurable"]["thread_id"] for each in all_saved}


@contextmanager
def _savers(url: str) -> Iterator[tuple[Callable[[Any], Any], RedisSaver, RedisSaver]]:
    with asyncio.Runner() as runner:
        run, stack = runner.get_loop().run_until_complete, AsyncExitStack()
        try:
            first, second = (run(stack.enter_async_context(RedisSaver.from_url(url))) for _ in range(2))
            yield run, first, second
        finally:
            run(stack.aclose())


def _compare(url: str, examples: int, phases: Sequence[Phase]) -> None:
    with _savers(url) as savers, Redis.from_url(url) as server:

        @settings(
            max_examples=examples,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def compare_reads(data: st.DataObject) -> None:
            server.flushdb()
            processes = TwoProcesses(server, data.draw, *savers)
            for _ in range(STEPS):
                processes.step()

        compare_reads()


@pytest.mark.slow
def test_every_read_answers_as_the_in_memory_saver_does(valkey_url):
    """X3: two savers on one server, in any order of puts, forks, edits, removals, prunes and copies."""
    # Without shrinking, which takes minutes; the long form shrinks failures.
    _compare(valkey_url, examples=5, phases=[Phase.generate])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_read_answers_as_the_in_memory_saver_does_for_long(valkey_url):
    """X3: as above, many more of them."""
    _compare(valkey_url, examples=400, phases=[Phase.generate, Phase.shrink])
