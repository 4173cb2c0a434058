"""Requests about a page as tool calls."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.providers.offline.conversation import Request
from callsheet.providers.offline.grammar import Match, number
from callsheet.providers.offline.pages import kits
from callsheet.providers.offline.pages.outline import Element, Outline, Unclear, find, quote
from callsheet.state.pages.starter import STARTER
from callsheet.state.pages.themes import THEMES

Slots = Mapping[str, str]
_TEXT_TYPES: Final = {"heading", "text", "quote", "link", "item"}
"""Types whose colour is that of their letters; other types colour their background."""
_STYLES: Final = {
    "bold": {"font-weight": "bold"},
    "italic": {"font-style": "italic"},
    "underlined": {"text-decoration": "underline"},
    "uppercase": {"text-transform": "uppercase"},
    "centered": {"text-align": "center"},
}
_POSITIONS: Final = {"above": "before", "before": "before", "below": "after", "after": "after"}
_PLACES: Final = {"before": "above", "after": "below", "inside": "in"}
_FACTORS: Final = {"bigger": 1.25, "larger": 1.25, "smaller": 0.8}
_HEADING_PX: Final = {"1": 32, "2": 24, "3": 19, "4": 16, "5": 13, "6": 11}
_TEXT_PX: Final = 16


@dataclass
class Draft:
    """The edits of one message, planned with one look at the page."""

    outline: Outline
    details: Mapping[str, Mapping[str, Any]]
    """Results of `read_element` by id."""
    recent: str
    """Id of the element that was named last, or changed last in an earlier turn; or empty."""
    undoable: int
    """Number of versions that "undo that" takes back."""
    edits: list[tuple[Request, str]] = field(default_factory=list)
    """Each call with the title of its element, such as `the section “Features”`."""
    unread: list[str] = field(default_factory=list)
    """Ids of elements to read before the edits are complete."""
    notes: list[str] = field(default_factory=list)
    """Answers to questions."""

    def target(self, phrase: str) -> Element:
        """Return the element that a phrase names."""
        element = find(phrase, self.outline, self.recent)
        self.recent = element.id
        return element

    def add(self, name: str, title: str, **args: Any) -> None:
        """Add a call; raise `Unclear` if the message asks for the same one twice."""
        if any(request == Request(name, args) for request, _ in self.edits):
            raise Unclear("the message asks for the same twice")
        self.edits.append((Request(name, args), title))

    def modify(self, element: Element, **changes: Any) -> None:
        """Add a change of an element."""
        self.add("modify_element", self.outline.title(element), elementId=element.id, modifications=changes)

    def create(self, spec: kits.Spec, title: str, reference: Element, position: str) -> None:
        """Add a new element. It has no id yet, so that "it" names nothing next."""
        title = f"{title} {_PLACES[position]} {self.outline.title(reference)}"
        self.add("create_element", title, parentId=reference.id, position=position, **spec)
        self.recent = ""

    def move(self, element: Element, reference: Element, position: str) -> None:
        """Add a move of an element to a place relative to another."""
        title = f"{self.outline.title(element)} {_PLACES[position]} {self.outline.title(reference)}"
        self.add("move_element", title, elementId=element.id, parentId=reference.id, position=position)
        self.recent = element.id


def plan(draft: Draft, requests: Sequence[Match]) -> None:
    """Add the edits of the requests to the draft; raise `Unclear` if one has none."""
    for request in requests:
        _HANDLERS[request.form](draft, request.slots)


def _fill_page(draft: Draft, slots: Slots) -> None:
    """Fill in the starter page's texts: the client's name, and the line about it."""
    name, about = slots["client"], slots.get("about", "")
    texts = {"text-1": name, "heading-1": name, "text-6": f"© {name}"}
    if about:
        texts["text-2"] = f"{about[:1].upper()}{about[1:]}."
    for element_id, text in texts.items():
        element = draft.outline.get(element_id)
        if element is None or element.content != STARTER.get(element_id).content:
            raise Unclear("this page is no longer the starter page; say what to change on it")
        draft.modify(element, content=text)
    draft.notes.append("The other texts are placeholders.")


def _colour(draft: Draft, slots: Slots) -> None:
    element, part = draft.target(slots["target"]), slots.get("part", "").lower()
    letters = part.startswith(("text", "font"))
    letters |= element.type in _TEXT_TYPES and not part.startswith("back")
    name = "color" if letters else "background-color"
    draft.modify(element, style={name: slots["colour"].replace(" ", "").lower()})


def _size(draft: Draft, slots: Slots) -> None:
    element, word = draft.target(slots["target"]), slots["size"].lower().split()[-1]
    if word not in _FACTORS:
        pixels = float(slots["size"].lower().rstrip("pixels "))
    elif element.id in draft.details:
        pixels = _font_px(draft.details[element.id]) * _FACTORS[word]
    else:
        draft.unread.append(element.id)
        return
    draft.modify(element, style={"font-size": f"{pixels:.0f}px"})


def _font_px(detail: Mapping[str, Any]) -> float:
    """Return an element's font size; raise `Unclear` if it is not in pixels."""
    size = detail["style"].get("font-size")
    if size is None:
        heading = detail["type"] == "heading"
        return _HEADING_PX[detail["attributes"].get("level", "2")] if heading else _TEXT_PX
    if not re.fullmatch(r"[0-9.]+px", size):
        raise Unclear(f"its font size is {size}, and I know sizes in pixels only")
    return float(size[:-2])


