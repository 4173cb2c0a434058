"""What was done to a page as a person reads it in a terminal."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from callsheet.server.cli.terminal import without_control_chars
from callsheet.server.cli.text_input import resume_command
from callsheet.server.pages.terminal_session import CliTurn

_INDENT: Final = 2


def show(where: Console, turn: CliTurn, data_dir: Path | None = None) -> None:
    """Print what came of a turn: the message, what each version made different, and how to go on."""
    for part in _parts(turn):
        where.print()
        where.print(Padding(part, (0, _INDENT)))
    said = "--yes" if turn.reply["question"] else '"undo that"'
    line = f"{resume_command('page --page', turn.reply['pageId'], data_dir)} {said}"
    word = "Answer" if turn.reply["question"] else "Go on"
    # Left to the terminal to wrap, so that it can be copied whole.
    where.print(Text.assemble(" " * _INDENT, (word, "bold"), "  ", (line, "dim")), soft_wrap=True)
    where.print()


def show_question(where: Console, question: Mapping[str, Any]) -> None:
    """Print what a person is asked for leave for."""
    for action in question["actions"]:
        where.print(Padding(Text(without_control_chars(action["description"]), "bold yellow"), (0, _INDENT)))


def _parts(turn: CliTurn) -> Iterator[RenderableType]:
    if turn.reply["message"]:
        yield Text(without_control_chars(turn.reply["message"]))
    if turn.changes:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        for version, lines in turn.changes.items():
            for line in lines:
                grid.add_row(version, without_control_chars(line))
        yield grid
    told = without_control_chars(turn.reply["providerReason"])
    yield Text.assemble(("Model  ", "bold"), turn.reply["provider"], (f"  {told}", "dim"))
