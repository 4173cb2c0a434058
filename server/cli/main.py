"""The `callsheet` command: `serve` starts the server, `ad` makes ads here, the others look after both.

What a command needs is imported when it runs, so that help and mistakes are answered at once.
"""

import json
import os
import secrets
import sys
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.exceptions import TyperException

from callsheet.server.cli import commands, keys, lessons, pages, run, runs, text_input, threads
from callsheet.server.cli import doctor as cli_doctor
from callsheet.server.cli.options import AdOptions, DataDir, Debug, takes_options

if TYPE_CHECKING:
    from callsheet.server.ads.terminal_session import CliTurn

app = typer.Typer(
    name="callsheet",
    help="Plans, writes and refines audio ads, lessons and landing pages, and remembers every version.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.add_typer(threads.app, name="threads")
app.add_typer(runs.app, name="runs")
app.add_typer(keys.app, name="keys")


class _Misused(TyperException):
    """Options that do not go together."""

    exit_code = 2


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for all well, 1 for an error, 2 for wrong usage, 130 after Ctrl-C.

    `args` are the process's own unless given.
    """
    if "--debug" not in (sys.argv if args is None else args):
        sys.excepthook = report_unexpected
    try:
        # The bare command, because the Typer object would put its own hook in place of ours.
        code = typer.main.get_command(app).main(args, "callsheet", standalone_mode=False)
        sys.stdout.flush()
    except TyperException as wrong:
        commands.fail(wrong.format_message(), _usage(wrong))
        code = wrong.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain when it flushes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,  # noqa: FBT002 -- a flag
) -> None:
    if version:
        typer.echo(f"callsheet {_installed()}")
        raise typer.Exit
    commands.show_help_if_bare(context)


@app.command()
def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on, 0 for any that is free [2024].")
    ] = None,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Start the server: REST under /api, documentation under /docs."""
    with commands.report_errors(debug=debug):
        settings = commands.load_settings(data_dir, host=host, port=port)
        from callsheet.server.http import serving  # noqa: PLC0415 -- see above

        serving.serve(settings, _installed())


@app.command()
def worker(*, data_dir: DataDir = None, debug: Debug = False) -> None:
    """Carry out a server's runs, beside it or on another machine. Both use the same data."""
    with commands.report_errors(debug=debug):
        settings = commands.load_settings(data_dir)
        from callsheet.server.runtime import worker_process  # noqa: PLC0415 -- see above

        worker_process.run_worker(settings)


@app.command()
@takes_options(AdOptions)
def ad(options: AdOptions) -> None:
    """Make an ad from a brief, or refine one.

    callsheet ad "30 seconds for a bakery in Oslo that opens at six"

    callsheet ad --thread ID "make the music more upbeat"
    """
    if options.thread and options.ad_id:
        raise _Misused("--thread names an ad that is there, --ad-id a new one; give one of them")
    if (options.said is None) == (options.file is None):
        raise _Misused('give the brief in quotes, or --file with a path, or "-" for stdin')
    with commands.report_errors(debug=options.debug):
        asked = _asked(options)
        try:
            _carry_out(asked, options)
        except KeyboardInterrupt as stop:
            again = text_input.resume_command(
                "ad --thread", asked["thread"] or asked["ad_id"], options.data_dir
            )
            commands.fail("stopped; what was made so far is kept", f'go on with: {again} "…"')
            raise typer.Exit(commands.INTERRUPTED) from stop


app.command()(run.run)
app.command()(lessons.lesson)
app.command()(pages.page)
app.command()(cli_doctor.doctor)


def _asked(options: AdOptions) -> dict[str, Any]:
    """Return the options as fields of an `inprocess.Wish`."""
    text = text_input.read_text(options.said, options.file, "the message" if options.thread else "the brief")
    said, named = (text, "") if options.thread else text_input.parse_brief(text, options.file)
    made_up = "" if options.thread else named or f"ad-{secrets.token_hex(5)}"
    chosen = {"provider": options.provider, "model": options.model}
    return {
        "said": said,
        "thread": options.thread or "",
        "ad_id": made_up if options.ad_id is None else options.ad_id,
        "language": options.language,
        "market": options.market,
        "duration_s": options.duration,
        "context": {name: value for name, value in chosen.items() if value},
    }


def _carry_out(asked: Mapping[str, Any], options: AdOptions) -> None:
    def begun(report: Any) -> "Coroutine[Any, Any, CliTurn]":
        from callsheet.server.ads import terminal_session  # noqa: PLC0415 -- the first step is shown before slow imports

        wish, settings = terminal_session.CliRequest(**asked), commands.load_settings(options.data_dir)
        return terminal_session.run(wish, settings, report)

    turn = commands.run_with_progress(begun, quiet=options.as_json)
    if options.as_json:
        typer.echo(json.dumps(turn.reply, ensure_ascii=False, indent=2))
        return
    from callsheet.server.cli import ad_rendering, terminal  # noqa: PLC0415 -- see above

    ad_rendering.show(terminal.console(), turn, options.data_dir)


def _installed() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 -- see above

    try:
        return version("callsheet")
    except PackageNotFoundError:
        return "from source"


def _usage(wrong: TyperException) -> str:
    context = getattr(wrong, "ctx", None)
    return f"see {context.command_path if context else 'callsheet ad'} --help"


def report_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say in two lines what no code foresaw; in place of `sys.excepthook`."""
    del trace
    commands.fail(
        f"this should not have happened: {kind.__name__}: {error}", "run it again with --debug and report it"
    )


if __name__ == "__main__":
    main()
