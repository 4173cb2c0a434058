"""What was done to a page as a person reads it in a terminal."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from server.inprocess_page import Turn
from server.terminal import harmless
from server.words import again

_INDENT: Final = 2


def show(where: Console, turn: Turn, data_dir: Path | None = None) -> None:
    """Print what came of a turn: the message, what each version made different, and how to go on."""
    for part in _parts(turn):
        where.print()
        where.print(Padding(part, (0, _INDENT)))
    said = "--yes" if turn.reply["question"] else '"undo that"'
    line = f"{again('page --page', turn.reply['pageId'], data_dir)} {said}"
    word = "Answer" if turn.reply["question"] else "Go on"
    # Left to the terminal to wrap, so that it can be copied whole.
    where.print(Text.assemble(" " * _INDENT, (word, "bold"), "  ", (line, "dim")), soft_wrap=True)
    where.print()


def asked(where: Console, question: Mapping[str, Any]) -> None:
    """Print what a person is asked for leave for."""
    for action in question["actions"]:
        where.print(Padding(Text(harmless(action["description"]), "bold yellow"), (0, _INDENT)))


def _parts(turn: Turn) -> Iterator[RenderableType]:
    if turn.reply["message"]:
        yield Text(harmless(turn.reply["message"]))
    if turn.changes:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        for version, lines in turn.changes.items():
            for line in lines:
                grid.add_row(version, harmless(line))
        yield grid
    told = harmless(turn.reply["providerReason"])
    yield Text.assemble(("Model  ", "bold"), turn.reply["provider"], (f"  {told}", "dim"))
