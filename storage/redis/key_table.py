"""The declarations of every Redis key: pattern, type, lifetime and purpose.

In a pattern `<name>` stands for text without `:`, `{` and `}` (inside braces: without braces), and `<name*>`
for any text.
"""

from dataclasses import dataclass
from typing import Final, Literal

from callsheet.storage.redis.caller_keys import (
    API_KEYS,
    AUDIT,
    AUDIT_TTL_S,
    AUDITED_BUDGETS,
    RATE_WINDOW_S,
    SESSION_TTL_S,
    STREAM_LEASE_S,
    THREAD_ID_SEED,
)
from callsheet.storage.redis.keys import (
    CAMPAIGN_CALL_TTL_S,
    CONSENT_S,
    CRONS_CLAIMED,
    CRONS_DUE,
    DATA_CHECKS,
    DATA_FORMAT,
    DATA_MARKER,
    DAY_S,
    FAILED_RUNS,
    FAILED_RUNS_TTL_S,
    RUN_LEASE_S,
    THREADS_EXPIRING,
    TOOL_CALL_TTL_S,
    TOOL_WINDOW_S,
    TURN_USAGE_TTL_S,
    UPLOAD_TTL_S,
    USAGE_TTL_S,
    VENDOR_CALL_LEASE_S,
    VENDOR_TOKENS_TTL_S,
)

KeyType = Literal["string", "hash", "list", "set", "zset", "stream", "any"]
"""As in Redis' TYPE; `any` if a library chooses."""

Lifetime = float | Literal["forever", "chosen"]
"""Seconds, or no expiry, or chosen by an option of the caller."""


@dataclass(frozen=True, slots=True)
class Key:
    """Declaration of the keys that match a pattern."""

    pattern: str
    type: KeyType
    lifetime: Lifetime
    purpose: str


