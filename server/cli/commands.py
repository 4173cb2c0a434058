"""What every command does: settings read, and errors told in two lines with an exit code."""

import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from callsheet.state.errors import CallsheetError

if TYPE_CHECKING:
    from callsheet.server.cli.terminal import OnProgress
    from callsheet.server.settings import Settings

Result = TypeVar("Result")

GRAPHS_FILE: Final = "langgraph.json"
INTERRUPTED: Final = 130
"""What a shell expects of a command ended by Ctrl-C."""


@contextmanager
def report_errors(*, debug: bool) -> Iterator[None]:
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


def run_with_progress(
    begun: "Callable[[OnProgress], Coroutine[Any, Any, Result]]", *, quiet: bool
) -> "Result":
    """Return what an errand gives, its steps shown as they happen unless `quiet`."""
    # What the errand needs is imported by `begun`, so that the first step is on the screen before.
    from callsheet.server.cli import terminal  # noqa: PLC0415

    with terminal.show_progress(terminal.console(stderr=True), quiet=quiet) as report:
        import asyncio  # noqa: PLC0415

        return asyncio.run(begun(report))


def show_help_if_bare(context: typer.Context) -> None:
    """Show the help where no command of a group is asked for."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def ask(question: "Callable[[], Result]", remedy: str) -> "Result":
    """Return what a person answers; raises `Invalid` with the remedy where nobody can, as through a pipe."""
    from callsheet.state.errors import Invalid  # noqa: PLC0415 -- with the rest

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
    from callsheet.server.cli import terminal  # noqa: PLC0415

    terminal.show_error(terminal.console(stderr=True), message, remedy)


def load_settings(data_dir: Path | None, **chosen: Any) -> "Settings":
    """Return the settings in force; a folder named on the command line beats a server in the environment."""
    # Pydantic takes its time, and help needs none of it.
    from callsheet.server.settings import read_settings  # noqa: PLC0415

    settings = read_settings(data_dir=data_dir, **chosen)
    changes: dict[str, Any] = {"redis_url": None} if data_dir else {}
    if settings.config is None:
        changes["config"] = _project_config()
    return settings.model_copy(update=changes)


def _project_config() -> Path | None:
    """Return the langgraph.json of the working folder, as LangGraph's own tools take it; None without one."""
    packaged = Path(__file__).parents[2] / GRAPHS_FILE
    project = Path(GRAPHS_FILE)
    if not project.is_file() or (packaged.exists() and project.samefile(packaged)):
        return None
    return project.resolve()
