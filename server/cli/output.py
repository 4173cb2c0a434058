"""Output of the commands: errors, tables, parts of a reply, and the progress of a run."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console, ConsoleRenderable, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from callsheet.server.settings.console import console, without_control_chars

OnStep = Callable[[Mapping[str, Any]], None]
INDENT: Final = 2
_MIN_TEXT: Final = 12
"""Columns that the text of a table has at least, however narrow the terminal is."""
_MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("○", "dim"),
    "in-progress": ("◌", "cyan"),
    "completed": ("✔", "green"),
    "error": ("✖", "red"),
    "blocked": ("✖", "dim"),
    "cancelled": ("✖", "dim"),
    "skipped": ("–", "dim"),
}
"""Mark and colour of a step by its status."""
_FINAL: Final = frozenset(_MARKS) - {"pending", "in-progress"}
_FRAMES_PER_S: Final = 12
_AGES: Final = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (86_400 * 14, 86_400, "d"))
"""Ages below so many seconds are counted in units of so many, with this name."""


def print_error(message: str, remedy: str) -> None:
    """Print an error and its remedy to stderr, one line each."""
    target = console(stderr=True)
    target.print(_label_line("error", "bold red", message), soft_wrap=True)
    if remedy:
        target.print(_label_line("remedy", "bold", remedy), soft_wrap=True)


def say(message: str, *, wrap: bool = False) -> None:
    """Print a line to stderr, broken at the terminal's width only with `wrap`."""
    console(stderr=True).print(Text(without_control_chars(message), "dim"), soft_wrap=not wrap)


def print_json(value: Any) -> None:
    """Print JSON."""
    print(json.dumps(value, ensure_ascii=False, indent=2))  # noqa: T201 -- what is asked for


def print_parts(parts: Iterable[RenderableType], *, stderr: bool = False) -> None:
    """Print the parts with an empty line before each, and one at the end."""
    target = console(stderr=stderr)
    for part in parts:
        target.print()
        if isinstance(part, NextCommand):
            target.print(part, soft_wrap=True)
        else:
            target.print(Padding(part, (0, INDENT)))
    target.print()


class NextCommand(Text):
    """A command that the person may run next; it is never broken, so that it can be copied."""

    def __init__(self, *lines: tuple[str, str]) -> None:
        """`lines` are labels and commands."""
        width = max(len(label) for label, _ in lines)
        parts = [
            Text.assemble(" " * INDENT, (f"{label:<{width}}", "bold"), "  ", (command, "dim"))
            for label, command in lines
        ]
        super().__init__()
        self.append_text(Text("\n").join(parts))


def text(value: Any, style: str = "") -> Text:
    """Return a value as text without control characters."""
    return Text(without_control_chars("" if value is None else str(value)), style)


def grid(*styles: str) -> Table:
    """Return a table without lines; its columns have these styles and wrap."""
    table = Table.grid(padding=(0, 2))
    for style in styles:
        table.add_column(style=style, overflow="fold")
    return table