KEYS: Final = (
    Key("thread:{<id>}:run:<run*>", "hash", "forever", "one run"),
    Key("thread:{<id>}:runs", "zset", "forever", "the thread's runs, oldest first"),
    Key("thread:{<id>}:queue", "list", "forever", "runs waiting for the active one"),
    Key("thread:{<id>}:later", "set", "forever", "runs waiting for their time"),
    Key("thread:{<id>}:events", "stream", DAY_S, "events of the runs"),
    Key("thread:{<id>}:lease", "string", RUN_LEASE_S, "epoch of the worker that may write now"),
    Key("thread:{<id>}:question:<task*>", "string", CONSENT_S, "calls about which a task asked a person"),
    Key("thread:{<id>}:consent:<digest>", "string", CONSENT_S, "task that used the consent to a call"),
    Key("thread:{<id>}:idempotency:<key*>", "string", DAY_S, "the run of an idempotency key"),
    Key("thread:{<id>}:meta", "hash", "forever", "the thread itself"),
    Key("thread:{<id>}:card", "hash", "forever", "title and searched words of the thread"),
    Key("thread:{<id>}:answers", "list", "forever", "answers of people, oldest first"),
    Key("{runs}:open", "zset", "forever", "unfinished runs, by next check"),
    Key(FAILED_RUNS, "stream", FAILED_RUNS_TTL_S, "runs that ended with an error, with its message"),
    Key("{waiting}:all", "zset", "forever", "runs that wait for a process, by time"),
    Key("{waiting}:owners", "zset", "forever", "owners of runs that may start, by turn"),
    Key("{waiting}:about", "hash", "forever", "graph and owner of each waiting run"),
    Key("{waiting}:counts", "hash", "forever", "waiting runs by owner, and the number of turns"),
    Key("{waiting}:taken", "zset", "forever", "runs executed by another run's delivery"),
    Key("{waiting}:of:<owner*>", "zset", "forever", "an owner's runs that may start, by time"),
    Key("checkpoint:{<id>}:ids", "zset", "chosen", "checkpoints by namespace and id"),
    Key("checkpoint:{<id>}:records", "hash", "chosen", "checkpoints without their values"),
    Key("checkpoint:{<id>}:values", "hash", "chosen", "values by channel and version"),
    Key("checkpoint:{<id>}:log", "list", "chosen", "elements of lists"),
    Key("checkpoint:{<id>}:writes", "zset", "chosen", "pending writes, in order of application"),
    Key("{checkpoint}:threads", "zset", "chosen", "threads that have checkpoints, by expiry"),
    Key("{checkpoint}:runs", "zset", "chosen", "links between runs and threads"),
    Key("owner:{<id>}:artefacts:<kind>", "zset", "forever", "the owner's artefacts, by last change"),
    Key("owner:{<id>}:threads", "zset", "forever", "the owner's threads, by last change"),
    Key("owner:{<id>}:threads:created", "zset", "forever", "the owner's threads, by creation"),
    Key("owner:{<id>}:threads:state", "zset", "forever", "the owner's threads, by last change of state"),
    Key("owner:{<id>}:threads:ids", "zset", "forever", "the owner's threads, by id"),
    Key("owner:{<id>}:threads:with:<set>", "zset", "forever", "threads of a status or a value, by change"),
    Key("owner:{<id>}:threads:rows", "hash", "chosen", "sets that each of the owner's threads is in"),
    Key("owner:{<id>}:threads:changes", "zset", "forever", "threads that the index may lack, by time"),
    Key("owner:{<id>}:runs", "zset", "forever", "the owner's unfinished runs, by creation"),
    Key("owner:{<id>}:waiting", "zset", "forever", "threads that may wait for a person, by time"),
    Key("owner:{<id>}:answered", "zset", "forever", "threads with answers of people, by last answer"),
    Key("owner:{<id>}:assistants", "hash", "forever", "the owner's assistants, JSON by id"),
    Key("owner:{<id>}:assistant:<assistant*>:versions", "list", "forever", "versions of an assistant"),
    Key("owner:{<id>}:store:item:<item*>", "string", "chosen", "an item of the owner's store"),
    Key("owner:{<id>}:store:vectors:<item*>", "string", "chosen", "vectors of an item, if it has an index"),
    Key("owner:{<id>}:store:index", "zset", "forever", "items of the store by namespace and key"),
    Key("owner:{<id>}:crons", "hash", "forever", "the owner's cron jobs, JSON by id"),
    Key("owner:{<id>}:extraction:<digest>", "string", DAY_S, "facts extracted from a source, JSON"),
    Key("owner:{<id>}:speech:<digest>", "string", DAY_S, "sound file of a spoken line"),
    Key("owner:{<id>}:import:<digest>", "string", DAY_S, "a file whose import has not ended"),
    Key("owner:{<id>}:import-lease", "string", RUN_LEASE_S, "import of the owner's data that is at work"),
    Key("owner:{<id>}:pronunciations", "string", "forever", "how names are spoken, JSON"),
    Key("owner:{<id>}:campaigns:records", "hash", "forever", "campaigns of the owner's library, JSON by id"),
    Key("owner:{<id>}:campaigns:changes", "zset", "forever", "campaigns by number of their last change"),
    Key("owner:{<id>}:campaigns:deletions", "zset", "forever", "deleted campaigns by number of deletion"),
    Key("owner:{<id>}:campaigns:meta", "hash", "forever", "generation and last change of the library"),
    Key("owner:{<id>}:campaigns:vectors", "hash", "forever", "vectors of an embeddings service, by campaign"),
    Key(
        "owner:{<id>}:campaigns:marks", "zset", "forever", "random marks of changes, by number of the change"
    ),
    Key("owner:{<id>}:campaigns:call:<call>", "string", CAMPAIGN_CALL_TTL_S, "result of one change"),
    Key("owner:{<id>}:usage:day:<day>", "hash", USAGE_TTL_S, "an owner's use of models on a day"),
    Key("{usage}:owners:<day>", "set", USAGE_TTL_S, "owners with use of models on a day"),
    Key("owner:{<id>}:usage:thread:<thread*>", "hash", USAGE_TTL_S, "a thread's use of models"),
    Key("owner:{<id>}:usage:observed", "hash", USAGE_TTL_S, "tokens of an owner's calls, by node and model"),
    Key("owner:{<id>}:usage:turn:<turn*>", "hash", TURN_USAGE_TTL_S, "a turn's use of models"),
    Key("owner:{<id>}:execution:<execution*>", "string", "chosen", "artefact and thread of an execution"),
    Key("owner:{<id>}:searches", "hash", "forever", "saved searches, JSON by name"),
    Key("owner:{<id>}:video:<name>", "hash", "forever", "presets, preferences and durations of steps"),
    Key("vendor:{<id>}:calls", "zset", VENDOR_CALL_LEASE_S, "calls of a vendor's models, by end of lease"),
    Key("vendor:{<id>}:tokens", "hash", VENDOR_TOKENS_TTL_S, "tokens left of a vendor's minute"),
    Key(CRONS_DUE, "zset", "forever", "cron jobs, by next start"),
    Key(DATA_FORMAT, "hash", "forever", "number of the data's format"),
    Key(DATA_CHECKS, "string", "forever", "counts checks; shows that the data went back in time"),
    Key(CRONS_CLAIMED, "zset", "forever", "cron jobs that a process is firing, by end of its claim"),
    Key(DATA_MARKER, "string", "forever", "shows that the data was emptied or replaced when it changes"),
    Key(THREADS_EXPIRING, "zset", "forever", "threads to delete or prune, by due time"),
    Key(THREAD_ID_SEED, "string", "forever", "secret that ids of threads are derived with"),
    Key(AUDIT, "stream", AUDIT_TTL_S, "what people did: answers, deletions, keys, budgets, exports, imports"),
    Key(AUDITED_BUDGETS, "string", "forever", "the operator's budgets as the audit has them"),
    Key(API_KEYS, "zset", "forever", "all API keys, by creation time"),
    Key("apikey:{<id>}", "hash", "forever", "an API key, without its text"),
    Key("session:{<id>}", "string", SESSION_TTL_S, "API key of a browser's session, by digest of its cookie"),
    Key("sign-ins:{<id>}", "zset", RATE_WINDOW_S, "recent sign-ins from an address, by time"),
    Key("owner:{<id>}:request:<digest>", "string", DAY_S, "digest of the body of an idempotency key"),
    Key("owner:{<id>}:requests", "zset", RATE_WINDOW_S, "the owner's recent requests, by time"),
    Key("owner:{<id>}:streams", "zset", STREAM_LEASE_S, "the owner's open streams, by end of lease"),
    Key("tool:{<id>}:calls:<owner*>", "zset", TOOL_WINDOW_S, "an owner's recent calls, by time"),
    Key(
        "tool:{<id>}:breaker:<tool>:<owner*>", "hash", TOOL_WINDOW_S, "an owner's failures of a tool in a row"
    ),
    Key("tool:{<id>}:open:<tool>", "zset", TOOL_WINDOW_S, "owners whose breaker has opened, by end of rest"),
    Key("owner:{<id>}:tool-call:<call>", "hash", TOOL_CALL_TTL_S, "one tool call"),
    Key("owner:{<id>}:tool-calls", "zset", TOOL_CALL_TTL_S, "the owner's tool calls, by time"),
    Key("owner:{<id>}:tool-calls:<thread*>", "zset", TOOL_CALL_TTL_S, "a thread's tool calls, by time"),
    # Docket chooses these names. On a cluster its own name is a hash tag.
    Key("callsheet:<name*>", "any", "chosen", "task queue"),
    Key("{callsheet}:<name*>", "any", "chosen", "task queue on a cluster"),
    # Last, because their first part matches anything.
    Key("<kind>:{<id>}:meta", "hash", "forever", "the artefact itself"),
    Key("<kind>:{<id>}:receipts", "hash", "forever", "results of completed effects, by step"),
    Key("<kind>:{<id>}:fences", "hash", "forever", "newest attempt at each step"),
    Key("<kind>:{<id>}:mixer", "string", "forever", "mixer settings, JSON"),
    Key("<kind>:{<id>}:locks", "hash", "forever", "streams and parts that people locked, by name"),
    Key("<kind>:{<id>}:files", "hash", "forever", "the artefact's files, by id"),
    Key("<kind>:{<id>}:file:<file>", "list", "forever", "pieces of a file"),
    Key("<kind>:{<id>}:recordings", "hash", DAY_S, "records of rendered sound files, by digest"),
    Key("<kind>:{<id>}:recording:<digest>", "string", DAY_S, "a rendered sound file"),
    Key("<kind>:{<id>}:recording-part:<name>", "string", UPLOAD_TTL_S, "an unfinished rendered sound file"),
    Key("<kind>:{<id>}:file-part:<name>", "list", UPLOAD_TTL_S, "pieces of an unfinished upload"),
    Key("<kind>:{<id>}:execution:<execution*>", "hash", "chosen", "an execution of a plan"),
    Key("<kind>:{<id>}:execution-events:<execution*>", "stream", "chosen", "events of an execution"),
    Key("<kind>:{<id>}:context", "hash", "forever", "gathered context, by key"),
    Key("<kind>:{<id>}:executions", "zset", "forever", "kept executions by creation time"),
    Key("<kind>:{<id>}:look-up:<digest>", "string", "chosen", "cached result of a tool, JSON"),
    Key("<kind>:{<id>}:<stream>:versions", "list", "forever", "version ids, oldest first"),
    Key(
        "<kind>:{<id>}:<stream>:v:<version>", "string", "forever", "one version, JSON; old ones go by setting"
    ),
    Key("<kind>:{<id>}:<stream>:active", "string", "forever", "the version id a person activated"),
    Key("<kind>:{<id>}:<stream>:counter", "string", "forever", "number of the newest version"),
)
"""All declarations; a test that leaves a key matching none of them fails."""

