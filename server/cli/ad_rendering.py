"""An ad as a person reads it in a terminal: who says what when, over which music, with which effects."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from callsheet.server.ads.terminal_session import CliTurn, VersionChange
from callsheet.server.cli.terminal import without_control_chars
from callsheet.server.cli.text_input import resume_command
from callsheet.state.ads.timeline import Timeline
from callsheet.tools.ads import voices

TITLES: Final[Mapping[str, str]] = {"voices": "Voices", "music": "Music", "sfx": "Effects"}
"""What people call the streams."""
_COLOURS: Final[Mapping[str, str]] = {"voices": "cyan", "music": "magenta", "sfx": "yellow"}
_PLACES: Final[Mapping[str, str]] = {
    "start": "at the start",
    "end": "at the end",
    "beforeVoices": "before the voices",
    "withFirstVoice": "with the first voice",
}
NARROW: Final = 72
"""Columns below which who speaks stands above the text instead of beside it."""
_WIDEST_NAME: Final = 30
_WIDEST_BAR: Final = 72
_TIME: Final = 17
_INDENT: Final = 2


def show(where: Console, turn: CliTurn, data_dir: Path | None = None) -> None:
    """Print what came of a turn: the message, every version it made, the ad in time, and who answered."""
    for part in _parts(turn):
        where.print()
        where.print(Padding(part, (0, _INDENT)))
    # Left to the terminal to wrap, so that it can be copied whole.
    again = resume_command("ad --thread", turn.reply["conversationId"], data_dir)
    line = f'{again} "make the music more upbeat"'
    where.print(Text.assemble(" " * _INDENT, ("Refine", "bold"), "  ", (line, "dim")), soft_wrap=True)
    where.print()


def _parts(turn: CliTurn) -> Iterator[RenderableType]:
    yield Text(without_control_chars(turn.reply["message"]))
    rows = [_rows(take) for take in turn.takes]
    widest = min(_WIDEST_NAME, max((cell_len(row.name) for some in rows for row in some), default=0))
    for take, some in zip(turn.takes, rows, strict=True):
        notes = [Text(f"shortened to fit: {without_control_chars(note)}", "dim") for note in take.notes]
        yield Group(_heading(take), *(Line(row, widest) for row in some), *notes)
    if turn.takes and turn.kept:
        kept = ", ".join(f"{TITLES[stream].lower()} {version}" for stream, version in turn.kept.items())
        yield Text.assemble(("Unchanged  ", "bold"), (kept, "dim"))
    if turn.takes:
        yield Bars(turn.reply["timeline"])
    yield _closing(turn.reply, fits=bool(turn.takes or turn.kept))


@dataclass(frozen=True)
class Row:
    """One thing that sounds."""

    start_s: float
    end_s: float
    name: str
    """Who speaks, who makes the music, or where the effect is placed."""
    text: str
    changed: bool
    """Whether the version before had nothing quite like it."""


def _rows(take: VersionChange) -> list[Row]:
    items = _items(take.stream, take.version.data)
    old = [_content(item) for item in _items(take.stream, take.before.data)] if take.before else []
    fresh = [_content(item) not in old for item in items]
    # Where everything is new, marking it says nothing.
    marked = take.before is not None and not all(fresh)
    spans = _spans(take)
    return [
        Row(span["start"], span["end"], *_described(take.stream, item), changed=marked and new)
        for item, span, new in zip(items, spans, fresh, strict=True)
    ]


def _items(stream: str, data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = data.get("voiceTracks") or data.get("soundFxPrompts") or ()
    return [data] if stream == "music" else found


def _content(item: Mapping[str, Any]) -> dict[str, Any]:
    # Ids and what follows from them count places, so an insertion would change them all.
    return {key: value for key, value in item.items() if key not in {"id", "playAfter"}}


def _spans(take: VersionChange) -> Sequence[Mapping[str, Any]]:
    if take.stream == "music":
        return [take.timeline["music"]]
    return take.timeline["voices"] if take.stream == "voices" else take.timeline["sfx"]


def _described(stream: str, item: Mapping[str, Any]) -> tuple[str, str]:
    if stream == "music":
        return without_control_chars(item["musicProvider"]), without_control_chars(item["musicPrompt"])
    if stream == "voices":
        return _cast(item), without_control_chars(item["text"])
    place = item["placement"]
    after = f"after voice {place.get('index', 0) + 1}"
    return _PLACES.get(place["type"], after), without_control_chars(item["description"])


def _cast(track: Mapping[str, Any]) -> str:
    voice = voices.find(track["voiceId"])
    known = [voice.name, voice.gender, voice.accent] if voice else [track["voiceId"]]
    pace = "" if track["speed"] == 1 else f"speed {track['speed']:g}"
    return without_control_chars(" · ".join(part for part in (*known, pace) if part))


def _heading(take: VersionChange) -> Text:
    came = f"{take.before.id} → {take.version.id}" if take.before else take.version.id
    parent = take.version.parent
    origin = f", from {parent}" if take.before and parent != take.before.id else ""
    return Text.assemble((TITLES[take.stream], f"bold {_COLOURS[take.stream]}"), "  ", (came + origin, "dim"))


class Line:
    """A row laid out for whatever width there is; a dot marks what changed."""

    def __init__(self, row: Row, name_width: int) -> None:
        self._row = row
        self._name_width = name_width

    def __rich_console__(self, where: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        row = self._row
        grid = Table.grid(padding=(0, 2))
        grid.add_column(width=_TIME, no_wrap=True)
        span = f"{row.start_s:.1f} – {row.end_s:.1f} s"
        time = Text.assemble(("• " if row.changed else "  ", "green"), (f"{span:>{_TIME - 2}}", "dim"))
        name, text = Text(row.name, "dim"), Text(row.text)
        if options.max_width < NARROW:
            grid.add_column(overflow="fold")
            grid.add_row(time, Group(name, text))
        else:
            grid.add_column(width=self._name_width, overflow="fold")
            grid.add_column(overflow="fold")
            grid.add_row(time, name, text)
        yield grid


class Bars:
    """The ad in time, a bar a stream; what is beyond the spot is red."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def __rich_console__(self, where: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        whole_s = max(self._timeline["spotSeconds"], self._timeline["durationSeconds"])
        width = max(10, min(_WIDEST_BAR, options.max_width - _TIME))
        per_s = width / whole_s
        spot = round(self._timeline["spotSeconds"] * per_s)
        for stream, spans in self._spans():
            if not spans:
                continue
            line = Text.assemble((f"{TITLES[stream].lower():<{_TIME}}", "dim"))
            for column in range(width):
                heard = any(
                    span["start"] * per_s < column + 0.5 < max(span["end"] * per_s, 1) for span in spans
                )
                colour = _COLOURS[stream] if column < spot else "red"
                line.append("━" if heard else "╌", colour if heard else "bright_black")
            yield line
        yield Text(f"{'':<{_TIME}}0 s{math.ceil(whole_s):>{width - 5}} s", "dim")

    def _spans(self) -> Iterable[tuple[str, Sequence[Mapping[str, Any]]]]:
        music = self._timeline.get("music")
        return (
            ("voices", self._timeline["voices"]),
            ("music", [music] if music else []),
            ("sfx", self._timeline["sfx"]),
        )


def _closing(reply: Mapping[str, Any], *, fits: bool) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    if fits:
        grid.add_row("Length", _length(reply["timeline"]))
    grid.add_row(
        "Model ",
        Text.assemble(reply["provider"], (f"  {without_control_chars(reply['providerReason'])}", "dim")),
    )
    return grid


def _length(timeline: Timeline) -> Text:
    long_s, spot_s = timeline["durationSeconds"], timeline["spotSeconds"]
    if timeline["fits"]:
        return Text.assemble((f"{long_s:.1f} s", "green"), (f"  fits the spot of {spot_s:g} s", "dim"))
    return Text.assemble(
        (f"{long_s:.1f} s", "red"),
        (f"  {long_s - spot_s:.1f} s too long for the spot of {spot_s:g} s", "dim"),
    )
