"""The `callsheet` command.

A command imports what it needs when it runs, so that help and usage errors appear at once.
"""

import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Annotated

import typer
from typer.exceptions import TyperException

from callsheet.server.cli import commands, keys, run, runs, threads
from callsheet.server.cli import doctor as cli_doctor
from callsheet.server.cli.options import DataDir, Debug
from callsheet.server.features import FEATURES


def _summary(titles: Sequence[str]) -> str:
    *others, last = titles
    return f"Make and refine {', '.join(others)} and {last}; every version is kept."


app = typer.Typer(
    name="callsheet",
    help=_summary([feature.title for feature in FEATURES.values()]),
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 1 for an error, 2 for wrong usage, 130 after Ctrl-C.

    `args` default to the process's own.
    """
    if "--debug" not in (sys.argv if args is None else args):
        sys.excepthook = report_unexpected
    try:
        # The bare command, because the Typer object would replace our excepthook.
        code = typer.main.get_command(app).main(args, "callsheet", standalone_mode=False)
        sys.stdout.flush()
    except TyperException as error:
        commands.fail(error.format_message(), _usage(error))
        code = error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone; Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,  # noqa: FBT002 -- a flag
) -> None:
    if version:
        typer.echo(f"callsheet {_installed_version()}")
        raise typer.Exit
    commands.show_help_if_bare(context)


@app.command()
def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for any free one [2024].")] = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Start the server: REST under /api, documentation under /docs."""
    with commands.report_errors(debug=debug):
        settings = commands.load_settings(data_dir, host=host, port=port)
        from callsheet.server.processes import serving  # noqa: PLC0415 -- see above

        serving.serve(settings, _installed_version())


@app.command()
def worker(*, data_dir: DataDir = None, debug: Debug = False) -> None:
    """Execute runs of a server, on this or another machine. Both must use the same data."""
    with commands.report_errors(debug=debug):
        settings = commands.load_settings(data_dir)
        from callsheet.server.processes import worker as worker_process  # noqa: PLC0415 -- see above

        worker_process.run_worker(settings)


app.command()(run.run)
for _feature in FEATURES.values():
    app.command()(_feature.load_command())
app.command()(cli_doctor.doctor)
app.add_typer(threads.app, name="threads")
app.add_typer(runs.app, name="runs")
app.add_typer(keys.app, name="keys")


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 -- see above

    try:
        return version("callsheet")
    except PackageNotFoundError:
        return "from source"


def _usage(error: TyperException) -> str:
    if isinstance(error, commands.UsageError):
        return f"see callsheet {error.command} --help"
    context = getattr(error, "ctx", None)
    return f"see {context.command_path if context else 'callsheet'} --help"


def report_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an unexpected exception in two lines, in place of `sys.excepthook`."""
    del trace
    commands.fail(
        f"this should not have happened: {kind.__name__}: {error}", "run it again with --debug and report it"
    )


if __name__ == "__main__":
    main()
