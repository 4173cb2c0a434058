"""The planner of ads: what was measured on the rendered ad takes the place of estimates."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from callsheet import storage
from callsheet.nodes.planner import Planning
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.ads.ad import AdState
from callsheet.storage.artefacts import recordings
from callsheet.storage.artefacts.artefacts import Artefact, StreamHead
from callsheet.storage.artefacts.recordings import RecordingRecord
from callsheet.tools.call import Scope

Block = Callable[[Scope, Mapping[str, StreamHead], RecordingRecord | None], str]
"""Writes the state block of an ad, whose newest versions were rendered or not."""


class AdPlanning(Planning):
    """Plans of ads."""

    def __init__(self, block: Block) -> None:
        """Plan with this state block."""
        self._block = block

    async def state_block(self, workflow: WorkflowSpec[Any], state: AdState, scope: Scope) -> str:
        """Return the ad as it is now, with what was measured on it if it was rendered within a day."""
        del state
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        heads, records = await asyncio.gather(
            artefact.stream_heads(workflow.block_streams),
            recordings.newest(await storage.current(), artefact),
        )
        return self._block(scope, heads, _rendering(heads, records))


def _rendering(heads: Mapping[str, StreamHead], records: Sequence[RecordingRecord]) -> RecordingRecord | None:
    """Return the newest rendering of the whole ad as its newest versions have it."""
    newest = {name: head.newest.id for name, head in heads.items() if head.newest}
    for record in records if newest else ():
        details = record["details"]
        if details["versions"] == newest and not details.get("track"):
            return record
    return None