LASTING: Final = (
    AUDITED_BUDGETS,
    DATA_CHECKS,
    DATA_FORMAT,
    DATA_MARKER,
    THREAD_ID_SEED,
    API_KEYS,
    "apikey:{<id>}",
    "owner:{<id>}:video:<name>",
    "callsheet:<name*>",
    "{callsheet}:<name*>",
)
"""Patterns of the keys that stay when every thread, artefact, item and library has been deleted."""

KEPT_AFTER_DELETION: Final = (
    "owner:{<id>}:tool-call:<call>",
    "owner:{<id>}:tool-calls",
    "owner:{<id>}:tool-calls:<thread*>",
    "owner:{<id>}:usage:day:<day>",
    "owner:{<id>}:usage:turn:<turn*>",
    "{runs}:failed",
    "{audit}:actions",
    "owner:{<id>}:extraction:<digest>",
    "owner:{<id>}:speech:<digest>",
    "owner:{<id>}:import:<digest>",
    "owner:{<id>}:request:<digest>",
    "owner:{<id>}:campaigns:call:<call>",
    "callsheet:<name*>",
    "{callsheet}:<name*>",
)
"""Patterns of the keys that may still say something about a deleted artefact until they expire: the record of
what was done and paid for, answers that serve other artefacts too, and the task queue."""
