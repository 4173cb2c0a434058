"""`callsheet run`: run any served graph in the terminal and answer its interrupts."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callsheet.server.cli import commands, text_input
from callsheet.server.cli.options import DataDir, Debug, takes_options
from callsheet.server.settings.installation import program

if TYPE_CHECKING:
    from callsheet.server.cli.graph_session import GraphTurn

_MESSAGE = "The message; - for stdin."
_INPUT = "Further input of the graph, a JSON object."
_ANSWER = "Answer to the pending question: JSON, or text."


@dataclass(frozen=True)
class RunOptions:
    """The options of `callsheet run`; the help shows the default in brackets."""

    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="Name of the graph, as in langgraph.json.")]
    message: Annotated[str | None, typer.Argument(help=_MESSAGE)] = None
    thread: Annotated[str, typer.Option(help="Continue this thread [a new one].")] = ""
    input: Annotated[str | None, typer.Option(help=_INPUT)] = None
    answer: Annotated[str | None, typer.Option(help=_ANSWER)] = None
    provider: Annotated[str | None, typer.Option(help="Provider of the model: openai, offline …")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the state's values as JSON.")] = False
    data_dir: DataDir = None
    debug: Debug = False


@takes_options(RunOptions)
def run(options: RunOptions) -> None:
    """Run a graph and answer its questions.

    callsheet run ad_creation "30 seconds for Miel, a bakery in Lyon"

    callsheet run my_graph --thread ID --answer '{"decisions": [{"type": "approve"}]}'
    """
    with commands.report_errors(debug=options.debug):
        context = {"provider": options.provider} if options.provider else {}
        request: dict[str, Any] = {
            "graph": options.graph,
            "thread": options.thread,
            "message": text_input.read_text(options.message, None, "the message") if options.message else "",
            "input": _json_object(options.input),
            "answer": None if options.answer is None else parse_answer(options.answer, None),
            "context": context,
        }
        turn = _turn(request, options)
        while turn.question is not None and sys.stdin.isatty() and not options.as_json:
            _show_question(turn.question, err=True)
            reply = commands.ask(
                lambda: typer.prompt("  Your answer", err=True, type=str), "answer with --answer"
            )
            answer = parse_answer(reply, turn.question)
            request = {"graph": options.graph, "thread": turn.thread, "answer": answer, "context": context}
            turn = _turn(request, options)
        _show(turn, options.graph, as_json=options.as_json)
        wanted = (options.provider or "").strip().partition("/")[0].casefold()
        answered = turn.values.get("provider", wanted)
        if wanted and answered != wanted:
            typer.echo(f"Model: {answered}, because {turn.values.get('provider_reason')}", err=True)


def parse_answer(text: str, question: Any) -> Any:
    """Return an answer as the graph expects it: yes or no to an approval, JSON, else the text."""
    word = text.strip().casefold()
    approval = isinstance(question, Mapping) and "action_requests" in question
    if approval and word in {"y", "yes", "n", "no"}:
        return {"decisions": [{"type": "approve" if word.startswith("y") else "reject"}]}
    try:
        return json.loads(text)
    except ValueError:
        return text


def _json_object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    from callsheet.state.errors import Invalid  # noqa: PLC0415 -- help needs no errors

    try:
        value = json.loads(text)
    except ValueError as error:
        raise Invalid(
            f"--input is not JSON: {error}", remedy="give an object: --input '{\"n\": 1}'"
        ) from error
    if not isinstance(value, dict):
        raise Invalid("--input is not a JSON object", remedy="give an object: --input '{\"n\": 1}'")
    return value


def _turn(request: Mapping[str, Any], options: RunOptions) -> "GraphTurn":
    async def execute(report: Any) -> "GraphTurn":
        from callsheet.server.cli import graph_session  # noqa: PLC0415 -- the first step is shown before slow imports

        settings = commands.load_settings(options.data_dir)
        return await graph_session.run(graph_session.GraphRequest(**request), settings, report)

    return commands.run_with_progress(execute, quiet=options.as_json)


def _show_question(question: Any, *, err: bool) -> None:
    from callsheet.server.processes import terminal  # noqa: PLC0415 -- see above

    typer.echo(terminal.without_control_chars(_question_text(question)), err=err)


def _question_text(question: Any) -> str:
    if isinstance(question, Mapping) and "action_requests" in question:
        actions = [
            str(action.get("description") or action.get("name")) for action in question["action_requests"]
        ]
        wish = ["Shall I do this? Answer yes or no."] if _takes_yes(question) else []
        return "\n".join([*wish, *(f"  {action}" for action in actions)])
    return question if isinstance(question, str) else json.dumps(question, ensure_ascii=False, indent=2)


def _takes_yes(question: Any) -> bool:
    """Return True for a question that "yes" and "no" answer."""
    configs = question.get("review_configs", ()) if isinstance(question, Mapping) else ()
    return any("approve" in config.get("allowed_decisions", ()) for config in configs)


def _show(turn: "GraphTurn", graph: str, *, as_json: bool) -> None:
    from callsheet.server.langgraph.shapes import to_json_value  # noqa: PLC0415
    from callsheet.server.processes import terminal  # noqa: PLC0415 -- see above

    if as_json or not (turn.message or turn.question):
        value = to_json_value({"thread": turn.thread, "values": turn.values, "question": turn.question})
        typer.echo(json.dumps(value, ensure_ascii=False, indent=2))
        return
    if turn.message:
        typer.echo(terminal.without_control_chars(turn.message))
    for version in turn.values.get("created", ()):
        typer.echo(f"Made {version['stream']} {version['versionId']}")
    if turn.question is not None:
        _show_question(turn.question, err=False)
    answer = "--answer yes" if _takes_yes(turn.question) else "--answer '…'"
    last = answer if turn.question is not None else '"…"'
    typer.echo(f"Continue with: {program()} run {graph} --thread {turn.thread} {last}")
