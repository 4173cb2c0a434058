"""Copies of a thread's file under another id, whose artefacts and plans have ids of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import BaseMessage
from langgraph.types import Interrupt

from callsheet.storage.archive.file import (
    ArtefactEntry,
    CheckpointEntry,
    ExecutionLine,
    ReceiptLine,
    ThreadFile,
)
from callsheet.storage.artefacts.receipts import escape_part

_PLAN_FIELDS: Final = ("id", "plan", "execution", "executionId", "messageId", "decision")
"""Fields in which a state, a question or a record names a plan."""
_OTHER_FIELDS: Final = {"video": ("project_id", "projectId")}
"""Fields that name an artefact by another word than its kind."""
_MESSAGE_FIELDS: Final = ("id", "artifact", "additional_kwargs")
"""Fields in which a message names a plan; its words keep the old names."""


def rename(file: ThreadFile, new_id: str) -> ThreadFile:
    """Return the file with the id `new_id` for the thread and its main artefact.

    Every further artefact is called `new_id`, a dash and its old id, and every plan gets a new id.
    """
    ids = [f"{new_id}-{entry.artefact.id}" if at else new_id for at, entry in enumerate(file.artefacts)]
    plans = {
        line.record["id"]: uuid5(NAMESPACE_OID, f"{new_id}|{line.record['id']}").hex
        for entry in file.artefacts
        for line in entry.executions
    }
    fields: dict[str, dict[str, str]] = {name: plans for name in _PLAN_FIELDS if plans}
    for entry, new in zip(file.artefacts, ids, strict=True):
        kind = entry.artefact.kind
        for name in (f"{kind}_id", f"{kind}Id", *_OTHER_FIELDS.get(kind, ())):
            fields.setdefault(name, {})[entry.artefact.id] = new
    renaming = _Renaming(file.thread.id, new_id, fields, plans)
    artefacts = tuple(renaming.artefact(entry, new) for entry, new in zip(file.artefacts, ids, strict=True))
    updates = {
        "id": new_id,
        "artefact": artefacts[0].name if artefacts else "",
        "interrupts": renaming.apply(file.thread.interrupts),
    }
    return ThreadFile(
        file.thread.model_copy(update=updates),
        tuple(renaming.checkpoint(checkpoint) for checkpoint in file.checkpoints),
        artefacts,
    )


@dataclass(frozen=True)
class _Renaming:
    """Replacement of ids by others, wherever a field or channel of certain names holds them."""

    thread: str
    new_thread: str
    fields: Mapping[str, Mapping[str, str]]
    """New ids by old ones, by the name of the field."""
    plans: Mapping[str, str]
    messages: dict[int, BaseMessage] = field(default_factory=dict)
    """Renamed messages by the identity of the old ones, which many states share."""

    def artefact(self, entry: ArtefactEntry, new_id: str) -> ArtefactEntry:
        return replace(
            entry,
            artefact=entry.artefact.model_copy(update={"id": new_id}),
            receipts=tuple(self._receipt(receipt) for receipt in entry.receipts),
            executions=tuple(self._execution(line, new_id) for line in entry.executions),
        )

    def checkpoint(self, entry: CheckpointEntry) -> CheckpointEntry:
        checkpoint = {**entry.checkpoint, "channel_values": self.apply(entry.checkpoint["channel_values"])}
        writes = tuple((task, *self._pair(channel, value)) for task, channel, value in entry.writes)
        return replace(entry, checkpoint=checkpoint, writes=writes)

    def apply(self, value: Any) -> Any:
        """Return the value with new ids."""
        # Exact types only: other objects keep the old ids.
        if type(value) is dict:
            return dict(self._pair(name, part) for name, part in value.items())
        if type(value) in {list, tuple}:
            return type(value)(map(self.apply, value))
        if type(value) is Interrupt:
            return Interrupt(value=self.apply(value.value), id=value.id)
        if isinstance(value, BaseMessage) and self.plans:
            return self._message(value)
        return value

    def _pair(self, name: Any, value: Any) -> tuple[Any, Any]:
        new = self.fields.get(name, {}).get(value) if isinstance(value, str) else None
        return name, self.apply(value) if new is None else new

    def _message(self, message: BaseMessage) -> BaseMessage:
        if (renamed := self.messages.get(id(message))) is None:
            old = {name: getattr(message, name, None) for name in _MESSAGE_FIELDS}
            new = self.apply(old)
            changed = {name: new[name] for name in old if new[name] != old[name]}
            renamed = self.messages[id(message)] = message.model_copy(update=changed) if changed else message
        return renamed

    def _execution(self, line: ExecutionLine, artefact: str) -> ExecutionLine:
        record = {**self.apply(line.record), "thread": self.new_thread, "project": artefact}
        return line.model_copy(update={"record": record})

    def _receipt(self, receipt: ReceiptLine) -> ReceiptLine:
        parts = receipt.step.split("|")
        if parts[0] != escape_part(self.thread):
            return receipt
        plan, slash, step = parts[-1].partition("/")
        plans = {escape_part(old): new for old, new in self.plans.items()}
        parts = [escape_part(self.new_thread), *parts[1:-1], f"{plans.get(plan, plan)}{slash}{step}"]
        return receipt.model_copy(update={"step": "|".join(parts)})
