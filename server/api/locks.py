"""What people lock of an artefact, and what they are shown of it."""

from typing import Any

from server.api.times import iso
from storage.artefacts import Artefact


async def lock(artefact: Artefact, part: str, name: str, by: str) -> dict[str, Any]:
    """Lock a part against every change; return all locks, each with its name under `part`. Twice is safe."""
    await artefact.lock(name, by)
    return {"locks": await shown(artefact, part)}


async def unlock(artefact: Artefact, part: str, name: str) -> dict[str, Any]:
    """Unlock what `lock` locked; return all locks. One that is not locked stays so."""
    await artefact.unlock(name)
    return {"locks": await shown(artefact, part)}


async def shown(artefact: Artefact, part: str) -> list[dict[str, Any]]:
    """Return what is locked: each part's name under `part`, by whom, and since when."""
    locks = await artefact.locks()
    return [{part: name, "by": one["by"], "at": iso(one["at_ms"])} for name, one in locks.items()]
