"""A page's elements as HTML; every text and attribute is escaped, and nothing else comes from outside."""

from collections.abc import Mapping
from html import escape

from state.elements import FLAGS, KINDS
from state.page import Element, Page

_OURS = {"level", "ordered", "label", "type", "description"}
"""Attributes that say which tag is meant, or what lies around it."""


def markup(page: Page) -> str:
    """Return the page's elements as HTML, without head and body."""
    return _rendered(page.root, in_form=False)


def _rendered(element: Element, *, in_form: bool) -> str:
    match element.type:
        case "image" if "src" not in element.attributes:
            alt = element.attributes.get("alt", "")
            return _tag(
                "div", {"id": element.id, "class": "placeholder", "role": "img", "aria-label": alt}, alt
            )
        case "image" | "divider":
            return _open(KINDS[element.type].tag, _attributes(element))
        case "input" | "textarea" | "select":
            return _field(element)
        case "button":
            return _button(element, in_form=in_form)
    return _tag(_name(element), _attributes(element), _inside(element, in_form=in_form))


def _inside(element: Element, *, in_form: bool) -> str:
    inner = in_form or element.type == "form"
    children = "".join(_rendered(child, in_form=inner) for child in element.children)
    return _text(element.content) + children


def _text(content: str) -> str:
    return escape(content).replace("\n", "<br>")


def _name(element: Element) -> str:
    if element.type == "heading":
        return f"h{element.attributes.get('level', '2')}"
    if element.type == "list" and element.attributes.get("ordered") == "true":
        return "ol"
    return KINDS[element.type].tag


def _attributes(element: Element) -> dict[str, str | None]:
    """Attributes as HTML has them; None is one without a value."""
    found: dict[str, str | None] = {"id": element.id}
    if element.type == "page":
        # What it says is said in the head.
        return found
    if element.type == "columns":
        found["class"] = "columns"
    if element.type == "video" and "controls" not in element.attributes:
        found["controls"] = None
    if element.label and element.type in {"section", "nav", "form"}:
        found["aria-label"] = element.label
    for name, value in element.attributes.items():
        if name in FLAGS:
            found |= {name: None} if value == "true" else {}
        elif name not in _OURS:
            found[name] = value
    return found


def _field(element: Element) -> str:
    attributes = _attributes(element)
    kind = element.attributes.get("type", "text")
    if element.type == "input":
        field = _open("input", attributes | {"type": kind})
    else:
        # A textarea's value is its text; a select's is what is chosen in it.
        said = escape(str(attributes.pop("value", "") or "")) if element.type == "textarea" else ""
        field = _tag(element.type, attributes, said + _inside(element, in_form=True))
    label = element.attributes.get("label")
    if not label:
        return field
    if kind in {"checkbox", "radio"}:
        return f'<label class="check">{field}{escape(label)}</label>'
    return f"<label>{escape(label)}{field}</label>"


def _button(element: Element, *, in_form: bool) -> str:
    attributes = _attributes(element)
    kind = element.attributes.get("type", "submit" if in_form and "href" not in attributes else "link")
    text = _text(element.content)
    if kind == "link" and "href" in attributes:
        return _tag("a", attributes | {"class": "button"}, text)
    for name in ("href", "target"):
        attributes.pop(name, None)
    return _tag("button", attributes | {"type": "button" if kind == "link" else kind}, text)


def _tag(name: str, attributes: Mapping[str, str | None], inside: str) -> str:
    return f"{_open(name, attributes)}{inside}</{name}>"


def _open(name: str, attributes: Mapping[str, str | None]) -> str:
    written = (
        f" {key}" if value is None else f' {key}="{escape(value)}"' for key, value in attributes.items()
    )
    return f"<{name}{''.join(written)}>"
