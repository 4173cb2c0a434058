"""A landing page: a tree of elements with stable ids, and its few lines for the planner's model.

A page is immutable; edits (state/pages/edits.py) return a new one. Ids never change and are never reused.
Text is never markup; styles and attributes are limited to those in state/pages/styles.py and elements.py.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Final, NotRequired, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from callsheet.state.errors import Invalid, Missing, TooLarge
from callsheet.state.pages import elements, styles
from callsheet.state.pages.elements import KINDS
from callsheet.state.state_block import StateLine
from callsheet.state.workflow import Workflow

STREAM: Final = "page"
"""Stream of the page's versions."""
UPLOADS: Final = "uploads"
"""Stream of the page's upload tickets."""
ROOT: Final = "page"
"""Id of the root element; equal to the stream's name, so a lock on it locks the whole page."""
UNTITLED: Final = "Untitled page"
"""Title of a page without title and headings."""
MAX_ELEMENTS: Final = 500
MAX_DEPTH: Final = 12
"""Maximum levels, the root included."""
MAX_LABEL: Final = 80
"""Maximum characters of a label."""
MAX_TEXT: Final = 10_000
"""Maximum characters of one element's text."""
MAX_BYTES: Final = 400_000
"""Maximum bytes of the page as JSON."""

# Control and direction characters, which can disguise a text or control terminals and HTML parsers.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ufeff\ud800-\udfff]"
)
_KIND_TITLES: Final = {"nav": "navigation", "input": "field", "item": "list item"}
"""Names of kinds in messages, where they differ."""
_Id = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,79}$")]


