"""A turn of a page's chat in the terminal."""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from callsheet.server.cli import layout
from callsheet.server.cli.text_input import resume_command
from callsheet.server.pages.terminal_session import PageCliTurn
from callsheet.server.processes.terminal import without_control_chars


def show(target: Console, turn: PageCliTurn, data_dir: Path | None = None) -> None:
    """Print the result of a turn: the message, the changes of each version, and the next command."""
    layout.print_parts(target, _parts(turn))
    resume = resume_command("page --page", turn.reply["pageId"], data_dir)
    label, example = ("Answer", "--yes") if turn.reply["question"] else ("Go on", '"undo that"')
    layout.print_next_command(target, label, f"{resume} {example}")


def _parts(turn: PageCliTurn) -> Iterator[RenderableType]:
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
    yield layout.model_line(turn.reply)
