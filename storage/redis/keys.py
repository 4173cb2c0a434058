"""The names of every Redis key, with the lifetimes that they share; `key_table.py` declares their types.

Each function returns a key, and its docstring describes the value stored there. All keys of one thread, and
all of one artefact, have its id as their hash tag, so that one script may use them together on a cluster.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from callsheet.state.errors import Invalid

DAY_S: Final = 86_400.0


@lru_cache(maxsize=1024)
def hash_tag(name: str) -> str:
    """Return `name` as a hash tag, in braces, distinct for each name.

    Raises `Invalid` for an empty name: Redis Cluster ignores an empty tag and hashes the whole key.
    """
    if not name:
        raise Invalid("an empty id cannot name a key", remedy="Give an id of 1 to 255 printable characters.")
    escaped = name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return f"{{{escaped}}}"


# Tool calls: cached results, limits, breakers and records.

TOOL_CALL_TTL_S: Final = 30 * DAY_S
"""Lifetime of a tool call's record."""
TOOL_WINDOW_S: Final = 3600.0
"""Longest rate limit window, and lifetime of a breaker after its last failure."""


@lru_cache(maxsize=1024)
def cached_lookup(kind: str, artefact: str, digest: str) -> str:
    """Cached result of a tool for this artefact, by digest of its arguments."""
    return f"{kind}:{hash_tag(artefact)}:look-up:{digest}"


@lru_cache(maxsize=1024)
def call_window(rate_key: str, owner: str) -> str:
    """Sorted set of the owner's recent calls by time; expires with its window."""
    return f"tool:{hash_tag(rate_key)}:calls:{owner}"


@lru_cache(maxsize=1024)
def breaker(rate_key: str, tool: str, owner: str) -> str:
    """Hash with an owner's consecutive failures of a tool and the time the breaker opened."""
    return f"tool:{hash_tag(rate_key)}:breaker:{tool}:{owner}"


def open_breakers(rate_key: str, tool: str) -> str:
    """Sorted set of the owners whose breaker of a tool has opened, by the time it admits a probe."""
    return f"tool:{hash_tag(rate_key)}:open:{tool}"


class ToolCallKeys(NamedTuple):
    """The record of one tool call and its two indexes."""

    record: str
    all: str
    """The owner's calls by start time."""
    thread: str
    """The thread's calls by start time."""


@lru_cache(maxsize=1024)
def tool_call_records(owner: str, thread: str, call: str) -> ToolCallKeys:
    """Keys for the record of one tool call."""
    stem = f"owner:{hash_tag(owner)}:tool-call"
    return ToolCallKeys(f"{stem}:{call}", f"{stem}s", f"{stem}s:{thread}")


# Artefacts: version streams, receipts and fences. Workflows choose the kind, the first part of the keys.


def artefact_stem(kind: str, artefact: str) -> str:
    """Beginning of all keys of the artefact."""
    return f"{kind}:{hash_tag(artefact)}:"


def artefact_meta(kind: str, artefact: str) -> str:
    """Hash of the artefact: owner, creation time, thread."""
    return f"{kind}:{hash_tag(artefact)}:meta"


def versions(kind: str, artefact: str, stream: str) -> str:
    """List of a stream's version ids, oldest first."""
    return f"{kind}:{hash_tag(artefact)}:{stream}:versions"


def version(kind: str, artefact: str, stream: str, version_id: str) -> str:
    """One version as JSON; written once, never overwritten."""
    return f"{kind}:{hash_tag(artefact)}:{stream}:v:{version_id}"


def active_version(kind: str, artefact: str, stream: str) -> str:
    """Id of the version that a person activated."""
    return f"{kind}:{hash_tag(artefact)}:{stream}:active"


def version_counter(kind: str, artefact: str, stream: str) -> str:
    """Number of the stream's newest version."""
    return f"{kind}:{hash_tag(artefact)}:{stream}:counter"


def mixer(kind: str, artefact: str) -> str:
    """Mixer settings as JSON."""
    return f"{kind}:{hash_tag(artefact)}:mixer"


def receipts(kind: str, artefact: str) -> str:
    """Hash of the results of completed effects, by step."""
    return f"{kind}:{hash_tag(artefact)}:receipts"


