"""A person's consent to destructive calls, kept where no update of a thread's state reaches it.

A call is named by the digest of its plan, id, tool and arguments. Consent serves one task of the executor:
again after a crash, but not when a client puts the same plan into the state once more.
"""

from collections.abc import Sequence
from typing import Final

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Command, Script, execute_all

_LIFETIME_S: Final = int(keys.CONSENT_S)

_ASK: Final = Script("""
local asked = redis.call('GET', KEYS[1])
if not asked then redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) end
return (asked or ARGV[1]) == ARGV[1] and 1 or 0
""")

# A graph without a server has consents, but no record of the thread.
_GRANT: Final = Script("""
local owner, deleting = unpack(redis.call('HMGET', KEYS[2], 'owner', 'deleting'), 1, 2)
if deleting or (ARGV[2] == '1' and not owner) then return 0 end
redis.call('SET', KEYS[1], '', 'EX', ARGV[1])
return 1
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


async def grant(storage: Storage, thread: str, calls: Sequence[str], *, has_record: bool = False) -> None:
    """Record a person's consent to each call, unless the thread is being deleted. Twice is safe.

    `has_record` states that the thread has a record: without one it was deleted, and nothing is recorded.
    """
    args: list[Argument] = [_LIFETIME_S, int(has_record)]
    for call in calls:
        await _GRANT(storage.redis, [keys.consent(thread, call), keys.thread_meta(thread)], args)


async def are_open(storage: Storage, thread: str, calls: Sequence[str]) -> list[bool]:
    """Return for each call whether a person has consented to it and no task has used the consent."""
    commands = [Command(("GET", keys.consent(thread, call))) for call in calls]
    values = await execute_all(storage.redis, commands) if commands else []
    return [value == b"" for value in values]


async def use(storage: Storage, thread: str, task: str, call: str) -> bool:
    """Return whether a person has consented to the call, and no other task has used the consent."""
    return bool(await _USE(storage.redis, [keys.consent(thread, call)], [task or "-", _LIFETIME_S]))
