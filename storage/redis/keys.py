"""Every Redis key the program writes: its type, its lifetime and its purpose.

In a pattern `<name>` stands for text without `:`, `{` and `}` (inside braces: without braces), and `<name*>`
for any text. All keys of one thread, and all of one artefact, carry its id as their hash tag, so that one
script may touch them together on a cluster.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

from callsheet.state.errors import Invalid

KeyType = Literal["string", "hash", "list", "set", "zset", "stream", "any"]
"""What Redis answers to TYPE; any, where a library chooses."""

Lifetime = float | Literal["forever", "chosen"]
"""Seconds; or no expiry at all; or whichever of the two the caller of an option chose."""

DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Key:
    """A family of keys that share type, lifetime and purpose."""

    pattern: str
    type: KeyType
    lifetime: Lifetime
    purpose: str


@lru_cache(maxsize=1024)
def hash_tag(name: str) -> str:
    """`name` as a hash tag, in braces; two names never give the same tag.

    An empty tag would be no tag to Redis Cluster, which then hashes the whole key: `Invalid`.
    """
    if not name:
        raise Invalid("an empty id cannot name a key", remedy="Give an id of 1 to 255 printable characters.")
    escaped = name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return f"{{{escaped}}}"


def find_declaration(name: str, declarations: Iterable[Key]) -> Key | None:
    """The declaration that the concrete key `name` falls under, or None."""
    return next((key for key in declarations if _regex(key.pattern).fullmatch(name)), None)


_PLACEHOLDER: Final = re.compile(r"(\{<\w+>\}|<\w+\*>|<\w+>)")


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_matcher(part) for part in _PLACEHOLDER.split(pattern)), re.DOTALL)


def _matcher(part: str) -> str:
    if not _PLACEHOLDER.fullmatch(part):
        return re.escape(part)
    if part.startswith("{"):
        return r"\{[^{}]+\}"
    return ".+" if part.endswith("*>") else "[^:{}]+"


LEASE_S: Final = 15.0
"""How long a worker that has fallen silent still holds its thread."""


def declaration_of(name: str) -> Key | None:
    """The declaration that the concrete key `name` falls under, or None."""
    return find_declaration(name, KEYS)


# Tool calls: look-ups, limits, breakers and records.

RECORDED_S: Final = 30 * DAY_S
"""How long the record of a call is kept."""
COUNTED_S: Final = 3600.0
"""The longest window calls are counted in, and how long a breaker remembers failures."""


@lru_cache(maxsize=1024)
def cached_lookup(kind: str, artefact: str, digest: str) -> str:
    """The result of a look-up, for whoever asks the same about this artefact; expires as its tool says."""
    return f"{kind}:{hash_tag(artefact)}:look-up:{digest}"


def cached_lookup_key(kind: str) -> Key:
    """What the guard keeps beside the artefacts of a kind."""
    return Key(f"{kind}:{{<id>}}:look-up:<digest>", "string", "chosen", "the result of a look-up, JSON")


@lru_cache(maxsize=1024)
def call_window(rate_key: str, owner: str) -> str:
    """The owner's newest calls by time; expires with its window."""
    return f"tool:{hash_tag(rate_key)}:calls:{owner}"


def breaker(rate_key: str, tool: str) -> str:
    """How often a tool has failed in a row, and since when it rests; forgotten after an hour without one."""
    return f"tool:{hash_tag(rate_key)}:breaker:{tool}"


class ToolCallKeys(NamedTuple):
    """Where calls are recorded."""

    record: str
    """One call."""
    all: str
    """The owner's calls by when they began."""
    thread: str
    """Those of one thread."""


@lru_cache(maxsize=1024)
def tool_call_records(owner: str, thread: str, call: str) -> ToolCallKeys:
    """The keys of the record of one call of a tool."""
    stem = f"owner:{hash_tag(owner)}:tool-call"
    return ToolCallKeys(f"{stem}:{call}", f"{stem}s", f"{stem}s:{thread}")


CALL_KEYS: Final = (
    Key("tool:{<id>}:calls:<owner*>", "zset", COUNTED_S, "an owner's newest calls, by time"),
    Key("tool:{<id>}:breaker:<tool>", "hash", COUNTED_S, "failures in a row of a tool"),
    Key("owner:{<id>}:tool-call:<call>", "hash", RECORDED_S, "one call of a tool"),
    Key("owner:{<id>}:tool-calls", "zset", RECORDED_S, "the owner's calls of tools, by time"),
    Key("owner:{<id>}:tool-calls:<thread*>", "zset", RECORDED_S, "those of one thread"),
)


# Artefacts: version streams, receipts and fences.

