"""The server's own settings: read once from the environment, then frozen.

An explicit argument beats the environment, the environment beats `.env` in the working directory, and that
beats the default. Each provider reads its own key; storage is told where it is by the server.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from dotenv import load_dotenv
from pydantic import AfterValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from callsheet.state.errors import Invalid

ENV_FILE: Final = ".env"


def _listed(shape: str, rule: str) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Return a check that every entry of a list has the shape, which `rule` says in words."""

    def checked(entries: tuple[str, ...]) -> tuple[str, ...]:
        for one in entries:
            if not re.fullmatch(shape, one):
                raise ValueError(f"{one!r} is not {rule}")
        return entries

    return checked


_Names = Annotated[
    tuple[str, ...], NoDecode, AfterValidator(_listed(r"[^\s/@*]+", "a name, with or without port"))
]
_Domains = Annotated[
    tuple[str, ...], NoDecode, AfterValidator(_listed(r"[^\s/@*:]+", "a name alone, such as data.example"))
]
_Origins = Annotated[
    tuple[str, ...],
    NoDecode,
    AfterValidator(
        _listed(r"[a-z][a-z0-9+.-]*://[^\s/@]+/?", "a scheme, name and port, such as https://studio.example")
    ),
]


def json_object(text: str) -> str:
    """Return the text; raises `ValueError` where it is no JSON object."""
    if not isinstance(json.loads(text), dict):
        raise ValueError("it must be a JSON object")  # noqa: TRY004 -- what pydantic turns into words
    return text


class Settings(BaseSettings):
    """What the operator may choose."""

    model_config = SettingsConfigDict(
        frozen=True, env_prefix="CALLSHEET_", env_ignore_empty=True, extra="forbid", populate_by_name=True
    )

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(2024, ge=0, le=65_535)
    """Port to listen on; 0 takes any that is free."""
    data_dir: Path | None = None
    """Folder of the embedded Valkey; the user's data folder when not set. Unused where `redis_url` is set."""
    redis_url: str | None = Field(None, validation_alias="REDIS_URL", repr=False)
    """The Redis or Valkey to use instead of the embedded one; may hold a password."""
    config: Path | None = None
    """A langgraph.json that names the graphs to serve; our own workflows when not set."""
    lease_s: float = Field(10.0, gt=0, le=15)
    """Seconds a worker that has fallen silent still holds its thread."""
    max_body_bytes: int = Field(1_000_000, ge=1_000)
    """Largest request body, in bytes."""
    max_batch_runs: int = Field(100, ge=1, le=10_000)
    """Most runs that one request may start."""
    auth: Annotated[tuple[Literal["keys", "jwt"], ...], NoDecode] = ()
    """How callers say who they are: `keys`, `jwt` or both, comma-separated; nobody is asked when not set."""
    jwt_secret: SecretStr | None = Field(None, repr=False)
    """What tokens are signed with (HS256), at least 32 bytes; not together with `jwks_url`."""
    jwks_url: str | None = None
    """Where the issuer of tokens publishes its keys (RS256, ES256)."""
    jwt_audience: str | None = None
    """What a token's `aud` must name; required with `jwks_url`."""
    jwt_issuer: str | None = None
    """What a token's `iss` must be; required with `jwks_url`."""
    jwt_scopes_claim: str = "scope"
    """The claim that lists what a token allows: `read`, `write`, `admin`."""
    requests_per_minute: int = Field(0, ge=0, le=100_000)
    """Most requests of one owner in any 60 seconds, over all processes; 0 for no limit."""
    streams_per_owner: int = Field(0, ge=0, le=100_000)
    """Most streams one owner may have open, over all processes; 0 for no limit."""
    carry_runs: bool = True
    """False leaves runs to `callsheet worker` processes on the same Redis."""
    runs_at_once: int = Field(64, ge=1, le=1_000)
    """Most runs that one process, server or worker, carries out at once; the others wait, or go elsewhere."""
    worker_port: int | None = Field(None, ge=0, le=65_535)
    """Port on which `callsheet worker` answers /ok, /health and /metrics; it listens nowhere when not set."""
    run_timeout_s: float = Field(3600.0, gt=0)
    """Seconds after which a run that has not ended is ended with an error."""
    stop_grace_s: float = Field(5.0, ge=0, le=3600)
    """Seconds a step may take to end once the process is told to stop; then its run is handed over."""
    slow_reader_s: float = Field(30.0, ge=0, le=3600)
    """Seconds in which a reader must take 64 KiB while so much waits for it, or be cut off; 0 for ever."""
    tools: Annotated[str, AfterValidator(json_object)] = "{}"
    """Terms of tools as JSON, such as `{"fetch_data": {"timeout_s": 5}, "*": {"calls": 60}}`."""
    tool_grants: Annotated[str, AfterValidator(json_object)] = "{}"
    """Permissions by owner as JSON, such as `{"*": ["*"], "ana": ["page:*"]}`; unset, all to everyone."""
    prices: Annotated[str, AfterValidator(json_object)] = "{}"
    """What models cost as JSON, US dollars for a million tokens read and written: `{"*": [0.15, 0.60]}`."""
    webhook_private: bool = False
    """True lets webhooks call this machine and its network, not the public internet alone."""
    webhook_secret: SecretStr | None = Field(None, repr=False)
    """What calls of webhooks are signed with (HMAC-SHA-256); not signed when not set."""
    fetch_hosts: _Domains = ()
    """Names that `fetch_data` may ask, and those below them, comma-separated; all public ones if not set."""
    allow_origins: _Origins = ()
    """Further web pages that may call, such as `https://studio.example`; comma-separated."""
    allow_hosts: _Names = ()
    """Further names this server is called by, such as `callsheet.internal`; comma-separated."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """How a log line looks; `auto` is text on a terminal and JSON elsewhere."""
    storage_patience_s: float = Field(1.0, gt=0, le=30)
    """Seconds a request waits for an answer of Redis before it is answered with 503."""
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


def read_settings(env_file: Path | None = None, **chosen: Any) -> Settings:
    """Return the settings in force, `chosen` ones before all others.

    `.env` is read into the environment, where the providers find their keys in it; what is set already stays.
    Raises `Invalid` naming the variable and the rule.
    """
    load_dotenv(env_file or Path(ENV_FILE))
    try:
        return Settings(**{name: value for name, value in chosen.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        name = variable_name(field) if chosen.get(field) is None else f"--{field.replace('_', '-')}"
        # Our own words have pydantic's before them.
        rule = first["msg"].removeprefix("Value error, ")
        raise Invalid(
            f"{name} is {first['input']!r}: {rule[0].lower()}{rule[1:]}",
            remedy=f"correct {name}, or leave it out for its default",
        ) from None


def variable_name(field: str) -> str:
    """Return the environment variable a setting is read from."""
    info = Settings.model_fields.get(field)
    return str((info and info.validation_alias) or f"CALLSHEET_{field.upper()}")