def fences(kind: str, artefact: str) -> str:
    """Hash of the newest attempt's fence, by step; an effect with an older fence is rejected."""
    return f"{kind}:{hash_tag(artefact)}:fences"


def locks(kind: str, artefact: str) -> str:
    """Hash of the streams, and parts of streams, that people locked."""
    return f"{kind}:{hash_tag(artefact)}:locks"


class StepKeys(NamedTuple):
    """Keys for claiming and completing the steps that change an artefact."""

    receipts: str
    fences: str
    meta: str
    locks: str


@lru_cache(maxsize=1024)
def step_keys(kind: str, artefact: str) -> StepKeys:
    """Keys for the steps that change the artefact."""
    return StepKeys(*(key(kind, artefact) for key in (receipts, fences, artefact_meta, locks)))


UPLOAD_TTL_S: Final = 600.0
"""Lifetime of an unfinished upload after its last piece."""


def files(kind: str, artefact: str) -> str:
    """Hash of the artefact's files as JSON, by id, and their total size in bytes."""
    return f"{kind}:{hash_tag(artefact)}:files"


def file(kind: str, artefact: str, file_id: str) -> str:
    """List of the pieces of one file."""
    return f"{kind}:{hash_tag(artefact)}:file:{file_id}"


def recordings(kind: str, artefact: str) -> str:
    """Hash of the records of an artefact's rendered sound, by digest."""
    return f"{kind}:{hash_tag(artefact)}:recordings"


def recording(kind: str, artefact: str, digest: str) -> str:
    """String of one rendered sound file."""
    return f"{kind}:{hash_tag(artefact)}:recording:{digest}"


def recording_part(kind: str, artefact: str, name: str) -> str:
    """String of a rendered sound file that is not written wholly."""
    return f"{kind}:{hash_tag(artefact)}:recording-part:{name}"


def speech_clip(owner: str, digest: str) -> str:
    """String of the sound file of one spoken line."""
    return f"owner:{hash_tag(owner)}:speech:{digest}"


def pronunciations(owner: str) -> str:
    """String of the owner's pronunciations of names, JSON."""
    return f"owner:{hash_tag(owner)}:pronunciations"


def file_part(kind: str, artefact: str, name: str) -> str:
    """List of the pieces of an unfinished upload."""
    return f"{kind}:{hash_tag(artefact)}:file-part:{name}"


# Executions of plans.

EXECUTION_EVENTS_TTL_S: Final = 600.0
"""Lifetime of an execution's events after its end."""
EXECUTION_TTL_S: Final = 7 * DAY_S
"""Lifetime of an execution that is not kept for ever, after its last change."""
PAUSED_TTL_S: Final = 3650 * DAY_S
"""Lifetime of such an execution while it is paused."""


class ExecutionKeys(NamedTuple):
    """Keys for one execution of an artefact's plan."""

    record: str
    """Hash of the execution: its record as JSON, and the number of changes to it."""
    events: str
    """Stream of its events; expires after its end."""
    all: str
    """Sorted set of the artefact's executions that are kept for ever, by creation time."""


@lru_cache(maxsize=1024)
def execution_keys(kind: str, artefact: str, execution: str) -> ExecutionKeys:
    """Keys for one execution."""
    stem = f"{kind}:{hash_tag(artefact)}:execution"
    return ExecutionKeys(f"{stem}:{execution}", f"{stem}-events:{execution}", f"{stem}s")


def project_context(kind: str, artefact: str) -> str:
    """Hash of the context that a project gathered: entries as JSON with their expiry, by key."""
    return f"{kind}:{hash_tag(artefact)}:context"


def execution_place(owner: str, execution: str) -> str:
    """Artefact and thread of an execution, as JSON."""
    return f"owner:{hash_tag(owner)}:execution:{execution}"


def saved_searches(owner: str) -> str:
    """Hash of the owner's saved searches as JSON, by name."""
    return f"owner:{hash_tag(owner)}:searches"


def video_settings(owner: str, name: str) -> str:
    """Hash of the owner's presets, preferences, or durations of steps, by `name`."""
    return f"owner:{hash_tag(owner)}:video:{name}"


# Threads and their runs.

RUN_LEASE_S: Final = 15.0
"""Lifetime of a worker's lease on a thread unless it is renewed."""


