"""Recorded replies of LangGraph's own server, and their comparison with ours."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

SAMPLES: Final = Path(__file__).parent / "samples"
ID: Final = r"(lc_run--)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"


def normalize(
    value: Any, hide: Callable[[str], str], keep: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Any:
    """Return the part of a value that must be equal in a recorded reply and in ours.

    `hide` replaces ids and times in a text; `keep` returns the entries of an object that are compared.
    """
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [normalize(item, hide, keep) for item in value]
    if isinstance(value, dict):
        return {hide(name): normalize(item, hide, keep) for name, item in keep(value).items()}
    return value
