"""`callsheet ask`: a question about an ad library, and the import of one, in the terminal."""

import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from callsheet.server.campaigns import rendering
from callsheet.server.cli import commands, text_input
from callsheet.server.cli.options import DataDir, Debug, Model, ReplyJson, model_context, takes_options
from callsheet.server.processes import terminal

_TEXT: Final = "The question; - for stdin; may be omitted with --import."
_THREAD: Final = "Go on with this conversation [a new one]."
_IMPORT: Final = "Import a CSV, JSON or Excel file into your library first."
_PROVIDER: Final = "Provider: openai, offline … [one that has a key]."


@dataclass(frozen=True)
class AskOptions:
    """The options of `callsheet ask`; the help shows the default in brackets."""

    text: Annotated[str | None, typer.Argument(metavar="TEXT", help=_TEXT)] = None
    thread: Annotated[str | None, typer.Option(help=_THREAD)] = None
    file: Annotated[str | None, typer.Option("--import", metavar="FILE", help=_IMPORT)] = None
    strict: Annotated[bool, typer.Option("--all-or-nothing", help="Refuse a file with a wrong row.")] = False
    provider: Annotated[str | None, typer.Option(help=_PROVIDER)] = None
    model: Model = None
    as_json: ReplyJson = False
    data_dir: DataDir = None
    debug: Debug = False


@takes_options(AskOptions)
def ask(options: AskOptions) -> None:
    """Ask about an ad library, your own or the sample one.

    callsheet ask "what are the offers from cash back, premium campaigns"

    callsheet ask --import campaigns.csv
    """
    if options.text is None and options.file is None:
        raise commands.UsageError("give a question in quotes, or a file with --import", "ask")
    with commands.report_errors(debug=options.debug):
        reply = _execute(options)
        _show(reply, options)
        if "import" in reply and not reply["import"]["imported"]:
            raise typer.Exit(1)


def _execute(options: AskOptions) -> Mapping[str, Any]:
    def execute(report: Any) -> "Coroutine[Any, Any, Mapping[str, Any]]":
        from callsheet.server.campaigns import terminal_session  # noqa: PLC0415 -- progress is shown before slow imports

        text = text_input.read_text(options.text, None, "the question") if options.text is not None else None
        request = terminal_session.CampaignCliRequest(
            text,
            options.thread,
            options.file,
            strict=options.strict,
            context=model_context(options.provider, options.model),
        )
        return terminal_session.run(request, commands.load_settings(options.data_dir), report)

    return commands.run_with_progress(execute, quiet=options.as_json)


def _show(reply: Mapping[str, Any], options: AskOptions) -> None:
    if options.as_json:
        typer.echo(json.dumps(reply, ensure_ascii=False, indent=2))
        return
    rendering.show(terminal.console(), reply, options.data_dir)