class RunKeys(NamedTuple):
    """Keys for the runs of one thread."""

    thread: str
    """Hash of the thread; its fields include the active run and the newest attempt's epoch."""
    runs: str
    """Sorted set of the run ids, oldest first."""
    queue: str
    """List of the runs waiting for the active one."""
    lease: str
    """Epoch of the worker executing the active run; expires unless it is renewed."""
    events: str
    """Stream of the runs' events; also the name of the channel that announces them."""


@lru_cache(maxsize=1024)
def run_keys(thread: str) -> RunKeys:
    """Keys for the runs of `thread`."""
    stem = f"thread:{hash_tag(thread)}:"
    return RunKeys(f"{stem}meta", f"{stem}runs", f"{stem}queue", f"{stem}lease", f"{stem}events")


def run(thread: str, run_id: str) -> str:
    """Hash of one run."""
    return f"thread:{hash_tag(thread)}:run:{run_id}"


def thread_stem(thread: str) -> str:
    """Beginning of all keys of the thread, except those of its checkpoints."""
    return f"thread:{hash_tag(thread)}:"


def later_runs(thread: str) -> str:
    """Set of the thread's runs that wait for their time."""
    return f"thread:{hash_tag(thread)}:later"


def idempotency(thread: str, key: str) -> str:
    """The run created by a request with this idempotency key; expires after a day."""
    return f"thread:{hash_tag(thread)}:idempotency:{key}"


CONSENT_S: Final = 30 * DAY_S
"""Time for which a question about destructive calls, and the consent to one, are remembered."""


def question(thread: str, task: str) -> str:
    """Digest of the calls about which a task asked a person."""
    return f"thread:{hash_tag(thread)}:question:{task}"


def consent(thread: str, call: str) -> str:
    """Task that used a person's consent to the call with this digest; empty before."""
    return f"thread:{hash_tag(thread)}:consent:{call}"


def thread_meta(thread: str) -> str:
    """Hash of the thread: owner, graph, metadata, status."""
    return f"thread:{hash_tag(thread)}:meta"


def thread_card(thread: str) -> str:
    """Hash of the thread's title and searched words, and of what they were read from."""
    return f"thread:{hash_tag(thread)}:card"


def open_runs() -> str:
    """Sorted set of all unfinished runs, by next check. A run in it may have ended."""
    return "{runs}:open"


FAILED_RUNS: Final = "{runs}:failed"
"""Stream of the runs that ended with an error, for operators."""
FAILED_RUNS_TTL_S: Final = 7 * DAY_S
"""Time for which a failed run is listed."""


class WaitingKeys(NamedTuple):
    """Keys for the runs that wait for a process, in one slot."""

    all: str
    """Sorted set of the runs by the time since which they wait."""
    owners: str
    """Sorted set of the owners with runs that may start, by turn."""
    about: str
    """Hash of the graph and owner of each run."""
    counts: str
    """Hash of the number of waiting runs by owner, and the number of turns so far."""
    taken: str
    """Sorted set of runs that another run's delivery executed, until their own delivery comes, by time."""


def waiting_runs() -> WaitingKeys:
    """Keys for the runs that wait for a process; `of:<owner>` beside them has the owner's, by time."""
    stem = "{waiting}:"
    return WaitingKeys(*(f"{stem}{part}" for part in ("all", "owners", "about", "counts", "taken")))


# Checkpoints: the saver's keys.

CHECKPOINT_PREFIX: Final = "checkpoint"
"""Default prefix of the saver's keys."""


class CheckpointKeys(NamedTuple):
    """The five keys of one thread, however long it is; they expire together."""

    ids: str
    """Sorted set of namespace and id of each checkpoint; the newest one and a page are lex ranges."""
    records: str
    """Hash of the checkpoints without their values, and the generation of the log."""
    values: str
    """Hash of channel values by version; for a list, its table of pieces of the log."""
    log: str
    """Append-only list of the elements of all lists."""
    writes: str
    """Sorted set of pending writes by checkpoint, in order of application."""


@lru_cache(maxsize=1024)
def checkpoints(thread: str, prefix: str = CHECKPOINT_PREFIX) -> CheckpointKeys:
    """The saver's keys for `thread`."""
    stem = f"{prefix}:{hash_tag(thread)}:"
    return CheckpointKeys(f"{stem}ids", f"{stem}records", f"{stem}values", f"{stem}log", f"{stem}writes")


