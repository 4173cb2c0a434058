"""What an operation asks of the server, kept apart from how it is asked.

An operation is written once, as a generator that yields the calls of one round trip and is sent their
replies; whoever drives it does so over an asyncio connection, a blocking one, or a cluster.
"""

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from storage.scripts import Asked

T = TypeVar("T")

Exchange = Generator[Sequence[Asked], list[Any], T]
"""Yields the calls of a round trip, in the order they must run; is sent their replies; returns the result."""
