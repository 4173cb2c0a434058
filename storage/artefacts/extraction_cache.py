"""What was found in a material, for whoever of its owner brings the same words again (B63)."""

import json
from collections.abc import Mapping
from typing import Any

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage


async def get(storage: Storage, owner: str, question: str) -> dict[str, Any] | None:
    """Return what this owner's question, a digest, was answered with before, or None."""
    found = await storage.redis.get(keys.extraction(owner, question))
    return None if found is None else dict(json.loads(found))


async def put(storage: Storage, owner: str, question: str, answer: Mapping[str, Any]) -> None:
    """Remember an answer for a day; the same again changes nothing but its end."""
    told = json.dumps(answer, ensure_ascii=False)
    await storage.redis.set(keys.extraction(owner, question), told, px=int(keys.DAY_S * 1000))
