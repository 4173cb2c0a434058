"""The page in a result of `list_elements`, and the search for the element that a phrase names.

A phrase has an element's label or text, its type and position, or is "this" or "it".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.providers.offline.grammar import SLOTS, Unclear, number
from callsheet.state.errors import Invalid
from callsheet.state.pages.elements import parse_kind

_ARTICLE: Final = re.compile(r"^(?:the|my|our|a|an) ", re.IGNORECASE)
_IN: Final = re.compile(r" (?:in|of|inside|on) ", re.IGNORECASE)
_QUOTE: Final = re.compile(SLOTS["quote"])
_TYPE_NAMES: Final = {"nav": "navigation", "input": "field", "item": "list item"}
_MAX_SHOWN: Final = 40


@dataclass(frozen=True)
class OutlineElement:
    """One element of the page."""

    id: str
    type: str
    label: str
    content: str
    parents: tuple[str, ...]
    """Ids from the page down; empty for the page itself."""


@dataclass(frozen=True)
class Outline:
    """The elements of the page in order, and the person's selection."""

    elements: tuple[OutlineElement, ...]
    selected: str
    """Id of the selected element, or empty."""
    version: str | None
    """Newest version of the page; None before the first edit."""

    def get(self, name: str) -> OutlineElement | None:
        """Return the element with an id."""
        return next((each for each in self.elements if each.id == name), None)

    def inside(self, outer: OutlineElement) -> list[OutlineElement]:
        """Return all elements inside another, at any depth."""
        return [each for each in self.elements if outer.id in each.parents]

    def section(self, element: OutlineElement) -> OutlineElement:
        """Return the part of the page that an element is in, or is itself."""
        return next(each for each in self.elements if each.id in (*element.parents, element.id)[:2][-1:])

    def text(self, element: OutlineElement) -> str:
        """Return the label or content of an element, or the first content inside it."""
        texts = (each.content for each in (element, *self.inside(element)))
        return element.label or next((text for text in texts if text), "")

    def title(self, element: OutlineElement) -> str:
        """Return the name of an element in a sentence, such as `the section “Features”`."""
        if not element.parents:
            return "the page"
        text = self.text(element)
        return f"the {_TYPE_NAMES.get(element.type, element.type)} {quote(text) if text else element.id}"

    def titles(self, elements: Sequence[OutlineElement] = ()) -> str:
        """Return the names of elements, or else of all sections, as a list in a sentence."""
        sections = [each for each in self.elements if len(each.parents) == 1]
        return ", ".join(self.title(each) for each in (elements or sections)[:8]) or "nothing"


def read(result: Mapping[str, Any]) -> Outline:
    """Return the outline in a result of `list_elements`."""
    elements: list[OutlineElement] = []
    parents: list[str] = []
    for item in result["elements"]:
        del parents[item["depth"] :]
        texts = item.get("label", ""), item.get("content", "")
        elements.append(OutlineElement(item["id"], item["type"], *texts, tuple(parents)))
        parents.append(item["id"])
    return Outline(tuple(elements), result["selectedElementId"] or "", result["versionId"])


def quote(text: str) -> str:
    """Return a text in quotation marks, shortened to fit a sentence."""
    words = " ".join(text.split())
    return f"“{words}”" if len(words) <= _MAX_SHOWN else f"“{words[:_MAX_SHOWN].rstrip()}…”"


def find(phrase: str, outline: Outline, recent: str) -> OutlineElement:
    """Return the one element that a phrase names; raise `Unclear` for none and for several.

    `recent` is the id of the element that was named or changed last, or empty.
    """
    phrase = _ARTICLE.sub("", phrase)
    if (pronoun := phrase.casefold()) in {"this", "it", "that"}:
        ids = (outline.selected, recent) if pronoun == "this" else (recent, outline.selected)
        if element := outline.get(next(filter(None, ids), "")):
            return element
        raise Unclear(f"nothing is selected, and “{phrase}” names nothing that was changed just before")
    elements = _candidates(phrase, outline, outline.elements)
    place = _IN.search(phrase)
    if place and not elements:
        outer = find(phrase[place.end() :], outline, recent)
        elements = _outermost(_candidates(phrase[: place.start()], outline, outline.inside(outer)))
    if len(elements) > 1:
        raise Unclear(
            f"{quote(phrase)} may be any of {outline.titles(elements)}; "
            "name one by its text in quotes or by its place, such as the first"
        )
    if not elements:
        similar = [each for each in outline.elements if each.type == _split(phrase)[1]]
        raise Unclear(f"there is no {quote(phrase)} there; there is {outline.titles(similar)}")
    return elements[0]


def _candidates(phrase: str, outline: Outline, among: Sequence[OutlineElement]) -> list[OutlineElement]:
    """Return the elements with this label, id or text, or else those of a type."""
    name = _normalize(phrase)
    labelled = [each for each in among if name in {_normalize(each.label), each.id}]
    if matching := labelled or [each for each in among if name == _normalize(each.content)]:
        return matching
    first, _, others = phrase.partition(" ")
    if re.fullmatch(SLOTS["ordinal"], first, re.IGNORECASE):
        rank = int(number(first))
        return _candidates(others, outline, among)[rank - (rank > 0) :][:1]
    if phrase.casefold() in {"headline", "title", "main heading"}:
        return [each for each in among if each.type == "heading"][:1]
    return _of_type(phrase, outline, among)


def _of_type(phrase: str, outline: Outline, among: Sequence[OutlineElement]) -> list[OutlineElement]:
    """Return the elements of a type: all, those with a text, or those inside the element of that name."""
    name, kind = _split(phrase)
    typed = [each for each in among if each.type == kind]
    if not name or not typed:
        return typed
    if named := [each for each in typed if _normalize(outline.text(each)) == _normalize(name)]:
        return named
    outer = _candidates(name, outline, among)
    return _outermost([each for each in typed if len(outer) == 1 and outer[0].id in each.parents])


def _outermost(elements: Sequence[OutlineElement]) -> list[OutlineElement]:
    """Return the elements of the smallest depth: a section's heading rather than that of a card in it."""
    depths = [len(each.parents) for each in elements]
    return [each for each, depth in zip(elements, depths, strict=True) if depth == min(depths)]


def _split(phrase: str) -> tuple[str, str]:
    """Return the name and the type in a phrase such as `button "Go"`, `"Go" button` or `features section`."""
    name, _, word = phrase.rpartition(" ")
    if text := _QUOTE.search(phrase):
        name, word = text[0][1:-1], phrase[: text.start()] + phrase[text.end() :]
    try:
        return name, parse_kind(word)
    except Invalid:
        return name, ""


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split()).strip("“”‘’\"'")
