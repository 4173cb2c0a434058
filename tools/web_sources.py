"""Materials from the web: a page, a PDF or a plain text at a public address (B4, B-R17)."""

import asyncio
from typing import Final

from state.errors import Invalid
from tools import pdf, readable
from tools.apart import Report
from tools.sources import Source, pasted
from tools.web import Answer, Web

WEB: Final = Web(patience_s=20.0, most=20 * 1024 * 1024)
"""How materials are fetched unless another way is given."""
_PAGES: Final = frozenset({"text/html", "application/xhtml+xml", ""})
_OK: Final = range(200, 300)


async def fetched(url: str, web: Web = WEB, report: Report = lambda _done, _of: None) -> Source:
    """Return what is at a public address as a source; of a PDF, `report` is told the pages that are read.

    Raises what `Web.get` raises, `Invalid` for an error page or what holds no text, and `TooLarge`.
    """
    answer = await web.get(url)
    if answer.status not in _OK:
        raise Invalid(
            f"{answer.url[:200]!r} answers {answer.status}",
            remedy="open the page yourself and paste its text",
        )
    if answer.media == "application/pdf" or answer.data.startswith(b"%PDF-"):
        return await pdf.read_apart(answer.data, answer.url[:200], report)
    return await asyncio.to_thread(_read, answer)


def _read(answer: Answer) -> Source:
    if answer.media in _PAGES:
        return readable.read(answer.data, answer.url, answer.charset)
    if answer.media.startswith("text/"):
        return pasted(answer.data.decode("utf-8", "replace"), answer.url[:200])
    raise Invalid(
        f"{answer.url[:200]!r} is {answer.media!r}, which is no text",
        remedy="give a page, a PDF or a plain text",
    )
