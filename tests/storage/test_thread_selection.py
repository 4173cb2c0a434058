"""The walk over an owner's threads while the list of them changes."""

import pytest

from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.threads.selection import Order, ThreadSelection


@pytest.mark.parametrize("order", ["updated_at", "thread_id"])
@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("leaving", ["the last", "an earlier", "moved", "all"])
async def test_a_thread_that_leaves_during_a_walk_makes_no_other_one_be_left_out(
    storage: Storage, order: Order, direction: str, leaving: str
) -> None:
    descending = direction == "down"
    names = keys.thread_search("local")
    key = names.ids if order == "thread_id" else names.updated
    ids = ["a", "aa", "ab", "b", "\u00e4", "\U0001f600"]
    scores = {name: 0 if order == "thread_id" else at // 2 for at, name in enumerate(ids)}
    await storage.redis.zadd(key, scores)
    expected = sorted(ids, key=lambda name: (scores[name], name.encode()), reverse=descending)
    walk = ThreadSelection(storage, "local", {}, {}, len(ids), is_exact=True).ids(
        order, descending=descending, wanted=3
    )
    passed = await anext(walk)
    assert passed == expected[:3]
    if leaving == "moved":
        await storage.redis.zadd(key, {passed[-1]: 9 if descending else -9})
    else:
        left = {"the last": passed[-1:], "an earlier": passed[:1], "all": passed}[leaving]
        await storage.redis.zrem(key, *left)
    assert [name async for chunk in walk for name in chunk] == expected[3:]
