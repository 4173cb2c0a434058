"""A page in a few lines, as the planner's model reads it with every message."""

from collections.abc import Collection, Iterator
from typing import Final

from callsheet.state.pages.page import Element, Page, walk
from callsheet.state.state_block import StateLine

_MAX_TEXT: Final = 60
_MORE: Final = "elements: list_elements with parentId shows them."


def outline(page: Page, *, selected: str, locked: Collection[str]) -> list[StateLine]:
    """Return a line for each element: id, type if the id lacks it, label and the beginning of its text.

    Of a large page the lower levels are left out first.
    """
    return [_line(element, depth, selected=selected, locked=locked) for element, depth in walk(page.root)]


def _line(element: Element, depth: int, *, selected: str, locked: Collection[str]) -> StateLine:
    notes = [
        *(["selected by the person"] if element.id == selected else []),
        *(["locked"] if element.id in locked else []),
    ]
    kind = "" if element.id.startswith(element.type) else f" {element.type}"
    return StateLine(
        f"{'  ' * depth}{element.id}{kind}",
        "".join(f" {word}" for word in _words(element)),
        f" ({', '.join(notes)})" if notes else "",
        need=-depth,
        more="" if notes else _MORE,
    )


def _words(element: Element) -> Iterator[str]:
    if element.label:
        yield f"[{element.label}]"
    if text := " ".join(element.content.split()):
        yield f'"{text}"' if len(text) <= _MAX_TEXT else f'"{text[:_MAX_TEXT]}…"'
