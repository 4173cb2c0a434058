"""`callsheet page`: edit a landing page by chat, in the terminal."""

import json
import secrets
import sys
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from callsheet.server.cli import commands, text_input
from callsheet.server.cli.options import DataDir, Debug, Model, ReplyJson, takes_options
from callsheet.server.processes import terminal

if TYPE_CHECKING:
    from callsheet.server.pages.terminal_session import PageCliTurn

Decisions = tuple[Mapping[str, Any], ...]
_APPROVE: Final[Decisions] = ({"type": "approve"},)
_REJECT: Final[Decisions] = ({"type": "reject", "message": "the person said no"},)
_TEXT: Final = "The change; - for stdin; may be omitted with --yes or --no."
_DECISION: Final = "Approve or reject deletions [asked in the terminal]."
_PROVIDER: Final = "Provider: openai, offline … [one that has a key]."


@dataclass(frozen=True)
class PageOptions:
    """The options of `callsheet page`; the help shows the default in brackets."""

    text: Annotated[str | None, typer.Argument(metavar="TEXT", help=_TEXT)] = None
    page: Annotated[str | None, typer.Option(help="Continue this page [a new one].")] = None
    select: Annotated[str | None, typer.Option(help='Id of the element that "this" means.')] = None
    yes: Annotated[bool | None, typer.Option("--yes/--no", help=_DECISION)] = None
    provider: Annotated[str | None, typer.Option(help=_PROVIDER)] = None
    model: Model = None
    as_json: ReplyJson = False
    data_dir: DataDir = None
    debug: Debug = False


@takes_options(PageOptions)
def page(options: PageOptions) -> None:
    """Edit a landing page, or begin one.

    callsheet page "make the headline teal and add a contact form"

    callsheet page --page ID "undo that"
    """
    if options.text is None and (options.yes is None or options.page is None):
        raise commands.UsageError(
            "give the change in quotes, or answer a question with --page and --yes or --no", "page"
        )
    name = options.page or f"page-{secrets.token_hex(5)}"
    with (
        commands.report_errors(debug=options.debug),
        commands.report_interruption("page --page", name, options.data_dir),
    ):
        _show(_converse(options, name), options)


def _converse(options: PageOptions, name: str) -> "PageCliTurn":
    """Execute the message's turn and, while approval is pending, one for each decision."""
    if options.text is None:
        return _execute(options, name, _APPROVE if options.yes else _REJECT)
    turn = _execute(options, name, None)
    while question := turn.reply["question"]:
        if options.yes is None and not sys.stdin.isatty():
            return turn
        remedy = "answer with --yes or --no"
        yes = commands.confirm(question["actions"], remedy) if options.yes is None else options.yes
        turn = _execute(options, name, _APPROVE if yes else _REJECT)
    return turn


def _execute(options: PageOptions, name: str, decisions: Decisions | None) -> "PageCliTurn":
    def execute(report: Any) -> "Coroutine[Any, Any, PageCliTurn]":
        from callsheet.server.pages import terminal_session  # noqa: PLC0415 -- progress is shown before slow imports

        body, settings = _body(options, decisions), commands.load_settings(options.data_dir)
        return terminal_session.run(name, body, settings, report)

    return commands.run_with_progress(execute, quiet=options.as_json)


def _body(options: PageOptions, decisions: Decisions | None) -> Any:
    from callsheet.server.pages.schemas import DecisionCreate, PageChatCreate  # noqa: PLC0415 -- see above

    model: dict[str, Any] = {"provider": options.provider, "model": options.model}
    if decisions is not None:
        return DecisionCreate.model_validate({"decisions": decisions, **model})
    message = text_input.read_text(options.text, None, "the message")
    return PageChatCreate.model_construct(message=message, selectedElementId=options.select, **model)


def _show(turn: "PageCliTurn", options: PageOptions) -> None:
    if options.as_json:
        typer.echo(json.dumps(turn.reply, ensure_ascii=False, indent=2))
        return
    from callsheet.server.pages import rendering  # noqa: PLC0415

    rendering.show(terminal.console(), turn, options.data_dir)
