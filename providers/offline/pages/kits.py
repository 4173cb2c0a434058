"""New elements as arguments of `create_element`: four sections of placeholders, and single elements."""

from typing import Any, Final

Spec = dict[str, Any]
"""`elementType` and `properties`."""


def section(kit: str) -> Spec:
    """Return a section: `contact form`, `features`, `pricing` or `testimonials`."""
    heading, inside = _KITS[kit]
    children = [_spec("heading", heading, attributes={"level": "2"}), *inside]
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


def _cards(title: str, text: str) -> Spec:
    def card(count: str) -> Spec:
        heading = _spec("heading", f"{title} {count}", attributes={"level": "3"})
        return _spec("card", children=[heading, _spec("text", text)])

    return _spec("columns", children=[card(count) for count in ("one", "two", "three")])


_SEND: Final = _spec("button", "Send", attributes={"type": "submit"})
_FIELDS: Final = [_field("name"), _field("email", type="email"), _field("message", "textarea")]
_KITS: Final[dict[str, tuple[str, list[Spec]]]] = {
    "contact form": ("Contact us", [_spec("form", children=[*_FIELDS, _SEND])]),
    "features": ("Features", [_cards("Feature", "What it does.")]),
    "pricing": ("Pricing", [_cards("Plan", "What it costs.")]),
    "testimonials": ("Testimonials", [_spec("quote", f"The words of customer {n}.") for n in ("one", "two")]),
}
"""Heading and content of each section."""
