"""The parts of a langgraph.json beside its graphs: those that are applied, and a sentence for each other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from callsheet.state.errors import Invalid

_OWN_CHECKPOINTER: Final = "callsheet.storage.checkpoints.saver"
_IMAGE: Final = frozenset(
    {"python_version", "node_version", "api_version", "base_image", "image_distro", "pip_config_file"}
    | {"pip_installer", "source", "dockerfile_lines", "keep_pkg_tools", "_INTERNAL_docker_tag", "$schema"}
)
"""Keys of the image that LangGraph's command line builds."""
_APPLIED: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("graphs", "dependencies", "env", "auth", "encryption")),
    "store": {
        "ttl": {"default_ttl": None, "refresh_on_read": None},
        "index": dict.fromkeys(("embed", "dims", "fields")),
    },
    "checkpointer": {"ttl": dict.fromkeys(("strategy", "default_ttl"))},
    "http": {
        **dict.fromkeys(("app", "enable_custom_route_auth", "disable_mcp", "disable_a2a", "disable_ui")),
        **{
            f"disable_{part}": None for part in ("assistants", "threads", "runs", "store", "meta", "webhooks")
        },
        "cors": dict.fromkeys(
            (
                *("allow_origins", "allow_origin_regex", "allow_methods", "allow_headers"),
                *("allow_credentials", "expose_headers", "max_age"),
            )
        ),
        "configurable_headers": dict.fromkeys(("includes", "include", "excludes", "exclude")),
    },
}
"""Keys that have an effect here, and those inside them."""
_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "store.path": "the store is this server's",
    "store.ttl.sweep_interval_minutes": "Redis removes expired items by itself",
    "checkpointer.path": "the checkpointer is this server's",
    "checkpointer.serde": "the serialiser is LangGraph's own",
    "checkpointer.ttl.sweep_interval_minutes": "threads are swept every 30 seconds",
    "checkpointer.ttl.sweep_limit": "threads are swept until none is due",
    "http.logging_headers": "no headers are logged",
    "http.middleware_order": "callers are authenticated first",
    "http.mount_prefix": "a proxy before the server can add a prefix",
    "webhooks": "see CALLSHEET_WEBHOOK_SECRET and CALLSHEET_WEBHOOK_PRIVATE",
    "priority": "runs start in order",
    "ui": "no components are served",
    "ui_config": "no components are served",
}
"""Keys of LangGraph's server that have no effect here, and the reason."""
_SWITCHES: Final = ("assistants", "threads", "runs", "store", "meta", "webhooks")
Part = Literal["assistants", "threads", "runs", "store", "meta", "webhooks"]


class _Options(BaseModel):
    """An object in which null means the same as a missing field; unknown fields are named elsewhere."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        return (
            {name: one for name, one in value.items() if one is not None}
            if isinstance(value, dict)
            else value
        )


class StoreIndex(_Options):
    """Embeddings of the store's items."""

    embed: str
    """`provider:model`, or the place of a function or object as of a graph."""
    dims: int = Field(gt=0)
    fields: tuple[str, ...] = ("$",)
    """Paths of the texts that are embedded; `$` is the whole value."""


class StoreLifetime(_Options):
    """Lifetime of the store's items."""

    default_ttl: float | None = Field(None, gt=0)
    """Minutes."""
    refresh_on_read: bool = True


class _Store(_Options):
    ttl: StoreLifetime | None = None
    index: StoreIndex | None = None


class ThreadLifetime(_Options):
    """Lifetime of threads."""

    strategy: Literal["delete", "keep_latest"] = "delete"
    default_ttl: float | None = Field(None, gt=0)
    """Minutes since the last update."""


class _Checkpointer(_Options):
    ttl: ThreadLifetime | None = None


