"""Main text of web pages without menus and scripts, read in the sandbox."""

from dataclasses import asdict
from typing import Any, Final

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import detect_encoding
from resiliparse.parse.html import DOMNode, HTMLTree

from callsheet.state.errors import Oversized, TooLarge
from callsheet.tools.guard.sandbox import OnProgress, SandboxTask, TaskLimits, run_task
from callsheet.tools.lessons.reflow import reflow
from callsheet.tools.lessons.sources import MAX_CHARS, Source, check_size

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
    tree = HTMLTree.parse_from_bytes(data, text_encoding(data, charset))
    return " ".join((tree.title or "").split()), _text(tree)


def text_encoding(data: bytes, charset: str) -> str:
    """Return the encoding of a text or page: the named one if it is known, else the page's or likely one."""
    if charset and _is_known(charset):
        return charset
    return detect_encoding(data, html5_compatible=True, from_html_meta=True) or "utf-8"


def _is_known(charset: str) -> bool:
    try:
        # Some codecs, such as hex, are not of texts; of an empty text Python looks for no codec.
        "a".encode(charset)
    except LookupError:
        return False
    return True


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


_LIMITS: Final = TaskLimits(memory_bytes=768 * 2**20, cpu_s=10.0, output_bytes=12 * MAX_CHARS + 65_536)
"""JSON needs at most twelve characters for one of the text."""


async def read_sandboxed(
    data: bytes, url: str, charset: str = "", limits: TaskLimits = _LIMITS, *, owner: str = ""
) -> Source:
    """Return a page as a source, read in the sandbox; the pages of an `owner` one at a time.

    Raises as `read_page`, and `TooLarge` beyond the limits.
    """
    arguments = {"url": url, "charset": charset}
    task = SandboxTask(f"reading {url[:200]}", __name__, "read_in_sandbox", arguments, data, owner)
    try:
        fields = await run_task(task, limits)
    except Oversized as error:
        raise TooLarge(error.message, remedy="open the page yourself and paste its text") from error
    return Source(**{**fields, "warnings": tuple(fields["warnings"])})


def read_in_sandbox(data: bytes, report: OnProgress, *, url: str, charset: str) -> dict[str, Any]:
    """Return the fields of the source that `read_page` returns; runs in the sandbox process."""
    del report
    return asdict(read_page(data, url, charset))