class ThreadIndexKeys(NamedTuple):
    """The saver's two keys that belong to no thread, in one slot."""

    threads: str
    """Sorted set of the threads by expiry."""
    runs: str
    """Sorted set of the links between runs and threads, in both directions."""


def thread_index(prefix: str = CHECKPOINT_PREFIX) -> ThreadIndexKeys:
    """Keys for finding threads without their ids."""
    return ThreadIndexKeys(f"{{{prefix}}}:threads", f"{{{prefix}}}:runs")


# Owners: their artefacts, threads, assistants, cron jobs and store.


def owned_artefacts(owner: str, kind: str) -> str:
    """Sorted set of the owner's artefacts of a kind, by last change."""
    return f"owner:{hash_tag(owner)}:artefacts:{kind}"


OWNED_ARTEFACTS: Final = "owner:{*}:artefacts:*"
"""Pattern of the keys of `owned_artefacts`."""


def parse_owned_artefacts(key: str) -> tuple[str, str]:
    """Return owner and kind of a key of `owned_artefacts`."""
    tag, _, kind = key.removeprefix("owner:{").partition("}:artefacts:")
    return tag.replace("%7B", "{").replace("%7D", "}").replace("%25", "%"), kind


def owned_threads(owner: str) -> str:
    """Sorted set of the owner's threads, by last change."""
    return f"owner:{hash_tag(owner)}:threads"


class ThreadSearchKeys(NamedTuple):
    """The index of an owner's threads, in one slot."""

    updated: str
    """Sorted set of the threads by last change."""
    created: str
    """Sorted set of the threads by creation."""
    state: str
    """Sorted set of the threads by last change of the state."""
    ids: str
    """Sorted set of the threads by id."""
    rows: str
    """Hash of the sets that each thread is in, and counters of the index."""
    changes: str
    """Sorted set of the threads whose records may differ from the index, by time."""
    runs: str
    """The owner's unfinished runs; their threads may differ as well."""


@lru_cache(maxsize=1024)
def thread_search(owner: str) -> ThreadSearchKeys:
    """Keys of the index of the owner's threads."""
    stem = owned_threads(owner)
    parts = [f"{stem}:{part}" for part in ("created", "state", "ids", "rows", "changes")]
    return ThreadSearchKeys(*(stem, *parts, owned_runs(owner)))


def threads_with(owner: str, name: str) -> str:
    """Sorted set of the owner's threads with one status or one value in their metadata, by last change."""
    return f"{owned_threads(owner)}:with:{name}"


def owned_runs(owner: str) -> str:
    """Sorted set of the owner's unfinished runs, by creation. A run in it may have ended."""
    return f"owner:{hash_tag(owner)}:runs"


def waiting_threads(owner: str) -> str:
    """Sorted set of the owner's threads that may wait for a person, by time; also a channel of changes."""
    return f"owner:{hash_tag(owner)}:waiting"


def answered_threads(owner: str) -> str:
    """Sorted set of the owner's threads on which a person answered, by time of the last answer."""
    return f"owner:{hash_tag(owner)}:answered"


def thread_answers(thread: str) -> str:
    """List of the answers that people gave on a thread: time and JSON, oldest first."""
    return f"thread:{hash_tag(thread)}:answers"


def owned_assistants(owner: str) -> str:
    """Hash of the owner's assistants as JSON, by id: created ones, and changed ones of the server."""
    return f"owner:{hash_tag(owner)}:assistants"


def assistant_versions(owner: str, assistant: str) -> str:
    """List of an assistant's versions as JSON, oldest first."""
    return f"owner:{hash_tag(owner)}:assistant:{assistant}:versions"


def owned_crons(owner: str) -> str:
    """Hash of the owner's cron jobs as JSON, by id."""
    return f"owner:{hash_tag(owner)}:crons"


def store_item(owner: str, member: str) -> str:
    """Store item: times, lifetime and value as JSON; expires if it has a lifetime."""
    return f"owner:{hash_tag(owner)}:store:item:{member}"


def store_vectors(owner: str, member: str) -> str:
    """Vectors of a store item's texts, one after the other; they expire with the item."""
    return f"owner:{hash_tag(owner)}:store:vectors:{member}"


def store_index(owner: str) -> str:
    """Sorted set of the store's items by namespace and key; expired ones are removed when read."""
    return f"owner:{hash_tag(owner)}:store:index"


