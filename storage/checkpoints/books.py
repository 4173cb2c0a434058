"""What every operation of a saver goes by: how values are written, what keys are called, what is known."""

import time
from dataclasses import dataclass
from typing import Final

from storage.checkpoints import register
from storage.checkpoints.message_log import Entry, LogCache, ThreadLog
from storage.checkpoints.records import Codec, name
from storage.keys import CheckpointKeys, CheckpointRegister, checkpoint_register, checkpoints
from storage.scripts import Asked

_REGISTER_MARGIN: Final = 1.25
"""How much longer than a thread its entry in the register lives; it is renewed at half the surplus."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a saver's keys are called and how long they live."""

    prefix: str
    ttl_ms: int = 0
    """How long a thread lives after it was last written; 0 is for ever."""
    refresh_on_read: bool = False
    """Whether reading counts as writing for that."""
    clustered: bool = False
    """Whether two threads may be on different nodes."""

    def keys(self, thread: str) -> CheckpointKeys:
        """The keys of the thread."""
        return checkpoints(thread, self.prefix)

    @property
    def register(self) -> CheckpointRegister:
        """The keys of the register."""
        return checkpoint_register(self.prefix)

    @property
    def read_ttl_ms(self) -> int:
        """How long reading keeps a thread alive; 0 is no change."""
        return self.ttl_ms if self.refresh_on_read else 0

    @property
    def entry_ttl_ms(self) -> int:
        """How long an entry in the register lives; 0 is for ever."""
        return int(self.ttl_ms * _REGISTER_MARGIN)

    @property
    def entry_holds_s(self) -> float:
        """How long after an entry there is no need to renew it."""
        return self.ttl_ms * (_REGISTER_MARGIN - 1) / 2000 if self.ttl_ms else float("inf")


@dataclass(frozen=True, slots=True)
class Books:
    """A saver without a connection."""

    codec: Codec
    rules: Rules
    logs: LogCache

    def entry(self, thread: str, log: ThreadLog, run: str | None = None) -> list[Asked]:
        """The call that makes the thread, and the run if any, findable; none if it was made and holds."""
        entered = log.entered
        if run in {entered.run, None} and time.monotonic() < entered.until_s:
            return []
        rules = self.rules
        return [register.enter(rules.register, name(thread), rules.entry_ttl_ms, name(run or entered.run))]

    def note_entry(self, log: ThreadLog, run: str | None = None, witness: bytes = b"") -> None:
        """Remember that the call of `entry` was made, and what was stored after it."""
        until_s = time.monotonic() + self.rules.entry_holds_s
        if run is None:
            log.entered = log.entered._replace(until_s=until_s)
        else:
            log.entered = Entry(run, until_s, witness)
