"""What is to be on its way to storage before a checkpoint is: what the step told, which is not told again."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

AHEAD: Final[ContextVar[Callable[[], Awaitable[None]] | None]] = ContextVar("ahead", default=None)
"""Is awaited before a checkpoint leaves that is stored in this context."""
