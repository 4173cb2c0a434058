"""Materials from the web: PDFs, pages and plain texts."""

import asyncio
from typing import Final

from callsheet.state.errors import Invalid
from callsheet.tools.guard.sandbox import OnProgress
from callsheet.tools.lessons import pdf, web_page
from callsheet.tools.lessons.sources import Source, pasted_source
from callsheet.tools.web_client import WebClient, WebResponse

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
    if answer.media_type in _PAGES:
        return await web_page.read_sandboxed(answer.data, answer.url, answer.charset, owner=owner)
    return await asyncio.to_thread(_read_text, answer)


def _read_text(answer: WebResponse) -> Source:
    if answer.media_type.startswith("text/"):
        encoding = web_page.text_encoding(answer.data, answer.charset)
        try:
            return pasted_source(answer.data.decode(encoding), answer.url[:200])
        except UnicodeDecodeError as error:
            raise Invalid(
                f"{answer.url[:200]!r} is not {encoding}", remedy="open the page yourself and paste its text"
            ) from error
    raise Invalid(
        f"{answer.url[:200]!r} is {answer.media_type!r}, which is not text",
        remedy="give a page, a PDF or a plain text",
    )
