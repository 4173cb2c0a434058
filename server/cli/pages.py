"""`callsheet page`: a landing page edited by words, in the terminal."""

import json
import secrets
import sys
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import typer

from callsheet.server.cli import commands, text_input
from callsheet.server.cli.options import PageOptions, takes_options

if TYPE_CHECKING:
    from callsheet.server.pages.terminal_session import CliTurn

_APPROVE = ({"type": "approve"},)
_REJECT = ({"type": "reject", "message": "the person said no"},)


@takes_options(PageOptions)
def page(options: PageOptions) -> None:
    """Edit a landing page, or begin one.

    callsheet page "make the headline teal and add a contact form"

    callsheet page --page ID "undo that"
    """
    if options.said is None and (options.yes is None or options.page is None):
        raise typer.BadParameter(
            "say in quotes what should be different, or answer with --page and --yes or --no"
        )
    with commands.report_errors(debug=options.debug):
        name = options.page or f"page-{secrets.token_hex(5)}"
        try:
            _shown(_turns(options, name), options)
        except KeyboardInterrupt as stop:
            again = text_input.resume_command("page --page", name, options.data_dir)
            commands.fail("stopped; what was made so far is kept", f'go on with: {again} "…"')
            raise typer.Exit(commands.INTERRUPTED) from stop


def _turns(options: PageOptions, name: str) -> "CliTurn":
    """Carry out what was said and, where a person is asked for leave, what they decide."""
    if options.said is None:
        return _carried_out(options, name, _APPROVE if options.yes else _REJECT)
    turn = _carried_out(options, name, None)
    while question := turn.reply["question"]:
        if options.yes is None and not sys.stdin.isatty():
            return turn
        yes = _asked(question) if options.yes is None else options.yes
        turn = _carried_out(options, name, _APPROVE if yes else _REJECT)
    return turn


def _carried_out(
    options: PageOptions, name: str, decisions: tuple[Mapping[str, Any], ...] | None
) -> "CliTurn":
    def begun(report: Any) -> "Coroutine[Any, Any, CliTurn]":
        from callsheet.server.pages import terminal_session  # noqa: PLC0415 -- help and mistakes come before slow imports

        asked, settings = _request(options, name, decisions), commands.load_settings(options.data_dir)
        return terminal_session.run(asked, settings, report)

    return commands.run_with_progress(begun, quiet=options.as_json)


def _request(options: PageOptions, name: str, decisions: tuple[Mapping[str, Any], ...] | None) -> Any:
    from callsheet.server.pages.service import ChatRequest, DecisionRequest  # noqa: PLC0415 -- see above

    chosen = {"provider": options.provider, "model": options.model}
    context: Any = {key: value for key, value in chosen.items() if value}
    if decisions is not None:
        return DecisionRequest(name, decisions, context=context)
    return ChatRequest(
        name,
        text_input.read_text(options.said, None, "the message"),
        selected_element_id=options.select,
        context=context,
    )


def _asked(question: Mapping[str, Any]) -> bool:
    from callsheet.server.cli import page_rendering as page_sheet  # noqa: PLC0415 -- see above
    from callsheet.server.cli import terminal  # noqa: PLC0415 -- see above

    where = terminal.console(stderr=True)
    page_sheet.show_question(where, question)
    return commands.ask(
        lambda: typer.confirm("  Shall I?", default=False, err=True), "answer with --yes or --no"
    )


def _shown(turn: "CliTurn", options: PageOptions) -> None:
    from callsheet.server.cli import page_rendering as page_sheet  # noqa: PLC0415 -- see above
    from callsheet.server.cli import terminal  # noqa: PLC0415 -- see above

    if options.as_json:
        typer.echo(json.dumps(turn.reply, ensure_ascii=False, indent=2))
        return
    page_sheet.show(terminal.console(), turn, options.data_dir)
