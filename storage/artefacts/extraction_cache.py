"""Cache of facts extracted from a material, per owner, for the same text again."""

import json
from collections.abc import Mapping
from typing import Any

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage


async def get(storage: Storage, owner: str, question: str) -> dict[str, Any] | None:
    """Return the cached answer to the owner's question, a digest, or None."""
    answer = await storage.redis.get(keys.extraction(owner, question))
    return None if answer is None else dict(json.loads(answer))


async def put(storage: Storage, owner: str, question: str, answer: Mapping[str, Any]) -> None:
    """Cache an answer for a day. Twice is safe."""
    text = json.dumps(answer, ensure_ascii=False)
    await storage.redis.set(keys.extraction(owner, question), text, px=int(keys.DAY_S * 1000))
