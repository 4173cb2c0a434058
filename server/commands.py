"""What every command does: settings read, and errors told in two lines with an exit code."""

import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from state.errors import CallsheetError

if TYPE_CHECKING:
    from server.settings import Settings
    from server.terminal import Report

Result = TypeVar("Result")

INTERRUPTED: Final = 130
"""What a shell expects of a command ended by Ctrl-C."""


@contextmanager
def reported(*, debug: bool) -> Iterator[None]:
    """Turn errors into two lines and an exit code."""
    try:
        yield
    except CallsheetError as error:
        if debug:
            raise
        fail(error.message, error.remedy)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as stop:
        raise typer.Exit(INTERRUPTED) from stop


def ran(begun: "Callable[[Report], Coroutine[Any, Any, Result]]", *, quiet: bool) -> "Result":
    """Return what an errand gives, its steps shown as they happen unless `quiet`."""
    # What the errand needs is imported by `begun`, so that the first step is on the screen before.
    from server import terminal  # noqa: PLC0415

    with terminal.ticking(terminal.console(stderr=True), quiet=quiet) as report:
        import asyncio  # noqa: PLC0415

        return asyncio.run(begun(report))


def helped(context: typer.Context) -> None:
    """Show the help where no command of a group is asked for."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def answered(question: "Callable[[], Result]", remedy: str) -> "Result":
    """Return what a person answers; raises `Invalid` with the remedy where nobody can, as through a pipe."""
    from state.errors import Invalid  # noqa: PLC0415 -- with the rest

    try:
        return question()
    except typer.Abort:
        typer.echo(err=True)
        if sys.stdin.isatty():
            raise KeyboardInterrupt from None
        raise Invalid("nobody is there to answer", remedy=remedy) from None


def fail(message: str, remedy: str) -> None:
    """Write an error to stderr: what is wrong, and what to do."""
    # Rich takes its time, and most commands do not fail.
    from server import terminal  # noqa: PLC0415

    terminal.failed(terminal.console(stderr=True), message, remedy)


def settings(data_dir: Path | None, **chosen: Any) -> "Settings":
    """Return the settings in force; a folder named on the command line beats a server in the environment."""
    # Pydantic takes its time, and help needs none of it.
    from server.settings import read  # noqa: PLC0415

    found = read(data_dir=data_dir, **chosen)
    return found.model_copy(update={"redis_url": None}) if data_dir else found
