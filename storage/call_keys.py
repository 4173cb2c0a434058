"""The keys behind the calls of tools: remembered look-ups, limits and breakers, and their record.

Declared together with all others in `storage/keys.py`.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from storage.key_shapes import DAY_S, Key, tagged

RECORDED_S: Final = 30 * DAY_S
"""How long the record of a call is kept."""
COUNTED_S: Final = 3600.0
"""The longest window calls are counted in, and how long a breaker remembers failures."""


@lru_cache(maxsize=1024)
def look_up(kind: str, artefact: str, digest: str) -> str:
    """The result of a look-up, for whoever asks the same about this artefact; expires as its tool says."""
    return f"{kind}:{tagged(artefact)}:look-up:{digest}"


def guarded(kind: str) -> Key:
    """What the guard keeps beside the artefacts of a kind."""
    return Key(f"{kind}:{{<id>}}:look-up:<digest>", "string", "chosen", "the result of a look-up, JSON")


@lru_cache(maxsize=1024)
def window(rate_key: str, owner: str) -> str:
    """The owner's newest calls by time; expires with its window."""
    return f"tool:{tagged(rate_key)}:calls:{owner}"


def breaker(rate_key: str, tool: str) -> str:
    """How often a tool has failed in a row, and since when it rests; forgotten after an hour without one."""
    return f"tool:{tagged(rate_key)}:breaker:{tool}"


class RecordKeys(NamedTuple):
    """Where calls are recorded."""

    record: str
    """One call."""
    all: str
    """The owner's calls by when they began."""
    thread: str
    """Those of one thread."""


@lru_cache(maxsize=1024)
def records(owner: str, thread: str, call: str) -> RecordKeys:
    """The keys of the record of one call of a tool."""
    stem = f"owner:{tagged(owner)}:tool-call"
    return RecordKeys(f"{stem}:{call}", f"{stem}s", f"{stem}s:{thread}")


CALL_KEYS: Final = (
    Key("tool:{<id>}:calls:<owner*>", "zset", COUNTED_S, "an owner's newest calls, by time"),
    Key("tool:{<id>}:breaker:<tool>", "hash", COUNTED_S, "failures in a row of a tool"),
    Key("owner:{<id>}:tool-call:<call>", "hash", RECORDED_S, "one call of a tool"),
    Key("owner:{<id>}:tool-calls", "zset", RECORDED_S, "the owner's calls of tools, by time"),
    Key("owner:{<id>}:tool-calls:<thread*>", "zset", RECORDED_S, "those of one thread"),
)
