"""New elements as arguments of `create_element`: two sections of placeholders, and single elements."""

from typing import Any, Final

Spec = dict[str, Any]
"""`elementType` and `properties`."""


def section(kit: str) -> Spec:
    """Return a section: `contact form` or `pricing`."""
    heading, inside = _KITS[kit]
    children = [_spec("heading", heading, attributes={"level": "2"}), inside]
    return _spec("section", label=kit.capitalize(), style={"padding": "48px 24px"}, children=children)


def element(kind: str, text: str) -> Spec:
    """Return an element with its text; for an image that is its address or its alternative text."""
    if kind == "image":
        return _spec(kind, attributes={"src" if text.startswith(("http:", "https:", "/")) else "alt": text})
    return _spec(kind, text)


def _spec(kind: str, content: str = "", **properties: Any) -> Spec:
    return {"elementType": kind, "properties": ({"content": content} if content else {}) | properties}


def _field(name: str, kind: str = "input", **attributes: str) -> Spec:
    return _spec(kind, attributes={"name": name, "label": name.capitalize(), **attributes})


def _card(heading: str) -> Spec:
    title = _spec("heading", heading, attributes={"level": "3"})
    return _spec("card", children=[title, _spec("text", "What it costs.")])


_SEND: Final = _spec("button", "Send", attributes={"type": "submit"})
_FIELDS: Final = [_field("name"), _field("email", type="email"), _field("message", "textarea")]
_PLANS: Final = [_card(f"Plan {number}") for number in ("one", "two", "three")]
_KITS: Final[dict[str, tuple[str, Spec]]] = {
    "contact form": ("Contact us", _spec("form", children=[*_FIELDS, _SEND])),
    "pricing": ("Pricing", _spec("columns", children=_PLANS)),
}
"""Heading and content of each section."""
