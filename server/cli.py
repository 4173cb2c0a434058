"""The `callsheet` command: `serve` starts the server, `ad` makes and refines an ad in the terminal.

What a command needs is imported when it runs, so that help and mistakes are answered at once.
"""

import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final

import typer
from typer.exceptions import TyperException

from state.errors import CallsheetError, Invalid

_STDIN: Final = "-"
_MOST_BYTES: Final = 1_000_000
"""Of a brief's file, like a request's body."""
_INTERRUPTED: Final = 130
"""What a shell expects of a command ended by Ctrl-C."""

app = typer.Typer(
    name="callsheet",
    help="Plans, writes and refines audio ads, and remembers every version.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the data; beats CALLSHEET_DATA_DIR and REDIS_URL.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]


class _Misused(TyperException):
    """Options that do not go together."""

    exit_code = 2


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for all well, 1 for an error, 2 for wrong usage, 130 after Ctrl-C.

    `args` are the process's own unless given.
    """
    if "--debug" not in (sys.argv if args is None else args):
        sys.excepthook = unforeseen
    try:
        # The bare command, because the Typer object would put its own hook in place of ours.
        code = typer.main.get_command(app).main(args, "callsheet", standalone_mode=False)
        sys.stdout.flush()
    except TyperException as wrong:
        _fail(wrong.format_message(), _usage(wrong))
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
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


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
    with _reported(debug=debug):
        settings = _settings(data_dir, host=host, port=port)
        from server import serving  # noqa: PLC0415 -- see above

        serving.serve(settings, _installed())


@app.command()
def ad(  # noqa: PLR0913 -- a command's options are its parameters
    *,
    said: Annotated[
        str | None,
        typer.Argument(
            metavar="[BRIEF|CHANGE]", help="The brief; after --thread what to change; - for stdin."
        ),
    ] = None,
    file: Annotated[str | None, typer.Option(help="Read it from this file, text or JSON.")] = None,
    thread: Annotated[str | None, typer.Option(help="Go on with this ad or conversation.")] = None,
    ad_id: Annotated[str | None, typer.Option(help="Id of the new ad [made up].")] = None,
    language: Annotated[str | None, typer.Option(help="Language of the ad [the brief's].")] = None,
    market: Annotated[str | None, typer.Option(help="Market of the ad [the brief's, else US].")] = None,
    duration: Annotated[
        float | None, typer.Option(help="Seconds of the spot [the brief's, else 30].")
    ] = None,
    provider: Annotated[str | None, typer.Option(help="Who writes: openai, offline … [by language].")] = None,
    model: Annotated[str | None, typer.Option(help="Which model, as provider/model.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the reply as the REST API gives it.")
    ] = False,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Make an ad from a brief, or refine one.

    callsheet ad "30 seconds for a bakery in Oslo that opens at six"

    callsheet ad --thread ID "make the music more upbeat"
    """
    if thread and ad_id:
        raise _Misused("--thread names an ad that is there, --ad-id a new one; give one of them")
    with _reported(debug=debug):
        given = _given(said, file)
        asked = {
            "said": given if thread else _brief(given, file or "the brief"),
            "thread": thread or "",
            "ad_id": ad_id if ad_id is not None else "" if thread else f"ad-{secrets.token_hex(5)}",
            "language": language,
            "market": market,
            "duration_s": duration,
            "context": {name: value for name, value in (("provider", provider), ("model", model)) if value},
        }
        try:
            _carry_out(asked, data_dir, as_json=as_json)
        except KeyboardInterrupt as stop:
            kept = str(asked["thread"] or asked["ad_id"])
            _fail("stopped; what was made so far is kept", f'go on with: callsheet ad --thread {kept} "…"')
            raise typer.Exit(_INTERRUPTED) from stop


def _carry_out(asked: Mapping[str, Any], data_dir: Path | None, *, as_json: bool) -> None:
    from server import terminal  # noqa: PLC0415 -- see above

    with terminal.ticking(terminal.console(stderr=True), quiet=as_json) as report:
        import asyncio  # noqa: PLC0415 -- the first step is on the screen before the slow imports

        from server import inprocess  # noqa: PLC0415

        turn = asyncio.run(inprocess.carried_out(inprocess.Wish(**asked), _settings(data_dir), report))
    if as_json:
        typer.echo(json.dumps(turn.reply, ensure_ascii=False, indent=2))
        return
    from server import sheet  # noqa: PLC0415

    sheet.show(terminal.console(), turn)


def _settings(data_dir: Path | None, **chosen: Any) -> Any:
    from server import settings  # noqa: PLC0415 -- see above

    found = settings.read(data_dir=data_dir, **chosen)
    # A folder named on the command line beats a server named in the environment.
    return found.model_copy(update={"redis_url": None}) if data_dir else found


def _given(said: str | None, file: str | None) -> str:
    if (said is None) == (file is None):
        raise _Misused('give the brief in quotes, or --file with a path, or "-" for stdin')
    if _STDIN in {said, file}:
        return _decoded(sys.stdin.buffer.read(_MOST_BYTES + 1), "stdin")
    # What is not UTF-8 on the command line arrives as characters that stand for its bytes.
    return (
        _decoded(_bytes(file), repr(file))
        if file is not None
        else _decoded(os.fsencode(str(said)), "the brief")
    )


def _bytes(path: str) -> bytes:
    try:
        with Path(path).expanduser().open("rb") as opened:
            return opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Invalid(
            f"file {path!r} cannot be read: {(error.strerror or str(error)).lower()}", remedy="check the path"
        ) from error


def _decoded(content: bytes, name: str) -> str:
    if len(content) > _MOST_BYTES:
        raise Invalid(f"{name} is over {_MOST_BYTES} bytes", remedy="shorten the brief")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{name} is not UTF-8 text: byte {error.start}", remedy="save it as UTF-8") from error


def _brief(text: str, name: str) -> object:
    """Return the brief that `text` holds: an object where it is JSON, else the text itself."""
    if not name.endswith(".json") and not text.lstrip().startswith("{"):
        return text
    from server.api import bodies  # noqa: PLC0415 -- see above

    try:
        return bodies.read(text.encode())
    except json.JSONDecodeError as error:
        where = f" in line {error.lineno}, column {error.colno}" if error.doc else ""
        raise Invalid(
            f"{name} is not JSON: {error.msg[0].lower()}{error.msg[1:]}{where}",
            remedy='write {"clientDescription": "who the ad is for and what it should say"}',
        ) from error


@contextmanager
def _reported(*, debug: bool) -> Iterator[None]:
    """Turn errors into two lines and an exit code."""
    try:
        yield
    except CallsheetError as error:
        if debug:
            raise
        _fail(error.message, error.remedy)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as stop:
        raise typer.Exit(_INTERRUPTED) from stop


def _fail(message: str, remedy: str) -> None:
    from server import terminal  # noqa: PLC0415 -- see above

    terminal.failed(terminal.console(stderr=True), message, remedy)


def _installed() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 -- see above

    try:
        return version("callsheet")
    except PackageNotFoundError:
        return "from source"


def _usage(wrong: TyperException) -> str:
    context = getattr(wrong, "ctx", None)
    return f"see {context.command_path if context else 'callsheet ad'} --help"


def unforeseen(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say in two lines what no code foresaw; in place of `sys.excepthook`."""
    del trace
    _fail(
        f"this should not have happened: {kind.__name__}: {error}", "run it again with --debug and report it"
    )


if __name__ == "__main__":
    main()