def extraction(owner: str, question: str) -> str:
    """Facts extracted from a source as JSON, by digest of the question; expires after a day."""
    return f"owner:{hash_tag(owner)}:extraction:{question}"


def keyed_request(owner: str, digest: str) -> str:
    """Digest of the body sent with an idempotency key; expires after a day."""
    return f"owner:{hash_tag(owner)}:request:{digest}"


CAMPAIGN_CALL_TTL_S: Final = 600.0
"""Time for which the result of a change of a library is kept, for the same change sent again."""


class LibraryKeys(NamedTuple):
    """Keys of an owner's campaign library."""

    records: str
    """Hash of the campaigns as JSON, by id."""
    changes: str
    """Sorted set of the campaigns by number of their last change."""
    deletions: str
    """Sorted set of deleted campaigns by number of the deletion."""
    meta: str
    """Hash: number of the last change, and the generation, a random text that begins a new count."""
    vectors: str
    """Hash of vectors that were paid for, by campaign."""
    marks: str
    """Sorted set of random marks, one of each script that changed the library, by its last change."""


@lru_cache(maxsize=1024)
def library(owner: str) -> LibraryKeys:
    """Keys of the owner's campaign library."""
    stem = f"owner:{hash_tag(owner)}:campaigns:"
    parts = ("records", "changes", "deletions", "meta", "vectors", "marks")
    return LibraryKeys(*(f"{stem}{part}" for part in parts))


def library_call(owner: str, name: str) -> str:
    """Result of one change of the owner's campaign library."""
    return f"owner:{hash_tag(owner)}:campaigns:call:{name}"


# Use of models.

USAGE_TTL_S: Final = 400 * DAY_S
"""Lifetime of an owner's or thread's account after its last model call."""
TURN_USAGE_TTL_S: Final = 30 * DAY_S
"""Lifetime of a turn's account after its last model call."""


def usage_of_day(owner: str, day: str) -> str:
    """Hash of the owner's use of models on a day (ISO 8601, UTC), and reservations against budgets."""
    return f"owner:{hash_tag(owner)}:usage:day:{day}"


def owners_of_day(day: str) -> str:
    """Set of the owners with use of models on a day (ISO 8601, UTC)."""
    return f"{{usage}}:owners:{day}"


def usage_of_thread(owner: str, thread: str) -> str:
    """Hash of the use of models in a thread."""
    return f"owner:{hash_tag(owner)}:usage:thread:{thread}"


def observed_tokens(owner: str) -> str:
    """Hash of the tokens that the owner's calls have used, by purpose and model."""
    return f"owner:{hash_tag(owner)}:usage:observed"


def usage_of_turn(owner: str, thread: str, turn: str) -> str:
    """Hash of the use of models in a turn."""
    return f"owner:{hash_tag(owner)}:usage:turn:{thread}:{turn}"


VENDOR_CALL_LEASE_S: Final = 900.0
"""Time for which a call of a vendor's model counts unless it ends before."""
VENDOR_TOKENS_TTL_S: Final = 120.0
"""Lifetime of a vendor's bucket of tokens after its last call; it is full again by then."""


def vendor_calls(vendor: str) -> str:
    """Sorted set of the calls of a vendor's models, by end of lease."""
    return f"vendor:{hash_tag(vendor)}:calls"


def vendor_tokens(vendor: str) -> str:
    """Hash of the tokens that are left of a vendor's minute."""
    return f"vendor:{hash_tag(vendor)}:tokens"


CRONS_DUE: Final = "crons:due"
"""Sorted set of the cron jobs, by next start."""

DATA_FORMAT: Final = "callsheet:format"
"""Hash: number of the data's format as `version`; process that migrates it, and the end of its lease."""
CRONS_CLAIMED: Final = "{crons:due}:claimed"
"""Sorted set of the cron jobs that a process is firing, by end of its claim."""

DATA_MARKER: Final = "callsheet:marker"
"""Random text, written by the first server; another text shows that the data was emptied or replaced."""

DATA_CHECKS: Final = "callsheet:checks"
"""Number of checks of the marker; one that was read before shows that the data went back in time."""

THREADS_EXPIRING: Final = "threads:expiring"
"""Sorted set of the threads to delete or prune, by due time."""
