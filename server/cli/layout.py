"""Elements that the terminal renderings of all workflows share."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from callsheet.server.processes.terminal import without_control_chars

NARROW: Final = 72
"""Columns below which the name stands above the text instead of beside it."""
INDENT: Final = 2
TIME_WIDTH: Final = 17


def print_parts(target: Console, parts: Iterable[RenderableType]) -> None:
    """Print each part with an empty line before it."""
    for part in parts:
        target.print()
        target.print(Padding(part, (0, INDENT)))


def print_next_command(target: Console, label: str, command: str) -> None:
    """Print the command that continues, between empty lines."""
    target.print()
    # The terminal wraps the line, so that it can be copied in one piece.
    target.print(Text.assemble(" " * INDENT, (label, "bold"), "  ", (command, "dim")), soft_wrap=True)
    target.print()


def print_question(target: Console, actions: Iterable[Mapping[str, Any]]) -> None:
    """Print the actions that need approval."""
    for action in actions:
        text = Text(without_control_chars(action["description"]), "bold yellow")
        target.print(Padding(text, (0, INDENT)))


def model_line(reply: Mapping[str, Any]) -> Text:
    """Return the provider of a reply and the reason for it."""
    reason = without_control_chars(reply["providerReason"])
    return Text.assemble(("Model  ", "bold"), reply["provider"], (f"  {reason}", "dim"))


@dataclass(frozen=True)
class TimedText:
    """A text with its time span; rendered for the width of the terminal, a dot marks a changed one."""

    start_s: float
    end_s: float
    name: str
    """The speaker, the music provider, or the placement of an effect."""
    text: str
    changed: bool
    name_width: int = 0
    """Width of the column of names, in cells."""

    def __rich_console__(self, target: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(width=TIME_WIDTH, no_wrap=True)
        span = f"{self.start_s:.1f} – {self.end_s:.1f} s"
        time = Text.assemble(("• " if self.changed else "  ", "green"), (f"{span:>{TIME_WIDTH - 2}}", "dim"))
        name, text = Text(self.name, "dim"), Text(self.text)
        if options.max_width < NARROW:
            grid.add_column(overflow="fold")
            grid.add_row(time, Group(name, text))
        else:
            grid.add_column(width=self.name_width, overflow="fold")
            grid.add_column(overflow="fold")
            grid.add_row(time, name, text)
        yield grid
