"""An answer about campaigns in the terminal."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from callsheet.server.cli import layout
from callsheet.server.cli.text_input import resume_command
from callsheet.server.processes.terminal import without_control_chars

_SHOWN: Final = 10
_REFUSED: Final = 5


def show(target: Console, reply: Mapping[str, Any], data_dir: Path | None = None) -> None:
    """Print the report of an import, the answer, its campaigns and the next command."""
    layout.print_parts(target, _parts(reply))
    if "conversationId" in reply:
        resume = resume_command("ask --thread", reply["conversationId"], data_dir)
        label, example = ("Answer", "yes") if reply["question"] else ("Go on", '"only the urgent ones"')
        layout.print_next_command(target, label, f"{resume} {example}")


def _parts(reply: Mapping[str, Any]) -> Iterator[RenderableType]:
    if report := reply.get("import"):
        yield Text(f"Imported {report['imported']} campaigns, {report['new']} of them new.")
        for row in report["refused"][:_REFUSED]:
            yield Text(f"Line {row['line']} refused: {without_control_chars(row['reason'])}", "yellow")
        if report["refusedCount"] > _REFUSED:
            yield Text(f"{report['refusedCount']} rows were refused.", "yellow")
        yield from _remarks(report)
    if "response" not in reply:
        return
    yield Text(without_control_chars(reply["response"]))
    if reply["campaigns"]:
        yield _table(reply["campaigns"])
    if reply["total"] > _SHOWN:
        yield Text(f"{_SHOWN} of {reply['total']} campaigns", "dim")
    yield layout.model_line(reply)


def _remarks(report: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield cells that were left out, values that were read otherwise than written, and unread columns."""
    for row in report["warnings"][:_REFUSED]:
        yield Text(f"Line {row['line']}: {without_control_chars(row['reason'])}", "yellow")
    if report["warningCount"] > _REFUSED:
        yield Text(f"{report['warningCount']} cells were left out.", "yellow")
    for note in report["notes"][:_REFUSED]:
        yield Text(without_control_chars(note), "dim")
    if report["ignoredColumns"]:
        names = without_control_chars(", ".join(report["ignoredColumns"][:_SHOWN]))
        yield Text(f"Columns that were not imported: {names}", "dim")


def _table(campaigns: list[Mapping[str, Any]]) -> Table:
    table = Table.grid(padding=(0, 2))
    for style in ("cyan", "", "dim", "", "dim"):
        table.add_column(style=style, overflow="fold")
    for one in campaigns[:_SHOWN]:
        cells = (one["id"], one["company"], one["channel"], one["offer"] or "no offer", one["capture_date"])
        table.add_row(*(without_control_chars(str(cell)) for cell in cells))
    return table
