"""Scan of an exported page for anything that could run, load, frame or style something, with html.parser."""

import base64
import hashlib
import re
from html.parser import HTMLParser

_LISTS = (
    """
html head meta title style body main nav header section footer div article h1 h2 h3 h4 h5 h6 p blockquote
a button ul ol li img video hr form input textarea select option label br""",
    """
id class title aria-label lang dir role href target rel cite type action method name autocomplete src alt
width height loading checked min max step placeholder value required disabled maxlength selected multiple
rows poster controls loop muted playsinline""",
)
_TAGS, _ATTRIBUTES = (frozenset(names.split()) for names in _LISTS)
_ADDRESSES = {"href", "src", "action", "poster", "cite"}
_HEAD = {"charset", "http-equiv", "content", "name", "property"}
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)


class PageScanner(HTMLParser):
    """A parser that collects the problems, styles, policy and text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.styles: list[str] = []
        self.policy = ""
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append((tag, attributes))
        self._in = tag
        if tag not in _TAGS:
            self.problems.append(f"<{tag}>")
        if tag == "meta":
            self._meta(attributes)
            return
        self.problems.extend(f"{tag} {name}" for name in attributes if name not in _ATTRIBUTES)
        for name in _ADDRESSES & attributes.keys():
            # As browsers read it: without tabs and line ends, and what leads.
            address = re.sub(r"[\t\r\n]", "", attributes[name]).strip("".join(map(chr, range(33))))
            scheme = _SCHEME.match(address)
            allowed = scheme is None or scheme[1].lower() in {"http", "https", "mailto", "tel"}
            if not allowed or address.replace("\\", "/").startswith("//"):
                self.problems.append(f"{tag} {name}={attributes[name]!r}")

    def _meta(self, attributes: dict[str, str]) -> None:
        self.problems.extend(f"meta {name}" for name in attributes if name not in _HEAD)
        if "http-equiv" in attributes:
            if attributes["http-equiv"] != "Content-Security-Policy" or self.policy:
                self.problems.append(f"meta {attributes}")
            self.policy = attributes["content"]

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "style":
            self.styles.append(data)
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.problems.append(f"<!--{data}-->")

    def unknown_decl(self, data: str) -> None:
        self.problems.append(f"<![{data}]>")

    def handle_pi(self, data: str) -> None:
        self.problems.append(f"<?{data}>")


def scan_html(html: str) -> PageScanner:
    """Scan a fragment or a page."""
    scanner = PageScanner()
    scanner.feed(html)
    scanner.close()
    return scanner


def hostile_css(css: str) -> list[str]:
    """Return parts of a stylesheet that an exported page never has."""
    names = (
        r"url\s*\(|expression|@|\\|<|>\s*\*?\s*script|javascript|behavior|binding|/\*|position\s*:|!important"
    )
    return re.findall(names, css, re.IGNORECASE)


def page_faults(html: str) -> list[str]:
    """Return the problems of a page: elements, attributes, addresses, styles and its policy."""
    scanner = scan_html(html)
    (css,) = scanner.styles
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    if f"style-src 'sha256-{digest}'" not in scanner.policy or "default-src 'none'" not in scanner.policy:
        scanner.problems.append(f"policy {scanner.policy!r}")
    return scanner.problems + hostile_css(css)
