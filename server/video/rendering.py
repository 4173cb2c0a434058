"""A turn about a video in the terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from callsheet.server.cli import layout
from callsheet.server.cli.text_input import resume_command
from callsheet.server.processes.terminal import without_control_chars
from callsheet.state.budgets import RAISE_BUDGET

if TYPE_CHECKING:
    from callsheet.server.video.command import ScenesOptions
    from callsheet.server.video.terminal_session import VideoCliTurn


def show(target: Console, turn: "VideoCliTurn", options: "ScenesOptions") -> None:
    """Print the message, the scenes and the next commands."""
    layout.print_parts(target, _parts(turn))
    resume = resume_command("scenes", turn.reply["projectId"], options.data_dir)
    label, example = ("Answer", "yes") if is_about_budget(turn) else ("Go on", '"make it slower"')
    layout.print_next_command(target, label, f"{resume} {example}")
    if not options.preview:
        layout.print_next_command(target, "Look", f"{resume} --preview {turn.reply['projectId']}.html")


def is_about_budget(turn: "VideoCliTurn") -> bool:
    """Return True if a question about a budget is pending; yes or no answers it."""
    question = turn.reply.get("question")
    return bool(question and question["value"].get("type") == RAISE_BUDGET)


def _parts(turn: "VideoCliTurn") -> Iterator[RenderableType]:
    if turn.reply.get("message"):
        yield Text(without_control_chars(turn.reply["message"]))
    grid = Table.grid(padding=(0, 2))
    for style in ("dim", "cyan", "", "dim", "dim"):
        grid.add_column(style=style, overflow="fold")
    for scene in turn.reply["scenes"]:
        grid.add_row(
            f"{scene['position']}.",
            f"{scene['id']} {scene['versionId']}",
            without_control_chars(scene["name"]),
            f"{scene['durationSeconds']:g} s",
            without_control_chars(scene["summary"]),
        )
    yield grid
    if "provider" in turn.reply:
        yield layout.model_line(turn.reply)