class Cors(_Options):
    """Pages of other origins that may call."""

    allow_origins: tuple[str, ...] = ()
    allow_origin_regex: str | None = None
    allow_methods: tuple[str, ...] = ("*",)
    allow_headers: tuple[str, ...] = ("*",)
    expose_headers: tuple[str, ...] = ()
    allow_credentials: bool = False
    max_age: int = Field(600, ge=0)


class HeaderPatterns(_Options):
    """Headers of a request that its runs find in `configurable`: patterns with `*`, of any case."""

    includes: tuple[str, ...] = Field((), alias="include")
    excludes: tuple[str, ...] = Field((), alias="exclude")
    model_config = ConfigDict(populate_by_name=True)


class Http(_Options):
    """Options of the HTTP server."""

    app: str | None = None
    """Place of an ASGI application whose routes are served, too."""
    cors: Cors = Cors()
    configurable_headers: HeaderPatterns | None = None
    disable_assistants: bool = False
    disable_threads: bool = False
    disable_runs: bool = False
    disable_store: bool = False
    disable_meta: bool = False
    disable_webhooks: bool = False

    @property
    def disabled(self) -> frozenset[Part]:
        """Parts of the API that are not served."""
        return frozenset(part for part in _SWITCHES if getattr(self, f"disable_{part}"))


class _Content(_Options):
    store: _Store = _Store()
    checkpointer: _Checkpointer = _Checkpointer()
    http: Http = Http()


@dataclass(frozen=True)
class ProjectOptions:
    """Options of a project."""

    descriptions: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of graphs, by name."""
    store_ttl: StoreLifetime | None = None
    store_index: StoreIndex | None = None
    thread_ttl: ThreadLifetime | None = None
    http: Http = field(default_factory=Http)
    ignored: tuple[str, ...] = ()
    """Sentences that name the keys without effect."""


def read_options(content: Mapping[str, Any]) -> ProjectOptions:
    """Return the options of a langgraph.json; raises `Invalid` for a value of the wrong form."""
    try:
        options = _Content.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        raise Invalid(
            f"has {fault['input']!r:.80} for {name!r}: {fault['msg']}", remedy="correct it"
        ) from None
    graphs = content.get("graphs") or {}
    texts = {name: one.get("description") for name, one in graphs.items() if isinstance(one, dict)}
    return ProjectOptions(
        {name: text for name, text in texts.items() if isinstance(text, str)},
        options.store.ttl,
        options.store.index,
        options.checkpointer.ttl,
        options.http,
        tuple(_name_ignored(content)),
    )


def _name_ignored(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each key without effect; the keys of an image share one."""
    yield from _unknown(content, _APPLIED, "")
    graph_keys = {"path": None, "description": None}
    for name, graph in (content.get("graphs") or {}).items():
        if isinstance(graph, dict):
            yield from _unknown(graph, graph_keys, f"graphs.{name}.")
    if content.get("http", {}).get("enable_custom_route_auth") is False:
        yield "'http.enable_custom_route_auth' has no effect: callers of 'http.app' are authenticated, too"
    if image := sorted(name for name in _IMAGE & content.keys() if name != "$schema"):
        yield f"{', '.join(map(repr, image))} have no effect: they describe an image"


def _unknown(content: Mapping[str, Any], applied: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in content.items():
        key = f"{path}{name}"
        if value is None or key in _IMAGE or (key == "checkpointer.path" and value == _OWN_CHECKPOINTER):
            continue
        if name in applied:
            if isinstance(value, dict) and applied[name]:
                yield from _unknown(value, applied[name], f"{key}.")
        elif key in _WITHOUT_EFFECT:
            yield f"{key!r} has no effect: {_WITHOUT_EFFECT[key]}"
        else:
            inside = [known.removeprefix(path) for known in _WITHOUT_EFFECT if known.startswith(path)]
            near = get_close_matches(name, [*applied, *inside, *(() if path else _IMAGE)], 1)
            yield f"{key!r} has no effect: there is no such key" + (f"; {path + near[0]!r}?" if near else "")