def facts(rows: Mapping[str, Any]) -> Table:
    """Return names and values, one pair a line, without those that have no value."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value not in (None, ""):
            table.add_row(text(name), value if isinstance(value, Text) else text(value))
    return table


def print_table(titles: Sequence[str], rows: Sequence[Sequence[Any]], empty: str) -> None:
    """Print a line for each row; the last column, a text, is cut to the width, all others are whole."""
    target = console()
    if not rows:
        target.print(empty)
        return
    table = [[Text(title, "bold") for title in titles]]
    table += [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*table, strict=True)]
    room = target.width - sum(widths[:-1]) - 2 * (len(widths) - 1)
    for *cells, last in table:
        for cell, width in zip(cells, widths, strict=False):
            cell.pad_right(width - cell.cell_len)
        last.truncate(max(room, _MIN_TEXT), overflow="ellipsis")
        line = Text("  ").join([*cells, last])
        line.rstrip()
        target.print(line, soft_wrap=True)


def first_ones(items: list[Any], limit: int) -> list[Any]:
    """Return the first `limit` items, and say on stderr if there are more."""
    if len(items) > limit:
        say(f"These are the first {limit}; see more with --limit.")
    return items[:limit]


def age(time: str | None) -> str:
    """Return how long ago an ISO time was, such as `5 min`; the date if it is weeks ago."""
    if not time:
        return ""
    when = datetime.fromisoformat(time)
    seconds = max(0, int((datetime.now(UTC) - when.astimezone(UTC)).total_seconds()))
    for limit, unit_s, name in _AGES:
        if seconds < limit:
            return f"{seconds // unit_s} {name}"
    return time[:10]


def _one_line(cell: Any) -> Text:
    return cell if isinstance(cell, Text) else Text(" ".join(without_control_chars(str(cell or "")).split()))


def _label_line(label: str, style: str, message: str) -> Text:
    return Text.assemble((f"{label}: ", style), " ".join(without_control_chars(message).split()))


@contextmanager
def show_progress(*, quiet: bool = False) -> Iterator[OnStep]:
    """Show the steps of a run as they happen: redrawn on a terminal, else one line per ended step."""
    steps, target = _Progress(), console(stderr=True)
    if quiet:
        yield steps.update
    elif not target.is_terminal:
        yield lambda step: _print_if_ended(target, step)
    else:
        with Live(steps, console=target, refresh_per_second=_FRAMES_PER_S):
            try:
                yield steps.update
            finally:
                steps.end()


def _print_if_ended(target: Console, step: Mapping[str, Any]) -> None:
    if step["status"] in _FINAL:
        name, outcome, took = _cells(step)
        line = Text.assemble(_MARKS[step["status"]], " ", name)
        line.append_text(Text.assemble(": ", outcome) if outcome.plain else Text())
        line.append_text(Text.assemble(" (", took, ")") if took.plain else Text())
        target.print(line, soft_wrap=True)


class _Progress:
    """The steps of a run with their status, in the order of their start."""

    def __init__(self) -> None:
        self._steps: dict[str, Mapping[str, Any]] = {}
        self._thinking: Spinner | None = Spinner("dots", Text("Thinking", "dim"), style="cyan")
        self._spinners: dict[str, Spinner] = {}

    def update(self, step: Mapping[str, Any]) -> None:
        """Show a step; its id replaces an earlier event of it."""
        self._steps[step["stepId"]] = step

    def end(self) -> None:
        """Stop the spinners; steps that have not ended count as cancelled."""
        self._thinking = None
        self._steps = {
            name: step if step["status"] in _FINAL else {**step, "status": "cancelled"}
            for name, step in self._steps.items()
        }

    def __rich__(self) -> ConsoleRenderable:
        # The drawing thread reads while the run writes, so it needs a copy.
        steps = list(self._steps.items())
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        table.add_column(justify="right", no_wrap=True)
        for name, step in steps:
            title, outcome, took = _cells(step)
            table.add_row(self._mark(name, step["status"]), title, outcome, Text.assemble("  ", took))
        busy = any(step["status"] == "in-progress" for _, step in steps)
        return Padding(Group(table, self._thinking) if self._thinking and not busy else table, (0, INDENT))

    def _mark(self, name: str, status: str) -> ConsoleRenderable:
        if status == "in-progress":
            return self._spinners.setdefault(name, Spinner("dots", style="cyan"))
        return Text(*_MARKS[status])


def _cells(step: Mapping[str, Any]) -> tuple[Text, Text, Text]:
    status, took_s = step["status"], step.get("durationSeconds")
    return (
        text(step["name"], "" if status in {"in-progress", "completed"} else "dim"),
        text(_outcome(step.get("preview") or {}), "red" if status == "error" else "dim"),
        Text("" if took_s is None or status == "blocked" else f"{took_s:.2f} s", "dim"),
    )


def _outcome(preview: Mapping[str, Any]) -> str:
    if "error" in preview:
        return str(preview["error"])
    if preview.get("versionId"):
        return str(preview["versionId"])
    return f"{preview['count']} found" if "count" in preview else ""
