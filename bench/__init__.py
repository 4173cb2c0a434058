"""Benches: each figure is a ratio to a peer or a floor in the same run."""

import os
from typing import Final

SHORT_VARIABLE: Final = "CALLSHEET_BENCH_SHORT"
"""Set by `--short`, before a bench is imported; the processes of a bench inherit it."""


def size(full: int, *, short: int) -> int:
    """Return the number of rounds, or of anything else: `short` only shows that the bench runs."""
    return short if os.environ.get(SHORT_VARIABLE) else full
