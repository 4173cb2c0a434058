"""A person's consent to destructive calls, kept where no update of a thread's state reaches it.

A call is named by the digest of its plan, id, tool and arguments. Consent serves one task of the executor:
again after a crash, but not when a client puts the same plan into the state once more.
"""

from collections.abc import Sequence
from typing import Final

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script

_LIFETIME_S: Final = int(keys.CONSENT_S)

_ASK: Final = Script("""
local asked = redis.call('GET', KEYS[1])
if not asked then redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) end
return (asked or ARGV[1]) == ARGV[1] and 1 or 0
""")

_USE: Final = Script("""
local user = redis.call('GET', KEYS[1])
if user == '' then redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) end
return (user == '' or user == ARGV[1]) and 1 or 0
""")


async def ask(storage: Storage, thread: str, task: str, calls: str) -> bool:
    """Record that a task asks a person about `calls`; return False if it has asked about others."""
    return bool(await _ASK(storage.redis, [keys.question(thread, task)], [calls, _LIFETIME_S]))


async def recorded_question(storage: Storage, thread: str, task: str) -> str:
    """Return the calls that a task has asked a person about; empty for none."""
    calls: bytes | None = await storage.redis.get(keys.question(thread, task))
    return calls.decode() if calls else ""


async def grant(storage: Storage, thread: str, calls: Sequence[str]) -> None:
    """Record a person's consent to each call. Twice is safe."""
    for call in calls:
        await storage.redis.set(keys.consent(thread, call), "", ex=_LIFETIME_S)


async def use(storage: Storage, thread: str, task: str, call: str) -> bool:
    """Return whether a person has consented to the call, and no other task has used the consent."""
    return bool(await _USE(storage.redis, [keys.consent(thread, call)], [task or "-", _LIFETIME_S]))
