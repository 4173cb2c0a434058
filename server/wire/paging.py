"""Lists in pages."""

from collections.abc import Sequence
from typing import Any

from server.wire.bodies import Page
from server.wire.shapes import Wire


def paged(found: Sequence[Any], page: Page) -> Wire:
    """Return the reply with a page; `found` has one entry more than fits where there is a next page.

    `X-Pagination-Total` is how many are known of, as LangGraph's server tells it: one more than what was
    shown so far, where there are more.
    """
    shown = found[: page.limit]
    headers = {"X-Pagination-Total": str(page.offset + len(found))}
    if len(found) > page.limit:
        headers["X-Pagination-Next"] = str(page.offset + page.limit)
    return Wire(shown, headers=headers)
