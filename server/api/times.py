"""Times as callers read them."""

from datetime import UTC, datetime


def iso(ms: str | int | None) -> str | None:
    """Return milliseconds since 1970 as ISO 8601 in UTC; None and nought are no time."""
    if not ms:
        return None
    return datetime.fromtimestamp(int(ms) / 1000, UTC).isoformat(timespec="milliseconds")
