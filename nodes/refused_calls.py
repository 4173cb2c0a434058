"""The log of refused calls behind a turn that reached its limit of rounds."""

import logging
import re
from collections.abc import Sequence
from typing import Final

from callsheet.state.plan import StepResult

_log = logging.getLogger(__name__)
_VALUE: Final = re.compile(r"""(?<!\w)(?:'[^']*'|"[^"]*")""")
"""A quoted value in a rule, which may be an argument."""
_MAX_NAME: Final = 80
_MAX_RULE: Final = 300


def log_refused_calls(thread: str, results: Sequence[StepResult]) -> None:
    """Log a warning for each distinct reason for which calls of a turn were refused, without arguments."""
    reasons = [
        (result["tool"][:_MAX_NAME], _rule(result)) for result in results if result["status"] == "error"
    ]
    for tool, rule in dict.fromkeys(reasons):
        _log.warning(
            "thread %s reached its limit of rounds; a call of %s was refused: %s", thread, tool, rule
        )


def _rule(result: StepResult) -> str:
    output = result["output"]
    if output.get("type") == "unknown_tool":
        return "unknown tool"
    return _VALUE.sub("…", str(output.get("error", ""))[:_MAX_RULE])
