"""Fields that format 1 stored under other names: the names of format 2, by the former ones.

A process of format 1 may still write the former names while an upgrade is under way.
"""

from collections.abc import Mapping
from typing import Final

RUN_FIELDS: Final[Mapping[str, str]] = {
    "told": "answerSent",
    "webhookTold": "webhookCalled",
    "spared": "released",
    "died": "crashes",
    "diedAt": "crashedAt",
}
"""Of the hash of a run."""
THREAD_FIELDS: Final[Mapping[str, str]] = {"also": "otherArtefacts", "answered": "lastReply"}
"""Of the hash of a thread."""


def rename_function(name: str, fields: Mapping[str, str]) -> str:
    """Return a Lua function of a hash's key that gives its fields the names of format 2."""
    former = ", ".join(f"'{one}'" for one in fields)
    newer = ", ".join(f"'{one}'" for one in fields.values())
    return f"""
local function {name}(key)
  local former, newer = {{{former}}}, {{{newer}}}
  for i, value in pairs(redis.call('HMGET', key, unpack(former))) do
    if value then
      redis.call('HSETNX', key, newer[i], value)
      redis.call('HDEL', key, former[i])
    end
  end
end
"""
