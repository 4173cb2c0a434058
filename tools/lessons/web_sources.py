"""Materials from the web: PDFs, plain texts, and the main text of pages without menus and scripts."""

import asyncio
import codecs
from typing import Final

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import detect_encoding
from resiliparse.parse.html import DOMNode, HTMLTree

from callsheet.state.errors import Invalid
from callsheet.tools.guard.sandbox import OnProgress
from callsheet.tools.lessons import pdf
from callsheet.tools.lessons.reflow import reflow
from callsheet.tools.lessons.sources import Source, check_size, pasted_source
from callsheet.tools.web_client import WebClient, WebResponse

_FURNITURE: Final = (
    "script, style, noscript, template, nav, aside, footer, form, button, iframe, svg, dialog, "
    "[hidden], [aria-hidden=true], [role=navigation], [role=banner], [role=contentinfo], [role=search]"
)
_SHARE: Final = 0.25
"""An extracted article with a smaller share of the page's text is ignored."""


def read_page(data: bytes, url: str, charset: str = "") -> Source:
    """Return a page as a source; without a `charset` it is detected from the bytes.

    Raises `Invalid` for a page without text and `TooLarge` for one with too much.
    """
    title, text = _parse(data, charset)
    return check_size(Source("page", title or url, reflow(text), url=url))


def _parse(data: bytes, charset: str) -> tuple[str, str]:
    """Return a page's title and text.

    The tree must be freed in the thread that made it, so no error may leave here with the tree in its frames.
    """
    encoding = charset if _is_known(charset) else detect_encoding(data, html5_compatible=True)
    tree = HTMLTree.parse_from_bytes(data, encoding or "utf-8")
    return " ".join((tree.title or "").split()), _text(tree)


def _is_known(charset: str) -> bool:
    try:
        return bool(charset and codecs.lookup(charset))
    except LookupError:
        return False


def _text(tree: HTMLTree) -> str:
    for element in tree.body.query_selector_all(_FURNITURE) if tree.body else ():
        if element.parent is not None:
            element.parent.remove_child(element)
    content = _content_element(tree)
    if content is not None:
        return _plain_text(content)
    all_text = extract_plain_text(tree, main_content=False, alt_texts=False, links=False, form_fields=False)
    main = extract_plain_text(tree, main_content=True, alt_texts=False, links=False, form_fields=False)
    return str(main if len(main) >= _SHARE * len(all_text) else all_text)


def _content_element(tree: HTMLTree) -> DOMNode | None:
    """Return the only element that the page marks as its content; None without one."""
    for name in ("article", "main", "[role=main]"):
        elements = tree.body.query_selector_all(name) if tree.body else []
        if len(elements) == 1:
            element: DOMNode = elements[0]
            return element
    return None


def _plain_text(element: DOMNode) -> str:
    text = extract_plain_text(
        element.html, main_content=False, alt_texts=False, links=False, form_fields=False
    )
    return str(text)


WEB: Final = WebClient(timeout_s=20.0, max_bytes=20 * 1024 * 1024)
"""Default client for materials."""
_PAGES: Final = frozenset({"text/html", "application/xhtml+xml", ""})
_OK: Final = range(200, 300)


async def fetch_source(
    url: str, web: WebClient = WEB, report: OnProgress = lambda _done, _of: None, *, owner: str = ""
) -> Source:
    """Return the material at a public address; `report` and `owner` are those of a PDF.

    Raises as `WebClient.get`, `Invalid` for an error page or a page without text, and `TooLarge`.
    """
    answer = await web.get(url)
    if answer.status not in _OK:
        raise Invalid(
            f"{answer.url[:200]!r} answers {answer.status}",
            remedy="open the page yourself and paste its text",
        )
    if answer.media_type == "application/pdf" or answer.data.startswith(b"%PDF-"):
        return await pdf.read_sandboxed(answer.data, answer.url[:200], report, owner=owner)
    return await asyncio.to_thread(_read, answer)


def _read(answer: WebResponse) -> Source:
    if answer.media_type in _PAGES:
        return read_page(answer.data, answer.url, answer.charset)
    if answer.media_type.startswith("text/"):
        return pasted_source(answer.data.decode("utf-8", "replace"), answer.url[:200])
    raise Invalid(
        f"{answer.url[:200]!r} is {answer.media_type!r}, which is not text",
        remedy="give a page, a PDF or a plain text",
    )
