"""Context that a project gathers: web pages, searches, styles."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from callsheet.state import owners
from callsheet.state.errors import Invalid, TooLarge
from callsheet.storage.artefacts.receipts import missing_artefact
from callsheet.storage.artefacts.scripts import IS_MISSING
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script

MAX_BYTES: Final = 102_400
"""Bytes of an entry as UTF-8 JSON."""
MAX_KEY: Final = 255
"""Characters of a key that is the name of its field; a longer one is hashed."""
MAX_KEY_CHARS: Final = 8_192
"""Characters of a key that is kept beside its value; a longer one is known by its hash alone."""
MAX_ENTRIES: Final = 2_000
SEARCH_TTL_S: Final = 3_600
"""Lifetime of a search's results."""
KIND: Final = "video"
MARK: Final = "_truncated"
"""Key that marks a value that was shortened to fit."""
_log = logging.getLogger(__name__)
# Each field is the second when it is due, a colon, that of its creation, a blank, and the entry as JSON; 0 is
# no expiry. An older one has no time of creation.
_SET: Final = Script.with_clock(f"""{IS_MISSING}
if is_missing(KEYS[2], ARGV[5] == '1') then return -1 end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local now, due = math.floor(now_ms() / 1000), 0
if ARGV[3] ~= '0' then due = now + tonumber(ARGV[3]) end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d:%d ', due, now) .. ARGV[2])
return 1
""")
_READ: Final = Script.with_clock("""
local now, out = math.floor(now_ms() / 1000), {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local due = tonumber(string.match(flat[i + 1], '^%d+'))
  if due > 0 and due <= now then
    redis.call('HDEL', KEYS[1], flat[i])
  else
    out[#out + 1] = flat[i]
    out[#out + 1] = flat[i + 1]
  end
end
return out
""")


class ContextEntry(NamedTuple):
    """A value with its times."""

    key: str
    value: Any
    created_s: int
    """Second of its creation; 0 if it is not known."""
    expires_s: int
    """Second when it expires; 0 for never."""

    def encode(self) -> str:
        """Return the entry as it is stored, in the field `field_name(key)`."""
        entry = json.dumps({"key": self.key, "value": self.value}, ensure_ascii=False)
        return f"{self.expires_s}:{self.created_s} {entry}"


class ContextStore:
    """The gathered context of one project."""

    def __init__(self, storage: Storage, project: str, owner: str) -> None:
        self._redis = storage.redis
        self._project = project
        stored_id = owners.storage_id(owner, KIND, project)
        self._key = keys.project_context(KIND, stored_id)
        self._meta = keys.artefact_meta(KIND, stored_id)

    async def set(self, key: str, value: Any, *, ttl_s: int = 0) -> bool:
        """Store a value; return True if it had to be shortened to fit. 0 seconds is for ever."""
        fitted, shortened = fit(value)
        if shortened:
            _log.warning("context %r was shortened to %d bytes", key[:80], MAX_BYTES)
        await self._write(key, fitted, ttl_s)
        return shortened

    async def set_exact(self, key: str, value: Any, *, ttl_s: int = 0) -> None:
        """Store a person's value; raise `TooLarge` for one over the limit, `Missing` without a project."""
        check_size(key, value)
        await self._write(key, value, ttl_s, by_hand=True)

    async def _write(self, key: str, value: Any, ttl_s: int, *, by_hand: bool = False) -> None:
        if not key:
            raise Invalid("a context key is empty", remedy="give it 1 to 255 characters")
        kept_key = key if len(key) <= MAX_KEY_CHARS else field_name(key)
        entry = json.dumps({"key": kept_key, "value": value}, ensure_ascii=False)
        args: list[Argument] = [field_name(key), entry, ttl_s, MAX_ENTRIES, int(by_hand)]
        answer = await _SET(self._redis, [self._key, self._meta], args)
        if answer < 0:
            raise missing_artefact(KIND, self._project)
        if not answer:
            raise Invalid(
                f"the project has {MAX_ENTRIES} context entries", remedy="delete some that you no longer need"
            )

    async def get(self, key: str) -> Any:
        """Return a value, or None."""
        return (await self.get_many([key]))[key]

    async def get_many(self, wanted: Sequence[str]) -> dict[str, Any]:
        """Return values by key; a key that is missing has None and is logged."""
        known = await self._entries()
        values = {key: known.get(field_name(key), {}).get("value") for key in wanted}
        for key, value in values.items():
            if value is None:
                _log.warning("context %r is missing", key[:80])
        return values

    async def search(self, part: str) -> dict[str, Any]:
        """Return the values whose keys contain a text."""
        return {
            entry["key"]: entry["value"] for entry in (await self._entries()).values() if part in entry["key"]
        }

    async def entries(self) -> list[ContextEntry]:
        """Return all entries, by key."""
        entries = [
            ContextEntry(one["key"], one["value"], one["created_s"], one["expires_s"])
            for one in (await self._entries()).values()
        ]
        return sorted(entries, key=lambda one: one.key)

    async def times(self, names: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return the seconds of creation and expiry of these keys; 0 for one that is not known, or never."""
        known = await self._entries()
        return {
            key: {name: known[field_name(key)][name] for name in ("created_s", "expires_s")}
            for key in names
            if field_name(key) in known
        }

    async def delete(self, key: str) -> bool:
        """Delete a value; return False if there was none."""
        return bool(await self._redis.hdel(self._key, field_name(key)))

    async def _entries(self) -> dict[str, dict[str, Any]]:
        flat: list[bytes] = await _READ(self._redis, [self._key])
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return {name.decode(): _entry(name.decode(), value) for name, value in pairs}


def _entry(name: str, stored: bytes) -> dict[str, Any]:
    """Return an entry with its times."""
    head, _, value = stored.partition(b" ")
    due, _, created = head.partition(b":")
    entry: dict[str, Any] = json.loads(value)
    # An older entry has the beginning of a long key, which may be that of several.
    key = entry["key"] if field_name(entry["key"]) == name else name
    return {**entry, "key": key, "created_s": int(created or 0), "expires_s": int(due)}


def field_name(key: str) -> str:
    """Return the name of an entry; a key over 255 characters is hashed."""
    return key if len(key) <= MAX_KEY else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def check_size(key: str, value: Any) -> None:
    """Raise `TooLarge` for a value over the limit."""
    size = _size(value)
    if size > MAX_BYTES:
        raise TooLarge(
            f"context {key[:80]!r} has {size} bytes, and an entry has at most {MAX_BYTES}",
            remedy="store less, or divide it into several entries",
        )


def fit(value: Any) -> tuple[Any, bool]:
    """Return the value within `MAX_BYTES`, and True if lists and texts in it had to be shortened."""
    if _size(value) <= MAX_BYTES:
        return value, False
    length = MAX_BYTES // 2
    while length > 1:
        shorter = _shorten(value, length)
        marked = {**shorter, MARK: True} if isinstance(shorter, Mapping) else {"value": shorter, MARK: True}
        if _size(marked) <= MAX_BYTES:
            return marked, True
        length //= 2
    return {MARK: True}, True


def _shorten(value: Any, length: int) -> Any:
    """Return the value with lists and texts of at most `length` items or characters."""
    if isinstance(value, str):
        return value[:length]
    if isinstance(value, Mapping):
        return {key: _shorten(each, length) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shorten(each, length) for each in value[:length]]
    return value


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
