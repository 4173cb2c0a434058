"""A page in a few lines, as the planner's model reads it with every message."""

from collections.abc import Collection, Iterator
from typing import Final

from callsheet.state.pages.page import Element, Page, walk

MAX_LINES: Final = 70
"""Elements of an outline; of a larger page it has the upper levels."""
_MAX_TEXT: Final = 60


def outline(page: Page, *, selected: str, locked: Collection[str]) -> list[str]:
    """Return a line for each element: id, type if the id lacks it, label and the beginning of its text."""
    elements = list(walk(page.root))
    shown_depth = max(depth for _, depth in elements)
    while shown_depth > 1 and sum(depth <= shown_depth for _, depth in elements) > MAX_LINES:
        shown_depth -= 1
    lines = [
        _line(element, depth, selected=selected, locked=locked)
        for element, depth in elements
        if depth <= shown_depth
    ]
    left = len(elements) - len(lines[:MAX_LINES])
    more = [f"{left} more elements: list_elements with parentId shows them."] if left else []
    return [*lines[:MAX_LINES], *more]


def _line(element: Element, depth: int, *, selected: str, locked: Collection[str]) -> str:
    notes = [
        *(["selected by the person"] if element.id == selected else []),
        *(["locked"] if element.id in locked else []),
    ]
    words = " ".join(_words(element))
    return f"{'  ' * depth}{words}" + (f" ({', '.join(notes)})" if notes else "")


def _words(element: Element) -> Iterator[str]:
    yield element.id
    if not element.id.startswith(element.type):
        yield element.type
    if element.label:
        yield f"[{element.label}]"
    if text := " ".join(element.content.split()):
        yield f'"{text}"' if len(text) <= _MAX_TEXT else f'"{text[:_MAX_TEXT]}…"'
