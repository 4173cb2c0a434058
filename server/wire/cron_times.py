"""When a schedule is due: five fields of a crontab, in the hours of a place."""

from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from state.errors import Invalid

_EXAMPLE: Final = "send five fields, such as '0 9 * * 1-5' for nine o'clock on working days"


def following(schedule: str, timezone: str | None, after_ms: int, end_ms: int | None = None) -> int | None:
    """Return when a schedule is due next after a time, in milliseconds of the epoch; None for never.

    Raises `Invalid` for what is no schedule, and for a place there is none of.
    """
    after = datetime.fromtimestamp(after_ms / 1000, _zone(timezone))
    try:
        found = next(CronSim(schedule, after), None)
    except CronSimError as error:
        raise Invalid(f"schedule {schedule[:80]!r}: {error}".rstrip(": "), remedy=_EXAMPLE) from None
    if found is None:
        return None
    ms = int(found.timestamp() * 1000)
    return ms if end_ms is None or ms <= end_ms else None


def _zone(name: str | None) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"there is no time zone {name[:80]!r}", remedy="use one such as Europe/Paris") from None
