"""Scripts: called by their hash in one round trip, and sent again when the server forgot them."""

import pytest
from redis.exceptions import ResponseError

from callsheet.storage import Storage
from callsheet.storage.redis.scripts import Script

ADD = Script("return redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])")


async def calls(storage: Storage, command: str) -> int:
    stats = await storage.redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def test_a_script_is_called_like_a_function(storage: Storage) -> None:
    echo = Script("return {KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[2]) + 1, false}")
    assert await echo(storage.redis, ["k"], ["สวัสดี", 41]) == [b"k", "สวัสดี".encode(), b"41", 42, None]


async def test_a_loaded_script_is_called_with_one_command(storage: Storage) -> None:
    count = Script("return #KEYS + #ARGV")
    await count(storage.redis, [])
    await storage.redis.config_resetstat()
    assert await count(storage.redis, ["a", "b"], [1.5]) == 3
    assert (await calls(storage, "evalsha"), await calls(storage, "eval")) == (1, 0)


async def test_a_forgotten_script_is_sent_again(storage: Storage) -> None:
    count = Script("return 7")
    assert await count(storage.redis, []) == 7
    await storage.redis.script_flush()
    assert await count(storage.redis, []) == 7
    await storage.redis.config_resetstat()
    assert await count(storage.redis, []) == 7
    assert (await calls(storage, "evalsha"), await calls(storage, "eval")) == (1, 0)


async def test_an_error_of_the_script_is_not_hidden(storage: Storage) -> None:
    with pytest.raises(ResponseError, match="my own reason"):
        await Script("return redis.error_reply('ERR my own reason')")(storage.redis, [])
