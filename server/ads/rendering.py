"""An ad in the terminal: its versions, its timeline and its length."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from callsheet.server.ads.terminal_session import AdCliTurn, VersionChange
from callsheet.server.cli import layout
from callsheet.server.cli.layout import TIME_WIDTH, TimedText
from callsheet.server.cli.text_input import resume_command
from callsheet.server.processes.terminal import without_control_chars
from callsheet.state.ads.timeline import Timeline
from callsheet.tools.ads import voices

TITLES: Final[Mapping[str, str]] = {"voices": "Voices", "music": "Music", "sfx": "Effects"}
"""Titles of the streams."""
_COLOURS: Final[Mapping[str, str]] = {"voices": "cyan", "music": "magenta", "sfx": "yellow"}
_PLACEMENTS: Final[Mapping[str, str]] = {
    "start": "at the start",
    "end": "at the end",
    "beforeVoices": "before the voices",
    "withFirstVoice": "with the first voice",
}
_WIDEST_NAME: Final = 30
_WIDEST_BAR: Final = 72


def show(target: Console, turn: AdCliTurn, data_dir: Path | None = None) -> None:
    """Print the result of a turn: the message, every new version, the timeline and the model."""
    layout.print_parts(target, _parts(turn))
    resume = resume_command("ad --thread", turn.reply["conversationId"], data_dir)
    refine = ("Refine", '"make the music more upbeat"')
    label, example = ("Answer", "yes") if turn.reply["question"] else refine
    layout.print_next_command(target, label, f"{resume} {example}")


def _parts(turn: AdCliTurn) -> Iterator[RenderableType]:
    yield Text(without_control_chars(turn.reply["message"]))
    tables = [_rows(change) for change in turn.changes]
    width = min(_WIDEST_NAME, max((cell_len(row.name) for rows in tables for row in rows), default=0))
    for change, rows in zip(turn.changes, tables, strict=True):
        yield Group(_heading(change), *(replace(row, name_width=width) for row in rows))
    if turn.changes and turn.unchanged:
        names = ", ".join(f"{TITLES[stream].lower()} {version}" for stream, version in turn.unchanged.items())
        yield Text.assemble(("Unchanged  ", "bold"), (names, "dim"))
    if turn.changes:
        yield Bars(turn.reply["timeline"])
    yield _closing(turn.reply, with_length=bool(turn.changes or turn.unchanged))


def _rows(change: VersionChange) -> list[TimedText]:
    items = _items(change.stream, change.version.data)
    old = [_content(item) for item in _items(change.stream, change.before.data)] if change.before else []
    new = [_content(item) not in old for item in items]
    # Marks on every row would say nothing.
    marked = change.before is not None and not all(new)
    return [
        TimedText(span["start"], span["end"], *_name_and_text(change.stream, item), changed=marked and is_new)
        for item, span, is_new in zip(items, _spans(change), new, strict=True)
    ]


def _items(stream: str, data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    items: Sequence[Mapping[str, Any]] = data.get("voiceTracks") or data.get("soundFxPrompts") or ()
    return [data] if stream == "music" else items


def _content(item: Mapping[str, Any]) -> dict[str, Any]:
    # Ids and `playAfter` count positions, so an insertion would change them all.
    return {key: value for key, value in item.items() if key not in {"id", "playAfter"}}


def _spans(change: VersionChange) -> Sequence[Mapping[str, Any]]:
    if change.stream == "music":
        return [change.timeline["music"]]
    return change.timeline["voices"] if change.stream == "voices" else change.timeline["sfx"]


def _name_and_text(stream: str, item: Mapping[str, Any]) -> tuple[str, str]:
    if stream == "music":
        provider = f"provider {without_control_chars(item['musicProvider'])}"
        return provider, without_control_chars(item["musicPrompt"])
    if stream == "voices":
        return _speaker(item), without_control_chars(item["text"])
    placement = item["placement"]
    after = f"after voice {placement.get('index', 0) + 1}"
    return _PLACEMENTS.get(placement["type"], after), without_control_chars(item["description"])


def _speaker(track: Mapping[str, Any]) -> str:
    voice = voices.find(track["voiceId"])
    parts = [voice.name, voice.gender, voice.accent] if voice else [track["voiceId"]]
    speed = "" if track["speed"] == 1 else f"speed {track['speed']:g}"
    return without_control_chars(" · ".join(part for part in (*parts, speed) if part))


def _heading(change: VersionChange) -> Text:
    ids = f"{change.before.id} → {change.version.id}" if change.before else change.version.id
    parent = change.version.parent
    origin = f", from {parent}" if change.before and parent != change.before.id else ""
    return Text.assemble(
        (TITLES[change.stream], f"bold {_COLOURS[change.stream]}"), "  ", (ids + origin, "dim")
    )


class Bars:
    """The timeline as one bar per stream; red beyond the length of the spot."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def __rich_console__(self, target: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        total_s = max(self._timeline["spotSeconds"], self._timeline["durationSeconds"])
        width = max(10, min(_WIDEST_BAR, options.max_width - TIME_WIDTH))
        per_s = width / total_s
        spot = round(self._timeline["spotSeconds"] * per_s)
        for stream, spans in self._spans():
            if not spans:
                continue
            line = Text.assemble((f"{TITLES[stream].lower():<{TIME_WIDTH}}", "dim"))
            for column in range(width):
                audible = any(
                    span["start"] * per_s < column + 0.5 < max(span["end"] * per_s, 1) for span in spans
                )
                colour = _COLOURS[stream] if column < spot else "red"
                line.append("━" if audible else "╌", colour if audible else "bright_black")
            yield line
        yield Text(f"{'':<{TIME_WIDTH}}0 s{math.ceil(total_s):>{width - 5}} s", "dim")

    def _spans(self) -> Iterable[tuple[str, Sequence[Mapping[str, Any]]]]:
        music = self._timeline.get("music")
        return (
            ("voices", self._timeline["voices"]),
            ("music", [music] if music else []),
            ("sfx", self._timeline["sfx"]),
        )


def _closing(reply: Mapping[str, Any], *, with_length: bool) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    if with_length:
        grid.add_row("Length", _length(reply["timeline"]))
    grid.add_row(
        "Model ",
        Text.assemble(reply["provider"], (f"  {without_control_chars(reply['providerReason'])}", "dim")),
    )
    return grid


def _length(timeline: Timeline) -> Text:
    length_s, spot_s = timeline["durationSeconds"], timeline["spotSeconds"]
    if timeline["fits"]:
        return Text.assemble((f"{length_s:.1f} s", "green"), (f"  fits the spot of {spot_s:g} s", "dim"))
    return Text.assemble(
        (f"{length_s:.1f} s", "red"),
        (f"  {length_s - spot_s:.1f} s too long for the spot of {spot_s:g} s", "dim"),
    )
