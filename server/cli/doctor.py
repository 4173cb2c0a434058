"""`callsheet doctor`: what keeps the program from working here, and what to do about it."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from callsheet.server.cli import commands
from callsheet.server.cli.options import DataDir, Debug

if TYPE_CHECKING:
    from callsheet.server.operations.doctor import Finding

_MARKS: Final = {"ok": ("✔", "green"), "warn": ("!", "yellow"), "fail": ("✘", "red")}
_ENDS: Final = {
    "ok": "All is well.",
    "warn": "It works; look at what is marked with !.",
    "fail": "It does not work yet: see what is marked with ✘.",
}


def doctor(
    *,
    host: Annotated[str | None, typer.Option(help="Address the server is to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port the server is to listen on [2024].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Look at all that the server needs, and say what is missing.

    Python, packages, keys, settings, data, storage and the port.

    Exits with 1 where something keeps it from working.
    """
    with commands.report_errors(debug=debug):
        settings = commands.load_settings(data_dir, host=host, port=port)
        import asyncio  # noqa: PLC0415 -- help needs none of this
        import os  # noqa: PLC0415

        from callsheet.server.operations.doctor import diagnose, worst_status  # noqa: PLC0415

        found = asyncio.run(diagnose(settings, os.environ))
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], ensure_ascii=False, indent=2))
    else:
        _show(found, _ENDS[worst_status(found)])
    if worst_status(found) == "fail":
        raise typer.Exit(1)


def _show(found: "list[Finding]", end: str) -> None:
    from rich.padding import Padding  # noqa: PLC0415 -- help needs no table
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from callsheet.server.cli import terminal  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for one in found:
        mark, colour = _MARKS[one.status]
        told = Text(terminal.without_control_chars(one.message))
        if one.remedy and one.status != "ok":
            told.append(f"\n→ {terminal.without_control_chars(one.remedy)}", "dim")
        grid.add_row(Text(mark, colour), one.part, told)
    where = terminal.console()
    where.print(Padding(grid, (1, 2)))
    where.print(Padding(Text(end, "bold"), (0, 2, 1, 2)))
