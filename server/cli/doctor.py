"""`callsheet doctor`: check everything the server needs, and name remedies."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from callsheet.server.cli import commands
from callsheet.server.cli.options import DataDir, Debug

if TYPE_CHECKING:
    from callsheet.server.operations.doctor import Finding

_MARKS: Final = {"ok": ("✔", "green"), "warn": ("!", "yellow"), "fail": ("✘", "red")}
_SUMMARIES: Final = {
    "ok": "All is well.",
    "warn": "It works; see the lines marked with !.",
    "fail": "It does not work yet: see the lines marked with ✘.",
}


def doctor(
    *,
    host: Annotated[str | None, typer.Option(help="Address of the server [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the server [2024].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Check everything the server needs, and name remedies.

    Checked are Python, packages, keys, settings, data, storage and the port.

    Exits with 1 if the server would not work.
    """
    with commands.report_errors(debug=debug):
        settings = commands.load_settings(data_dir, host=host, port=port)
        import asyncio  # noqa: PLC0415 -- help needs none of this
        import os  # noqa: PLC0415

        from callsheet.server.operations.doctor import diagnose, worst_status  # noqa: PLC0415

        findings = asyncio.run(diagnose(settings, os.environ))
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False, indent=2))
    else:
        _show(findings, _SUMMARIES[worst_status(findings)])
    if worst_status(findings) == "fail":
        raise typer.Exit(1)


def _show(findings: "list[Finding]", summary: str) -> None:
    from rich.padding import Padding  # noqa: PLC0415 -- help needs no table
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from callsheet.server.processes import terminal  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for finding in findings:
        mark, colour = _MARKS[finding.status]
        message = Text(terminal.without_control_chars(finding.message))
        if finding.remedy and finding.status != "ok":
            message.append(f"\n→ {terminal.without_control_chars(finding.remedy)}", "dim")
        grid.add_row(Text(mark, colour), finding.part, message)
    console = terminal.console()
    console.print(Padding(grid, (1, 2)))
    console.print(Padding(Text(summary, "bold"), (0, 2, 1, 2)))
