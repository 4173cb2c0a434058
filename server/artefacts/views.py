"""Shared views of artefacts: locks and times."""

from datetime import UTC, datetime
from typing import Any

from callsheet.storage.artefacts.artefacts import Artefact


def iso(ms: str | int | None) -> str | None:
    """Return milliseconds since 1970 as ISO 8601 in UTC; None and nought are no time."""
    if not ms:
        return None
    return datetime.fromtimestamp(int(ms) / 1000, UTC).isoformat(timespec="milliseconds")


async def lock(artefact: Artefact, part: str, name: str, by: str) -> dict[str, Any]:
    """Lock a part against every change; return all locks, each with its name under `part`. Twice is safe."""
    await artefact.lock(name, by)
    return {"locks": await locks_view(artefact, part)}


async def unlock(artefact: Artefact, part: str, name: str) -> dict[str, Any]:
    """Unlock what `lock` locked; return all locks. One that is not locked stays so."""
    await artefact.unlock(name)
    return {"locks": await locks_view(artefact, part)}


async def locks_view(artefact: Artefact, part: str) -> list[dict[str, Any]]:
    """Return what is locked: each part's name under `part`, by whom, and since when."""
    locks = await artefact.locks()
    return [{part: name, "by": one["by"], "at": iso(one["at_ms"])} for name, one in locks.items()]
