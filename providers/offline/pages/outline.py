"""The page as `list_elements` returns it, and the element that words name (C26).

An element is named by its label, its text in quotes, its type and place, or as "this" and "it".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.providers.offline.grammar import ORDINALS, SLOTS, number
from callsheet.state.errors import Invalid
from callsheet.state.pages.elements import parse_kind

_ARTICLE: Final = re.compile(r"^(?:the|my|our|a|an) ", re.IGNORECASE)
_INSIDE: Final = re.compile(r" (?:in|of|inside|on) ", re.IGNORECASE)
_QUOTE: Final = re.compile(SLOTS["quote"])
_KINDS: Final = {"nav": "navigation", "input": "field", "item": "list item"}
"""What people call a type, where that is not its name."""
_MAX_SHOWN: Final = 40


class Unclear(Exception):
    """A request that cannot be made a call; its text ends the sentence "I changed nothing, because …"."""


@dataclass(frozen=True)
class Element:
    """One element of the page."""

    id: str
    type: str
    depth: int
    """0 for the page itself, 1 for its sections."""
    label: str = ""
    content: str = ""


@dataclass(frozen=True)
class Outline:
    """The elements of the page, and what the person has selected."""

    elements: tuple[Element, ...]
    selected: str
    """Id of the selected element; empty for none."""
    version: str | None
    """Newest version of the page; None before the first edit."""

    def inside(self, outer: Element) -> tuple[Element, ...]:
        """Return all elements inside another, at any depth."""
        after = self.elements[self.elements.index(outer) + 1 :]
        end = next((at for at, one in enumerate(after) if one.depth <= outer.depth), len(after))
        return after[:end]

    def around(self, inner: Element, depth: int) -> Element:
        """Return the element of a depth that `inner` lies in, itself if it is that deep."""
        before = self.elements[: self.elements.index(inner) + 1]
        return next(one for one in reversed(before) if one.depth <= max(depth, 0))

    def sections(self) -> list[Element]:
        """Return what lies directly in the page."""
        return [one for one in self.elements if one.depth == 1]

    def text(self, one: Element) -> str:
        """Return the text that people know an element by: its label, its content or the first inside it."""
        texts = (other.content for other in (one, *self.inside(one)))
        return one.label or next((text for text in texts if text), "")

    def title(self, one: Element) -> str:
        """Return the name of an element in a sentence, such as `the section “Features”`."""
        if one.depth == 0:
            return "the page"
        text = self.text(one)
        return f"the {_KINDS.get(one.type, one.type)} {quoted(text) if text else one.id}"

    def titles(self, several: Sequence[Element] = ()) -> str:
        """Return the names of elements, or else of all sections, as a list in a sentence."""
        return ", ".join(self.title(one) for one in (several or self.sections())[:8]) or "nothing"


def outline(listed: Mapping[str, Any]) -> Outline:
    """Return the outline from a result of `list_elements`."""
    elements = tuple(
        Element(one["id"], one["type"], one["depth"], one.get("label", ""), one.get("content", ""))
        for one in listed["elements"]
    )
    return Outline(elements, listed["selectedElementId"] or "", listed["versionId"])


def quoted(text: str) -> str:
    """Return a text in quotes, cut to fit a sentence."""
    shown = " ".join(text.split())
    return f"“{shown}”" if len(shown) <= _MAX_SHOWN else f"“{shown[:_MAX_SHOWN].rstrip()}…”"


def resolve(words: str, outline: Outline, recent: str) -> Element:
    """Return the one element that `words` name; raises `Unclear` for none and for several.

    `recent` is the id of the element that was named or changed last, empty for none.
    """
    phrase = _ARTICLE.sub("", words)
    if phrase.casefold() in {"this", "it", "that"}:
        known = (outline.selected, recent)
        name = next(filter(None, known if phrase.casefold() == "this" else known[::-1]), "")
        if same := [one for one in outline.elements if one.id == name]:
            return same[0]
        raise Unclear(f"nothing is selected, and “{phrase}” names nothing that was changed just before")
    found = _candidates(phrase, outline, outline.elements)
    place = _INSIDE.search(phrase)
    if place and not found:
        outer = resolve(phrase[place.end() :], outline, recent)
        found = _nearest(_candidates(phrase[: place.start()], outline, outline.inside(outer)))
    if len(found) > 1:
        raise Unclear(
            f"{quoted(phrase)} may be any of {outline.titles(found)}; "
            "name one by its text in quotes or by its place, such as the first"
        )
    if not found:
        like = [one for one in outline.elements if one.type == _split(phrase)[1]]
        raise Unclear(f"there is no {quoted(phrase)} there; there is {outline.titles(like)}")
    return found[0]


def _candidates(phrase: str, outline: Outline, among: Sequence[Element]) -> list[Element]:
    first, _, rest = phrase.partition(" ")
    if first.casefold() in {*ORDINALS, "last"} and not _called(phrase, among):
        rank = int(number(first))
        at = rank - (rank > 0)
        return _candidates(rest, outline, among)[at:][:1]
    return _called(phrase, among) or _typed(phrase, outline, among)


def _called(phrase: str, among: Sequence[Element]) -> list[Element]:
    """Return the elements of this label or id, or else of this text."""
    name = _plain(phrase)
    labelled = [one for one in among if name in {_plain(one.label), one.id}]
    return labelled or [one for one in among if name == _plain(one.content)]


def _typed(phrase: str, outline: Outline, among: Sequence[Element]) -> list[Element]:
    """Return the elements of a type: all, those of a name, or those inside what has that name."""
    if phrase.casefold() in {"headline", "title", "main heading"}:
        return [one for one in among if one.type == "heading"][:1]
    name, kind = _split(phrase)
    typed = [one for one in among if one.type == kind]
    if not name or not typed:
        return typed
    if named := [one for one in typed if _plain(outline.text(one)) == _plain(name)]:
        return named
    outer = _candidates(name, outline, among)
    return _nearest([one for one in typed if len(outer) == 1 and one in outline.inside(outer[0])])


def _nearest(inner: Sequence[Element]) -> list[Element]:
    """Return the outermost of elements: the heading of a section is not that of a card in it."""
    return [one for one in inner if one.depth == min(other.depth for other in inner)]


def _split(phrase: str) -> tuple[str, str]:
    """Return the name and the type in a phrase such as `button "Go"`, `"Go" button` or `features section`."""
    name, _, word = phrase.rpartition(" ")
    if quote := _QUOTE.search(phrase):
        name, word = quote[0][1:-1], phrase[: quote.start()] + phrase[quote.end() :]
    try:
        return name, parse_kind(word)
    except Invalid:
        return name, ""


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip("“”‘’\"'")