class Element(BaseModel):
    """One element with its descendants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: _Id
    type: str = Field(json_schema_extra={"enum": [*KINDS]})
    """One of `callsheet.state.pages.elements.KINDS`."""
    label: str = ""
    """Title for people, such as Pricing."""
    content: str = ""
    """Plain text before the children; may have line breaks."""
    style: Mapping[str, str] = {}
    attributes: Mapping[str, str] = {}
    children: tuple["Element", ...] = ()

    @field_validator("label", "content")
    @classmethod
    def _clean_text(cls, text: str) -> str:
        return _INVISIBLE.sub("", re.sub(r"\r\n?", "\n", text))

    @field_validator("style")
    @classmethod
    def _check_style(cls, style: Mapping[str, str]) -> dict[str, str]:
        return styles.check_style(style)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.type not in KINDS:
            raise Invalid(
                f"there is no element type {self.type[:80]!r}", remedy=f"use one of {', '.join(KINDS)}"
            )
        for name, most in (("label", MAX_LABEL), ("content", MAX_TEXT)):
            if len(getattr(self, name)) > most:
                raise TooLarge(
                    f"the {name} of {self.id!r} has more than {most} characters", remedy="shorten it"
                )
        kind = KINDS[self.type]
        # The model is frozen, but still under construction here.
        object.__setattr__(self, "attributes", elements.check_attributes(self.type, self.attributes))
        if self.content and not kind.says:
            raise Invalid(
                f"an element of type {self.type!r} has no text of its own",
                remedy="add a text or heading element next to it or inside it",
            )
        if self.children and not kind.holds:
            raise Invalid(f"a {self.type} cannot hold other elements", remedy="put them before or after it")
        return self

    def label_text(self) -> str:
        """Return the id with the label or the beginning of the text."""
        text = self.label or " ".join(self.content.split())
        return f"{self.id} ({_short(text)})" if text else self.id

    def description(self) -> str:
        """Return the kind, the label or first text in it, and the id, for people to recognise it."""
        texts = (
            text for inner, _ in walk(self) for text in (inner.content, inner.attributes.get("alt")) if text
        )
        text = self.label or next(texts, self.attributes.get("placeholder", ""))
        kind = f"the {_KIND_TITLES.get(self.type, self.type)}"
        return f"{kind} “{_short(' '.join(text.split()))}” ({self.id})" if text else f"{kind} {self.id}"


class Page(BaseModel):
    """A complete page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: Element
    theme: Mapping[str, str] = styles.DEFAULT_THEME
    pinned: Mapping[_Id, Mapping[str, str]] = {}
    """Themes of locked elements, by id; they keep the theme they had when locked."""
    numbers: Mapping[str, int] = {}
    """Elements ever created, by kind; the counters of ids."""

    @field_validator("theme")
    @classmethod
    def _check_theme(cls, theme: Mapping[str, str]) -> dict[str, str]:
        return {**styles.DEFAULT_THEME, **styles.check_theme(theme)}

    @field_validator("pinned")
    @classmethod
    def _check_pinned(cls, pinned: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
        return {name: styles.check_theme(theme) for name, theme in pinned.items()}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.root.id != ROOT or self.root.type != "page":
            raise Invalid(f"the root of a page is {self.root.id!r}, not {ROOT!r}", remedy=f"call it {ROOT!r}")
        ids = [element.id for element, _ in walk(self.root)]
        if len(ids) > MAX_ELEMENTS:
            raise TooLarge(
                f"a page has at most {MAX_ELEMENTS} elements, not {len(ids)}",
                remedy="delete some that you no longer need",
            )
        if len(set(ids)) < len(ids):
            twice = next(name for name in ids if ids.count(name) > 1)
            raise Invalid(f"two elements have the id {twice!r}", remedy="use unique ids")
        if self.depth() > MAX_DEPTH:
            raise TooLarge(f"elements lie at most {MAX_DEPTH} deep", remedy="use fewer levels")
        size = len(_canonical(self.data()))
        if size > MAX_BYTES:
            raise TooLarge(f"a page has at most {MAX_BYTES} bytes, not {size}", remedy="shorten texts")
        return self

    def find(self, element_id: str) -> Element | None:
        """Return the element with this id, or None."""
        return next((element for element, _ in walk(self.root) if element.id == element_id), None)

    def get(self, element_id: str) -> Element:
        """Return the element with this id; raises `Missing` if there is none."""
        element = self.find(element_id)
        if element is None:
            raise Missing(
                f"there is no element {element_id[:80]!r} on the page",
                remedy="use the id of an element of the page",
            )
        return element

    def parents(self) -> dict[str, str]:
        """Return the parent's id by element id; the root has no entry."""
        return {inner.id: element.id for element, _ in walk(self.root) for inner in element.children}

    def depth(self) -> int:
        """Return the number of levels, the root included."""
        return max(depth for _, depth in walk(self.root)) + 1

    def title(self) -> str:
        """Return the root's title, else the first heading."""
        headings = (element.content for element, _ in walk(self.root) if element.type == "heading")
        return self.root.attributes.get("title") or next(headings, "") or UNTITLED

    def data(self) -> dict[str, Any]:
        """Return the page as JSON values for `Page.model_validate`."""
        # Store the complete theme: the default may change later, but a version must not.
        return self.model_dump(mode="json", exclude_defaults=True) | {"theme": dict(self.theme)}


def walk(element: Element, depth: int = 0) -> Iterator[tuple[Element, int]]:
    """Yield an element and its descendants in document order, each with its depth."""
    stack = [(element, depth)]
    while stack:
        current, level = stack.pop()
        yield current, level
        stack.extend((child, level + 1) for child in reversed(current.children))


def digest(element: Element) -> str:
    """Return the hexadecimal SHA-256 of an element with its descendants."""
    return hashlib.sha256(_canonical(element.model_dump(mode="json"))).hexdigest()


def digests(page: Page) -> dict[str, str]:
    """Return the digest of every element by id, to prove which elements are unchanged."""
    return {element.id: digest(element) for element, _ in walk(page.root)}


def _canonical(value: object) -> bytes:
    """Return JSON in the form that is hashed: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


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
    if element.id == ROOT:
        yield f"({', '.join(_head(element.attributes))})"
    if element.label:
        yield f"[{element.label}]"
    if text := " ".join(element.content.split()):
        yield f'"{text}"' if len(text) <= _MAX_TEXT else f'"{text[:_MAX_TEXT]}…"'


def _head(attributes: Mapping[str, str]) -> Iterator[str]:
    """Yield what search engines and shared links show of the page, or that there is none."""
    for name in ("title", "description"):
        text = attributes.get(name)
        yield f'{name} "{_short(text, _MAX_TEXT)}"' if text else f"no {name}"


class PageState(Workflow):
    """State of a conversation about one landing page."""

    page_id: NotRequired[str]
    """Id of the page; the thread's id by default."""
    selected_element_id: NotRequired[str | None]
    """Id of the element that "this" refers to; stays until another or None is given."""
