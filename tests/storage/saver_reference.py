"""LangGraph's in-memory saver, with the operations it lacks: what the Redis saver is compared with."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver


class ReferenceSaver(InMemorySaver):
    """Keeps checkpoints in dicts, and prunes and copies them in the plainest way."""

    def contents(self) -> Any:
        """A copy of everything that it keeps."""
        return copy.deepcopy((self.storage, self.writes, self.blobs))

    def restore(self, contents: Any) -> None:
        """Replace everything by what `contents` returned earlier."""
        self.storage, self.writes, self.blobs = copy.deepcopy(contents)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for thread in list(self.storage):
            self._keep(thread, lambda saved: saved.metadata.get("run_id") not in run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        if source_thread_id == target_thread_id or not any(self.storage[source_thread_id].values()):
            return
        self.delete_thread(target_thread_id)
        for namespace, checkpoints in self.storage[source_thread_id].items():
            self.storage[target_thread_id][namespace].update(checkpoints)
        for kept in (self.writes, self.blobs):
            copied = {
                (target_thread_id, *key[1:]): value
                for key, value in kept.items()
                if key[0] == source_thread_id
            }
            kept.update(
                {key: dict(value) if isinstance(value, dict) else value for key, value in copied.items()}
            )

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._keep_latest(thread)

    def _keep_latest(self, thread: str) -> None:
        needed = {
            place
            for namespace in self.storage[thread]
            for place in self._needed_checkpoints(thread, namespace)
        }
        self._keep(thread, lambda saved: _place(saved) in needed)

    def _needed_checkpoints(self, thread: str, namespace: str) -> set[tuple[str, str]]:
        """The newest checkpoint, and its ancestors back to a value of each channel that has only writes."""
        saved = self.get_tuple(_config(thread, namespace))
        unsaved = set(saved.metadata.get("counters_since_delta_snapshot") or {}) if saved else set()
        needed = {_place(saved)} if saved else set()
        while saved and unsaved:
            needed.add(_place(saved))
            unsaved -= set(saved.checkpoint["channel_values"])
            saved = self.get_tuple(saved.parent_config) if saved.parent_config else None
        return needed

    def _keep(self, thread: str, is_kept: Callable[[CheckpointTuple], bool]) -> None:
        for saved in list(self.list(_config(thread, None))):
            if not is_kept(saved):
                namespace, identity = _place(saved)
                del self.storage[thread][namespace][identity]
                self.writes.pop((thread, namespace, identity), None)


def _place(saved: CheckpointTuple) -> tuple[str, str]:
    chosen = saved.config["configurable"]
    return chosen["checkpoint_ns"], chosen["checkpoint_id"]


def _config(thread: str, namespace: str | None) -> Any:
    chosen = {"thread_id": thread} | ({} if namespace is None else {"checkpoint_ns": namespace})
    return {"configurable": chosen}