ANY_KIND: Final = "<kind>"
"""Placeholder for an artefact's kind, the first part of its keys; workflows name their kinds."""


def meta(kind: str, artefact: str) -> str:
    """What is known of the artefact as a whole: owner, creation time, the thread it belongs to."""
    return f"{kind}:{hash_tag(artefact)}:meta"


def versions(kind: str, artefact: str, stream: str) -> str:
    """The version ids of one stream, oldest first."""
    return f"{kind}:{hash_tag(artefact)}:{stream}:versions"


def version(kind: str, artefact: str, stream: str, version_id: str) -> str:
    """One version as JSON; written once, never overwritten (A33)."""
    return f"{kind}:{hash_tag(artefact)}:{stream}:v:{version_id}"


def active(kind: str, artefact: str, stream: str) -> str:
    """The version id a person activated (A34)."""
    return f"{kind}:{hash_tag(artefact)}:{stream}:active"


def counter(kind: str, artefact: str, stream: str) -> str:
    """The number of the stream's newest version (A32)."""
    return f"{kind}:{hash_tag(artefact)}:{stream}:counter"


def mixer(kind: str, artefact: str) -> str:
    """The mixer settings of an artefact as JSON (A35)."""
    return f"{kind}:{hash_tag(artefact)}:mixer"


def receipts(kind: str, artefact: str) -> str:
    """The results of effects that happened, by step."""
    return f"{kind}:{hash_tag(artefact)}:receipts"


def fences(kind: str, artefact: str) -> str:
    """The fence of the newest attempt at each step; an effect with an older one is refused."""
    return f"{kind}:{hash_tag(artefact)}:fences"


def locks(kind: str, artefact: str) -> str:
    """What people have locked: streams and parts of them."""
    return f"{kind}:{hash_tag(artefact)}:locks"


class StepKeys(NamedTuple):
    """The keys by which the steps that change an artefact are claimed and proved."""

    receipts: str
    fences: str
    meta: str
    locks: str


@lru_cache(maxsize=1024)
def steps(kind: str, artefact: str) -> StepKeys:
    """The keys by which steps change the artefact."""
    return StepKeys(*(key(kind, artefact) for key in (receipts, fences, meta, locks)))


PART_S: Final = 600.0
"""How long the pieces of a file that is still coming are kept."""


def files(kind: str, artefact: str) -> str:
    """What is known of the artefact's files, JSON by id; and how many bytes they have together."""
    return f"{kind}:{hash_tag(artefact)}:files"


def file(kind: str, artefact: str, file_id: str) -> str:
    """The bytes of one file, in pieces."""
    return f"{kind}:{hash_tag(artefact)}:file:{file_id}"


def file_part(kind: str, artefact: str, name: str) -> str:
    """The pieces of a file that is still coming; they expire with the last that came."""
    return f"{kind}:{hash_tag(artefact)}:file-part:{name}"


def _artefact_keys(kind: str) -> tuple[Key, ...]:
    stream = f"{kind}:{{<id>}}:<stream>"
    return (
        Key(f"{kind}:{{<id>}}:meta", "hash", "forever", "the artefact as a whole"),
        Key(f"{kind}:{{<id>}}:receipts", "hash", "forever", "results of effects that happened, by step"),
        Key(f"{kind}:{{<id>}}:fences", "hash", "forever", "newest attempt at each step"),
        Key(f"{kind}:{{<id>}}:mixer", "string", "forever", "mixer settings, JSON"),
        Key(f"{kind}:{{<id>}}:locks", "hash", "forever", "what people have locked, by name"),
        Key(f"{kind}:{{<id>}}:files", "hash", "forever", "what is known of files, by id"),
        Key(f"{kind}:{{<id>}}:file:<file>", "list", "forever", "the bytes of a file, in pieces"),
        Key(f"{kind}:{{<id>}}:file-part:<name>", "list", PART_S, "pieces of a file that is still coming"),
        cached_lookup_key(kind),
        Key(f"{stream}:versions", "list", "forever", "version ids, oldest first"),
        Key(f"{stream}:v:<version>", "string", "forever", "one version, JSON"),
        Key(f"{stream}:active", "string", "forever", "the version id a person activated"),
        Key(f"{stream}:counter", "string", "forever", "number of the newest version"),
    )


ARTEFACT_KEYS: Final = _artefact_keys(ANY_KIND)


# Threads and their runs.


class RunKeys(NamedTuple):
    """The keys by which a thread's runs take their turns."""

    thread: str
    """The thread as a whole; its active run and the epoch of the newest attempt are fields of it."""
    runs: str
    """The ids of the thread's runs, in the order of their creation."""
    queue: str
    """The ids of the runs that wait for the active one to end."""
    lease: str
    """The epoch of whoever is at the active run now; expires when it falls silent."""
    events: str
    """What runs told; its name is the channel on which new ones are announced too."""


