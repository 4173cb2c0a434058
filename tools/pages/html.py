"""A page as a file of HTML that is safe to open wherever it is served from.

Three walls, each enough by itself: the page holds only what `state.pages` allows and every text and attribute
is escaped; nh3 takes away whatever markup is not on its list; and a policy in the file lets no script run,
nothing be framed, and only the one stylesheet apply whose hash it names.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final
from urllib.parse import urlsplit

import nh3

from callsheet.state.pages.elements import FLAGS, KINDS
from callsheet.state.pages.page import Element, Page, walk

_SHARED: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--background);color:var(--text);font-family:var(--font);line-height:1.6}
main{display:block;min-height:100vh}
h1,h2,h3,h4,h5,h6{font-family:var(--heading-font);line-height:1.2;margin:0 0 .6em}
p{margin:0 0 1em}
a{color:var(--primary)}
img,video{max-width:100%;height:auto;border-radius:var(--radius)}
nav{display:flex;flex-wrap:wrap;gap:16px;align-items:center;padding:16px 24px}
nav>*{margin:0}
article{background:var(--surface);border-radius:var(--radius);padding:24px}
blockquote{margin:0 0 1em;padding-left:16px;border-left:4px solid var(--primary)}
hr{border:0;border-top:1px solid var(--muted);margin:24px 0}
form{display:grid;gap:12px;max-width:480px;margin:0 auto;padding:24px;text-align:start}
label{display:grid;gap:4px}
label.check{display:flex;gap:8px;align-items:center}
input,textarea,select,button{font:inherit;color:inherit}
input,textarea,select{width:100%;padding:10px;border:1px solid var(--muted);border-radius:var(--radius)}
input,textarea,select{background:var(--background)}
label.check input{width:auto}
button,a.button{display:inline-block;padding:12px 24px;border:0;border-radius:var(--radius);cursor:pointer}
button,a.button{background:var(--primary);color:var(--on-primary);text-decoration:none;font-weight:600}
.columns{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,minmax(220px,1fr))}
.placeholder{display:grid;place-items:center;min-height:160px;background:var(--surface);color:var(--muted)}
"""


def _render_stylesheet(page: Page) -> str:
    """Return the page's CSS; it contains only names and values that state/pages/styles.py allows."""
    rules = [_SHARED.strip(), _rule(":root", _tokens(page.theme))]
    # Pinned themes come first, so that an element's own style overrides them.
    for name, theme in page.pinned.items():
        own = {"background-color": "var(--background)", "color": "var(--text)", "font-family": "var(--font)"}
        rules.append(_rule(f"#{name}", _tokens(theme) | own))
    rules.extend(_rule(f"#{element.id}", element.style) for element, _ in walk(page.root) if element.style)
    return "\n".join(rules)


def _tokens(theme: Mapping[str, str]) -> dict[str, str]:
    return {f"--{name}": value for name, value in theme.items()}


def _rule(selector: str, style: Mapping[str, str]) -> str:
    return f"{selector}{{{';'.join(f'{name}:{value}' for name, value in style.items())}}}"


_INTERNAL = {"level", "ordered", "label", "type", "description"}
"""Attributes that decide the tag or its surroundings, and are not rendered themselves."""


def _render_markup(page: Page) -> str:
    """Return the page's elements as HTML, without head and body."""
    return _render(page.root, in_form=False)


_ELSEWHERE: Final = re.compile(r"\A\s*+([A-Za-z][A-Za-z0-9+.-]*+:|[/\\]{2})")
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(:\d+)?")


def _own_files_only(element: Element) -> Element:
    """Return the element with a text in place of each image and film that lies elsewhere."""
    attributes = dict(element.attributes)
    changes: dict[str, Any] = {}
    if _ELSEWHERE.match(attributes.get("poster", "")):
        del attributes["poster"]
        changes = {"attributes": attributes}
    if element.type in {"image", "video"} and _ELSEWHERE.match(attributes.get("src", "")):
        shown = f"{attributes.get('alt', '')}\nNot loaded: {attributes['src']}".strip()
        changes = {"type": "image", "attributes": {"alt": shown}}
    children = tuple(_own_files_only(child) for child in element.children)
    return element.model_copy(update=changes | {"children": children})


def _origins(page: Page) -> list[str]:
    """Return the origins of the page's images and films that lie elsewhere, as a policy names them."""
    addresses = [
        element.attributes.get(name, "") for element, _ in walk(page.root) for name in ("src", "poster")
    ]
    parts = [urlsplit(address.strip()) for address in addresses if _ELSEWHERE.match(address)]
    return sorted({f"{part.scheme}://{part.netloc}" for part in parts if _HOST.fullmatch(part.netloc)})


def _render(element: Element, *, in_form: bool) -> str:
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
    children = "".join(_render(child, in_form=inner) for child in element.children)
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
    """Return the HTML attributes; None is an attribute without a value."""
    attributes: dict[str, str | None] = {"id": element.id}
    if element.type == "page":
        # Its attributes are rendered in the head.
        return attributes
    if element.type == "columns":
        attributes["class"] = "columns"
    if element.type == "video" and "controls" not in element.attributes:
        attributes["controls"] = None
    if element.label and element.type in {"section", "nav", "form"}:
        attributes["aria-label"] = element.label
    for name, value in element.attributes.items():
        if name in FLAGS:
            attributes |= {name: None} if value == "true" else {}
        elif name not in _INTERNAL:
            attributes[name] = value
    return attributes


