"""Runs of a thread: one at a time across all processes, and none lost when its process dies.

A run holds its thread by a lease that it renews. Its *epoch* counts the attempts on the thread and fences
them: whoever has an older one may not finish the run. A run whose lease expired unfinished is taken up
again by the same request (ARCHITECTURE: exactly once), or set aside by another one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from state.errors import Busy, Conflict, Fenced
from storage import keys
from storage.connection import Storage
from storage.scripts import Script

_BEGIN: Final = Script("""
local run, lease, memo = KEYS[1], KEYS[2], KEYS[3]
local id, print, input, lease_ms, keyed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if keyed == '1' then
  local seen = redis.call('GET', memo)
  if seen then
    local theirs = string.sub(seen, 1, 64)
    if theirs ~= print then return {'mismatch'} end
    if #seen > 64 then return {'replay', string.sub(seen, 65)} end
  end
end
local before = redis.call('HMGET', run, 'id', 'print', 'status', 'input', 'epoch')
local held = redis.call('EXISTS', lease) == 1
-- The same call once more, because its first answer was lost on the way.
if held and before[1] == id then return {'new', id, before[5], before[4]} end
if held then return {'busy', before[1] or '', before[2] or ''} end
local verdict = 'new'
if before[3] ~= 'success' and before[2] == print then verdict = 'again'; id = before[1]; input = before[4] end
local epoch = redis.call('HINCRBY', run, 'epoch', 1)
redis.call('HSET', run, 'id', id, 'print', print, 'status', 'running', 'input', input)
redis.call('SET', lease, epoch, 'PX', lease_ms)
if keyed == '1' then redis.call('SET', memo, print, 'EX', ARGV[6]) end
return {verdict, id, tostring(epoch), input}
""")

# A lease that ran out while nobody else took the thread is taken again: the epoch tells.
_RENEW: Final = Script("""
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return 1
""")

_RELEASE: Final = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
""")

_FINISH: Final = Script("""
local run, lease, memo = KEYS[1], KEYS[2], KEYS[3]
if redis.call('HGET', run, 'epoch') ~= ARGV[1] then return 0 end
redis.call('HSET', run, 'status', ARGV[2])
if redis.call('GET', lease) == ARGV[1] then redis.call('DEL', lease) end
if ARGV[3] == '1' then
  local print = redis.call('HGET', run, 'print')
  if ARGV[2] == 'success' then redis.call('SET', memo, print .. ARGV[4], 'EX', ARGV[5])
  else redis.call('DEL', memo) end
end
return 1
""")


_NEWEST: Final = Script("""
local run = redis.call('HMGET', KEYS[1], 'id', 'status')
return {run[1] or '', run[2] or '', redis.call('EXISTS', KEYS[2])}
""")


@dataclass(frozen=True)
class Request:
    """What a caller wants run on a thread."""

    run_id: str
    """The id a new run gets."""
    fingerprint: str
    """SHA-256 in hex of everything that makes the request what it is."""
    input: Mapping[str, Any]
    """What the graph is given; JSON."""
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Run:
    """A run that this process holds."""

    thread: str
    id: str
    epoch: int
    again: bool
    """Whether an earlier attempt began it."""
    input: dict[str, Any]
    idempotency_key: str | None


@dataclass(frozen=True)
class Replay:
    """The recorded answer to a request that came before under the same idempotency key."""

    answer: dict[str, Any]


Outcome = Literal["success", "error"]


@dataclass(frozen=True)
class Newest:
    """How the newest run of a thread stands."""

    id: str
    status: str
    """`running`, `success` or `error`; empty where nothing ever ran."""
    held: bool
    """Whether somebody is at it now."""


class Runs:
    """The runs of all threads."""

    def __init__(self, storage: Storage, lease_s: float = keys.LEASE_S) -> None:
        self._redis = storage.redis
        self.lease_s = min(lease_s, keys.LEASE_S)

    async def begin(self, thread: str, request: Request) -> Run | Replay:
        """Take the thread for `request`, or return the answer its idempotency key already has.

        The same fingerprint as the thread's unfinished run (crashed or failed) takes that run up again,
        with its own id and input. Raises `Busy` while another attempt holds the thread, and `Conflict` for
        an idempotency key that came before with another request.
        """
        answer = await _BEGIN(
            self._redis,
            self._keys(thread, request.idempotency_key),
            [
                request.run_id,
                request.fingerprint,
                json.dumps(request.input, ensure_ascii=False),
                int(self.lease_s * 1000),
                int(request.idempotency_key is not None),
                int(keys.DAY_S),
            ],
        )
        return _begun(thread, request, answer)

    async def renew(self, run: Run) -> None:
        """Hold the thread for another lease; raises `Fenced` when a later attempt has taken it."""
        if not await _RENEW(
            self._redis, [keys.run(run.thread), keys.lease(run.thread)], [run.epoch, int(self.lease_s * 1000)]
        ):
            raise Fenced(f"run {run.id!r} lost its lease on thread {run.thread!r}")

    async def finish(self, run: Run, outcome: Outcome, answer: Mapping[str, Any] | None = None) -> None:
        """Record how the run ended and let the thread go; raises `Fenced` when a later attempt has it."""
        ended = await _FINISH(
            self._redis,
            self._keys(run.thread, run.idempotency_key),
            [
                run.epoch,
                outcome,
                int(run.idempotency_key is not None),
                json.dumps(answer or {}, ensure_ascii=False),
                int(keys.DAY_S),
            ],
        )
        if not ended:
            raise Fenced(f"run {run.id!r} was taken over by a later attempt")

    async def release(self, run: Run) -> None:
        """Let the thread go without ending the run; nothing happens where a later attempt has it."""
        await _RELEASE(self._redis, [keys.lease(run.thread)], [run.epoch])

    async def newest(self, thread: str) -> Newest:
        """Return how the thread's newest run stands."""
        answer: list[bytes | int | None] = await _NEWEST(self._redis, [keys.run(thread), keys.lease(thread)])
        identity, status, held = answer
        return Newest(_text(identity), _text(status), held == 1)

    @staticmethod
    def _keys(thread: str, idempotency_key: str | None) -> list[str]:
        return [keys.run(thread), keys.lease(thread), keys.idempotency(thread, idempotency_key or "-")]


def _begun(thread: str, request: Request, answer: Sequence[bytes]) -> Run | Replay:
    verdict = answer[0].decode()
    if verdict == "replay":
        return Replay(json.loads(answer[1]))
    if verdict == "mismatch":
        raise Conflict(
            f"idempotency key {request.idempotency_key!r} came before with another request",
            remedy="use a new key for a new request",
        )
    if verdict == "busy":
        raise Busy(
            f"thread {thread!r} is busy with run {answer[1].decode()!r}",
            remedy="wait for it to end and send the request again",
            details={"same": answer[2].decode() == request.fingerprint, "run": answer[1].decode()},
        )
    return Run(
        thread,
        answer[1].decode(),
        int(answer[2]),
        verdict == "again",
        json.loads(answer[3]),
        request.idempotency_key,
    )


def _text(found: bytes | int | None) -> str:
    return found.decode() if isinstance(found, bytes) else ""
