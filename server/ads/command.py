"""`callsheet ad`: make an ad from a brief, or refine one, in the terminal."""

import json
import secrets
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from callsheet.server.cli import commands, text_input
from callsheet.server.cli.options import DataDir, Debug, Model, ReplyJson, model_context, takes_options
from callsheet.server.processes import terminal
from callsheet.state.errors import Invalid

if TYPE_CHECKING:
    from callsheet.server.ads.terminal_session import AdCliTurn

_TEXT: Final = "The brief; with --thread the change; - for stdin."
_LENGTH: Final = "Length of the spot in seconds [the brief's, else 30]."
_REQUEST_FIELDS: Final = ("language", "market", "duration")


@dataclass(frozen=True)
class AdOptions:
    """The options of `callsheet ad`; the help shows the default in brackets."""

    text: Annotated[str | None, typer.Argument(metavar="BRIEF", help=_TEXT)] = None
    file: Annotated[str | None, typer.Option(help="Read the brief from this file, text or JSON.")] = None
    thread: Annotated[str | None, typer.Option(help="Continue this ad or conversation.")] = None
    ad_id: Annotated[str | None, typer.Option(help="Id of the new ad [a random one].")] = None
    language: Annotated[str | None, typer.Option(help="Language of the ad [the brief's].")] = None
    market: Annotated[str | None, typer.Option(help="Market of the ad [the brief's, else US].")] = None
    duration: Annotated[float | None, typer.Option(help=_LENGTH)] = None
    provider: Annotated[str | None, typer.Option(help="Provider: openai, offline … [by language].")] = None
    model: Model = None
    as_json: ReplyJson = False
    data_dir: DataDir = None
    debug: Debug = False


@takes_options(AdOptions)
def ad(options: AdOptions) -> None:
    """Make an ad from a brief, or refine one.

    callsheet ad "30 seconds for Miel, a bakery in Lyon that opens at six"

    callsheet ad --thread ID "make the music more upbeat"
    """
    if options.thread and options.ad_id:
        raise commands.UsageError("--thread names an existing ad, --ad-id a new one; give one of them", "ad")
    if (options.text is None) == (options.file is None):
        raise commands.UsageError('give the brief in quotes, or --file with a path, or "-" for stdin', "ad")
    with commands.report_errors(debug=options.debug):
        request = _request(options)
        name = request["thread"] or request["ad_id"]
        with commands.report_interruption("ad --thread", name, options.data_dir):
            _show(_converse(request, options), options)


def _request(options: AdOptions) -> dict[str, Any]:
    """Return the options as fields of a `CliRequest`."""
    text = text_input.read_text(options.text, options.file, "the message" if options.thread else "the brief")
    content, brief_id = (text, "") if options.thread else _parse_brief(text, options.file)
    default_id = "" if options.thread else brief_id or f"ad-{secrets.token_hex(5)}"
    return {
        "content": content,
        "thread": options.thread or "",
        "ad_id": default_id if options.ad_id is None else options.ad_id,
        "language": options.language,
        "market": options.market,
        "duration_s": options.duration,
        "context": model_context(options.provider, options.model),
    }


def _parse_brief(text: str, file: str | None) -> tuple[object, str]:
    """Return the brief in `text`, an object if it is JSON, and the ad's id if it names one.

    The body of `POST /api/ai/generate` is accepted, too. Raises `Invalid` for malformed JSON.
    """
    if not (file or "").endswith(".json") and not text.lstrip().startswith("{"):
        return text, ""
    value = _parse_json(text, file)
    if not isinstance(value, Mapping) or not isinstance(value.get("brief"), Mapping):
        return value, ""
    # The request's own fields win over those of its brief.
    fields = {name: value[name] for name in _REQUEST_FIELDS if value.get(name) is not None}
    return {**value["brief"], **fields}, str(value.get("adId", ""))


def _parse_json(text: str, file: str | None) -> object:
    from callsheet.server.http import requests  # noqa: PLC0415 -- FastAPI is slow to import; a text needs none

    try:
        return requests.parse_json(text.encode())
    except json.JSONDecodeError as error:
        name = f"file {file!r}" if file else "the brief"
        position = f" in line {error.lineno}, column {error.colno}" if error.doc else ""
        raise Invalid(
            f"{name} is not JSON: {error.msg[0].lower()}{error.msg[1:]}{position}",
            remedy='write {"clientDescription": "who the ad is for and what it should say"}',
        ) from error


def _converse(request: Mapping[str, Any], options: AdOptions) -> "AdCliTurn":
    """Execute the message's turn and, while a question is pending, one for each answer in the terminal."""
    turn = _execute(request, options)
    while (question := turn.reply["question"]) and sys.stdin.isatty() and not options.as_json:
        yes = commands.confirm(question["actions"], "answer with --thread and yes or no")
        answer = {"content": "yes" if yes else "no", "thread": turn.reply["conversationId"]}
        turn = _execute({**answer, "context": request["context"]}, options)
    return turn


def _execute(request: Mapping[str, Any], options: AdOptions) -> "AdCliTurn":
    def execute(report: Any) -> "Coroutine[Any, Any, AdCliTurn]":
        from callsheet.server.ads import terminal_session  # noqa: PLC0415 -- progress is shown before slow imports

        settings = commands.load_settings(options.data_dir)
        return terminal_session.run(terminal_session.AdCliRequest(**request), settings, report)

    return commands.run_with_progress(execute, quiet=options.as_json)


def _show(turn: "AdCliTurn", options: AdOptions) -> None:
    if options.as_json:
        typer.echo(json.dumps(turn.reply, ensure_ascii=False, indent=2))
        return
    from callsheet.server.ads import rendering  # noqa: PLC0415 -- slow to import

    rendering.show(terminal.console(), turn, options.data_dir)
