"""The grammar of requests about a landing page, and the tool calls they become."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.providers.offline.conversation import PlannedCall
from callsheet.providers.offline.grammar import SLOTS, Form, FormMatch, Unclear, number
from callsheet.providers.offline.pages.outline import Outline, OutlineElement, find, quote
from callsheet.state.pages.history import PLANS, PRICE, STARTER
from callsheet.state.pages.styles import NAMES, THEMES

Slots = Mapping[str, str]
_SHADES: Final = re.compile(r"^(dark|deep|forest|hot|light|medium|pale|royal|sky|steel)(?=.)")
_TOKEN: Final = (
    rf"(?:{SLOTS['quote']}|(?!(?:and|then|the|an?|all|every|each|both|any|some|more|most|too|very|with|for|to|at|"
    r"by|like|as|so|just|from|that|which|in|of|on|inside)\b)\w[\w'’&-]*)"
)
_NAMED: Final = rf"(?:(?:the|my|our|an?) )?{_TOKEN}(?: {_TOKEN}){{0,3}}?"
_SLOTS: Final = {
    # Lazy, so that in "make the headline dark green" the colour has two words.
    "target": rf"it|this|that|{_NAMED}(?: (?:in|of|on|inside) {_NAMED})?",
    "about": f"{SLOTS['subject']}|{SLOTS['quote']}",
    "theme": r"[a-z]{3,20}",
    "colour": r"#[0-9a-f]{3}|#[0-9a-f]{6}|" + "|".join(_SHADES.sub(r"\1 ?", name) for name in NAMES),
    "part": r"(?:text|font|background)(?: colou?r)?|colou?r",
    "size": r"(?:a bit |much )?(?:bigger|larger|smaller)|\d{1,3} ?(?:px|pixels)",
    "style": "bold|italic|underlined|uppercase|centered",
    "address": rf"{SLOTS['quote']}|(?:https?://|mailto:|tel:|/|#)\S+",
    "kit": "contact form|pricing",
    "kind": "button|heading|paragraph|text|image|link|quote",
    "beside": "above|below|before|after",
    "where": "above|below|before|after|into|in|to",
}
_TABLE: Final = (
    ("page",
     "[(make|create|build) ][me ][(a|the) ][landing ](page|website) for {client}[(,|:| –| -) {about}]",
     "make a landing page for Miel, a bakery in Lyon"),
    ("text", "(change|set) [the text of] {target} to {quote}", 'change the headline to "Bread at four"'),
    ("colour", "(make|turn|set|change) [the {part} of] {target} [to] {colour}", "make the hero light blue"),
    ("size", "(make|set) {target} [to] {size}", "make the headline bigger"),
    ("style", "make {target} {style}", "make the footer text bold"),
    ("link", "link {target} to {address}", 'link "Get started" to https://bakery.example/shop'),
    ("add.section", "add (a |another |){kit}(| section)(| at the end| {beside} {target})",
     "add a contact form below the features"),
    ("add.element", "add (a|an|another) {kind}(| saying| that says) {text:address}(| {where} {target})",
     'add a button saying "Call us" to the hero'),
    ("clear", "(clear|empty|delete) (the page|the whole page|everything)", "clear the page"),
    ("delete", "(delete|remove) {target}", "delete the second card"),
    ("move", "move {target} {where} {other:target}", "move the hero below the features"),
    ("theme", "(use|apply|switch to) the {theme} theme", "use the ocean theme"),
    ("undo", "undo(| that| it| this| the last change| the last {number} changes)", "undo that"),
    ("outline", "(what is|what's) on the page", "what is on the page?"),
    ("help", "(what can you do|help)", "what can you do?"),
)  # fmt: skip
FORMS: Final = tuple(Form(*row, _SLOTS) for row in _TABLE)
"""The first form that matches is used."""
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
class EditPlan:
    """The edits of one message, planned with one look at the page."""

    outline: Outline
    details: Mapping[str, Mapping[str, Any]]
    """Results of `read_element` by id."""
    recent: str
    """Id of the element that was named last, or changed last in an earlier turn; or empty."""
    undoable: int
    """Number of versions that "undo that" takes back."""
    edits: list[tuple[PlannedCall, str]] = field(default_factory=list)
    """Each call with the title of its element, such as `the section “Features”`."""
    unread: list[PlannedCall] = field(default_factory=list)
    """Looks at elements before the edits are complete."""
    notes: list[str] = field(default_factory=list)
    """Answers to questions."""

    def target(self, phrase: str) -> OutlineElement:
        """Return the element that a phrase names."""
        element = find(phrase, self.outline, self.recent)
        self.recent = element.id
        return element

    def add(self, name: str, title: str, **args: Any) -> None:
        """Add a call; raise `Unclear` if the message asks for the same one twice."""
        if any(request == PlannedCall(name, args) for request, _ in self.edits):
            raise Unclear("the message asks for the same twice")
        self.edits.append((PlannedCall(name, args), title))

    def modify(self, element: OutlineElement, **changes: Any) -> None:
        """Add a change of an element."""
        self.add("modify_element", self.outline.title(element), elementId=element.id, modifications=changes)

    def create(self, spec: dict[str, Any], title: str, reference: OutlineElement, position: str) -> None:
        """Add a new element. It has no id yet, so that "it" names nothing next."""
        title = f"{title} {_PLACES[position]} {self.outline.title(reference)}"
        self.add("create_element", title, parentId=reference.id, position=position, **spec)
        self.recent = ""


def plan(draft: EditPlan, requests: Sequence[FormMatch]) -> None:
    """Add the edits of the requests to the draft; raise `Unclear` if one has none."""
    for request in requests:
        _HANDLERS[request.form](draft, request.slots)


def _fill_page(draft: EditPlan, slots: Slots) -> None:
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


def _text(draft: EditPlan, slots: Slots) -> None:
    element = draft.target(slots["target"])
    if not element.content and draft.outline.inside(element):
        raise Unclear(f"{draft.outline.title(element)} has no text of its own; name the text in it")
    draft.modify(element, content=slots["quote"])


def _colour(draft: EditPlan, slots: Slots) -> None:
    element, part = draft.target(slots["target"]), slots.get("part", "").lower()
    letters = part.startswith(("text", "font"))
    letters |= element.type in _TEXT_TYPES and not part.startswith("back")
    name = "color" if letters else "background-color"
    draft.modify(element, style={name: slots["colour"].replace(" ", "").lower()})


def _size(draft: EditPlan, slots: Slots) -> None:
    element, word = draft.target(slots["target"]), slots["size"].lower().split()[-1]
    if word not in _FACTORS:
        pixels = float(slots["size"].lower().rstrip("pixels "))
    elif element.id in draft.details:
        pixels = _font_px(draft.details[element.id]) * _FACTORS[word]
    else:
        draft.unread.append(PlannedCall("read_element", {"elementId": element.id}))
        return
    draft.modify(element, style={"font-size": f"{pixels:.0f}px"})


def _font_px(detail: Mapping[str, Any]) -> float:
    """Return an element's font size; raise `Unclear` if it is not in pixels."""
    size = detail["style"].get("font-size")
    if size is None:
        heading = detail["type"] == "heading"
        return _HEADING_PX[detail["attributes"].get("level", "2")] if heading else _TEXT_PX
    if not re.fullmatch(r"[0-9.]{1,9}px", size):
        raise Unclear(f"its font size is {size}, and I know sizes in pixels only")
    return float(size[:-2])


