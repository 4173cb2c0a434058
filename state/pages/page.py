"""A landing page: a tree of elements with stable ids (C27), and what can be told of it.

A page is a value: edits (state/pages/edits.py) make another one. An element keeps its id for ever, and the
id of one that was deleted is not given again. Text is text and never markup; styles and attributes are held
to what state/pages/styles.py and state/pages/elements.py list.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from callsheet.state.errors import Invalid, Missing, TooLarge
from callsheet.state.pages import elements, styles, themes
from callsheet.state.pages.elements import KINDS

STREAM: Final = "page"
"""The stream of the page's versions."""
UPLOADS: Final = "uploads"
"""The stream of the tickets by which files come to the page."""
STREAMS: Final = (STREAM, UPLOADS)
ROOT: Final = "page"
"""Id of the element that holds all others; the same as the stream's, so a lock on it locks the whole."""
MAX_ELEMENTS: Final = 500
MAX_DEPTH: Final = 12
"""Elements from the root to the innermost, both counted."""
MAX_LABEL: Final = 80
"""Characters of what an element is called."""
MAX_TEXT: Final = 10_000
"""Characters of one element's text."""
MAX_BYTES: Final = 400_000
"""Bytes of the whole page as JSON."""

# Controls, and marks that make text look like another; some steer terminals or HTML parsers.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ufeff\ud800-\udfff]"
)
_WORDS: Final = {"nav": "navigation", "input": "field", "item": "list item"}
"""What people call a kind, where that is not its name."""
_Id = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,79}$")]


class Element(BaseModel):
    """One element and everything inside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: _Id
    type: str
    """One of `callsheet.state.pages.elements.KINDS`."""
    label: str = ""
    """What people call it, such as Pricing."""
    content: str = ""
    """Its own text, before whatever is inside; plain, with line ends."""
    style: Mapping[str, str] = {}
    attributes: Mapping[str, str] = {}
    children: tuple["Element", ...] = ()

    @field_validator("label", "content")
    @classmethod
    def _readable(cls, text: str) -> str:
        return _UNSEEN.sub("", re.sub(r"\r\n?", "\n", text))

    @field_validator("style")
    @classmethod
    def _styled(cls, style: Mapping[str, str]) -> dict[str, str]:
        return styles.check_style(style)

    @model_validator(mode="after")
    def _lawful(self) -> Self:
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
        # Frozen for callers; here the value is still being made.
        object.__setattr__(self, "attributes", elements.check_attributes(self.type, self.attributes))
        if self.content and not kind.says:
            raise Invalid(
                f"an element of type {self.type!r} has no text of its own",
                remedy="put a text or heading element beside or inside it",
            )
        if self.children and not kind.holds:
            raise Invalid(f"a {self.type} cannot hold other elements", remedy="put them before or after it")
        return self

    def label_text(self) -> str:
        """Return how it is spoken of: its id, and what it is called or says."""
        said = self.label or " ".join(self.content.split())
        return f"{self.id} ({_short(said)})" if said else self.id

    def description(self) -> str:
        """Return how a person knows it again: its kind, what it or the first inside it says, and its id."""
        inside = (text for one, _ in walk(self) for text in (one.content, one.attributes.get("alt")) if text)
        said = self.label or next(inside, self.attributes.get("placeholder", ""))
        kind = f"the {_WORDS.get(self.type, self.type)}"
        return f"{kind} “{_short(' '.join(said.split()))}” ({self.id})" if said else f"{kind} {self.id}"


class Page(BaseModel):
    """A whole page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: Element
    theme: Mapping[str, str] = themes.DEFAULT
    pinned: Mapping[_Id, Mapping[str, str]] = {}
    """Elements that keep the theme they had when they were locked, by id."""
    numbers: Mapping[str, int] = {}
    """How many elements of each kind were ever made; what ids are counted by."""

    @field_validator("theme")
    @classmethod
    def _themed(cls, theme: Mapping[str, str]) -> dict[str, str]:
        return {**themes.DEFAULT, **themes.check_theme(theme)}

    @field_validator("pinned")
    @classmethod
    def _pins(cls, pinned: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
        return {name: themes.check_theme(theme) for name, theme in pinned.items()}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.root.id != ROOT or self.root.type != "page":
            raise Invalid(f"the root of a page is {self.root.id!r}, not {ROOT!r}", remedy=f"call it {ROOT!r}")
        ids = [element.id for element, _ in walk(self.root)]
        if len(ids) > MAX_ELEMENTS:
            raise TooLarge(
                f"a page has at most {MAX_ELEMENTS} elements, not {len(ids)}", remedy="delete some first"
            )
        if len(set(ids)) < len(ids):
            twice = next(name for name in ids if ids.count(name) > 1)
            raise Invalid(f"two elements have the id {twice!r}", remedy="give each its own")
        if self.depth() > MAX_DEPTH:
            raise TooLarge(f"elements lie at most {MAX_DEPTH} deep", remedy="put them further out")
        size = len(canonical(self.data()))
        if size > MAX_BYTES:
            raise TooLarge(f"a page has at most {MAX_BYTES} bytes, not {size}", remedy="shorten texts")
        return self

    def find(self, element_id: str) -> Element | None:
        """Return the element of this id, or None."""
        return next((element for element, _ in walk(self.root) if element.id == element_id), None)

    def get(self, element_id: str) -> Element:
        """Return the element of this id; raises `Missing` when the page has none (C25)."""
        found = self.find(element_id)
        if found is None:
            raise Missing(
                f"there is no element {element_id[:80]!r} on the page",
                remedy="use the id of an element of the page",
            )
        return found

    def parents(self) -> dict[str, str]:
        """Return the id of the element each element lies in, by its own id; the root is in none."""
        return {inner.id: element.id for element, _ in walk(self.root) for inner in element.children}

    def depth(self) -> int:
        """Return how many elements lie inside each other at most."""
        return max(depth for _, depth in walk(self.root)) + 1

    def title(self) -> str:
        """Return the title: the root's own, else the first heading."""
        headings = (element.content for element, _ in walk(self.root) if element.type == "heading")
        return self.root.attributes.get("title") or next(headings, "") or "Untitled page"

    def data(self) -> dict[str, Any]:
        """Return the page as JSON values; what `Page.model_validate` takes."""
        # The theme in full: what is the default may be another one day, and a version never changes.
        return self.model_dump(mode="json", exclude_defaults=True) | {"theme": dict(self.theme)}


def walk(element: Element, depth: int = 0) -> Iterator[tuple[Element, int]]:
    """Yield an element and all inside it in the order of reading, each with its depth below the first."""
    stack = [(element, depth)]
    while stack:
        one, at = stack.pop()
        yield one, at
        stack.extend((inner, at + 1) for inner in reversed(one.children))


def digest(element: Element) -> str:
    """Return the SHA-256 of an element and all inside it, in hexadecimal: equal for equal bytes only."""
    return hashlib.sha256(canonical(element.model_dump(mode="json"))).hexdigest()


def digests(page: Page) -> dict[str, str]:
    """Return the digest of every element by id, so that "leave X alone" can be shown."""
    return {element.id: digest(element) for element, _ in walk(page.root)}


def canonical(value: object) -> bytes:
    """Return JSON in the one spelling that is hashed: keys sorted, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
