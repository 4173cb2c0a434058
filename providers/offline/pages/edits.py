"""Requests about a page as tool calls."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.providers.offline.conversation import Request
from callsheet.providers.offline.grammar import Match, number
from callsheet.providers.offline.pages import kits
from callsheet.providers.offline.pages.outline import Element, Outline, Unclear, quoted, resolve
from callsheet.state.pages.themes import THEMES

Slots = Mapping[str, str]
Edit = tuple[Request, str]
"""A call, and what it is about, such as `the section “Features”`."""
_LETTERS: Final = {"heading", "text", "quote", "link", "item"}
"""Types whose colour is that of their letters; that of any other is its background."""
_STYLES: Final = {
    "bold": {"font-weight": "bold"},
    "italic": {"font-style": "italic"},
    "underlined": {"text-decoration": "underline"},
    "uppercase": {"text-transform": "uppercase"},
    "centered": {"text-align": "center"},
}
_ATTRIBUTES: Final = {"link": "href", "address": "href", "alt text": "alt"}
_POSITIONS: Final = {"above": "before", "before": "before", "below": "after", "after": "after"}
_PLACES: Final = {"before": "above", "after": "below", "inside": "in"}
_FACTORS: Final = {"bigger": 1.25, "larger": 1.25, "smaller": 0.8}
_SIZES_PX: Final = {"1": 32, "2": 24, "3": 19, "4": 16, "5": 13, "6": 11, "": 16}


@dataclass
class Draft:
    """The edits that a message asks for, made against one look at the page."""

    outline: Outline
    details: Mapping[str, Mapping[str, Any]]
    """Results of `read_element` by id."""
    recent: str
    """Id of the element named last, or changed last in an earlier turn; empty for none."""
    undoable: int
    """Versions that "undo that" takes back."""
    edits: list[Edit] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Ids of elements to read before the edits are complete."""
    notes: list[str] = field(default_factory=list)
    """Answers to questions."""

    def target(self, slots: Slots, name: str = "target") -> Element:
        """Return the element named in a slot."""
        found = resolve(slots[name], self.outline, self.recent)
        self.recent = found.id
        return found

    def add(self, name: str, about: str, **args: Any) -> None:
        """Add a call; raises `Unclear` where the message asks for the same one twice."""
        if any(before == Request(name, args) for before, _ in self.edits):
            raise Unclear("the message asks for the same twice")
        self.edits.append((Request(name, args), about))

    def modify(self, one: Element, **modifications: Any) -> None:
        """Add a change of one element; its text and its style in a row are changed by one call."""
        last = self.edits[-1][0] if self.edits else Request("", {})
        changed = last.args.get("modifications", {}) if last.args.get("elementId") == one.id else {}
        if changed and not changed.keys() & modifications.keys():
            self.edits.pop()
            modifications = changed | modifications
        self.add("modify_element", self.outline.title(one), elementId=one.id, modifications=modifications)

    def create(self, spec: kits.Spec, about: str, reference: Element, position: str) -> None:
        """Add a new element. It has no id yet, so "it" can mean neither it nor what was named before."""
        about = f"{about} {_PLACES[position]} {self.outline.title(reference)}"
        self.add("create_element", about, parentId=reference.id, position=position, **spec)
        self.recent = ""

    def move(self, one: Element, reference: Element, position: str) -> None:
        """Add a move of an element to its place by another."""
        about = f"{self.outline.title(one)} {_PLACES[position]} {self.outline.title(reference)}"
        self.add("move_element", about, elementId=one.id, parentId=reference.id, position=position)
        self.recent = one.id


def draft(started: Draft, requests: Sequence[Match]) -> Draft:
    """Add what the requests ask for to a draft and return it; raises `Unclear` where that is no call."""
    for one in requests:
        _HANDLERS[one.form](started, one.slots)
    return started


def _colour(draft: Draft, slots: Slots) -> None:
    one, part = draft.target(slots), slots.get("part", "").lower()
    letters = part.startswith(("text", "font")) or (one.type in _LETTERS and not part.startswith("back"))
    name = "color" if letters else "background-color"
    draft.modify(one, style={name: slots["colour"].replace(" ", "").lower()})


