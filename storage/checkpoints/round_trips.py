"""What an operation asks of the server, kept apart from how it is asked.

An operation is written once, as a generator that yields the calls of one round trip and is sent their
replies; whoever drives it does so over an asyncio connection, a blocking one, or a cluster.
"""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from storage.scripts import Script

Argument = bytes | str | int
T = TypeVar("T")


class Call(NamedTuple):
    """One script with its keys, which share a slot, and its arguments. Safe to run twice."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Argument]
    durable: bool = False
    """Whether the reply may be held back until the effect is on disk."""

    def by_name(self) -> tuple[Argument, ...]:
        """The command for a server that has seen the script."""
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.args)

    def in_full(self) -> tuple[Argument, ...]:
        """The command for a server that has not."""
        return ("EVAL", self.script.source, len(self.keys), *self.keys, *self.args)


Exchange = Generator[Sequence[Call], list[Any], T]
"""Yields the calls of a round trip, in the order they must run; is sent their replies; returns the result."""
