"""Shared views of artefacts: locks and times."""

from datetime import UTC, datetime
from typing import Any

from callsheet.storage.artefacts.artefacts import Artefact


def iso(ms: str | int | None) -> str | None:
    """Return milliseconds since 1970 as ISO 8601 in UTC; None for None and 0."""
    if not ms:
        return None
    return datetime.fromtimestamp(int(ms) / 1000, UTC).isoformat(timespec="milliseconds")


async def lock(artefact: Artefact, part: str, name: str, by: str) -> dict[str, Any]:
    """Lock a part against every change and return all locks, each with its name under `part`."""
    await artefact.lock(name, by)
    return {"locks": await locks_view(artefact, part)}


async def unlock(artefact: Artefact, part: str, name: str) -> dict[str, Any]:
    """Unlock a part, locked or not, and return all locks."""
    await artefact.unlock(name)
    return {"locks": await locks_view(artefact, part)}


async def locks_view(artefact: Artefact, part: str) -> list[dict[str, Any]]:
    """Return the locks: each part's name under `part`, its owner and its time."""
    locks = await artefact.locks()
    return [{part: name, "by": entry["by"], "at": iso(entry["at_ms"])} for name, entry in locks.items()]
