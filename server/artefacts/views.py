"""Shared views of artefacts: their locks."""

from typing import Any

from callsheet.state.times import iso_time_or_none
from callsheet.storage.artefacts.artefacts import Artefact


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
    return [
        {part: name, "by": entry["by"], "at": iso_time_or_none(entry["at_ms"])}
        for name, entry in locks.items()
    ]
