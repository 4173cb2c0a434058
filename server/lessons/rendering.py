"""A lesson in the terminal: the facts to choose from, the images, and the timed narration."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from callsheet.server.cli import layout
from callsheet.server.cli.layout import INDENT, TimedText
from callsheet.server.cli.text_input import resume_command
from callsheet.server.processes.terminal import without_control_chars
from callsheet.state.budgets import RAISE_BUDGET
from callsheet.state.lessons.review import REQUEST as REVIEW

TITLES: Final[Mapping[str, str]] = {
    "hook": "Hook",
    "concept_introduction": "Concepts",
    "process_explanation": "Explanation",
    "conclusion": "Conclusion",
}
"""Titles of the segment types."""
_NAME_WIDTH: Final = max(len(title) for title in TITLES.values())


def show(target: Console, reply: Mapping[str, Any], data_dir: Path | None = None) -> None:
    """Print the result of a turn: the message, the facts or the narration, and the next command."""
    message = Text(without_control_chars(reply["message"]))
    layout.print_parts(target, [message, *_body(reply), layout.model_line(reply)])
    label, example = _next_step(reply)
    resume = resume_command("lesson --lesson", reply["sessionId"], data_dir)
    layout.print_next_command(target, label, f"{resume} {shlex.quote(example)}")


def show_question(target: Console, reply: Mapping[str, Any]) -> None:
    """Print the pending question with everything needed to answer it."""
    for part in _body(reply):
        target.print(Padding(part, (1, INDENT)))
    question = reply["interrupt"]["value"]["action_requests"][0]["description"]
    target.print(Padding(Text(without_control_chars(question)), (0, INDENT)))


def is_about_budget(reply: Mapping[str, Any]) -> bool:
    """Return True if the pending question is about a budget; yes or no answers it."""
    return bool(reply["interrupt"]["value"].get("type") == RAISE_BUDGET)


def _body(reply: Mapping[str, Any]) -> Iterator[RenderableType]:
    value = reply["interrupt"]["value"] if reply["interrupt"] else {}
    if value.get("facts"):
        yield facts_table(value["facts"])
        return
    if reply["narration"] and any(draft["stream"] == "narration" for draft in reply["created"]):
        yield narration_table(reply["narration"], _changed_segments(reply))
    if value.get("images"):
        yield images_table(value["images"])


def facts_table(facts: Sequence[Mapping[str, Any]]) -> Table:
    """Return the facts as a table, each with its number and the model's confidence."""
    table = _numbered_table()
    table.add_column("Fact", style="cyan", overflow="fold", max_width=24)
    table.add_column("What it says", overflow="fold", ratio=1)
    table.add_column("Sure", justify="right", style="dim", no_wrap=True)
    for fact in facts:
        table.add_row(
            str(fact["number"]),
            without_control_chars(fact["concept"]),
            without_control_chars(fact["details"]),
            f"{round(fact['confidence'] * 100)} %",
        )
    return table


def images_table(images: Sequence[Mapping[str, Any]]) -> Table:
    """Return the images as a table, each with its number, URL and credit."""
    table = _numbered_table()
    table.add_column("Image", style="cyan", overflow="fold", max_width=32)
    table.add_column("Where", overflow="fold", ratio=1)
    table.add_column("Whose", style="dim", overflow="fold", max_width=24)
    for image in images:
        cells = (image["title"], image["url"], image["credit"] or "")
        table.add_row(str(image["number"]), *map(without_control_chars, cells))
    return table


def _numbered_table() -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", style="bold", no_wrap=True)
    return table


def narration_table(narration: Mapping[str, Any], changed: Sequence[str] = ()) -> Group:
    """Return a timed narration; a dot marks the segments whose ids are in `changed`, unless all are."""
    segments = narration["segments"]
    marked = set(changed) if len(changed) < len(segments) else set()
    rows = [
        TimedText(
            segment["start_time"],
            segment["start_time"] + segment["duration"],
            TITLES[segment["type"]],
            without_control_chars(segment["narration"]),
            segment["id"] in marked,
            _NAME_WIDTH,
        )
        for segment in segments
    ]
    heading = Text.assemble(
        (without_control_chars(narration["topic"]), "bold cyan"),
        (f"  {narration['total_duration']} s, for grade {narration['reading_level']}", "dim"),
    )
    return Group(heading, *rows)


def _changed_segments(reply: Mapping[str, Any]) -> Sequence[str]:
    changes = [call["result"].get("changedSegments") for call in reply["toolCalls"]]
    return next((changed for changed in reversed(changes) if changed is not None), ())


def _next_step(reply: Mapping[str, Any]) -> tuple[str, str]:
    """Return the label of the next step and an example message."""
    if not reply["interrupt"]:
        return "Go on", "make the hook shorter" if reply["narration"] else "…"
    review = reply["interrupt"]["value"].get("type") == REVIEW
    return "Answer", "yes" if review or is_about_budget(reply) else "1 and 2"
