"""Questions that wait in a conversation: asked in the terminal, or answered by an option."""

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from callsheet.server.cli import rendering
from callsheet.server.cli.client import ServerClient
from callsheet.server.cli.output import print_parts
from callsheet.server.cli.parsing import Args
from callsheet.server.cli.turns import RAISE_BUDGET
from callsheet.state import questions
from callsheet.state.errors import Conflict, Invalid

_YES: Final = {"decisions": [{"type": "approve"}]}
_REMEDY: Final = "answer with --answer"


def pending(client: ServerClient, thread: str) -> Any:
    """Return the value of the question that a thread waits with; None for none."""
    search = {"ids": [thread], "select": ["interrupts"]}
    threads = client.call("POST", "/threads/search", json=search).json()
    interrupts = threads[0]["interrupts"] if threads else {}
    return next((one["value"] for many in (interrupts or {}).values() for one in many), None)


def option_answer(args: Args, client: ServerClient, thread: str) -> str:
    """Return the answer that an option gives to the question that waits.

    Raises `Conflict` if nothing waits, or a question about a budget that `--yes` does not answer.
    """
    value = pending(client, thread)
    if value is None:
        raise Conflict("no question waits for an answer", remedy="give a message in quotes")
    answer = _option(args, value)
    if answer is None:
        raise Invalid(f"the question is: {_words(value)}", remedy="answer it with a message in quotes")
    return answer


def to_pending(client: ServerClient, args: Args, reply: Mapping[str, Any]) -> str | None:
    """Return the answer to the question of a reply, by an option or a person; None if there is none."""
    if not (reply.get("question") or reply.get("interrupt")):
        return None
    value = pending(client, _thread(reply))
    if value is None:
        return None
    if (answer := _option(args, value)) is not None:
        return answer
    return ask(value) if sys.stdin.isatty() and not args.json else None


def ask(value: Any) -> str | None:
    """Ask a person; None for no answer."""
    print_parts(rendering.question_parts(value), stderr=True)
    if takes_yes(value):
        return "yes" if confirm("  Shall I?", _REMEDY) else "no"
    return prompt("  Your answer: ", _REMEDY).strip() or None


def confirm(question: str, remedy: str = "use --yes") -> bool:
    """Return a person's yes or no; raises as `prompt`."""
    return prompt(f"{question} [y/N] ", remedy).strip().casefold() in {"y", "yes"}


def prompt(question: str, remedy: str) -> str:
    """Return what a person types; raise `Invalid` with the remedy if nobody can, as through a pipe."""
    print(question, end="", file=sys.stderr, flush=True)  # noqa: T201 -- a prompt
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)  # noqa: T201
        if sys.stdin.isatty():
            raise KeyboardInterrupt
        raise Invalid("nobody is there to answer", remedy=remedy)
    return line


def takes_yes(value: Any) -> bool:
    """Return True for a question that yes and no answer; a choice has other examples."""
    if not isinstance(value, Mapping):
        return False
    examples = value.get("examples") or [_YES]
    configs = value.get("review_configs", ())
    approvable = any("approve" in config.get("allowed_decisions", ()) for config in configs)
    return approvable and ("yes" in examples or any("approve" in json.dumps(one) for one in examples))


def example(client: ServerClient, reply: Mapping[str, Any]) -> str:
    """Return an answer to the question of a reply that it would understand."""
    return example_of(pending(client, _thread(reply)))


def example_of(value: Any) -> str:
    """Return an answer that the question names, in words if it names one; else an ellipsis."""
    if takes_yes(value):
        return "yes"
    if isinstance(value, Mapping) and value.get("facts"):
        return "1 and 2"
    schema = questions.response_schema(value)
    derived = "…" if schema is None else rendering.schema_example(schema)
    examples = (value.get("examples") if isinstance(value, Mapping) else None) or [derived]
    words = [one for one in examples if isinstance(one, str)]
    return words[0] if words else json.dumps(examples[0], ensure_ascii=False)


def question_line(value: Any) -> str:
    """Return a question in one line."""
    return " ".join(_words(value).split())


def _words(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    return questions.full_text(value) or questions.sentence(value)


def _option(args: Args, value: Any) -> str | None:
    """Return the answer of `--answer`, once, or that of `--yes` and `--no`; None about a budget."""
    about_budget = isinstance(value, Mapping) and value.get("type") == RAISE_BUDGET
    answer = getattr(args, "answer", None)
    if answer is None or about_budget or getattr(args, "answered", False):
        return None
    # An approval may be asked several times, another question is answered once.
    args.answered = answer not in {"yes", "no"}
    return str(answer)


def _thread(reply: Mapping[str, Any]) -> str:
    return str(reply.get("conversationId") or reply.get("threadId") or reply.get("sessionId"))
