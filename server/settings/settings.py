"""The server's settings: read once from the environment, then frozen.

An explicit argument beats the environment, the environment beats `.env` in the working directory, and that
beats the default. Each provider reads its own key.
"""

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from dotenv import load_dotenv
from pydantic import AfterValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from callsheet.providers import find_local, misspelt_variables
from callsheet.server.settings.variables import (
    SECRETS,
    SUFFIX,
    keep_loopback_from_proxies,
    normalise_variables,
    read_secret_files,
)
from callsheet.state.errors import Invalid

ENV_FILE: Final = ".env"
_PREFIX: Final = "CALLSHEET_"
_READ_ELSEWHERE: Final = frozenset({
    "CALLSHEET_CAMPAIGNS_URL", "CALLSHEET_MAX_CAMPAIGNS", "CALLSHEET_SEARCH_URL", "CALLSHEET_SEARCH_KEY",
    "CALLSHEET_EMBEDDINGS_URL", "CALLSHEET_EMBEDDINGS_MODEL", "CALLSHEET_EMBEDDINGS_KEY",
    "CALLSHEET_EMBEDDINGS_TIMEOUT_S", "CALLSHEET_URL", "CALLSHEET_API_KEY",
})  # fmt: skip
"""Variables that the parts that need them read."""


def _check_entries(shape: str, rule: str) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Return a check that every entry matches `shape`; `rule` describes it."""

    def check(entries: tuple[str, ...]) -> tuple[str, ...]:
        for one in entries:
            if not re.fullmatch(shape, one):
                raise ValueError(f"{one!r} is not {rule}")
        return entries

    return check


_Hosts = Annotated[
    tuple[str, ...], NoDecode, AfterValidator(_check_entries(r"[^\s/@*]+", "a name, with or without port"))
]
_Domains = Annotated[
    tuple[str, ...],
    NoDecode,
    AfterValidator(_check_entries(r"[^\s/@*:]+", "a name alone, such as data.example")),
]
_Origins = Annotated[
    tuple[str, ...],
    NoDecode,
    AfterValidator(
        _check_entries(
            r"[a-z][a-z0-9+.-]*://[^\s/@]+/?", "a scheme, name and port, such as https://studio.example"
        )
    ),
]


def _expand_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError("it names a user who is unknown here") from error


MAX_KEPT: Final = 1_000_000
_Place = Annotated[Path, AfterValidator(_expand_home)]
"""A path; `~` is the user's own folder."""


def json_object(text: str) -> str:
    """Return the text; raises `ValueError` unless it is a JSON object."""
    if not isinstance(json.loads(text), dict):
        raise ValueError("it must be a JSON object")  # noqa: TRY004 -- what pydantic turns into words
    return text


