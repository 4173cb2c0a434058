"""Requests with an `Idempotency-Key`: the same key and body create one thing, however often they arrive."""

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from fastapi import Request
from pydantic import BaseModel

from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.requests import checked_idempotency_key
from callsheet.state.errors import Missing
from callsheet.state.plan import canonical_json
from callsheet.storage.runs import idempotency
from callsheet.storage.threads import threads

_HEADER: Final = "Idempotency-Key"
_PARAMETER: Final = {
    "name": _HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "1 to 255 printable characters; within a day, the same key and body create nothing more",
}
IDEMPOTENT: Final[dict[str, Any]] = {"parameters": [_PARAMETER]}
"""OpenAPI of a route that takes a key, which `create_once` reads."""
_Created = TypeVar("_Created")
_Existing = TypeVar("_Existing")


async def create_once(
    request: Request,
    body: BaseModel | Sequence[BaseModel],
    create: Callable[[str], Awaitable[_Created]],
    find: Callable[[str], Awaitable[_Existing]],
    path: str = "",
) -> _Created | _Existing:
    """Return `create(id)`, or `find(id)` if the request with this key and body has created it before.

    The id follows from owner, path, key and body, so a request whose first reply was lost finds what it
    created. `find` raises `Missing` for nothing. Raises `Conflict` for a key sent with another body, and
    `Missing` for a thing deleted since.
    """
    key = checked_idempotency_key(request.headers.get(_HEADER))
    if key is None:
        return await create(str(uuid.uuid4()))
    storage, owner = app_context(request).storage, current_owner(request)
    digest = _digest(body)
    path = path or request.url.path
    name = canonical_json(["request", path, key, digest])
    recorded, new_id = await asyncio.gather(
        idempotency.find(storage, owner, path, key), threads.derived_id(storage, owner, name)
    )
    if recorded not in {None, digest}:
        raise idempotency.reused_key(key)
    try:
        return await find(new_id)
    except Missing:
        if recorded:
            raise
    created = await create(new_id)
    await idempotency.record(storage, owner, path, key, digest)
    return created


def _digest(body: BaseModel | Sequence[BaseModel]) -> str:
    parts = [body] if isinstance(body, BaseModel) else body
    fields = [part.model_dump(mode="json", exclude_unset=True) for part in parts]
    return hashlib.sha256(canonical_json(fields).encode()).hexdigest()
