"""Times as text: ISO 8601 in UTC."""

from datetime import UTC, datetime
from typing import Literal


def iso_time(ms: float, parts: Literal["seconds", "milliseconds", "microseconds"] = "milliseconds") -> str:
    """Return milliseconds since 1970 as text, to such parts of a second."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec=parts)


def iso_time_or_none(ms: str | float | None) -> str | None:
    """Return milliseconds since 1970 as text; None for None and 0, which stand for no time."""
    return iso_time(float(ms)) if ms else None