def count_by_owner(text: str) -> str:
    """Return the text; raises `ValueError` unless it is a count, or a JSON object of counts by owner."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    counts = [*value.values()] if isinstance(value, dict) else [value]
    if not all(type(one) is int and 0 <= one <= MAX_KEPT for one in counts):
        raise ValueError(f'it must be a number from 0 to {MAX_KEPT}, or such numbers by owner: {{"*": 100}}')
    return text


class Settings(BaseSettings):
    """The operator's settings."""

    model_config = SettingsConfigDict(
        frozen=True, env_prefix=_PREFIX, env_ignore_empty=True, extra="forbid", populate_by_name=True
    )

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(2024, ge=0, le=65_535)
    """Port to listen on; 0 takes a free one."""
    data_dir: _Place | None = None
    """Folder of the embedded Valkey; the user's data folder if unset. Unused with `redis_url`."""
    redis_url: str | None = Field(None, validation_alias="REDIS_URL", repr=False)
    """URL of the Redis or Valkey to use instead of the embedded one; may contain a password."""
    config: _Place | None = None
    """The langgraph.json with the graphs to serve; our own workflows if unset."""
    lease_s: float = Field(10.0, gt=0, le=15)
    """Seconds that a silent worker keeps the lease on its thread."""
    max_body_bytes: int = Field(1_000_000, ge=1_000)
    """Largest request body, in bytes, except for LangGraph's API."""
    max_message_bytes: int = Field(20_000_000, ge=1_000)
    """Largest request body of LangGraph's API, in bytes: its messages may have images and files."""
    max_held_bytes: int = Field(200_000_000, ge=1_000)
    """Most bytes of request bodies that one process holds at once; a request beyond them gets 503."""
    body_timeout_s: float = Field(30.0, gt=0, le=3600)
    """Seconds for a request body to arrive, and one more for each 10 kB of it."""
    max_batch_runs: int = Field(100, ge=1, le=10_000)
    """Most runs that one request may start."""
    auth: Annotated[tuple[Literal["keys", "jwt"], ...], NoDecode] = ()
    """Authentication: `keys`, `jwt` or both, comma-separated; none if unset."""
    jwt_secret: SecretStr | None = Field(None, repr=False)
    """Secret that signs tokens (HS256), at least 32 bytes; not together with `jwks_url`."""
    jwks_url: str | None = None
    """URL of the token issuer's published keys (RS256, ES256)."""
    jwt_audience: str | None = None
    """Required `aud` of a token; mandatory with `jwks_url`."""
    jwt_issuer: str | None = None
    """Required `iss` of a token; mandatory with `jwks_url`."""
    jwt_scopes_claim: str = "scope"
    """Claim that lists a token's permissions: `read`, `write`, `admin`."""
    requests_per_minute: int = Field(0, ge=0, le=100_000)
    """Most requests of one owner in any 60 seconds, over all processes; 0 for no limit."""
    streams_per_owner: int = Field(0, ge=0, le=100_000)
    """Most open streams of one owner, over all processes; 0 for no limit."""
    crons_per_owner: int = Field(100, ge=0, le=100_000)
    """Most crons of one owner; 0 for no limit."""
    cron_interval_s: float = Field(60.0, ge=60, le=86_400)
    """Shortest time between two runs of a cron, in seconds."""
    carry_runs: bool = True
    """False leaves the execution of runs to `callsheet worker` processes on the same Redis."""
    executor_patience_s: float = Field(10.0, ge=0, le=600)
    """Seconds that a request for a result waits for a process that executes runs before it gets 503."""
    runs_at_once: int = Field(64, ge=1, le=1_000)
    """Most runs that one process, server or worker, executes at once; others wait or go elsewhere."""
    max_waiting_runs: int = Field(10_000, ge=0, le=1_000_000)
    """Most runs that may wait for a process, of all owners; one more gets 429. 0 for no limit."""
    max_waiting_of_owner: int = Field(1_000, ge=0, le=1_000_000)
    """The same of one owner."""
    max_wait_s: float = Field(3600.0, ge=0, le=604_800)
    """Seconds that a run may wait for a process before it ends with an error; 0 for no limit."""
    worker_port: int | None = Field(None, ge=0, le=65_535)
    """Port on which `callsheet worker` serves /ok, /health and /metrics; none if unset."""
    run_timeout_s: float = Field(3600.0, gt=0)
    """Seconds after which an unfinished run ends with an error."""
    stop_grace_s: float = Field(5.0, ge=0, le=3600)
    """Seconds for requests in progress, then for a step, to end when the process stops."""
    stop_delay_s: float = Field(0.0, ge=0, le=600)
    """Seconds that the server goes on serving after SIGTERM while `/ready` answers 503."""
    slow_reader_s: float = Field(30.0, ge=0, le=3600)
    """Seconds in which a slow reader must take 64 KiB, or its stream is closed; 0 for never."""
    heartbeat_s: float = Field(5.0, gt=0, le=60)
    """Seconds of silence until a stream sends a heartbeat; LangGraph's clients expect 5."""
    tools: Annotated[str, AfterValidator(json_object)] = "{}"
    """Limits of tools as JSON, such as `{"fetch_data": {"timeout_s": 5}, "*": {"calls": 60}}`."""
    tool_grants: Annotated[str, AfterValidator(json_object)] = "{}"
    """Permissions by owner as JSON, such as `{"*": ["*"], "ana": ["page:*"]}`; all to everyone if unset."""
    prices: Annotated[str, AfterValidator(json_object)] = "{}"
    """Prices of models as JSON, US dollars per million tokens of input, output and cached input:
    `{"my-model": [0.15, 0.60, 0.075]}`; `*` for models without a price."""
    budgets: Annotated[str, AfterValidator(json_object)] = "{}"
    """Caps on the cost of model calls as JSON, in US dollars: `{"turn": 0.05, "thread": 1, "day": 20}`.
    A day is an owner's day in UTC."""
    webhook_private: bool = False
    """True lets webhooks call this machine and its network, not the public internet alone."""
    webhook_secret: SecretStr | None = Field(None, repr=False)
    """Key that signs webhooks (HMAC-SHA-256); not signed if unset."""
    fetch_hosts: _Domains = ()
    """Hosts, with subdomains, that `fetch_data` may call, comma-separated; all public ones if unset."""
    allow_origins: _Origins = ()
    """Further origins that may call, such as `https://studio.example`; comma-separated."""
    allow_hosts: _Hosts = ()
    """Further host names of this server, such as `callsheet.internal`; comma-separated."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Log level."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """Format of log lines; `auto` is text on a terminal and JSON elsewhere."""
    audit_entries: int = Field(100_000, ge=100, le=10_000_000)
    """Actions that the audit keeps, each for 400 days at most; the oldest go first."""
    storage_patience_s: float = Field(1.0, gt=0, le=30)
    """Seconds that a request waits for Redis before it gets 503."""
    max_event_bytes: int = Field(16_000_000, ge=100_000)
    """Approximate bytes of events kept for each thread; the oldest go first, and the newest stays."""
    max_event_age_s: float = Field(86_400.0, ge=60, le=86_400)
    """Seconds for which an event is kept at most."""
    kept_runs: int = Field(1_000, ge=0, le=1_000_000)
    """Newest runs of each thread that are kept; older ones are deleted ten minutes after their end, or a day
    if they have an idempotency key. 0 keeps all."""
    kept_checkpoints: int = Field(0, ge=0, le=1_000_000)
    """About the number of newest checkpoints of each thread that are kept; older ones are removed when a run
    has ended. 0 keeps all."""
    kept_versions: Annotated[str, AfterValidator(count_by_owner)] = "0"
    """Newest versions of each stream of an artefact that are kept, beside those that something needs; 0, the
    default, keeps all. By owner as JSON: `{"*": 100, "ana": 0}`."""
    kept_tool_calls: int = Field(10_000, ge=10, le=1_000_000)
    """Newest records of tool calls of each owner that are kept."""
    tool_call_days: float = Field(30.0, gt=0, le=30)
    """Days for which the record of a tool call is kept at most."""
    max_history_bytes: int = Field(32_000_000, ge=1_000)
    """Most bytes of states in one reply of a thread's history; a larger state comes alone."""
    max_import_bytes: int = Field(100_000_000, ge=1_000)
    """Largest thread file that may be imported over REST, in bytes."""

    @field_validator("auth", "allow_origins", "allow_hosts", "fetch_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return (
            tuple(part.strip() for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    # Of several, the last one is called first.
    @field_validator("auth", "log_level", "log_format", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value


def read_settings(env_file: Path | None = None, **chosen: Any) -> Settings:
    """Return the settings; `chosen` ones beat all others.

    `.env`, and files of secrets, are read into the environment, where providers find their keys; variables
    that are set stay. Without any key a running Ollama is looked for, once. Raises `Invalid` with the
    variable and the rule.
    """
    load_dotenv(env_file or Path(ENV_FILE))
    normalise_variables(os.environ)
    keep_loopback_from_proxies(os.environ)
    read_secret_files(os.environ)
    find_local(os.environ)
    try:
        return Settings(**{name: value for name, value in chosen.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        name = variable_name(field) if chosen.get(field) is None else f"--{field.replace('_', '-')}"
        # Pydantic adds a prefix to our own messages.
        rule = first["msg"].removeprefix("Value error, ")
        raise Invalid(
            f"{name} is {first['input']!r}: {rule[0].lower()}{rule[1:]}",
            remedy=f"correct {name}, or leave it out for its default",
        ) from None


_SERVICE_LINK: Final = re.compile(r"_(SERVICE_HOST|SERVICE_PORT|PORT)(_.*)?$")
"""Variables that Kubernetes sets for services named like ours."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that is named like a setting and is none."""
    known = {variable_name(field) for field in Settings.model_fields} | _READ_ELSEWHERE
    known |= {f"{name}{SUFFIX}" for name in SECRETS}
    ends = [name.removeprefix(_PREFIX) for name in sorted(known) if name.startswith(_PREFIX)]
    sentences = []
    for name in sorted(environment):
        if name.upper().startswith(_PREFIX) and name.upper() not in known and not _SERVICE_LINK.search(name):
            similar = difflib.get_close_matches(name.upper().removeprefix(_PREFIX), ends, 1)
            hint = f"; is it {_PREFIX}{similar[0]}?" if similar else ""
            sentences.append(f"{name} is no setting and is ignored{hint}")
    return sentences + misspelt_variables(environment)


def variable_name(field: str) -> str:
    """Return the environment variable of a setting."""
    info = Settings.model_fields.get(field)
    return str((info and info.validation_alias) or f"{_PREFIX}{field.upper()}")
