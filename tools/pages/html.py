"""A page as a file of HTML that is safe to open wherever it is served from.

Three walls, each enough by itself: the page holds only what `state.pages` allows and
is escaped; nh3 takes away whatever markup is not on its list; and a policy in the file lets no script run,
nothing be framed, and only the one stylesheet apply whose hash it names.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import nh3

from callsheet.state.pages.elements import KINDS
from callsheet.state.pages.markup import render_markup, render_stylesheet
from callsheet.state.pages.page import Page

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


def render_document(page: Page, inlined: Mapping[str, str] | None = None) -> Document:
    """Return the page as a file; `inlined` has what to put in place of addresses: data URIs of its images.

    A page of 500 elements takes some milliseconds of processor.
    """
    css = render_stylesheet(page)
    policy = _policy(css)
    lang = page.root.attributes.get("lang", "en")
    about = page.root.attributes.get("description", "")
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(page.title())}</title>",
        *([f'<meta name="description" content="{escape(about)}">'] if about else []),
        f"<style>{css}</style>",
    ]
    body = _with_files(sanitize(render_markup(page)), inlined or {})
    lines = ["<!doctype html>", f'<html lang="{escape(lang)}">', "<head>", *head, "</head>", "<body>", body]
    return Document("\n".join([*lines, "</body>", "</html>", ""]), policy)


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


def _policy(css: str) -> str:
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src 'sha256-{digest}'",
            "img-src 'self' https: http: data:",
            "media-src 'self' https: http:",
            "form-action 'self' https: http:",
            "base-uri 'none'",
        )
    )


def _with_files(html: str, inlined: Mapping[str, str]) -> str:
    for address, data in inlined.items():
        html = html.replace(f'src="{escape(address)}"', f'src="{data}"')
    return html