def _add_section(draft: EditPlan, slots: Slots) -> None:
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
    draft.create(_section(kit), title, reference, position)


def _add_element(draft: EditPlan, slots: Slots) -> None:
    if "target" not in slots and not draft.outline.selected:
        raise Unclear(f"it does not say where to; there is {draft.outline.titles()}")
    kind, text = slots["kind"].lower(), slots["text"]
    reference = draft.target(slots.get("target", "this"))
    position = _POSITIONS.get(slots.get("where", "in").lower(), "inside")
    draft.create(_element(kind, text), f"the {kind} {quote(text)}", reference, position)


def _delete(draft: EditPlan, slots: Slots) -> None:
    element = draft.target(slots["target"])
    draft.add("delete_element", draft.outline.title(element), elementId=element.id)


def _move(draft: EditPlan, slots: Slots) -> None:
    element, reference = draft.target(slots["target"]), draft.target(slots["other"])
    position = _POSITIONS.get(slots["where"].lower(), "inside")
    title = f"{draft.outline.title(element)} {_PLACES[position]} {draft.outline.title(reference)}"
    draft.add("move_element", title, elementId=element.id, parentId=reference.id, position=position)
    draft.recent = element.id


def _theme(draft: EditPlan, slots: Slots) -> None:
    name = slots["theme"].lower()
    if name not in THEMES:
        raise Unclear(f"there is no theme {quote(name)}; there is {', '.join(THEMES)}")
    draft.add("apply_theme", f"the theme {quote(name)}", theme=name)


def _undo(draft: EditPlan, slots: Slots) -> None:
    steps = int(number(slots["number"])) if "number" in slots else draft.undoable
    draft.add("undo", "the last change" if steps == 1 else f"the last {steps} changes", steps=steps)


def _section(kit: str) -> dict[str, Any]:
    """Return a section: `contact form` or `pricing`."""
    heading, inside = _KITS[kit]
    children = [_spec("heading", heading, attributes={"level": "2"}), inside]
    return _spec("section", label=kit.capitalize(), style={"padding": "48px 24px"}, children=children)


def _element(kind: str, text: str) -> dict[str, Any]:
    """Return an element with its text; for an image that is its address or its alternative text."""
    if kind == "image":
        return _spec(kind, attributes={"src" if text.startswith(("http:", "https:", "/")) else "alt": text})
    return _spec(kind, text)


def _spec(kind: str, content: str = "", **properties: Any) -> dict[str, Any]:
    return {"elementType": kind, "properties": ({"content": content} if content else {}) | properties}


def _field(name: str, kind: str = "input", **attributes: str) -> dict[str, Any]:
    return _spec(kind, attributes={"name": name, "label": name.capitalize(), **attributes})


def _card(heading: str) -> dict[str, Any]:
    title = _spec("heading", heading, attributes={"level": "3"})
    return _spec("card", children=[title, _spec("text", PRICE)])


_SEND: Final = _spec("button", "Send", attributes={"type": "submit"})
_FIELDS: Final = [_field("name"), _field("email", type="email"), _field("message", "textarea")]
_PLANS: Final = [_card(heading) for heading in PLANS]
_KITS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "contact form": ("Contact us", _spec("form", children=[*_FIELDS, _SEND])),
    "pricing": ("Pricing", _spec("columns", children=_PLANS)),
}
"""Heading and content of each section."""
_HANDLERS: Final[Mapping[str, Callable[[EditPlan, Slots], None]]] = {
    "page": _fill_page,
    "text": _text,
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
