"""Behaviour that all commands share: settings, progress, and errors as two lines with an exit code."""

import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer
from typer.exceptions import TyperException

from callsheet.state.errors import CallsheetError

if TYPE_CHECKING:
    from callsheet.server.processes.terminal import OnProgress
    from callsheet.server.settings.settings import Settings

Result = TypeVar("Result")

GRAPHS_FILE: Final = "langgraph.json"
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells expect it."""


class UsageError(TyperException):
    """Arguments that do not go together."""

    exit_code = 2

    def __init__(self, message: str, command: str) -> None:
        """`command` is the one whose help explains the arguments."""
        super().__init__(message)
        self.command = command


@contextmanager
def report_errors(*, debug: bool) -> Iterator[None]:
    """Turn errors into two lines and an exit code; with `debug` into a traceback."""
    try:
        yield
    except CallsheetError as error:
        if debug:
            raise
        fail(error.message, error.remedy)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as stop:
        raise typer.Exit(INTERRUPTED) from stop


@contextmanager
def report_interruption(command: str, name: str, data_dir: Path | None) -> Iterator[None]:
    """After Ctrl-C, name the command that continues `name`."""
    from callsheet.server.cli.text_input import resume_command  # noqa: PLC0415 -- help needs no input

    try:
        yield
    except KeyboardInterrupt as stop:
        resume = resume_command(command, name, data_dir)
        fail("stopped; everything made so far is kept", f'continue with: {resume} "…"')
        raise typer.Exit(INTERRUPTED) from stop


def run_with_progress(
    execute: "Callable[[OnProgress], Coroutine[Any, Any, Result]]", *, quiet: bool
) -> "Result":
    """Return the result of `execute`; show its steps as they happen unless `quiet`."""
    # `execute` imports what it needs, so that the first step is on the screen before slow imports.
    from callsheet.server.processes import terminal  # noqa: PLC0415

    with terminal.show_progress(terminal.console(stderr=True), quiet=quiet) as report:
        import asyncio  # noqa: PLC0415

        return asyncio.run(execute(report))


def show_help_if_bare(context: typer.Context) -> None:
    """Show the help of a group that was called without a command."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def ask(prompt: "Callable[[], Result]", remedy: str) -> "Result":
    """Return a person's answer; raise `Invalid` with the remedy if nobody can answer, as through a pipe."""
    from callsheet.state.errors import Invalid  # noqa: PLC0415 -- rarely needed

    try:
        return prompt()
    except typer.Abort:
        typer.echo(err=True)
        if sys.stdin.isatty():
            raise KeyboardInterrupt from None
        raise Invalid("nobody is there to answer", remedy=remedy) from None


def confirm(actions: Iterable[Mapping[str, Any]], remedy: str) -> bool:
    """Show actions that need approval and return a person's yes or no; raise as `ask`."""
    # Rich is slow to import, and most commands do not ask.
    from callsheet.server.cli import layout  # noqa: PLC0415
    from callsheet.server.processes import terminal  # noqa: PLC0415

    layout.print_question(terminal.console(stderr=True), actions)
    return ask(lambda: typer.confirm("  Shall I?", default=False, err=True), remedy)


def fail(message: str, remedy: str) -> None:
    """Print an error and its remedy to stderr."""
    # Rich is slow to import, and most commands do not fail.
    from callsheet.server.processes import terminal  # noqa: PLC0415

    terminal.show_error(terminal.console(stderr=True), message, remedy)


def load_settings(data_dir: Path | None, **options: Any) -> "Settings":
    """Return the settings; a data folder on the command line beats a Redis URL in the environment."""
    # Pydantic is slow to import, and help does not need it.
    from callsheet.server.settings.settings import read_settings  # noqa: PLC0415

    settings = read_settings(data_dir=data_dir, **options)
    changes: dict[str, Any] = {"redis_url": None} if data_dir else {}
    if settings.config is None:
        changes["config"] = _project_config()
    return settings.model_copy(update=changes)


def _project_config() -> Path | None:
    """Return the working folder's langgraph.json, as LangGraph's own tools use it; None without one."""
    packaged = Path(__file__).parents[2] / GRAPHS_FILE
    project = Path(GRAPHS_FILE)
    if not project.is_file() or (packaged.exists() and project.samefile(packaged)):
        return None
    return project.resolve()
