"""`callsheet scenes`: edit a video by one prompt, in the terminal."""

import json
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from callsheet.server.cli import commands, text_input
from callsheet.server.cli.options import DataDir, Debug, Model, ReplyJson, model_context, takes_options
from callsheet.server.processes import terminal
from callsheet.server.video import rendering

if TYPE_CHECKING:
    from callsheet.server.video.terminal_session import VideoCliTurn

_TEXT: Final = "What shall be different; - for stdin; nothing lists the scenes."
_PROVIDER: Final = "Provider: openai, offline … [one that has a key]."
_PREVIEW: Final = "Write a page that plays the video."


@dataclass(frozen=True)
class ScenesOptions:
    """The options of `callsheet scenes`; the help shows the default in brackets."""

    project: Annotated[str, typer.Argument(metavar="PROJECT", help="Id of the project; a new one is made.")]
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help=_TEXT)] = None
    starter: Annotated[str | None, typer.Option(help="Begin with this starter project.")] = None
    scene: Annotated[
        list[str] | None, typer.Option(help="Scene that the text is about; may be repeated.")
    ] = None
    undo: Annotated[bool, typer.Option("--undo", help="Undo the newest plan.")] = False
    preview: Annotated[str | None, typer.Option(metavar="FILE", help=_PREVIEW)] = None
    provider: Annotated[str | None, typer.Option(help=_PROVIDER)] = None
    model: Model = None
    as_json: ReplyJson = False
    data_dir: DataDir = None
    debug: Debug = False


@takes_options(ScenesOptions)
def scenes(options: ScenesOptions) -> None:
    """Edit a video of many scenes, or begin one.

    callsheet scenes launch "make all scenes faster" --starter product-launch

    callsheet scenes launch --preview launch.html
    """
    if options.text is not None and options.undo:
        raise commands.UsageError("give a text or --undo, not both", "scenes")
    with (
        commands.report_errors(debug=options.debug),
        commands.report_interruption("scenes", options.project, options.data_dir),
    ):
        _show(_converse(options), options)


def _converse(options: ScenesOptions) -> "VideoCliTurn":
    """Execute the command's turn and, while a question about a budget is pending, one for each answer."""
    turn = _execute(options)
    while rendering.is_about_budget(turn) and sys.stdin.isatty() and not options.as_json:
        question = turn.reply["question"]["value"]
        yes = commands.confirm(question["action_requests"], "answer with the text yes or no")
        answer = replace(options, text="yes" if yes else "no", starter=None, scene=None, undo=False)
        turn = _execute(answer)
    return turn


def _execute(options: ScenesOptions) -> "VideoCliTurn":
    def execute(report: Any) -> "Coroutine[Any, Any, VideoCliTurn]":
        from callsheet.server.video import terminal_session  # noqa: PLC0415 -- progress is shown before slow imports

        text = text_input.read_text(options.text, None, "the message") if options.text is not None else None
        request = terminal_session.VideoCliRequest(
            options.project,
            text,
            starter=options.starter,
            scene_ids=tuple(options.scene or ()),
            undo=options.undo,
            context=model_context(options.provider, options.model),
        )
        return terminal_session.run(request, commands.load_settings(options.data_dir), report)

    quiet = options.as_json or (options.text is None and not options.undo)
    return commands.run_with_progress(execute, quiet=quiet)


def _show(turn: "VideoCliTurn", options: ScenesOptions) -> None:
    if options.preview:
        Path(options.preview).write_text(turn.page, encoding="utf-8")
    if options.as_json:
        typer.echo(json.dumps(turn.reply, ensure_ascii=False, indent=2))
        return
    rendering.show(terminal.console(), turn, options)