def _size(draft: Draft, slots: Slots) -> None:
    one, word = draft.target(slots), slots["size"].lower().split()[-1]
    if word not in _FACTORS:
        pixels = float(slots["size"].lower().rstrip("pixels "))
    elif one.id in draft.details:
        pixels = _pixels(draft.details[one.id]) * _FACTORS[word]
    else:
        draft.unread.append(one.id)
        return
    draft.modify(one, style={"font-size": f"{pixels:.0f}px"})


def _pixels(detail: Mapping[str, Any]) -> float:
    """Return the font size an element has; raises `Unclear` for one that is not in pixels."""
    size = detail["style"].get("font-size")
    if size is None:
        level = detail["attributes"].get("level", "2" if detail["type"] == "heading" else "")
        return _SIZES_PX[level]
    if not re.fullmatch(r"[0-9.]+px", size):
        raise Unclear(f"its font size is {size}, and I know sizes in pixels only")
    return float(size[:-2])


def _attribute(draft: Draft, slots: Slots) -> None:
    one, word = draft.target(slots), slots.get("attribute", "link").lower()
    name = "src" if (one.type, word) == ("image", "address") else _ATTRIBUTES.get(word, word)
    draft.modify(one, attributes={name: slots["address"]})


def _add_section(draft: Draft, slots: Slots) -> None:
    """Add a section beside another, or else at the end: before the footer if there is one."""
    kit = slots["kit"].lower()
    reference, position = draft.outline.elements[0], "inside"
    last = draft.outline.sections()[-1:]
    if "target" in slots:
        reference = draft.outline.around(draft.target(slots), 1)
        position = _POSITIONS[slots["beside"].lower()]
    elif last and last[0].type == "footer":
        reference, position = last[0], "before"
    about = f"the section {quoted(kit.capitalize())} with placeholder texts"
    draft.create(kits.section(kit), about, reference, position)


def _add_element(draft: Draft, slots: Slots) -> None:
    if "target" not in slots and not draft.outline.selected:
        raise Unclear(f"it does not say where to; there is {draft.outline.titles()}")
    kind, text = slots["kind"].lower(), slots["text"]
    reference = draft.target({"target": "this", **slots})
    position = _POSITIONS.get(slots.get("where", "in").lower(), "inside")
    draft.create(kits.element(kind, text), f"the {kind} {quoted(text)}", reference, position)


def _delete(draft: Draft, slots: Slots) -> None:
    one = draft.target(slots)
    draft.add("delete_element", draft.outline.title(one), elementId=one.id)


def _move(draft: Draft, slots: Slots) -> None:
    one, other = draft.target(slots), draft.target(slots, "other")
    draft.move(one, other, _POSITIONS.get(slots["where"].lower(), "inside"))


def _move_step(draft: Draft, slots: Slots) -> None:
    one, up = draft.target(slots), slots["step"].lower() == "up"
    parent = draft.outline.around(one, one.depth - 1)
    beside = [other for other in (parent, *draft.outline.inside(parent)) if other.depth == one.depth]
    at = beside.index(one) + (-1 if up else 1)
    if not 0 <= at < len(beside):
        raise Unclear(f"{draft.outline.title(one)} is the {'first' if up else 'last'} there")
    draft.move(one, beside[at], "before" if up else "after")


def _theme(draft: Draft, slots: Slots) -> None:
    name = slots["words"].lower().replace(" ", "-")
    if name not in THEMES:
        raise Unclear(f"there is no theme {quoted(name)}; there is {', '.join(THEMES)}")
    draft.add("apply_theme", f"the theme {quoted(name)}", theme=name)


def _undo(draft: Draft, slots: Slots) -> None:
    steps = int(number(slots["number"])) if "number" in slots else draft.undoable
    draft.add("undo", "the last change" if steps == 1 else f"the last {steps} changes", steps=steps)


_HANDLERS: Final[Mapping[str, Callable[[Draft, Slots], None]]] = {
    "text": lambda draft, slots: draft.modify(draft.target(slots), content=slots["quote"]),
    "colour": _colour,
    "size": _size,
    "style": lambda draft, slots: draft.modify(draft.target(slots), style=_STYLES[slots["style"].lower()]),
    "attribute": _attribute,
    "link": _attribute,
    "add.section": _add_section,
    "add.element": _add_element,
    "delete": _delete,
    "clear": lambda draft, _: draft.add("clear_page", "everything on the page"),
    "move": _move,
    "move.step": _move_step,
    "theme": _theme,
    "undo": _undo,
    "outline": lambda draft, _: draft.notes.append(f"On the page there is {draft.outline.titles()}."),
}
