"""What the offline model says next, in any workflow: some words, or tool calls."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """One tool call to make."""

    name: str
    args: dict[str, Any]


@dataclass(frozen=True)
class Say:
    """The last word of a turn: no tool calls."""

    text: str


@dataclass(frozen=True)
class Calls:
    """Tool calls to make now, in order, with an optional text shown before them."""

    calls: tuple[Request, ...]
    text: str = ""


Answer = Say | Calls
"""What the model says next."""
