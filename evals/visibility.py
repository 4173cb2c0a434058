"""Visibility of a page's texts: size, contrast and opacity, as the styles of their ancestors leave them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from callsheet.state.colors import contrast, rgb
from callsheet.state.pages.page import Element, Page

MIN_PX: Final = 9.0
"""Smallest size of a text that people can read."""
MIN_CONTRAST: Final = 2.5
"""Least contrast with the background; WCAG asks for 4.5, or 3 for large texts."""
_MIN_OPACITY: Final = 0.3
_BODY_PX: Final = 16.0
_UNITS: Final = {"px": 1.0, "pt": 4 / 3, "rem": _BODY_PX}


@dataclass(frozen=True)
class TextLook:
    """The look of an element's text, with what it inherits."""

    element: Element
    color: str
    background: str
    size_px: float
    opacity: float = 1.0
    is_hidden: bool = False

    def problem(self) -> str:
        """Return why people cannot read the text; empty if they can."""
        if self.is_hidden or self.opacity < _MIN_OPACITY:
            return "is hidden"
        if self.size_px < MIN_PX:
            return f"has {self.size_px:g} px"
        fore, back = rgb(self.color), rgb(self.background)
        if fore and back and contrast(fore, back) < MIN_CONTRAST:
            return f"is {self.color} on {self.background}"
        return ""


def looks(page: Page) -> Iterator[TextLook]:
    """Yield the look of every element of a page, in its order."""
    theme = page.theme
    yield from _inside(TextLook(page.root, theme["text"], theme["background"], _BODY_PX), theme)


def _inside(look: TextLook, theme: Mapping[str, str]) -> Iterator[TextLook]:
    yield look
    for child in look.element.children:
        yield from _inside(_child(look, child, theme), theme)


def _child(parent: TextLook, element: Element, theme: Mapping[str, str]) -> TextLook:
    style = {name: _value(text, theme) for name, text in element.style.items()}
    # The product's style sheet gives buttons the main colour, and headings a size of their own.
    is_button = element.type == "button"
    color = style.get("color") or (theme["on-primary"] if is_button else parent.color)
    background = style.get("background-color") or style.get("background") or ""
    if not background and is_button:
        background = theme["primary"]
    opacity = style.get("opacity", "1")
    share = float(opacity.rstrip("%")) / (100 if opacity.endswith("%") else 1)
    return replace(
        parent,
        element=element,
        color=parent.color if color in {"inherit", "currentcolor"} else color,
        background=parent.background if background in {"", "transparent", "none"} else background,
        size_px=_pixels(style.get("font-size", ""), parent.size_px),
        opacity=parent.opacity * share,
        is_hidden=parent.is_hidden or style.get("display") == "none",
    )


def _value(text: str, theme: Mapping[str, str]) -> str:
    name = text.strip().removeprefix("var(--").removesuffix(")")
    return theme.get(name, text) if text.strip().startswith("var(--") else text


def _pixels(text: str, parent_px: float) -> float:
    for unit, factor in _UNITS.items():
        if text.endswith(unit) and _is_number(text.removesuffix(unit)):
            return float(text.removesuffix(unit)) * factor
    for unit, factor in {"em": 1.0, "%": 0.01}.items():
        if text.endswith(unit) and _is_number(text.removesuffix(unit)):
            return float(text.removesuffix(unit)) * factor * parent_px
    return parent_px


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()
