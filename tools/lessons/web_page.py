"""A web page's own words, without its menus, notices and scripts."""

import codecs
from typing import TYPE_CHECKING, Final

from callsheet.tools.lessons.reflow import reflow
from callsheet.tools.lessons.sources import Source, require_size

if TYPE_CHECKING:
    from resiliparse.parse.html import DOMNode, HTMLTree

_FURNITURE: Final = (
    "script, style, noscript, template, nav, aside, footer, form, button, iframe, svg, dialog, "
    "[hidden], [aria-hidden=true], [role=navigation], [role=banner], [role=contentinfo], [role=search]"
)
_SHARE: Final = 0.25
"""A found article with less of the page's text than this is not the article."""


def read_page(data: bytes, url: str, charset: str = "") -> Source:
    """Return a page as a source; `charset` is what its server says, else its bytes tell.

    Raises `Invalid` for a page without text and `TooLarge` for one with too much.
    """
    title, text = _parsed(data, charset)
    return require_size(Source("page", title or url, reflow(text), url=url))


def _parsed(data: bytes, charset: str) -> tuple[str, str]:
    """Return a page's title and words.

    The tree may only be let go in the thread that made it, so no error may leave here with it in its frames.
    """
    from resiliparse.parse.encoding import detect_encoding  # noqa: PLC0415 -- most lessons have no page
    from resiliparse.parse.html import HTMLTree  # noqa: PLC0415

    told = charset if _is_known(charset) else detect_encoding(data, html5_compatible=True)
    tree = HTMLTree.parse_from_bytes(data, told or "utf-8")
    return " ".join((tree.title or "").split()), _text(tree)


def _is_known(charset: str) -> bool:
    try:
        return bool(charset and codecs.lookup(charset))
    except LookupError:
        return False


def _text(tree: "HTMLTree") -> str:
    for element in tree.body.query_selector_all(_FURNITURE) if tree.body else ():
        if element.parent is not None:
            element.parent.remove_child(element)
    marked = _marked(tree)
    if marked is not None:
        return _words(marked)
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415

    whole = extract_plain_text(tree, main_content=False, alt_texts=False, links=False, form_fields=False)
    main = extract_plain_text(tree, main_content=True, alt_texts=False, links=False, form_fields=False)
    return str(main if len(main) >= _SHARE * len(whole) else whole)


def _marked(tree: "HTMLTree") -> "DOMNode | None":
    """Return the element that the page itself calls its content, if it is one."""
    for name in ("article", "main", "[role=main]"):
        found = tree.body.query_selector_all(name) if tree.body else []
        if len(found) == 1:
            element: DOMNode = found[0]
            return element
    return None


def _words(element: "DOMNode") -> str:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415

    text = extract_plain_text(
        element.html, main_content=False, alt_texts=False, links=False, form_fields=False
    )
    return str(text)
