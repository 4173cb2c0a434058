"""Notices about an edit of a page: what is allowed, and still looks like a slip.

Colours are those of an element's own style and of its ancestors'; a colour with transparency, a gradient and
a rare name are not judged.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from callsheet.state.colors import contrast, rgb
from callsheet.state.pages.page import Element, Page, walk

MAX_NOTICES: Final = 5
MIN_CONTRAST: Final = 4.5
"""Of a text with its background, as WCAG 2 asks for."""
_MIN_CONTRAST_LARGE: Final = 3.0
_LARGE_PX: Final = 24.0
_BODY_PX: Final = 16.0
_HEADING_PX: Final = 32.0
"""Taken for headings without a size of their own."""
_PX: Final[Mapping[str, tuple[float, float]]] = {
    "font-size": (12, 96),
    **dict.fromkeys(("padding", "margin", "gap"), (-200, 200)),
    **dict.fromkeys(("width", "height", "min-width", "min-height"), (0, 2_000)),
}
"""Usual sizes in pixels, by property; sides have those of the whole."""
_LENGTH: Final = re.compile(r"(-?\d{1,5}(?:\.\d{1,4})?)(px|rem)")
_MARKUP: Final = re.compile(
    r"</?[A-Za-z][A-Za-z0-9]{0,9}(?:\s[^<>]{0,200})?/?>|\*\*[^*\n]{1,200}\*\*|^#{1,6} \S|&[a-z]{2,8};"
    r"|\[[^\[\]\n]{1,100}\]\(https?:",
    re.MULTILINE,
)


def notices(before: Page, after: Page) -> list[str]:
    """Return what an edit brought that looks like a slip, at most `MAX_NOTICES` lines."""
    known = {*_problems(before)}
    return [line for line in dict.fromkeys(_problems(after)) if line not in known][:MAX_NOTICES]


@dataclass(frozen=True)
class _Look:
    """Look that an element's children inherit."""

    color: str
    background: str
    size_px: float = _BODY_PX
    in_section: bool = False


def _problems(page: Page) -> Iterator[str]:
    yield from _of_children(page.root, _page_look(page), page.theme)
    for name, href in dead_anchors(page):
        yield f"{name} leads nowhere: no element is {href}; use # and the id of one, as #section-1"


def dead_anchors(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the id and the `href` of each element that leads to no element of the page."""
    elements = [element for element, _ in walk(page.root)]
    targets = {f"#{element.id}" for element in elements} | {"#", "#top"}
    for element in elements:
        href = element.attributes.get("href", "")
        if href.startswith("#") and href not in targets:
            yield element.id, href


def low_contrasts(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the id of each element whose text is hard to read, and a line that says so."""
    for element, look, _ in _looks(page.root, _page_look(page), page.theme):
        if line := _low_contrast(element, look):
            yield element.id, line


def _page_look(page: Page) -> _Look:
    return _Look(page.theme["text"], page.theme["background"])


def _of_children(parent: Element, look: _Look, theme: Mapping[str, str]) -> Iterator[str]:
    for element, own, in_section in _looks(parent, look, theme):
        yield from _of_element(element, own, in_section=in_section)


def _looks(parent: Element, look: _Look, theme: Mapping[str, str]) -> Iterator[tuple[Element, _Look, bool]]:
    """Yield the descendants, each with its look, and whether it lies in a section."""
    for element in parent.children:
        own = _look(element, look, theme)
        yield element, own, look.in_section
        yield from _looks(element, own, theme)


def _look(element: Element, outer: _Look, theme: Mapping[str, str]) -> _Look:
    style = {name: _value(text, theme) for name, text in element.style.items()}
    # The style sheet of exports gives buttons the main colour, and headings a size.
    is_button = element.type == "button"
    color = style.get("color", theme["on-primary"] if is_button else "inherit")
    background = style.get("background-color") or style.get("background")
    background = background or (theme["primary"] if is_button else "transparent")
    usual_px = _HEADING_PX if element.type == "heading" else outer.size_px
    size = _LENGTH.fullmatch(style.get("font-size", ""))
    return replace(
        outer,
        color=outer.color if color in {"inherit", "currentcolor"} else color,
        background=outer.background if background in {"transparent", "none", "inherit"} else background,
        size_px=_pixels(size) if size else usual_px,
        in_section=outer.in_section or element.type == "section",
    )


def _of_element(element: Element, look: _Look, *, in_section: bool) -> Iterator[str]:
    if element.type == "section" and in_section:
        yield f"{element.id} is a section inside a section: use a container, or move it beside the other"
    if _MARKUP.search(element.content):
        yield f"{element.id} shows markup as text: content is plain; make elements of it"
    for name, text in element.style.items():
        yield from _odd_sizes(element.id, name, text)
    if line := _low_contrast(element, look):
        yield line


def _low_contrast(element: Element, look: _Look) -> str:
    """Return a line on an element's text that is hard to read; empty for one that is not."""
    ink, paper = rgb(look.color), rgb(look.background)
    least = _MIN_CONTRAST_LARGE if look.size_px >= _LARGE_PX else MIN_CONTRAST
    if not (element.content and ink and paper) or (ratio := contrast(ink, paper)) >= least:
        return ""
    return (
        f"{element.id} is hard to read: {look.color} on {look.background} has a contrast of {ratio:.1f}, "
        f"and {least:g} is the least"
    )


def _odd_sizes(name: str, prop: str, text: str) -> Iterator[str]:
    least, most = _PX.get(prop) or _PX.get(prop.partition("-")[0]) or (None, None)
    sizes = [_pixels(match) for match in _LENGTH.finditer(text)]
    if least is not None and most is not None and any(not least <= size <= most for size in sizes):
        yield f"{name}: {prop} {text} is out of scale: {prop} is {least:g}px to {most:g}px"


def _pixels(match: re.Match[str]) -> float:
    return float(match[1]) * (_BODY_PX if match[2] == "rem" else 1)


def _value(text: str, theme: Mapping[str, str]) -> str:
    return theme.get(text.removeprefix("var(--").removesuffix(")"), text) if "var(" in text else text
