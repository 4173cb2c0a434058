"""A lesson as a person reads it in a terminal: facts to choose from, and a narration in time."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from callsheet.server.cli.ad_rendering import Line, Row
from callsheet.server.cli.terminal import without_control_chars
from callsheet.server.cli.text_input import resume_command
from callsheet.state.lessons.review import REQUEST as REVIEW

TITLES: Final[Mapping[str, str]] = {
    "hook": "Hook",
    "concept_introduction": "Concepts",
    "process_explanation": "Explanation",
    "conclusion": "Conclusion",
}
"""What people call the segments."""
_NAME: Final = max(len(title) for title in TITLES.values())
_INDENT: Final = 2


def show(where: Console, reply: Mapping[str, Any], data_dir: Path | None = None) -> None:
    """Print what came of a turn: the message, the facts or the narration, and how to go on."""
    parts = [Text(without_control_chars(reply["message"])), *_body(reply), _closing(reply)]
    for part in parts:
        where.print()
        where.print(Padding(part, (0, _INDENT)))
    word, said = _next(reply)
    line = f"{resume_command('lesson --lesson', reply['sessionId'], data_dir)} {shlex.quote(said)}"
    # Left to the terminal to wrap, so that it can be copied whole.
    where.print(Text.assemble(" " * _INDENT, (word, "bold"), "  ", (line, "dim")), soft_wrap=True)
    where.print()


def show_question(where: Console, reply: Mapping[str, Any]) -> None:
    """Print what a person is asked, with all that is needed to answer."""
    value = reply["interrupt"]["value"]
    for part in _body(reply):
        where.print(Padding(part, (1, _INDENT)))
    where.print(
        Padding(Text(without_control_chars(value["action_requests"][0]["description"])), (0, _INDENT))
    )


def _body(reply: Mapping[str, Any]) -> Iterator[RenderableType]:
    value = reply["interrupt"]["value"] if reply["interrupt"] else {}
    if value.get("facts"):
        yield facts_table(value["facts"])
        return
    if reply["narration"] and any(one["stream"] == "narration" for one in reply["created"]):
        yield narration_table(reply["narration"], _changed(reply))
    if value.get("images"):
        yield images_table(value["images"])


def facts_table(listed: Sequence[Mapping[str, Any]]) -> Table:
    """Return the facts as a table, each with its number and how sure it is."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", style="bold", no_wrap=True)
    table.add_column("Fact", style="cyan", overflow="fold", max_width=24)
    table.add_column("What it says", overflow="fold", ratio=1)
    table.add_column("Sure", justify="right", style="dim", no_wrap=True)
    for one in listed:
        sure = f"{round(one['confidence'] * 100)} %"
        table.add_row(
            str(one["number"]),
            without_control_chars(one["concept"]),
            without_control_chars(one["details"]),
            sure,
        )
    return table


def images_table(listed: Sequence[Mapping[str, Any]]) -> Table:
    """Return images as a table, each with its number, where it is and whose page shows it."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", style="bold", no_wrap=True)
    table.add_column("Image", style="cyan", overflow="fold", max_width=32)
    table.add_column("Where", overflow="fold", ratio=1)
    table.add_column("Whose", style="dim", overflow="fold", max_width=24)
    for one in listed:
        credit = without_control_chars(one["credit"] or "")
        table.add_row(
            str(one["number"]), without_control_chars(one["title"]), without_control_chars(one["url"]), credit
        )
    return table


def narration_table(whole: Mapping[str, Any], changed: Sequence[str] = ()) -> Group:
    """Return a narration in time; a dot marks the segments in `changed`, unless all are."""
    segments = whole["segments"]
    marked = set(changed) if len(changed) < len(segments) else set()
    rows = [
        Row(
            one["start_time"],
            one["start_time"] + one["duration"],
            TITLES[one["type"]],
            without_control_chars(one["narration"]),
            changed=one["id"] in marked,
        )
        for one in segments
    ]
    about = Text.assemble(
        (without_control_chars(whole["topic"]), "bold cyan"),
        (f"  {whole['total_duration']} s, for grade {whole['reading_level']}", "dim"),
    )
    return Group(about, *(Line(row, _NAME) for row in rows))


def _changed(reply: Mapping[str, Any]) -> Sequence[str]:
    told = [call["result"].get("changedSegments") for call in reply["toolCalls"]]
    return next((one for one in reversed(told) if one is not None), ())


def _closing(reply: Mapping[str, Any]) -> Text:
    told = without_control_chars(reply["providerReason"])
    return Text.assemble(("Model  ", "bold"), reply["provider"], (f"  {told}", "dim"))


def _next(reply: Mapping[str, Any]) -> tuple[str, str]:
    """Return what to do next, and an example of what to say for it."""
    if not reply["interrupt"]:
        return "Go on", "make the hook shorter" if reply["narration"] else "…"
    review = reply["interrupt"]["value"].get("type") == REVIEW
    return "Answer", "yes" if review else "the first two"
