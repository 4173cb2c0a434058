"""`callsheet lesson`: facts out of a text, a choice among them, and their narration, in the terminal."""

import json
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import typer

from callsheet.server.cli import commands, text_input
from callsheet.server.cli.options import LessonOptions, takes_options

Reply = Mapping[str, Any]


@takes_options(LessonOptions)
def lesson(options: LessonOptions) -> None:
    """Make a narrated lesson of a text or a PDF, or go on with one.

    callsheet lesson --file chapter.pdf "My student is 10 and loves soccer"

    callsheet lesson --lesson ID "make the hook shorter"
    """
    if options.said is None and options.file is None:
        raise typer.BadParameter('give the material in quotes, or --file with a path, or "-" for stdin')
    with commands.report_errors(debug=options.debug):
        try:
            _turns(options)
        except KeyboardInterrupt as stop:
            again = text_input.resume_command("lesson --lesson", options.lesson or "ID", options.data_dir)
            commands.fail("stopped; what was made so far is kept", f'go on with: {again} "…"')
            raise typer.Exit(commands.INTERRUPTED) from stop


def _turns(options: LessonOptions) -> None:
    """Carry out what was said and, while a question waits, what is answered."""
    reply = _carried_out(options, **_first(options))
    answer = options.choose
    while reply["interrupt"] and (answer or (sys.stdin.isatty() and not options.as_json)):
        answer = answer or _asked(reply)
        if not answer:
            break
        reply, answer = _carried_out(options, said=answer, lesson=reply["sessionId"]), None
    _shown(reply, options)


def _first(options: LessonOptions) -> dict[str, Any]:
    said = "" if options.said is None else text_input.read_text(options.said, None, "the message")
    first = {"said": said, "lesson": options.lesson or "", "review": options.review, "images": options.images}
    if options.file is None:
        return first
    return {**first, "file": Path(options.file).name, "content": text_input.read_bytes(options.file)}


def _carried_out(options: LessonOptions, **wish: Any) -> Reply:
    chosen = {"provider": options.provider, "model": options.model}
    context: Any = {key: value for key, value in chosen.items() if value}

    def begun(report: Any) -> Coroutine[Any, Any, Reply]:
        from callsheet.server.lessons import terminal_session  # noqa: PLC0415 -- the first step is shown before slow imports

        settings = commands.load_settings(options.data_dir)
        return terminal_session.run(terminal_session.CliRequest(**wish, context=context), settings, report)

    return commands.run_with_progress(begun, quiet=options.as_json)


def _asked(reply: Reply) -> str:
    """Return what a person answers; empty where they leave the question for later."""
    from callsheet.server.cli import lesson_rendering as lesson_sheet  # noqa: PLC0415 -- see above
    from callsheet.server.cli import terminal  # noqa: PLC0415 -- see above

    lesson_sheet.show_question(terminal.console(stderr=True), reply)
    answer = commands.ask(
        lambda: typer.prompt("  Your answer", default="", show_default=False, err=True, type=str),
        "answer with --choose",
    )
    return str(answer).strip()


def _shown(reply: Reply, options: LessonOptions) -> None:
    if options.as_json:
        typer.echo(json.dumps(reply, ensure_ascii=False, indent=2))
        return
    from callsheet.server.cli import lesson_rendering as lesson_sheet  # noqa: PLC0415 -- see above
    from callsheet.server.cli import terminal  # noqa: PLC0415 -- see above

    lesson_sheet.show(terminal.console(), reply, options.data_dir)
