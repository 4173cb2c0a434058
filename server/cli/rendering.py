"""Results of turns, and views of things, in the terminal."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from callsheet.server.cli.kinds import ADS, CAMPAIGNS, LESSONS, PAGES, VIDEOS, Kind
from callsheet.server.cli.output import age, facts, grid, text
from callsheet.state import questions
from callsheet.state.ads.timeline import placement_words
from callsheet.state.lessons.narration import reading_levels
from callsheet.state.owners import LOCAL

View = Mapping[str, Any]
_STREAMS: Final[Mapping[str, tuple[str, str]]] = {
    "voices": ("Voices", "cyan"),
    "music": ("Music", "magenta"),
    "sfx": ("Effects", "yellow"),
}
"""Title and colour of an ad's streams."""
_SEGMENTS: Final[Mapping[str, str]] = {
    "hook": "Hook",
    "concept_introduction": "Concepts",
    "process_explanation": "Explanation",
    "conclusion": "Conclusion",
}
_NARROW: Final = 72
"""Columns below which a name stands above its text instead of beside it."""
_TIME_WIDTH: Final = 17
_WIDEST_NAME: Final = 28
_WIDEST_BAR: Final = 72
_SHOWN: Final = 10
"""Campaigns that an answer shows."""


def turn_parts(kind: Kind, reply: View, view: View) -> Iterator[RenderableType]:
    """Yield the parts of a turn's result: the message, what changed, and the model.

    `view` is the thing as it is now; the reply itself for a kind whose replies say all.
    """
    message = reply.get("response") if kind is CAMPAIGNS else reply.get("message")
    if message:
        yield text(message)
    extent = (reply.get("searchExtent") or {}).get("text", "")
    notes = [*([extent] if extent not in (message or "") else []), *(reply.get("notes") or ())]
    yield from (text(note, "dim") for note in notes if kind is CAMPAIGNS)
    receipt = reply.get("receipt")
    if receipt and receipt["text"] not in (message or ""):
        line = receipt["text"]
        for problem in receipt["problems"]:
            line = line.replace(f": {problem}", "") if problem in (message or "") else line
        yield text(line, "dim")
    yield from _changes(kind, reply, view)
    if reply.get("provider"):
        yield model_line(reply["provider"], reply["providerReason"])


def model_line(provider: str, reason: str) -> RenderableType:
    """Return the model that answered, and why it was this one."""
    return facts({"Model": Text.assemble(provider, "  ", text(reason, "dim"))})


def _changes(kind: Kind, reply: View, view: View) -> Iterator[RenderableType]:
    changed = {draft["stream"] for draft in reply.get("created") or ()}
    if kind is ADS and changed:
        yield from ad_parts(view, changed)
    elif kind is PAGES and changed:
        yield _page_changes(reply)
    elif kind is LESSONS:
        yield from _lesson_changes(reply, view, changed)
    elif kind is VIDEOS:
        yield scenes_table(view)
    elif kind is CAMPAIGNS and reply.get("campaigns"):
        yield campaigns_table(reply["campaigns"][:_SHOWN])
        if len(reply["campaigns"]) > _SHOWN:
            every = f"the {len(reply['campaigns'])} nearest" if reply["total"] is None else reply["total"]
            yield text(f"{_SHOWN} of {every} campaigns", "dim")


def view_parts(kind: Kind, view: View) -> Iterator[RenderableType]:
    """Yield the parts of a thing's view."""
    if kind is ADS:
        brief = view.get("brief") or {}
        title = text(view["title"], "cyan")
        yield facts({"Ad": view["adId"], "Title": title, "For": brief.get("clientDescription")})
        yield from ad_parts(view)
    elif kind is PAGES:
        active = view["activeVersionId"]
        version = f"{view['versionId'] or 'start'}{f', active {active}' if active else ''}"
        yield facts({"Page": text(view["title"] or view["pageId"], "cyan"), "Version": version})
        yield _outline(view["page"]["root"])
    elif kind is LESSONS:
        student = " · ".join(filter(None, (view["childAge"], view["childInterest"], view["learningStyle"])))
        yield facts({"Lesson": text(view["title"], "cyan"), "Status": view["status"], "Student": student})
        yield from lesson_parts(view)
    elif kind is VIDEOS:
        yield facts({"Video": text(view["title"], "cyan")})
        yield scenes_table(view)
    else:
        named = {name.replace("_", " ").capitalize(): _cell_text(value) for name, value in view.items()}
        yield facts(named)


