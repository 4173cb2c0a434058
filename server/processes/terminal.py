"""Consoles, the progress of steps, and errors in the terminal."""

import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

from rich.console import Console, ConsoleRenderable, Group
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

OnProgress = Callable[[dict[str, Any]], None]
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
_FINAL: Final = frozenset({"completed", "error", "blocked", "cancelled", "skipped"})
_FRAMES_PER_S: Final = 12


def console(*, stderr: bool = False) -> Console:
    """Return a console on stdout or stderr, without colours if `NO_COLOR` is set or it is no terminal.

    Characters that the encoding lacks are replaced. Files and pipes get no spaces at the ends of lines.
    """
    stream = sys.stderr if stderr else sys.stdout
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure:
        reconfigure(errors="replace")
    file = stream if stream.isatty() else cast("TextIO", _Trimmed(stream))
    return Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=False)


class _Trimmed:
    """A stream that drops the spaces with which tables fill their lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text without spaces at the ends of its lines."""
        self._stream.write("\n".join(line.rstrip(" ") for line in text.split("\n")))
        return len(text)


def without_control_chars(text: str) -> str:
    """Return `text` without control characters, which could control the terminal; line breaks stay."""
    return "".join(char for char in text if char == "\n" or unicodedata.category(char) != "Cc")


def show_error(target: Console, message: str, remedy: str) -> None:
    """Print an error and its remedy, one line each."""
    target.print(_label("error", "bold red", message), soft_wrap=True)
    if remedy:
        target.print(_label("remedy", "bold", remedy), soft_wrap=True)


def _label(label: str, style: str, text: str) -> Text:
    return Text.assemble((f"{label}: ", style), " ".join(without_control_chars(text).split()))


@contextmanager
def show_progress(target: Console, *, quiet: bool = False) -> Iterator[OnProgress]:
    """Show the steps of a run as they happen: redrawn on a terminal, else one line per ended step."""
    steps = StepProgress()
    if quiet:
        yield steps.update
        return
    if not target.is_terminal:
        yield lambda event: _print_if_ended(target, steps, event)
        return
    with Live(steps, console=target, refresh_per_second=_FRAMES_PER_S):
        try:
            yield steps.update
        finally:
            steps.end()


def _print_if_ended(target: Console, steps: "StepProgress", event: Mapping[str, Any]) -> None:
    steps.update(event)
    if event.get("type") == "step" and event["status"] in _FINAL:
        target.print(step_line(event), soft_wrap=True)


class StepProgress:
    """The steps of a run with their status, in the order of their start."""

    def __init__(self) -> None:
        self._events: dict[str, Mapping[str, Any]] = {}
        self._thinking: Spinner | None = Spinner("dots", Text("Thinking", "dim"), style="cyan")
        self._spinners: dict[str, Spinner] = {}

    def update(self, event: Mapping[str, Any]) -> None:
        """Store a `step` event; ignore other events."""
        if event.get("type") == "step":
            self._events[event["stepId"]] = event

    def end(self) -> None:
        """Stop the spinners; steps that have not ended count as cancelled."""
        self._thinking = None
        self._events = {
            name: event if event["status"] in _FINAL else {**event, "status": "cancelled"}
            for name, event in self._events.items()
        }

    def __rich__(self) -> ConsoleRenderable:
        # The drawing thread reads while the run writes, so it needs a copy.
        events = list(self._events.items())
        grid = Table.grid(padding=(0, 1))
        for _ in range(2):
            grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_column(justify="right", no_wrap=True)
        for name, event in events:
            title, outcome, took = _cells(event)
            grid.add_row(self._mark(name, event["status"]), title, outcome, Text.assemble("  ", took))
        busy = any(event["status"] == "in-progress" for _, event in events)
        return Padding(Group(grid, self._thinking) if self._thinking and not busy else grid, (0, 2))

    def _mark(self, name: str, status: str) -> ConsoleRenderable:
        if status == "in-progress":
            return self._spinners.setdefault(name, Spinner("dots", style="cyan"))
        return Text(*_MARKS[status])


def step_line(event: Mapping[str, Any]) -> Text:
    """Return a step as one line of text: `✔ Searching voices: 10 found (0.02 s)`."""
    name, outcome, took = _cells(event)
    line = Text.assemble((_MARKS[event["status"]][0], _MARKS[event["status"]][1]), " ", name)
    line.append_text(Text.assemble(": ", outcome) if outcome.plain else Text())
    return line.append_text(Text.assemble(" (", took, ")") if took.plain else Text())


def _cells(event: Mapping[str, Any]) -> tuple[Text, Text, Text]:
    status = event["status"]
    took_s = event.get("durationSeconds")
    return (
        Text(without_control_chars(event["name"]), "" if status in {"in-progress", "completed"} else "dim"),
        Text(_outcome(event.get("preview", {})), "red" if status == "error" else "dim"),
        Text("" if took_s is None or status == "blocked" else f"{took_s:.2f} s", "dim"),
    )


def _outcome(preview: Mapping[str, Any]) -> str:
    if "error" in preview:
        return without_control_chars(str(preview["error"]))
    if preview.get("versionId"):
        return str(preview["versionId"])
    if "imported" in preview:
        return f"{preview['imported']} imported"
    return f"{preview['count']} found" if "count" in preview else ""
