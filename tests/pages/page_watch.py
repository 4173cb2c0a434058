"""What of an exported page could run, load, frame or style something: read with html.parser, as it is."""

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
_HEAD = {"charset", "http-equiv", "content", "name"}
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)


class PageScanner(HTMLParser):
    """Collects what is wrong with a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.styles: list[str] = []
        self.policy = ""
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.seen.append((tag, found))
        self._in = tag
        if tag not in _TAGS:
            self.wrong.append(f"<{tag}>")
        if tag == "meta":
            self._meta(found)
            return
        self.wrong.extend(f"{tag} {name}" for name in found if name not in _ATTRIBUTES)
        for name in _ADDRESSES & found.keys():
            # As browsers read it: without tabs and line ends, and what leads.
            address = re.sub(r"[\t\r\n]", "", found[name]).strip("".join(map(chr, range(33))))
            scheme = _SCHEME.match(address)
            known = scheme is None or scheme[1].lower() in {"http", "https", "mailto", "tel"}
            if not known or address.replace("\\", "/").startswith("//"):
                self.wrong.append(f"{tag} {name}={found[name]!r}")

    def _meta(self, found: dict[str, str]) -> None:
        self.wrong.extend(f"meta {name}" for name in found if name not in _HEAD)
        if "http-equiv" in found:
            if found["http-equiv"] != "Content-Security-Policy" or self.policy:
                self.wrong.append(f"meta {found}")
            self.policy = found["content"]

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "style":
            self.styles.append(data)
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"<!--{data}-->")

    def unknown_decl(self, data: str) -> None:
        self.wrong.append(f"<![{data}]>")

    def handle_pi(self, data: str) -> None:
        self.wrong.append(f"<?{data}>")


def scan_html(html: str) -> PageScanner:
    """Return what is to be told of a fragment or a page."""
    watch = PageScanner()
    watch.feed(html)
    watch.close()
    return watch


def hostile_css(css: str) -> list[str]:
    """Return what a stylesheet of ours never has."""
    names = (
        r"url\s*\(|expression|@|\\|<|>\s*\*?\s*script|javascript|behavior|binding|/\*|position\s*:|!important"
    )
    return re.findall(names, css, re.IGNORECASE)


def page_faults(html: str) -> list[str]:
    """Return what is wrong with a whole page: elements, attributes, addresses, styles and its policy."""
    watch = scan_html(html)
    (css,) = watch.styles
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    if f"style-src 'sha256-{digest}'" not in watch.policy or "default-src 'none'" not in watch.policy:
        watch.wrong.append(f"policy {watch.policy!r}")
    return watch.wrong + hostile_css(css)
