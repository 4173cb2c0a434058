"""Shared parts of the commands about threads, runs and keys: storage, options and tables."""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from callsheet.server.cli import commands
from callsheet.state.times import iso_time

if TYPE_CHECKING:
    from rich.text import Text

    from callsheet.server.artefacts.archive import ThreadArchive
    from callsheet.storage.redis.connection import Storage

Item = TypeVar("Item")
Result = TypeVar("Result")
Id = Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.")]
Owner = Annotated[str, typer.Option(help="The owner; `local` without authentication.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def command_group(help_text: str) -> typer.Typer:
    """Return a group of commands; without a command it shows its help."""
    return typer.Typer(
        help=help_text,
        callback=commands.show_help_if_bare,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def with_storage(data_dir: Path | None, work: "Callable[[Storage], Awaitable[Result]]") -> Result:
    """Connect to storage and return the result of `work`."""
    import asyncio  # noqa: PLC0415 -- help needs no storage

    from callsheet.storage import connect  # noqa: PLC0415

    settings = commands.load_settings(data_dir)

    async def execute() -> Result:
        async with connect(settings.redis_url, settings.data_dir) as storage:
            return await work(storage)

    return asyncio.run(execute())


def with_archive(data_dir: Path | None, work: "Callable[[ThreadArchive], Awaitable[Result]]") -> Result:
    """Open the thread archive and return the result of `work`."""
    from contextlib import AsyncExitStack  # noqa: PLC0415 -- help needs no storage

    from callsheet.server.artefacts.archive import ThreadArchive  # noqa: PLC0415
    from callsheet.server.engine.graphs_file import read_graphs_file  # noqa: PLC0415
    from callsheet.server.engine.workflows import load_workflows  # noqa: PLC0415
    from callsheet.server.features import load_apis  # noqa: PLC0415
    from callsheet.server.settings.installation import installed_version  # noqa: PLC0415
    from callsheet.storage.checkpoints import RedisSaver  # noqa: PLC0415

    async def execute(storage: "Storage") -> Result:
        async with AsyncExitStack() as stack:
            saver = RedisSaver(storage.redis)
            stack.push_async_callback(saver.aclose)
            config = commands.load_settings(data_dir).config
            source = read_graphs_file(config) if config else None
            workflows = await load_workflows(source, stack)
            features = load_apis(workflows.graphs.keys())
            return await work(ThreadArchive(storage, saver, workflows, installed_version(), features))

    return with_storage(data_dir, execute)


def echo_json(value: Any) -> None:
    """Print JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(titles: Sequence[str], rows: "Sequence[Sequence[str | Text]]", empty: str) -> None:
    """Print one line per row under the titles, or `empty` without rows.

    A line may be longer than the terminal is wide, so that no id is broken or shortened.
    """
    from rich.text import Text  # noqa: PLC0415 -- help needs no table

    from callsheet.server.processes import terminal  # noqa: PLC0415

    console = terminal.console()
    if not rows:
        console.print(empty)
        return
    table = [[Text(title, "bold") for title in titles]]
    table += [
        [
            cell if isinstance(cell, Text) else Text(terminal.without_control_chars(cell).replace("\n", " "))
            for cell in row
        ]
        for row in rows
    ]
    widths = [max(cell.cell_len for cell in column) for column in zip(*table, strict=True)]
    for cells in table:
        for cell, width in zip(cells, widths, strict=True):
            cell.pad_right(width - cell.cell_len)
        line = Text("  ").join(cells)
        line.rstrip()
        console.print(line, soft_wrap=True)


def first_ones(items: list[Item], limit: int) -> list[Item]:
    """Return the first `limit` items, and say on stderr if there are more."""
    if len(items) > limit:
        typer.echo(f"These are the first {limit}; see more with --limit.", err=True)
    return items[:limit]


def short_time(ms: int, characters: int) -> str:
    """Return a time for a table: 16 characters to the minute, 19 to the second."""
    return iso_time(ms)[:characters].replace("T", " ")