@lru_cache(maxsize=1024)
def run_keys(thread: str) -> RunKeys:
    """The keys by which the runs of `thread` take their turns."""
    stem = f"thread:{hash_tag(thread)}:"
    return RunKeys(f"{stem}meta", f"{stem}runs", f"{stem}queue", f"{stem}lease", f"{stem}events")


def run(thread: str, run_id: str) -> str:
    """One run of the thread."""
    return f"thread:{hash_tag(thread)}:run:{run_id}"


def idempotency(thread: str, key: str) -> str:
    """The run that a request with this idempotency key made; expires after a day."""
    return f"thread:{hash_tag(thread)}:idempotency:{key}"


def thread_meta(thread: str) -> str:
    """The thread as a whole: owner, graph, metadata, status."""
    return f"thread:{hash_tag(thread)}:meta"


THREAD_KEYS: Final = (
    Key("thread:{<id>}:run:<run*>", "hash", "forever", "one run"),
    Key("thread:{<id>}:runs", "zset", "forever", "the runs, in the order of their creation"),
    Key("thread:{<id>}:queue", "list", "forever", "runs that wait for the active one to end"),
    Key("thread:{<id>}:events", "stream", DAY_S, "what runs told"),
    Key("thread:{<id>}:lease", "string", LEASE_S, "who may write to the thread now"),
    Key("thread:{<id>}:idempotency:<key*>", "string", DAY_S, "the run an idempotency key made"),
    Key("thread:{<id>}:meta", "hash", "forever", "the thread as a whole"),
)


# Checkpoints: what the saver keeps of a thread. The saver's keys are declared here and nowhere else.

CHECKPOINT_PREFIX: Final = "checkpoint"
"""What the saver's keys begin with unless its caller chooses otherwise."""


class CheckpointKeys(NamedTuple):
    """The five keys of one thread, however long it is; they live and expire together."""

    ids: str
    """Every checkpoint as namespace and id, in that order: the newest and a page are lex ranges."""
    records: str
    """Each checkpoint without its values; and the generation of the log."""
    values: str
    """The value of each version of each channel; of a list, which elements of the log it is made of."""
    log: str
    """Every element that was ever in a list, appended and never changed."""
    writes: str
    """The pending writes of each checkpoint, in the order they are applied."""


@lru_cache(maxsize=1024)
def checkpoints(thread: str, prefix: str = CHECKPOINT_PREFIX) -> CheckpointKeys:
    """The keys the saver keeps for `thread`."""
    stem = f"{prefix}:{hash_tag(thread)}:"
    return CheckpointKeys(f"{stem}ids", f"{stem}records", f"{stem}values", f"{stem}log", f"{stem}writes")


class ThreadIndexKeys(NamedTuple):
    """The saver's two keys beside those of the threads, in one slot."""

    threads: str
    """The threads there are, by when they will have expired."""
    runs: str
    """Which runs wrote on which threads, found from either side."""


def thread_index(prefix: str = CHECKPOINT_PREFIX) -> ThreadIndexKeys:
    """Where the saver finds threads when no thread is named."""
    return ThreadIndexKeys(f"{{{prefix}}}:threads", f"{{{prefix}}}:runs")


CHECKPOINT_KEYS: Final = (
    Key("checkpoint:{<id>}:ids", "zset", "chosen", "checkpoints by namespace and id"),
    Key("checkpoint:{<id>}:records", "hash", "chosen", "checkpoints without their values"),
    Key("checkpoint:{<id>}:values", "hash", "chosen", "values by channel and version"),
    Key("checkpoint:{<id>}:log", "list", "chosen", "elements of lists"),
    Key("checkpoint:{<id>}:writes", "zset", "chosen", "pending writes, in the order they are applied"),
    Key("{checkpoint}:threads", "zset", "chosen", "threads that have checkpoints, by expiry"),
    Key("{checkpoint}:runs", "zset", "chosen", "which runs wrote on which threads"),
)


# Owners: lists of what is theirs.


def owned_artefacts(owner: str, kind: str) -> str:
    """The ids of the owner's artefacts of a kind, by time of last change."""
    return f"owner:{hash_tag(owner)}:artefacts:{kind}"


def owned_threads(owner: str) -> str:
    """The ids of the owner's threads, by time of last change."""
    return f"owner:{hash_tag(owner)}:threads"


def owned_assistants(owner: str) -> str:
    """The owner's assistants as JSON, by id: those they made, and those of the server they changed."""
    return f"owner:{hash_tag(owner)}:assistants"


