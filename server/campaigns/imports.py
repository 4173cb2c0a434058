"""Import of campaigns: checked row by row, stored in portions, all or nothing on request."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.importing import Kind, RefusedRow, read_campaigns
from callsheet.state.errors import Invalid
from callsheet.storage.campaigns.index import CampaignIndex

PORTION: Final = 1_000
MAX_REPORTED: Final = 1_000
Report = Callable[[int, int], None]
"""Receives the number of stored campaigns and of all of them."""


async def import_campaigns(
    index: CampaignIndex,
    content: bytes,
    kind: Kind,
    *,
    all_or_nothing: bool = False,
    report: Report = lambda _done, _all: None,
) -> dict[str, Any]:
    """Import a file into a library, and return what was imported and refused.

    A campaign whose id is known is updated. Raises `Invalid` for a file that cannot be read, and with
    `all_or_nothing` for one with a refused row; then nothing is imported.
    """
    rows = await asyncio.to_thread(lambda: list(read_campaigns(content, kind)))
    campaigns = [row for row in rows if isinstance(row, Campaign)]
    refused = [row for row in rows if isinstance(row, RefusedRow)]
    if refused and all_or_nothing:
        raise Invalid(
            f"{len(refused)} of {len(rows)} rows are refused; line {refused[0].line}: {refused[0].reason}",
            remedy="correct them, or import without allOrNothing",
        )
    new = done = 0
    for portion in _portions(campaigns):
        new += await index.put(portion)
        done += len(portion)
        report(done, len(campaigns))
    return {
        "imported": len(campaigns),
        "new": new,
        "refused": [{"line": row.line, "reason": row.reason} for row in refused[:MAX_REPORTED]],
        "refusedCount": len(refused),
    }


def _portions(campaigns: list[Campaign]) -> Iterator[list[Campaign]]:
    return (campaigns[at : at + PORTION] for at in range(0, len(campaigns), PORTION))
