"""Input of the model over eighteen turns of each workflow: cached tokens, new tokens, remembered facts.

A scripted model answers as a good one would. Tokens are estimated by script; the cached part of a request is
the longest prefix that it shares with an earlier request of the conversation, as in a prompt cache.
"""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Final

from callsheet import storage
from callsheet.nodes.workflow import workflow_of
from callsheet.state.tokens import estimate_tools
from callsheet.storage import Storage
from callsheet.tools.registry import definitions
from tests.models.long_conversations import FACTS, TALKS, Partner, Sent, play

MIN_SHARE: Final = 0.7
MAX_NEW: Final = 7_500
MAX_COMPACTIONS: Final = 2
MAX_TOOLS: Final = 1_000
MAX_TURN: Final = 6_000


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> int:
    columns = (
        *("tools", "largest of turn 6", "cached, turns 2-10", "new, turns 1-5", "compactions"),
        "facts in turn 18",
    )
    print(f"{'':<17}{''.join(f'{name:>20}' for name in columns)}")
    async with storage.connect(data_dir=folder) as opened:
        storage.use(opened)
        try:
            for name in TALKS:
                _print(name, await _play(name, opened))
        finally:
            storage.use(None)
    print(f"aims: {MIN_SHARE:.0%} cached, {MAX_NEW} new with four edits, {MAX_COMPACTIONS} compactions;")
    print(f"campaigns: {MAX_TOOLS} tokens of tools, {MAX_TURN} in the largest request of turn 6")
    return 0


async def _play(name: str, opened: Storage) -> Sent:
    with Partner() as partner:
        os.environ.update(partner.environ)
        return await play(TALKS[name], opened, partner)


def _tool_tokens(name: str) -> int:
    spec = workflow_of(TALKS[name].graph)
    return estimate_tools(definitions(spec.tools)) if spec else 0


def _print(name: str, sent: Sent) -> None:
    remembered = sum(fact in sent.turns[-1][-1] for fact in FACTS)
    print(
        f"{name:<17}{_tool_tokens(name):>20}{sent.largest(5):>20}"
        f"{sent.cached_share(slice(1, 10)):>20.0%}{sent.new_tokens(slice(0, 5)):>20}"
        f"{sent.compactions:>20}{f'{remembered} of {len(FACTS)}':>20}"
    )
