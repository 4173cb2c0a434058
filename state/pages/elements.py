"""Kinds of page elements, with their allowed children, text and attributes.

Unlisted attributes are refused, among them `on*`, `style`, `srcdoc`, `id` and `class`. URLs are limited to
schemes that run no code.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from callsheet.state.errors import Invalid

MAX_ATTRIBUTE: Final = 2_000
"""Maximum characters of an attribute."""
_LINKS: Final = ("http", "https", "mailto", "tel")
_LOADED: Final = ("http", "https")
_INPUTS: Final = "text email tel number url date time checkbox radio search"


def _url_rule(schemes: tuple[str, ...]) -> Callable[[str], bool]:
    """Return a rule that allows relative URLs and URLs with one of `schemes`."""

    def is_allowed(text: str) -> bool:
        # Browsers drop control characters before they read the scheme, so none are allowed.
        if not text.isprintable() or "\\" in text or text.startswith("//"):
            return False
        scheme, colon, _ = text.partition(":")
        if not colon or not {"/", "?", "#"}.isdisjoint(scheme):
            return True
        name = scheme.lower()
        # A web URL has a host right after the scheme, and no user name before it.
        web = re.match(r"https?://[^/?#@\s]+([/?#]|$)", text, re.IGNORECASE)
        return name in schemes and (web is not None or not name.startswith("http"))

    return is_allowed


def _pattern(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _one_of(words: str) -> Callable[[str], bool]:
    return frozenset(words.split()).__contains__


_TEXT: Final = _pattern(r"[^\x00-\x1f\x7f]*")
_NUMBER: Final = _pattern(r"-?\d{1,6}(\.\d{1,3})?")
_COUNT: Final = _pattern(r"\d{1,4}")
_FLAG: Final = _one_of("true false")
_NAME: Final = _pattern(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_LANGUAGE: Final = _pattern(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
FLAGS: Final = frozenset(
    {"required", "disabled", "checked", "selected", "controls", "loop", "muted", "playsinline", "multiple"}
)
"""Boolean attributes: `true` or `false`."""

_COMMON: Final = {"title": _TEXT, "aria-label": _TEXT, "lang": _LANGUAGE, "dir": _one_of("ltr rtl auto")}
_NAMED: Final = {"name": _NAME, "autocomplete": _pattern(r"[a-z][a-z -]{0,40}")}
_LABELLED: Final = {"label": _TEXT, "required": _FLAG, "disabled": _FLAG}
_FIELD: Final = {**_NAMED, **_LABELLED, "placeholder": _TEXT, "value": _TEXT, "maxlength": _COUNT}
_RANGED: Final = {"checked": _FLAG, "min": _NUMBER, "max": _NUMBER, "step": _NUMBER}
_LINK: Final = {"href": _url_rule(_LINKS), "target": _one_of("_self _blank")}
_SIZED: Final = {"src": _url_rule(_LOADED), "width": _COUNT, "height": _COUNT}
_PLAYED: Final = {"poster": _url_rule(_LOADED)} | dict.fromkeys(
    ("controls", "loop", "muted", "playsinline"), _FLAG
)
Rules = Mapping[str, Callable[[str], bool]]


@dataclass(frozen=True)
class ElementKind:
    """A kind of element."""

    tag: str
    """HTML tag."""
    holds: bool
    """True if it may have children."""
    says: bool
    """True if it may have text of its own."""
    attributes: Rules
    """Allowed attributes, each with its rule."""


def _kind(tag: str, *rules: Rules, holds: bool = True, says: bool = True) -> ElementKind:
    attributes = dict(_COMMON)
    for rule in rules:
        attributes |= rule
    return ElementKind(tag, holds, says, attributes)


KINDS: Final[Mapping[str, ElementKind]] = {
    "page": _kind("main", {"description": _TEXT}, says=False),
    "nav": _kind("nav"),
    "header": _kind("header"),
    "section": _kind("section"),
    "footer": _kind("footer"),
    "container": _kind("div"),
    "columns": _kind("div"),
    "card": _kind("article"),
    "heading": _kind("h2", {"level": _one_of("1 2 3 4 5 6")}, holds=False),
    "text": _kind("p", holds=False),
    "quote": _kind("blockquote", {"cite": _url_rule(_LOADED)}, holds=False),
    "link": _kind("a", _LINK, holds=False),
    "button": _kind("a", _LINK, {"type": _one_of("link submit reset")}, holds=False),
    "list": _kind("ul", {"ordered": _FLAG}, says=False),
    "item": _kind("li"),
    "image": _kind("img", _SIZED, {"alt": _TEXT, "loading": _one_of("lazy eager")}, holds=False, says=False),
    "video": _kind("video", _SIZED, _PLAYED, holds=False, says=False),
    "divider": _kind("hr", holds=False, says=False),
    "form": _kind("form", _NAMED, {"action": _url_rule(_LOADED), "method": _one_of("get post")}),
    "input": _kind("input", _FIELD, _RANGED, {"type": _one_of(_INPUTS)}, holds=False, says=False),
    "textarea": _kind("textarea", _FIELD, {"rows": _COUNT}, holds=False, says=False),
    "select": _kind("select", _NAMED, _LABELLED, {"multiple": _FLAG}, says=False),
    "option": _kind("option", {"value": _TEXT, "selected": _FLAG, "disabled": _FLAG}, holds=False),
}
"""Every kind by name."""
_SYNONYMS: Final = {
    "heading": "title subheading headline h1 h2 h3 h4 h5 h6",
    "text": "p paragraph span label",
    "container": "div box group",
    "columns": "row grid",
    "card": "article",
    "link": "a",
    "button": "btn cta",
    "image": "img picture photo logo",
    "nav": "navbar navigation menu",
    "list": "ul ol",
    "item": "li listitem list-item",
    "divider": "hr separator line",
    "quote": "blockquote testimonial",
    "input": "field checkbox",
    "select": "dropdown",
    "section": "hero banner main aside",
}
_KIND_BY_SYNONYM: Final = {word: kind for kind, words in _SYNONYMS.items() for word in words.split()}


def parse_kind(text: str) -> str:
    """Return the kind for its name, a synonym or an HTML tag; raises `Invalid` for an unknown word."""
    word = text.strip().lower()
    kind = word if word in KINDS else _KIND_BY_SYNONYM.get(word)
    if kind is None:
        names = ", ".join(name for name in KINDS if name != "page")
        raise Invalid(f"there is no element type {text[:80]!r}", remedy=f"use one of {names}")
    return kind


def implied_attributes(text: str) -> dict[str, str]:
    """Return the attributes that a word for a kind implies: `h3` has level 3."""
    word = text.strip().lower()
    if re.fullmatch(r"h[1-6]", word):
        return {"level": word[1]}
    return {"ol": {"ordered": "true"}, "checkbox": {"type": "checkbox"}}.get(word, {})


_PLAYER: Final = re.compile(
    r"https?://(?:[\w-]+\.)?(?:youtube(?:-nocookie)?\.com|youtu\.be|(?:vimeo|dailymotion|tiktok)\.com)/",
    re.IGNORECASE,
)
"""Addresses of pages that show a video, which a video element cannot play."""


def check_attributes(kind: str, attributes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes in stored form; raises `Invalid` for the first that `kind` does not allow."""
    return {
        name: _check_attribute(kind, name, text) for name, text in sorted(_lower_names(attributes).items())
    }


