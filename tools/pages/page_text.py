"""Text of fetched web pages, read in the sandbox."""

from typing import Any, Final

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import detect_encoding
from resiliparse.parse.html import HTMLTree

from callsheet.state.errors import Oversized, TooLarge
from callsheet.tools.guard.sandbox import OnProgress, SandboxTask, TaskLimits, run_task

MAX_CHARS: Final = 1_000_000
"""Characters of a page's text that are returned; more are cut off."""


_LIMITS: Final = TaskLimits(memory_bytes=512 * 2**20, cpu_s=5.0, output_bytes=12 * MAX_CHARS + 65_536)
"""JSON needs at most twelve characters for one of the text."""


async def read_page_text(data: bytes, url: str, charset: str, owner: str) -> str:
    """Return the text of a page; raise `TooLarge` beyond the limits."""
    task = SandboxTask(f"reading {url[:80]}", __name__, "read_in_sandbox", {"charset": charset}, data, owner)
    try:
        return str((await run_task(task, _LIMITS))["text"])
    except Oversized as error:
        raise TooLarge(error.message, remedy="use a simpler page") from error


def read_in_sandbox(data: bytes, report: OnProgress, *, charset: str) -> dict[str, Any]:
    """Return the text of a page; runs in the sandbox process."""
    del report
    tree = HTMLTree.parse(data.decode(_known(charset, data), "replace"))
    text = extract_plain_text(tree, main_content=False, alt_texts=False, form_fields=False)
    return {"text": str(text)[:MAX_CHARS]}


def _known(charset: str, data: bytes) -> str:
    charset = charset or detect_encoding(data, html5_compatible=True) or "utf-8"
    try:
        b"".decode(charset)
    except LookupError:
        return "utf-8"
    return charset
