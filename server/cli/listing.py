"""What the commands about threads, runs and keys share: storage at hand, and how what is there is shown."""

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer

from callsheet.server.cli import commands

if TYPE_CHECKING:
    from rich.text import Text

    from callsheet.server.artefacts.archive import ThreadArchive
    from callsheet.storage.redis.connection import Storage

Result = TypeVar("Result")
_SHORT: Final = 19
"""Characters of a time to the second; what is no longer stays on one line where the terminal is narrow."""
Id = Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.")]
Owner = Annotated[str, typer.Option(help="Whose; `local` where nobody is asked who they are.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def command_group(about: str) -> typer.Typer:
    """Return a group of commands, which shows its help where none of them is asked for."""
    return typer.Typer(
        help=about,
        callback=commands.show_help_if_bare,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def with_storage(data_dir: Path | None, work: "Callable[[Storage], Awaitable[Result]]") -> Result:
    """Return what `work` does with storage."""
    import asyncio  # noqa: PLC0415 -- help needs no storage

    from callsheet.storage import connect  # noqa: PLC0415

    chosen = commands.load_settings(data_dir)

    async def connected() -> Result:
        async with connect(chosen.redis_url, chosen.data_dir) as storage:
            return await work(storage)

    return asyncio.run(connected())


def with_archive(data_dir: Path | None, work: "Callable[[ThreadArchive], Awaitable[Result]]") -> Result:
    """Return what `work` does with the threads in storage."""
    from contextlib import AsyncExitStack  # noqa: PLC0415 -- help needs no storage

    from callsheet.server import bootstrap  # noqa: PLC0415
    from callsheet.server.app import installed_version  # noqa: PLC0415
    from callsheet.server.artefacts.archive import ThreadArchive  # noqa: PLC0415
    from callsheet.server.runtime.graphs_file import read_graphs_file  # noqa: PLC0415
    from callsheet.storage.checkpoints import RedisSaver  # noqa: PLC0415

    async def shelved(storage: "Storage") -> Result:
        async with AsyncExitStack() as stack:
            saver = RedisSaver(storage.redis)
            stack.push_async_callback(saver.aclose)
            config = commands.load_settings(data_dir).config
            source = read_graphs_file(config) if config else None
            workflows = await bootstrap.load_workflows(source, stack)
            return await work(ThreadArchive(storage, saver, workflows, installed_version()))

    return with_storage(data_dir, shelved)


def echo_json(value: Any) -> None:
    """Print JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(titles: Sequence[str], rows: "Sequence[Sequence[str | Text]]", none: str) -> None:
    """Print rows under their titles, or `none` where there are none."""
    from rich.table import Table  # noqa: PLC0415 -- help needs no table

    from callsheet.server.cli import terminal  # noqa: PLC0415

    where = terminal.console()
    if not rows:
        where.print(none)
        return
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for at, title in enumerate(titles):
        short = all(len(row[at]) <= _SHORT for row in rows)
        drawn.add_column(title, overflow="fold", no_wrap=short)
    for row in rows:
        drawn.add_row(
            *(terminal.without_control_chars(cell) if isinstance(cell, str) else cell for cell in row)
        )
    where.print(drawn)


def iso(ms: int, parts: Literal["milliseconds", "seconds"] = "milliseconds") -> str:
    """Return a time of storage (milliseconds since 1970) as ISO 8601 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec=parts)


def short_time(ms: int, characters: int) -> str:
    """Return as many characters of a time as a table needs: 16 for minutes, 19 for seconds."""
    return iso(ms)[:characters].replace("T", " ")