def _field(element: Element) -> str:
    attributes = _attributes(element)
    kind = element.attributes.get("type", "text")
    if element.type == "input":
        field = _open("input", attributes | {"type": kind})
    else:
        # A textarea's value is its text; a select's value is in its options.
        text = escape(str(attributes.pop("value", "") or "")) if element.type == "textarea" else ""
        field = _tag(element.type, attributes, text + _inside(element, in_form=True))
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


_TAGS: Final = {kind.tag for kind in KINDS.values()} | {
    "h1", "h3", "h4", "h5", "h6", "ol", "button", "label", "br",
}  # fmt: skip
_ANY: Final = {"id", "title", "aria-label", "lang", "dir", "role"}
_FIELD: Final = {"name", "placeholder", "value", "required", "disabled", "autocomplete", "maxlength"}
_SIZED: Final = {"src", "width", "height"}
_ATTRIBUTES: Final = {
    "*": _ANY,
    "a": {"href", "target"},
    "blockquote": {"cite"},
    "button": {"type"},
    "form": {"action", "method", "name", "autocomplete"},
    "img": {"alt", "loading"} | _SIZED,
    "input": {"type", "checked", "min", "max", "step"} | _FIELD,
    "option": {"value", "selected", "disabled"},
    "select": {"name", "required", "disabled", "multiple", "autocomplete"},
    "textarea": {"rows"} | _FIELD,
    "video": {"poster", "controls", "loop", "muted", "playsinline"} | _SIZED,
}
_CLASSES: Final = {"a": {"button"}, "div": {"columns", "placeholder"}, "label": {"check"}}


@dataclass(frozen=True)
class Document:
    """A whole file of HTML."""

    html: str
    policy: str
    """Its Content-Security-Policy, for a server to send as well."""


@dataclass(frozen=True)
class Publication:
    """A page's place on the web."""

    url: str = ""
    """Address at which the page will be served; empty if it is not known."""
    image: str = ""
    """Whole address of the image that stands for the page where it is shared; empty for none."""


def render_document(
    page: Page,
    inlined: Mapping[str, str] | None = None,
    *,
    external: bool = False,
    files: str = "'self'",
    publication: Publication | None = None,
) -> Document:
    """Return the page as a file; `inlined` has what to put in place of addresses: data URIs of its images.

    With `publication` the head also has JSON-LD, which is data and no script.

    Images and films from elsewhere are loaded with `external` only, since that tells their server what is in
    their address; else a text names the address. `files` is where its own images and films may come from,
    in the words of a Content-Security-Policy.
    A page of 500 elements takes some milliseconds of processor.
    """
    css = _render_stylesheet(page)
    policy = _policy(css, _origins(page) if external else [], files)
    lang = page.root.attributes.get("lang", "en")
    about = page.root.attributes.get("description", "")
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(page.title())}</title>",
        *([f'<meta name="description" content="{escape(about)}">'] if about else []),
        *_shared_as(page, lang, publication or Publication()),
        *([_linked_data(page, lang, publication)] if publication else []),
        f"<style>{css}</style>",
    ]
    shown = page if external else page.model_copy(update={"root": _own_files_only(page.root)})
    body = _with_files(sanitize(_render_markup(shown)), inlined or {})
    lines = ["<!doctype html>", f'<html lang="{escape(lang)}">', "<head>", *head, "</head>", "<body>", body]
    return Document("\n".join([*lines, "</body>", "</html>", ""]), policy)


def _shared_as(page: Page, lang: str, publication: Publication) -> list[str]:
    """Return the page in Open Graph's words: https://ogp.me."""
    values = {
        "og:type": "website",
        "og:title": page.title(),
        "og:description": page.root.attributes.get("description", ""),
        "og:locale": lang.replace("-", "_"),
        "og:url": publication.url,
        "og:image": publication.image,
    }
    return [f'<meta property="{name}" content="{escape(value)}">' for name, value in values.items() if value]


def _linked_data(page: Page, lang: str, publication: Publication) -> str:
    values = {
        "@context": "https://schema.org",
        "@type": "WebPage",
        "name": page.title(),
        "description": page.root.attributes.get("description", ""),
        "inLanguage": lang,
        "url": publication.url,
        "image": publication.image,
    }
    given = {name: value for name, value in values.items() if value}
    # No text may end the element, or open a comment in it.
    data = json.dumps(given, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/ld+json">{data}</script>'


def sanitize(html: str) -> str:
    """Return HTML with nothing in it that can run, load what is framed, or style anything."""
    options: dict[str, Any] = {
        "tags": _TAGS,
        "attributes": _ATTRIBUTES,
        "allowed_classes": _CLASSES,
        "url_schemes": {"http", "https", "mailto", "tel"},
        "clean_content_tags": {"script", "style"},
        "url_relative": _on_site,
    }
    return str(nh3.clean(html, **options))


def _on_site(address: str) -> str | None:
    """An address without a scheme, unless browsers read another site's name in it."""
    return None if address.strip().replace("\\", "/").startswith("//") else address


def _policy(css: str, origins: Sequence[str], files: str) -> str:
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src 'sha256-{digest}'",
            " ".join([f"img-src {files} data:", *origins]),
            " ".join([f"media-src {files}", *origins]),
            "form-action 'self' https: http:",
            "base-uri 'none'",
        )
    )


def _with_files(html: str, inlined: Mapping[str, str]) -> str:
    for address, data in inlined.items():
        # An image inside the file is shown, and leads nowhere.
        for name in ("src",) if data.startswith("data:") else ("src", "poster", "href"):
            html = html.replace(f'{name}="{escape(address)}"', f'{name}="{escape(data)}"')
    return html
