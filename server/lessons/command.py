"""`callsheet lesson`: find facts in a text, choose among them and narrate them, in the terminal."""

import json
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from callsheet.server.cli import commands, text_input
from callsheet.server.cli.options import DataDir, Debug, Model, ReplyJson, model_context, takes_options
from callsheet.server.lessons import rendering
from callsheet.server.processes import terminal

Reply = Mapping[str, Any]
_TEXT: Final = "The material, the student, or a change; - for stdin."
_CHOICE: Final = 'The facts to narrate: all, 1 and 3, "all but the third" [asked in the terminal].'
_REVIEW: Final = "Ask for approval of each narration [no]."
_IMAGES: Final = "Search images for the narration, and ask which to use [no]."
_PROVIDER: Final = "Provider: openai, offline … [one that has a key]."


@dataclass(frozen=True)
class LessonOptions:
    """The options of `callsheet lesson`; the help shows the default in brackets."""

    text: Annotated[str | None, typer.Argument(metavar="TEXT", help=_TEXT)] = None
    file: Annotated[str | None, typer.Option(help="The material: a PDF or a text file.")] = None
    lesson: Annotated[str | None, typer.Option(help="Continue this lesson [a new one].")] = None
    choose: Annotated[str | None, typer.Option(help=_CHOICE)] = None
    review: Annotated[bool | None, typer.Option("--review/--no-review", help=_REVIEW)] = None
    images: Annotated[bool | None, typer.Option("--images/--no-images", help=_IMAGES)] = None
    provider: Annotated[str | None, typer.Option(help=_PROVIDER)] = None
    model: Model = None
    as_json: ReplyJson = False
    data_dir: DataDir = None
    debug: Debug = False


@takes_options(LessonOptions)
def lesson(options: LessonOptions) -> None:
    """Make a narrated lesson from a text or a PDF, or continue one.

    callsheet lesson --file chapter.pdf "My student is 10 and loves soccer"

    callsheet lesson --lesson ID "make the hook shorter"
    """
    if options.text is None and options.file is None:
        raise commands.UsageError(
            'give the material in quotes, or --file with a path, or "-" for stdin', "lesson"
        )
    with (
        commands.report_errors(debug=options.debug),
        commands.report_interruption("lesson --lesson", options.lesson or "ID", options.data_dir),
    ):
        _show(_converse(options), options)


def _converse(options: LessonOptions) -> Reply:
    """Execute the first turn and, while a question is pending, one for each answer."""
    reply = _execute(options, **_first_request(options))
    choice = options.choose
    while reply["interrupt"]:
        if choice and not rendering.is_about_budget(reply):
            answer, choice = choice, None
        else:
            answer = _ask(reply) if sys.stdin.isatty() and not options.as_json else ""
        if not answer:
            break
        reply = _execute(options, message=answer, lesson=reply["sessionId"])
    return reply


def _first_request(options: LessonOptions) -> dict[str, Any]:
    """Return the options as fields of a `CliRequest`."""
    message = "" if options.text is None else text_input.read_text(options.text, None, "the message")
    request = {
        "message": message,
        "lesson": options.lesson or "",
        "review": options.review,
        "images": options.images,
    }
    if options.file is None:
        return request
    return {**request, "file": Path(options.file).name, "content": text_input.read_bytes(options.file)}


def _execute(options: LessonOptions, **request: Any) -> Reply:
    def execute(report: Any) -> Coroutine[Any, Any, Reply]:
        from callsheet.server.lessons import terminal_session  # noqa: PLC0415 -- progress is shown before slow imports

        context = model_context(options.provider, options.model)
        settings = commands.load_settings(options.data_dir)
        return terminal_session.run(
            terminal_session.LessonCliRequest(**request, context=context), settings, report
        )

    return commands.run_with_progress(execute, quiet=options.as_json)


def _ask(reply: Reply) -> str:
    """Return a person's answer; empty to leave the question pending."""
    rendering.show_question(terminal.console(stderr=True), reply)
    answer = commands.ask(
        lambda: typer.prompt("  Your answer", default="", show_default=False, err=True, type=str),
        "answer with --choose",
    )
    return str(answer).strip()


def _show(reply: Reply, options: LessonOptions) -> None:
    if options.as_json:
        typer.echo(json.dumps(reply, ensure_ascii=False, indent=2))
        return
    rendering.show(terminal.console(), reply, options.data_dir)