def _add_section(draft: Draft, slots: Slots) -> None:
    """Add a section beside another, or at the end: before the footer if there is one."""
    kit, page = slots["kit"].lower(), draft.outline.elements[0]
    last = draft.outline.inside(page)[-1:]
    reference, position = page, "inside"
    if "target" in slots:
        reference = draft.outline.section(draft.target(slots["target"]))
        position = _POSITIONS[slots["beside"].lower()]
    elif last and draft.outline.section(last[0]).type == "footer":
        reference, position = draft.outline.section(last[0]), "before"
    title = f"the section {quote(kit.capitalize())} with placeholder texts"
    draft.create(kits.section(kit), title, reference, position)


def _add_element(draft: Draft, slots: Slots) -> None:
    if "target" not in slots and not draft.outline.selected:
        raise Unclear(f"it does not say where to; there is {draft.outline.titles()}")
    kind, text = slots["kind"].lower(), slots["text"]
    reference = draft.target(slots.get("target", "this"))
    position = _POSITIONS.get(slots.get("where", "in").lower(), "inside")
    draft.create(kits.element(kind, text), f"the {kind} {quote(text)}", reference, position)


def _delete(draft: Draft, slots: Slots) -> None:
    element = draft.target(slots["target"])
    draft.add("delete_element", draft.outline.title(element), elementId=element.id)


def _move(draft: Draft, slots: Slots) -> None:
    element, reference = draft.target(slots["target"]), draft.target(slots["other"])
    draft.move(element, reference, _POSITIONS.get(slots["where"].lower(), "inside"))


def _theme(draft: Draft, slots: Slots) -> None:
    name = slots["words"].lower().replace(" ", "-")
    if name not in THEMES:
        raise Unclear(f"there is no theme {quote(name)}; there is {', '.join(THEMES)}")
    draft.add("apply_theme", f"the theme {quote(name)}", theme=name)


def _undo(draft: Draft, slots: Slots) -> None:
    steps = int(number(slots["number"])) if "number" in slots else draft.undoable
    draft.add("undo", "the last change" if steps == 1 else f"the last {steps} changes", steps=steps)


_HANDLERS: Final[Mapping[str, Callable[[Draft, Slots], None]]] = {
    "page": _fill_page,
    "text": lambda draft, slots: draft.modify(draft.target(slots["target"]), content=slots["quote"]),
    "colour": _colour,
    "size": _size,
    "style": lambda draft, slots: draft.modify(
        draft.target(slots["target"]), style=_STYLES[slots["style"].lower()]
    ),
    "link": lambda draft, slots: draft.modify(
        draft.target(slots["target"]), attributes={"href": slots["address"]}
    ),
    "add.section": _add_section,
    "add.element": _add_element,
    "delete": _delete,
    "clear": lambda draft, _: draft.add("clear_page", "everything on the page"),
    "move": _move,
    "theme": _theme,
    "undo": _undo,
    "outline": lambda draft, _: draft.notes.append(f"On the page there is {draft.outline.titles()}."),
}