def _cell_text(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


_WORDS: Final = ("question", "title")
"""Fields in which a question has its words, where it has no message."""
_ANSWER_FIELDS: Final = ("effect", "choices", "options", "facts", "response_schema")
"""Fields that are shown as effect, choices and shape of the answer."""


def question_parts(value: Any) -> Iterator[RenderableType]:
    """Yield what is needed to answer the question of an interrupt."""
    if not isinstance(value, Mapping):
        yield text(value)
        return
    if value.get("facts"):
        yield offered_facts(value)
    if value.get("images"):
        yield images_table(value["images"])
    if words := questions.full_text(value):
        yield text(words, "bold yellow")
    else:
        yield from _own_question(value)
    yield from answer_parts(value)


def _own_question(value: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield the words of a question of any other form, and its fields that no part of the answer shows."""
    words = [str(value[name]) for name in _WORDS if value.get(name)][:1]
    yield from (text(one, "bold yellow") for one in words)
    rest = {name: _choice_text(one) for name, one in value.items() if name not in {*_WORDS, *_ANSWER_FIELDS}}
    if rest:
        yield facts(rest)


def answer_parts(value: Any) -> Iterator[RenderableType]:
    """Yield effect, choices and shape of the answer, where the words of a question do not have them."""
    if not isinstance(value, Mapping) or questions.asks_again(value):
        return
    schema = questions.response_schema(value)
    shape = "" if schema is None else f"JSON such as {json.dumps(schema_example(schema), ensure_ascii=False)}"
    rows = {
        "Effect": "; ".join(questions.changes(value)),
        "Choices": ", ".join(map(_choice_text, questions.choices(value))),
        "Shape": shape,
        "Schema": "" if schema is None else json.dumps(schema, ensure_ascii=False),
    }
    if any(rows.values()):
        yield facts(rows)


def _choice_text(choice: Any) -> str:
    return choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False)


def schema_example(schema: Mapping[str, Any]) -> Any:
    """Return a value of the shape that a JSON Schema describes; an ellipsis stands for a text."""
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    if "const" in schema or "default" in schema:
        return schema.get("const", schema.get("default"))
    if isinstance(fields := schema.get("properties"), Mapping):
        names = schema.get("required") or fields
        return {name: schema_example(fields.get(name) or {}) for name in names}
    if schema.get("type") == "array":
        return [schema_example(schema.get("items") or {})]
    return {"boolean": True, "integer": schema.get("minimum", 1), "number": schema.get("minimum", 1)}.get(
        str(schema.get("type")), "…"
    )


def ad_parts(view: View, changed: set[str] | None = None) -> Iterator[RenderableType]:
    """Yield the streams of an ad, its timeline and its length; those in `changed` alone if given."""
    newest = {name: stream["newest"] for name, stream in view["streams"].items() if stream["newest"]}
    shown = [name for name in _STREAMS if name in newest and (changed is None or name in changed)]
    rows = {name: _ad_rows(name, newest[name]["data"], view["timeline"]) for name in shown}
    widths = [len(row[2]) for one in rows.values() for row in one]
    width = min(_WIDEST_NAME, max(widths, default=0))
    for name in shown:
        version, active = newest[name], view["streams"][name]["active"]
        ids = f"{version['parent']} → {version['id']}" if version["parent"] else version["id"]
        ids += f", active {active['id']}" if active else ""
        title, colour = _STREAMS[name]
        timed: list[RenderableType] = [_Timed(*row, width) for row in rows[name]]
        # An ad may have been made without effects.
        yield Group(
            Text.assemble((title, f"bold {colour}"), "  ", (ids, "dim")),
            *(timed or [Text(f"{'':<{_TIME_WIDTH}}  none", "dim")]),
        )
    rest = [f"{_STREAMS[name][0].lower()} {newest[name]['id']}" for name in newest if name not in shown]
    if shown and rest:
        yield facts({"Unchanged": text(", ".join(rest), "dim")})
    if shown:
        yield _Bars(view["timeline"])
        yield facts({"Length": _length(view["timeline"])})


def _ad_rows(stream: str, data: View, timeline: View) -> list[tuple[float, float, str, str]]:
    if stream == "music":
        span = timeline["music"]
        return [(span["start"], span["end"], str(data["musicProvider"]), data["musicPrompt"])]
    items = data["voiceTracks"] if stream == "voices" else data["soundFxPrompts"]
    return [
        (
            span["start"],
            span["end"],
            _speaker(item) if stream == "voices" else placement_words(item["placement"]),
            _words(item),
        )
        for item, span in zip(items, timeline[stream], strict=False)
    ]


def _words(item: View) -> str:
    return str(item.get("text") or item.get("description"))


def _speaker(track: View) -> str:
    # Such as azure/en-US-AvaMultilingualNeural@english.
    name = str(track["voiceId"]).rpartition("/")[2].partition("@")[0].removesuffix("Neural")
    return name if track["speed"] == 1 else f"{name}, speed {track['speed']:g}"


class _Timed:
    """A text with its time span and a name, for the width of the terminal."""

    def __init__(self, start_s: float, end_s: float, name: str, words: str, width: int) -> None:
        self._time = Text(f"{f'{start_s:.1f} – {end_s:.1f} s':>{_TIME_WIDTH}}", "dim")
        self._name, self._text, self._width = text(name, "dim"), text(words), width

    def __rich_console__(self, target: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        table = Table.grid(padding=(0, 2))
        table.add_column(width=_TIME_WIDTH, no_wrap=True)
        if options.max_width < _NARROW:
            table.add_column(overflow="fold")
            table.add_row(self._time, Group(self._name, self._text))
        else:
            table.add_column(width=self._width, overflow="fold")
            table.add_column(overflow="fold")
            table.add_row(self._time, self._name, self._text)
        yield table


class _Bars:
    """The timeline as one bar per stream; red beyond the length of the spot."""

    def __init__(self, timeline: View) -> None:
        self._timeline = timeline

    def __rich_console__(self, target: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        timeline = self._timeline
        total_s = max(timeline["spotSeconds"], timeline["durationSeconds"])
        width = max(10, min(_WIDEST_BAR, options.max_width - _TIME_WIDTH))
        per_s = width / total_s
        for stream, (title, colour) in _STREAMS.items():
            spans = timeline.get(stream) or []
            spans = [spans] if isinstance(spans, Mapping) else spans
            if not spans:
                continue
            line = Text(f"{title.lower():<{_TIME_WIDTH}}", "dim")
            for column in range(width):
                audible = any(
                    span["start"] * per_s < column + 0.5 < max(span["end"] * per_s, 1) for span in spans
                )
                inside = column < round(timeline["spotSeconds"] * per_s)
                style = (colour if inside else "red") if audible else "bright_black"
                line.append("━" if audible else "╌", style)
            yield line
        yield Text(f"{'':<{_TIME_WIDTH}}0 s{math.ceil(total_s):>{width - 5}} s", "dim")


def _length(timeline: View) -> Text:
    length_s, spot_s = timeline["durationSeconds"], timeline["spotSeconds"]
    how = ", measured" if timeline["timing"] == "measured" else ""
    if timeline["fits"]:
        return Text.assemble((f"{length_s:.1f} s", "green"), (f"  fits the spot of {spot_s:g} s{how}", "dim"))
    over = f"  with its silence {timeline['overSeconds']:.1f} s too long for the spot of {spot_s:g} s{how}"
    return Text.assemble((f"{length_s:.1f} s", "red"), (over, "dim"))


def _page_changes(reply: View) -> Table:
    table = grid("cyan", "")
    results = {call["id"]: call["result"] for call in reply["toolCalls"]}
    for draft in reply["created"]:
        result = results.get(draft["toolCallId"], {})
        for line in result.get("changes") or [result.get("message") or "changed"]:
            table.add_row(text(draft["versionId"]), text(line))
    return table


def _outline(element: View, depth: int = 0) -> Table:
    table = grid("dim", "")
    for level, one in _elements(element, depth):
        words = one.get("content") or one.get("label") or ""
        table.add_row(text("  " * level + one["id"]), text(words))
    return table


def _elements(element: View, depth: int) -> Iterator[tuple[int, View]]:
    yield depth, element
    for child in element.get("children") or ():
        yield from _elements(child, depth + 1)


def _lesson_changes(reply: View, view: View, changed: set[str]) -> Iterator[RenderableType]:
    value = (reply.get("interrupt") or {}).get("value") or {}
    if value.get("facts"):
        yield offered_facts(value)
    elif reply.get("narration") and "narration" in changed:
        yield narration_parts({**reply, **view})
    if value.get("images"):
        yield images_table(value["images"])


def lesson_parts(view: View) -> Iterator[RenderableType]:
    """Yield the facts of a lesson, the chosen ones marked, and its narration."""
    listed = [*view["facts"], *view["earlierFacts"]]
    chosen = [one["id"] for one in view["confirmedFacts"]]
    if listed:
        yield offered_facts({**view, "chosenFacts": chosen})
    if chosen:
        yield text(f"✓ {len(chosen)} of {len(listed)} chosen", "dim")
    if view["narration"]:
        yield narration_parts(view)


def offered_facts(value: View) -> Table:
    """Return newest and earlier facts as a table, each with its number and confidence, chosen ones marked."""
    table, chosen = _choice_table("Fact", "What it says", "Sure"), value.get("chosenFacts", ())
    for number, fact in enumerate([*value["facts"], *value.get("earlierFacts", ())], 1):
        sure = f"{round(fact['confidence'] * 100)} %" if fact.get("confidence") is not None else ""
        place = f"{'✓ ' * (fact['id'] in chosen)}{number}"
        table.add_row(place, text(fact["concept"]), text(fact["details"]), sure)
    return table


def images_table(images: Sequence[View]) -> Table:
    """Return the images as a table, each with its number, URL and credit."""
    table = _choice_table("Image", "Where", "Whose")
    for image in images:
        table.add_row(str(image["number"]), text(image["title"]), text(image["url"]), text(image["credit"]))
    return table


def _choice_table(name: str, words: str, last: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", style="bold", no_wrap=True)
    table.add_column(name, style="cyan", overflow="fold", max_width=24)
    table.add_column(words, overflow="fold", ratio=1)
    table.add_column(last, style="dim", overflow="fold", max_width=20)
    return table


def narration_parts(view: View) -> Group:
    """Return a lesson's narration with the times of its segments, measured ones once it was rendered."""
    width, narration = max(map(len, _SEGMENTS.values())), view["narration"]
    measured = (narration.get("readability") or {}).get("grade")
    levels = reading_levels(narration["reading_level"], measured)
    heading = f"  {view['speech']}, {levels}"
    planned = [(one["start_time"], one["start_time"] + one["duration"]) for one in narration["segments"]]
    rows: list[RenderableType] = []
    for (start, end), segment in zip(view["segmentTimes"] or planned, narration["segments"], strict=True):
        name = _SEGMENTS.get(segment["type"], segment["type"])
        rows.append(_Timed(start, end, name, segment["narration"], width))
        rows += [text(one, "yellow") for one in view["segmentNotes"].get(segment["id"], ())]
    return Group(Text.assemble(text(narration["topic"], "bold cyan"), (heading, "dim")), *rows)


def scenes_table(view: View) -> Table:
    """Return the scenes of a video in order."""
    table = grid("dim", "cyan", "", "dim", "dim")
    for scene in view["scenes"]:
        table.add_row(
            f"{scene['position']}.",
            f"{scene['id']} {scene['versionId']}",
            text(scene["name"]),
            f"{round(scene['durationSeconds'], 1):g} s",
            text(scene["summary"]),
        )
    return table


def campaigns_table(campaigns: Sequence[View]) -> Table:
    """Return campaigns, one a line."""
    table = grid("cyan", "", "dim", "", "dim")
    for one in campaigns:
        offer = one["offer"] or "no offer"
        cells = (one["id"], one["company"], one["channel"], offer, one["capture_date"])
        table.add_row(*map(text, cells))
    return table


def version_cells(version: View, *, active: bool) -> tuple[str | None, ...]:
    """Return the cells of a version in a list, from its id to its summary."""
    standing = f"{version['status']}, active" if active else version["status"]
    return version["id"], standing, age(version["createdAt"]), _maker(version), version.get("summary")


def _maker(version: View) -> str:
    """Return who made a version, in people's words."""
    if version["by"] == "model":
        return f"the {version['model']} model" if version["model"] else "a model"
    if version["by"] != "person":
        return str(version["by"])
    return "by hand" if version["createdBy"] == LOCAL else f"{version['createdBy']}, by hand"
