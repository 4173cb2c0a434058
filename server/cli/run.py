"""`callsheet run`: run any served graph in the terminal and answer its interrupts."""

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callsheet.server.cli import commands, text_input
from callsheet.server.cli.options import DataDir, Debug, takes_options

if TYPE_CHECKING:
    from callsheet.server.cli.graph_session import GraphTurn

_MESSAGE = "The message; - for stdin."
_INPUT = "Further input of the graph, a JSON object."
_YES = {"decisions": [{"type": "approve"}]}
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
            _print(turn.message, err=True)
            _print(_question_text(turn.question), err=True)
            reply = commands.ask(
                lambda: typer.prompt("  Your answer", err=True, type=str), "answer with --answer"
            )
            answer = parse_answer(reply, turn.question)
            request = {"graph": options.graph, "thread": turn.thread, "answer": answer, "context": context}
            turn = _turn(request, options)
        _show(turn, options)
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


def _print(text: str, *, err: bool = False) -> None:
    from callsheet.server.processes import terminal  # noqa: PLC0415 -- see above

    if text:
        typer.echo(terminal.without_control_chars(text), err=err)


def _question_text(question: Any) -> str:
    if isinstance(question, Mapping) and "action_requests" in question:
        actions = [
            str(action.get("description") or action.get("name")) for action in question["action_requests"]
        ]
        wish = ["Shall I do this? Answer yes or no."] if _takes_yes(question) else []
        example = [] if wish else [f"Answer such as: {_example(question)}"]
        return "\n".join([*wish, *(f"  {action}" for action in actions), *example])
    return question if isinstance(question, str) else json.dumps(question, ensure_ascii=False, indent=2)


def _takes_yes(question: Any) -> bool:
    """Return True for a question that "yes" and "no" answer; a choice has other examples."""
    if not isinstance(question, Mapping):
        return False
    examples = question.get("examples") or [_YES]
    configs = question.get("review_configs", ())
    approvable = any("approve" in config.get("allowed_decisions", ()) for config in configs)
    return approvable and ("yes" in examples or any("approve" in json.dumps(one) for one in examples))


def _example(question: Any) -> str:
    """Return an answer that the question names, in words if it names one; else an ellipsis."""
    examples = (question.get("examples") if isinstance(question, Mapping) else None) or ["…"]
    words = [one for one in examples if isinstance(one, str)]
    return words[0] if words else json.dumps(examples[0], ensure_ascii=False)


def _show(turn: "GraphTurn", options: RunOptions) -> None:
    from callsheet.server.langgraph.schemas import to_json_value  # noqa: PLC0415 -- see above

    if options.as_json or not (turn.message or turn.question):
        value = to_json_value({"thread": turn.thread, "values": turn.values, "question": turn.question})
        typer.echo(json.dumps(value, ensure_ascii=False, indent=2))
        return
    _print(turn.message)
    for version in turn.values.get("created", ()):
        typer.echo(f"Made {version['stream']} {version['versionId']}")
    last = '"…"'
    if turn.question is not None:
        _print(_question_text(turn.question))
        last = f"--answer {'yes' if _takes_yes(turn.question) else shlex.quote(_example(turn.question))}"
    resume = text_input.resume_command(
        f"run {shlex.quote(options.graph)} --thread", turn.thread, options.data_dir
    )
    provider = f" --provider {shlex.quote(options.provider)}" if options.provider else ""
    typer.echo(f"Continue with: {resume}{provider} {last}")
