"""What LangGraph's own server was recorded saying, and how ours is compared with it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

SAMPLES: Final = Path(__file__).parent / "samples"
ID: Final = r"(lc_run--)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"


def normalized(
    value: Any, hidden: Callable[[str], str], kept: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Any:
    """What is to be the same of a recorded value and of ours; of each object, what `kept` returns of it.

    `hidden` returns a text without what changes from run to run.
    """
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, list):
        return [normalized(each, hidden, kept) for each in value]
    if isinstance(value, dict):
        return {hidden(name): normalized(each, hidden, kept) for name, each in kept(value).items()}
    return value