def assistant_versions(owner: str, assistant: str) -> str:
    """All versions of an assistant as JSON, oldest first."""
    return f"owner:{hash_tag(owner)}:assistant:{assistant}:versions"


def owned_crons(owner: str) -> str:
    """The owner's schedules as JSON, by id."""
    return f"owner:{hash_tag(owner)}:crons"


def store_item(owner: str, member: str) -> str:
    """An item of the owner's store: times, lifetime, value as JSON; expires if it was given a lifetime."""
    return f"owner:{hash_tag(owner)}:store:item:{member}"


def store_index(owner: str) -> str:
    """The items of the owner's store by namespace and key; entries of expired items go when they are seen."""
    return f"owner:{hash_tag(owner)}:store:index"


def extraction(owner: str, question: str) -> str:
    """What was found in a material, JSON, by the digest of the question; expires after a day."""
    return f"owner:{hash_tag(owner)}:extraction:{question}"


CRONS_DUE: Final = "crons:due"
"""The schedules that will start a run, by when."""

THREADS_EXPIRING: Final = "threads:expiring"
"""The threads that are to go, or to lose their past, by when."""

OWNER_KEYS: Final = (
    Key("owner:{<id>}:artefacts:<kind>", "zset", "forever", "the owner's artefacts, by time of last change"),
    Key("owner:{<id>}:threads", "zset", "forever", "the owner's threads, by time of last change"),
    Key("owner:{<id>}:assistants", "hash", "forever", "the owner's assistants, JSON by id"),
    Key("owner:{<id>}:assistant:<assistant*>:versions", "list", "forever", "versions of an assistant"),
    Key("owner:{<id>}:store:item:<item*>", "string", "chosen", "an item of the owner's store"),
    Key("owner:{<id>}:store:index", "zset", "forever", "items of the store by namespace and key"),
    Key("owner:{<id>}:crons", "hash", "forever", "the owner's schedules, JSON by id"),
    Key("owner:{<id>}:extraction:<digest>", "string", DAY_S, "what was found in a material, JSON"),
    Key(CRONS_DUE, "zset", "forever", "schedules that will start a run, by when"),
    Key(THREADS_EXPIRING, "zset", "forever", "threads whose time is limited, by its end"),
)


# Callers: who they are, and how much they ask for.

RATE_WINDOW_S: Final = 60.0
"""The time in which an owner's requests are counted."""
STREAM_LEASE_S: Final = 30.0
"""How long a stream counts as open after its process has fallen silent."""
API_KEYS: Final = "apikeys"
"""The ids of all API keys, by time of creation."""


def api_key(key_id: str) -> str:
    """What is known of an API key: whose it is, what it allows, and the hash of its text."""
    return f"apikey:{hash_tag(key_id)}"


def requests(owner: str) -> str:
    """The owner's newest requests by time; expires `RATE_WINDOW_S` after the last."""
    return f"owner:{hash_tag(owner)}:requests"


def open_streams(owner: str) -> str:
    """The owner's open streams by when their lease ends; expires with the last."""
    return f"owner:{hash_tag(owner)}:streams"


CALLER_KEYS: Final = (
    Key(API_KEYS, "zset", "forever", "all API keys, by time of creation"),
    Key("apikey:{<id>}", "hash", "forever", "an API key, without its text"),
    Key("owner:{<id>}:requests", "zset", RATE_WINDOW_S, "the owner's newest requests, by time"),
    Key("owner:{<id>}:streams", "zset", STREAM_LEASE_S, "the owner's open streams, by end of lease"),
)


# Runs that are under way.


def open_runs() -> str:
    """Every run that has not ended, by when to look after it; what is in it may have ended."""
    return "{runs}:open"


RUN_KEYS: Final = (Key("{runs}:open", "zset", "forever", "runs that have not ended, by when to look again"),)


# Deliveries: what the task engine keeps, named and counted by itself. On a cluster its name is a hash tag.

DELIVERY_KEYS: Final = (
    Key("callsheet:<name*>", "any", "chosen", "deliveries of runs to workers"),
    Key("{callsheet}:<name*>", "any", "chosen", "the same on a cluster"),
)


KEYS: Final[tuple[Key, ...]] = (
    *THREAD_KEYS,
    *CHECKPOINT_KEYS,
    *OWNER_KEYS,
    *CALLER_KEYS,
    *RUN_KEYS,
    *CALL_KEYS,
    *DELIVERY_KEYS,
    # Last, because their first part is a placeholder.
    *ARTEFACT_KEYS,
)
"""Every key there is; a key that matches none of them fails the test that left it."""