def _lower_names(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name.strip().lower(): text for name, text in attributes.items()}


def _check_attribute(kind: str, name: str, text: str) -> str:
    rules = KINDS[kind].attributes
    if name not in rules:
        raise Invalid(
            f"attribute {name[:80]!r} is not allowed on a {kind}",
            remedy=f"use one of {', '.join(sorted(rules))}",
        )
    # As in HTML, a flag may be empty or repeat its name.
    tidy = "true" if name in FLAGS and text in {"", name} else text.strip()
    if kind == "video" and name == "src" and _PLAYER.match(tidy):
        raise Invalid(
            f"src of a video cannot be {text[:80]!r}, which is a page and no file",
            remedy="give the address of a video file, or make a link with this address as href",
        )
    if len(tidy) > MAX_ATTRIBUTE or not rules[name](tidy):
        raise Invalid(f"attribute {name} of a {kind} cannot be {text[:80]!r}", remedy=_remedy(name))
    return tidy


_ALLOWED_WORDS: Final = {
    "level": "a number from 1, for the main heading, to 6",
    "lang": "the code of a language, such as en, fr or pt-BR",
}
"""Values of attributes in words, where the name does not tell."""


def _remedy(name: str) -> str:
    if name in {"href", "src", "action", "poster", "cite"}:
        return "give a URL that begins with https://, http://, / or #; links may also use mailto: and tel:"
    if words := _ALLOWED_WORDS.get(name):
        return f"give {words}"
    return f"give plain text of at most {MAX_ATTRIBUTE} characters that fits {name}"
