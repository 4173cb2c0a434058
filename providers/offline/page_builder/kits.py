"""What can be added to a page: single elements, and sections made of several."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from providers.offline.page_builder.clauses import Clause
from providers.offline.page_builder.notes import word
from providers.offline.page_builder.words import Piece, tidy

Spec = dict[str, Any]
_ROOM: Final = {"padding": "48px 24px"}
_INPUTS: Final = {
    "name": "text", "email": "email", "phone": "tel", "date": "date", "company": "text", "subject": "text",
}  # fmt: skip
"""Fields that are known by name, each with its type."""
_LIST: Final = re.compile(r"\s*(?:,|;|&|\band\b|，|、)\s*", re.IGNORECASE)
_OF: Final = re.compile(
    r"\b(?:of|showing|with|to|called|titled|named|saying|labell?ed|that says|reading)\b\s*(?P<rest>.+)$",
    re.IGNORECASE,
)
_END: Final = re.compile(
    r"\s+(?:at|in|into|to|on|under|below|above|before|after|inside|beneath)\s+(?:the|my|our|it|this)\b.*$",
    re.IGNORECASE,
)
_ABOUT: Final = re.compile(r"\babout (?:our |my |the )?(\w[\w -]{0,60})$", re.IGNORECASE)
_TOPIC: Final = re.compile(
    r"\b(?:about|for|with) (?:our |my |the )?(\w[\w '’-]{0,60}?)\s*[:：]", re.IGNORECASE
)
_MOST: Final = 8


def section(heading: str, *children: Spec, label: str = "", level: str = "2") -> Spec:
    """Return a section with a heading."""
    head: Spec = {"type": "heading", "content": heading, "attributes": {"level": level}}
    return {"type": "section", "label": label or heading, "style": dict(_ROOM), "children": [head, *children]}


def walked(spec: Spec) -> Iterator[Spec]:
    """Yield what is made, and all inside it."""
    yield spec
    for child in spec.get("children", ()):
        yield from walked(child)


def wanted(clause: Clause) -> Spec | None:
    """Return what a clause wants to be added; None where it names nothing that a page can have."""
    kit = next(iter(clause.names("kit")), "")
    kinds = clause.names("kind")
    if kit and not ("input" in kinds and kit in {"contact", "signup"}):
        return _kit(kit, clause)
    kind = _new_kind(clause)
    if kind in _MADE:
        return _MADE[kind](clause)
    return {"type": "item", "content": clause.quotes()[0]} if clause.quotes() and "item" in kinds else None


def _new_kind(clause: Clause) -> str:
    """What is new is named before where it comes: "a button under the text"."""
    place = clause.place("where.", "link.of", "link.to")
    before = clause.part(0, place).names("kind") if place is not None else clause.names("kind")
    kinds = before or clause.names("kind")
    return kinds[-1] if kinds else ""


def _kit(kit: str, clause: Clause) -> Spec:
    title = wording(clause) or word(clause.language, kit)
    count = next((int(one) for one in clause.names("number")), 3)
    return ready(kit, title, clause.language, max(1, min(count, _MOST)))


def ready(kit: str, title: str, language: str, count: int = 3) -> Spec:
    """Return a ready-made section, in a language, with `count` of what it is made of."""
    numbers = [str(one) for one in range(1, count + 1)]

    def cards(head: str, text: str) -> list[Spec]:
        said = word(language, text)
        return [_card(word(language, head, number=one), said) for one in numbers]

    made: Mapping[str, Callable[[], Sequence[Spec]]] = {
        "contact": lambda: [form(["name", "email"], "send", language, message=True)],
        "signup": lambda: [form(["email"], "subscribe", language)],
        "faq": lambda: cards("question", "answer"),
        "quotes": lambda: [
            {"type": "quote", "content": word(language, "review", number=one)} for one in numbers
        ],
        "pricing": lambda: [_columns(_plans(count, language))],
        "features": lambda: [_columns(cards("feature", "benefit"))],
        "team": lambda: [_columns(cards("person", "role"))],
        "gallery": lambda: [_columns([_image(word(language, "picture", number=one)) for one in numbers])],
    }
    return section(title, *made[kit]())


def _plans(count: int, language: str) -> list[Spec]:
    more = [word(language, "plan", number=str(number)) for number in range(4, count + 1)]
    return [_card(one, word(language, "price")) for one in ["Basic", "Plus", "Pro", *more][:count]]


def _columns(children: Sequence[Spec]) -> Spec:
    return {"type": "columns", "children": list(children)}


def _card(title: str, text: str) -> Spec:
    head = {"type": "heading", "content": title, "attributes": {"level": "3"}}
    return {"type": "card", "children": [head, {"type": "text", "content": text}] if text else [head]}


def _image(alt: str) -> Spec:
    return {"type": "image", "attributes": {"alt": alt}}


def _input(field: str, language: str) -> Spec:
    shown = word(language, field) if field in _INPUTS else capital(field)
    name = re.sub(r"[^a-z0-9]+", "-", field.lower()).strip("-")
    attributes = {"type": _INPUTS.get(field, "text"), "placeholder": shown, "label": shown}
    return {"type": "input", "attributes": attributes | ({"name": name} if name[:1].isalpha() else {})}


def form(fields: Sequence[str], send: str, language: str, *, message: bool = False) -> Spec:
    """Return a form: `fields` by name, perhaps an area for a message, and a button with the word `send`."""
    inputs = [_input(one, language) for one in fields]
    said = word(language, "message")
    area = {"type": "textarea", "attributes": {"name": "message", "placeholder": said, "label": said}}
    button = {"type": "button", "content": word(language, send), "attributes": {"type": "submit"}}
    return {"type": "form", "children": [*inputs, *([area] if message else []), button]}


def _a_form(clause: Clause) -> Spec:
    fields = list(dict.fromkeys(one for one in clause.names("field") if one != "message"))
    message = "message" in clause.names("field") or not fields
    # "With name and phone" lists the fields.
    named = clause.quotes()[:1] if clause.has("field.") else [wording(clause)]
    title = next((one for one in named if one), word(clause.language, "contact"))
    return section(title, form(fields or ["name", "email"], "send", clause.language, message=message))


def _an_input(clause: Clause) -> Spec:
    known = next(iter(clause.names("field")), "")
    return _input(known or (clause.quotes() or ["answer"])[0], clause.language)


def _a_card(clause: Clause) -> Spec:
    said = wording(clause)
    title, _, text = (part.strip() for part in (said or word(clause.language, "card")).partition(","))
    return _card(title, text)


def _a_section(clause: Clause) -> Spec:
    topic, said = _TOPIC.search(clause.text), wording(clause)
    if topic and said:
        return section(capital(topic[1]), {"type": "text", "content": said})
    named = [
        one.text for one in _before_the_kind(clause) if not one.means("small.", "verb.", "number.", "many.")
    ]
    about = _ABOUT.search(clause.text)
    title = (
        said
        or (capital(about[1]) if about else "")
        or capital(" ".join(named))
        or word(clause.language, "section")
    )
    return section(title, {"type": "text", "content": word(clause.language, "text")})


def capital(text: str) -> str:
    """Return a text with a large first letter."""
    return text[:1].upper() + text[1:]


def _before_the_kind(clause: Clause) -> tuple[Piece, ...]:
    return clause.pieces[: clause.place("kind.section") or 0]


def _a_nav(clause: Clause) -> Spec:
    links = [_link(one) for one in listed(clause)]
    usual = [_link(word(clause.language, "home")), _link(word(clause.language, "contact"))]
    return {"type": "nav", "label": word(clause.language, "nav"), "children": links or usual}


def _link(text: str) -> Spec:
    place = re.sub(r"\W+", "-", text.lower()).strip("-")
    return {"type": "link", "content": text, "attributes": {"href": f"#{place}"}}


def _a_link(clause: Clause) -> Spec:
    address = next((one for one in clause.quotes() if one.startswith("http")), "")
    made = _link(re.sub(r"^(?:our|my|the)\s+", "", wording(clause)) or word(clause.language, "link"))
    return made | ({"attributes": {"href": address}} if address else {})


def _a_list(clause: Clause) -> Spec:
    items = listed(clause) or [word(clause.language, "point", number=one) for one in "123"]
    return {"type": "list", "children": [{"type": "item", "content": one} for one in items]}


def _an_image(clause: Clause) -> Spec:
    address = next((one for one in clause.quotes() if one.startswith("http")), "")
    alt = next((one for one in clause.quotes() if not one.startswith("http")), "") or _rest(clause)
    return {
        "type": "image",
        "attributes": {"alt": alt or word(clause.language, "image")} | ({"src": address} if address else {}),
    }


def _a_video(clause: Clause) -> Spec:
    address = next((one for one in clause.quotes() if one.startswith("http")), "")
    return {"type": "video", "attributes": {"controls": "true"} | ({"src": address} if address else {})}


def _with_text(kind: str, clause: Clause) -> Spec:
    text = wording(clause) or word(clause.language, kind)
    return {"type": kind, "children": [{"type": "text", "content": text}]}


def _a_hero(clause: Clause) -> Spec:
    title, text = wording(clause) or word(clause.language, "hero"), word(clause.language, "why")
    return section(title, {"type": "text", "content": text}, label="Hero")


def _saying(kind: str) -> Callable[[Clause], Spec]:
    return lambda clause: {"type": kind, "content": wording(clause) or word(clause.language, kind)}


def _a_button(clause: Clause) -> Spec:
    address = next((one for one in clause.quotes() if one.startswith("http")), "#")
    return {
        "type": "button",
        "content": wording(clause) or word(clause.language, "button"),
        "attributes": {"href": address},
    }


def _a_heading(clause: Clause) -> Spec:
    return _saying("heading")(clause) | {"attributes": {"level": "2"}}


_MADE: Final[Mapping[str, Callable[[Clause], Spec]]] = {
    "heading": _a_heading,
    "title": _a_heading,
    "text": _saying("text"),
    "quote": _saying("quote"),
    "item": _saying("item"),
    "button": _a_button,
    "link": _a_link,
    "image": _an_image,
    "section": _a_section,
    "hero": _a_hero,
    "header": lambda clause: _with_text("header", clause),
    "footer": lambda clause: _with_text("footer", clause),
    "nav": _a_nav,
    "form": _a_form,
    "input": _an_input,
    "list": _a_list,
    "card": _a_card,
    "video": _a_video,
    "divider": lambda _: {"type": "divider"},
}


def wording(clause: Clause) -> str:
    """Return the words that what is added is to have: quoted, after a colon, or after "saying"."""
    quoted = [one for one in clause.quotes() if not one.startswith(("http", "#"))]
    if quoted:
        return quoted[0]
    return _rest(clause) if clause.has("link.to", "verb.say") else ""


def _rest(clause: Clause) -> str:
    match = _OF.search(clause.text)
    return tidy(_END.sub("", match["rest"])) if match else ""


def listed(clause: Clause) -> list[str]:
    """Return the things a clause lists: "links to Plants, Care and Contact"."""
    quoted = clause.quotes()
    said = quoted[0] if len(quoted) == 1 else "" if quoted else _rest(clause)
    said = re.sub(r"^links?\s+(?:to|for)\s+", "", said, flags=re.IGNORECASE)
    parts = [tidy(part) for part in _LIST.split(said)] if not quoted[1:] else quoted
    return [part for part in parts if part][:_MOST]
