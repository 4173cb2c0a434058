"""Work of the operator on the data itself, with or without a server: checks, and API keys."""

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final, TypeVar

from callsheet import storage
from callsheet.server.http import api_keys
from callsheet.server.http.api_keys import CreatedKey
from callsheet.server.operations import doctor
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry.audit import record_action
from callsheet.state.times import iso_time
from callsheet.storage import api_keys as stored_keys
from callsheet.storage.api_keys import StoredKey
from callsheet.storage.migrations import require_known
from callsheet.storage.redis.connection import Storage

Result = TypeVar("Result")
_DAY_S: Final = 86_400


def check(settings: Settings, *, is_served: bool = False) -> tuple[str, list[dict[str, Any]]]:
    """Check all that the server needs; return the worst status, and the findings."""
    findings = asyncio.run(doctor.diagnose(settings, os.environ, is_served=is_served))
    return doctor.worst_status(findings), [asdict(finding) for finding in findings]


def create_key(
    settings: Settings, owner: str, permission: str, *, name: str, days: float | None
) -> dict[str, str]:
    """Create an API key; return its id and, for the only time, its text."""

    async def create(opened: Storage) -> CreatedKey:
        created = await api_keys.create_key(
            opened, owner, permission, name=name, lifetime_s=(days or 0) * _DAY_S
        )
        await _audit(opened, "key.create", created.id, name=name, days=days)
        return created

    created = _with_storage(settings, create)
    return {"id": created.id, "key": created.text}


def list_keys(settings: Settings, owner: str | None) -> list[dict[str, Any]]:
    """Return the keys without their text, oldest first."""
    return [
        _key_json(key) for key in _with_storage(settings, lambda opened: stored_keys.list_keys(opened, owner))
    ]


def revoke_key(settings: Settings, key_id: str) -> None:
    """Revoke a key; raise `Missing` if there is none."""

    async def revoke(opened: Storage) -> None:
        await stored_keys.revoke(opened, key_id)
        await _audit(opened, "key.revoke", key_id)

    _with_storage(settings, revoke)


def rotate_key(settings: Settings, key_id: str, grace_s: float) -> dict[str, Any]:
    """Create a key in place of another one, which ends after `grace_s` or earlier.

    Return its id and its text, and the seconds that the other one has left.
    """

    async def rotate(opened: Storage) -> tuple[CreatedKey, float]:
        created, left_s = await api_keys.rotate_key(opened, key_id, grace_s)
        await _audit(opened, "key.rotate", key_id, new=created.id, graceSeconds=left_s)
        return created, left_s

    created, left_s = _with_storage(settings, rotate)
    return {"id": created.id, "key": created.text, "graceSeconds": left_s}


async def _audit(opened: Storage, action: str, key_id: str, **details: Any) -> None:
    """Record an action on a key by the user of this machine, who need not be the key's owner."""
    record = await stored_keys.find(opened, key_id)
    details |= {"keyOwner": record.owner, "permission": record.permissions[-1]} if record else {}
    await record_action(opened, action, key_id, details, owner=f"operator {_user()}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return str(os.geteuid())


def _with_storage(settings: Settings, work: Callable[[Storage], Awaitable[Result]]) -> Result:
    async def execute() -> Result:
        async with storage.connect(settings.redis_url, settings.data_dir) as opened:
            await require_known(opened)
            return await work(opened)

    return asyncio.run(execute())


def _key_json(key: StoredKey) -> dict[str, Any]:
    def time(ms: int | None) -> str | None:
        return iso_time(ms, "seconds") if ms is not None else None

    return {
        "id": key.id,
        "owner": key.owner,
        "permissions": list(key.permissions),
        "name": key.name,
        "status": key.status,
        "createdAt": time(key.created_ms),
        "expiresAt": time(key.expires_ms),
        "revokedAt": time(key.revoked_ms),
        "usedAt": time(key.used_ms),
        "useIsKnown": key.use_is_known,
    }
