"""Tools, with the schemas of their arguments as models read them best, and the registry that lists them."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from itertools import chain
from threading import RLock
from typing import Any, Final, Literal, Protocol, TypedDict, TypeVar

from pydantic import BaseModel
from typing_extensions import Unpack

from callsheet.state.errors import Broken
from callsheet.state.plan import covers
from callsheet.tools.call import Call, Scope
from callsheet.tools.policy import ToolOptions

ALIASES: Final = "aliases"
"""Key of a property's schema for other names that models give it; the model is not shown it."""
_DROPPED: Final = frozenset(
    {"title", "default", "additionalProperties", "maxLength", "minLength", "maxItems", "minItems", ALIASES}
)
_MAX_ITEMS: Final = 50
"""Items of a list without a limit of its own, where a server keeps an answer to its schema."""


def also(*names: str) -> dict[str, Any]:
    """Return the `json_schema_extra` of a field that is read under other names, too."""
    return {ALIASES: list(names)}


def model_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema without references, titles, defaults, unions with null and limits of length.

    Limits cost tokens with every request and are met without being named; the arguments are still checked.
    """
    return _schema_of(model, _DROPPED)


def grammar_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema for servers that keep an answer to it: as `model_schema`, with a limit to every list.

    Without one a small model may add items until its answer is cut off.
    """
    schema: dict[str, Any] = _with_limits(_schema_of(model, _DROPPED - {"maxItems"}))
    return schema


def _with_limits(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_limits(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    most = {"maxItems": _MAX_ITEMS} if schema.get("type") == "array" else {}
    return {**most, **{key: _with_limits(value) for key, value in schema.items()}}


def _schema_of(model: type[BaseModel], dropped: frozenset[str]) -> dict[str, Any]:
    # A sandbox process needs tools, but no models.
    from langchain_core.utils.json_schema import dereference_refs  # noqa: PLC0415

    schema: dict[str, Any] = _plain(dereference_refs(model.model_json_schema()), dropped)
    schema.pop("$defs", None)
    return schema


def _plain(schema: Any, dropped: frozenset[str], *, names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_plain(item, dropped) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if not names and "anyOf" in schema:
        schema = _without_null(schema)
    return {
        key: _plain(value, dropped, names=key == "properties" and not names)
        for key, value in schema.items()
        if names or key not in dropped
    }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**options[0], **rest} if len(options) == 1 else {**rest, "anyOf": options}


Args = TypeVar("Args", bound=BaseModel, contravariant=True)
Safety = Literal["safe", "potentially_destructive"]
"""Potentially destructive tools need a person's approval."""
MAX_DESCRIPTION: Final = 1024
"""Characters of a description that vendors accept."""
OUTSIDE_CALLS: Final = 10
DEFAULT_CALLS: Final = 600
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class AsyncTool(Protocol[Args]):
    """An async tool: takes validated arguments and the call's context, returns a JSON object."""

    def __call__(self, args: Args, call: Call) -> Awaitable[dict[str, Any]]:
        """Do it; raises `Refused` for arguments that cannot be carried out."""
        ...


class CallCheck(Protocol[Args]):
    """A check of a call before a person is asked about it."""

    def __call__(self, args: Args, call: Call) -> Awaitable[None]:
        """Raise what the tool would raise for these arguments now; change nothing."""
        ...


class BlockingTool(Protocol[Args]):
    """A blocking tool: runs in a thread or in a sandbox process, without storage."""

    def __call__(self, args: Args, scope: Scope) -> dict[str, Any]:
        """Do it; raises `Refused` for arguments that cannot be carried out."""
        ...


class Options(TypedDict, total=False):
    """Further options of `@tool`; each is the field of `Tool` with its name."""

    reads: Iterable[str]
    writes: Iterable[str]
    writes_some: bool
    subject: str | None
    permissions: Iterable[str]
    safety: Safety
    outside: bool
    idempotent: bool
    isolated: bool
    rate_key: str
    live: bool
    cacheable: Callable[[Mapping[str, Any]], bool]
    options: ToolOptions
    internal: bool
    check: CallCheck[Any]


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool with everything the guard needs; compared by identity."""

    name: str
    description: str
    """Description by which the model chooses."""
    schema: type[BaseModel]
    run: AsyncTool[Any] | BlockingTool[Any]
    display: str
    """Text for people while it runs."""
    reads: frozenset[str] = frozenset()
    """Streams it reads."""
    writes: frozenset[str] = frozenset()
    """Streams it writes versions of; empty for a tool without effect on the artefact.

    `scene-*` is a family, of which each step names the streams that it writes.
    """
    writes_some: bool = False
    """True for a tool that writes some of its streams: a lock refuses the write, not the call."""
    subject: str | None = None
    """Argument that names the artefact. Models do not see it; the guard fills it in and refuses another."""
    permissions: frozenset[str] = frozenset()
    """Permissions that the caller needs, all of them; everyone has all unless restricted."""
    safety: Safety = "safe"
    outside: bool = False
    """True for effects outside our storage, where no receipt can be written with the effect."""
    idempotent: bool = False
    """True if a repeated call changes nothing more, so that an equal draft is made once."""
    isolated: bool = False
    """True for a sandbox process with limits of memory and processor."""
    rate_key: str = ""
    """Name under which its calls are counted, shared with other tools; empty for its own name."""
    live: bool = False
    """True if it reads what others change at any time, such as a library, so that no result is cached."""
    cacheable: Callable[[Mapping[str, Any]], bool] | None = None
    """Returns True for a result that may be cached; None if all may."""
    options: ToolOptions = field(default_factory=ToolOptions)
    """Its own time-out, limits, retries and cache."""
    internal: bool = False
    """True for a tool that executes a person's answer; models are not offered it."""
    check: CallCheck[Any] | None = None
    """Check of its targets before a person is asked; None for a tool whose arguments say all."""

    @property
    def is_pure_lookup(self) -> bool:
        """True if it neither changes nor reads anything that a version or another request may change."""
        return not (self.writes or self.reads or self.outside or self.live)

    @property
    def calls(self) -> int:
        """Default number of calls per owner and window."""
        return OUTSIDE_CALLS if self.outside else DEFAULT_CALLS

    @property
    def effect(self) -> Literal["read", "write", "outside"]:
        """Kind of its effect."""
        return "outside" if self.outside else "write" if self.writes else "read"

    @cached_property
    def is_async(self) -> bool:
        """True for a coroutine; others run in a thread or a process."""
        return inspect.iscoroutinefunction(self.run)

    @cached_property
    def _has_family(self) -> bool:
        return any(name.endswith("*") for name in self.writes)

    def writes_of(self, declared: Iterable[str]) -> frozenset[str]:
        """Return the streams that a step with these declared writes may write."""
        if not self._has_family:
            return self.writes
        return frozenset(stream for stream in declared if covers(self.writes, stream))

    @property
    def is_destructive(self) -> bool:
        """True if a person cannot easily restore what it removes."""
        return self.safety == "potentially_destructive"


def tool(
    *, schema: type[BaseModel], display: str, **options: Unpack[Options]
) -> Callable[[AsyncTool[Any] | BlockingTool[Any]], Tool]:
    """Make a function a tool; its name and docstring become the tool's name and description.

    Raises `Broken` for an invalid definition.
    """

    def decorate(run: AsyncTool[Any] | BlockingTool[Any]) -> Tool:
        about = " ".join((run.__doc__ or "").split())
        known: dict[str, Any] = {**options}
        for several in ("reads", "writes", "permissions"):
            known[several] = frozenset(known.get(several, ()))
        return _check_tool(Tool(getattr(run, "__name__", ""), about, schema, run, display, **known))

    return decorate


def _check_tool(item: Tool) -> Tool:
    """Return the tool; raises `Broken` for the first fault of its definition."""
    for wrong, rule, remedy in chain(_description_problems(item), _effect_problems(item)):
        if wrong:
            raise Broken(f"tool {item.name!r} {rule}", remedy=remedy)
    return item


def _description_problems(item: Tool) -> Iterator[tuple[bool, str, str]]:
    named = _NAME.fullmatch(item.name) is not None
    yield not named, "must have a name of letters, digits, _ and -, at most 64", "rename it"
    yield not item.description, "has no docstring, by which the model chooses", "write one"
    long = len(item.description) > MAX_DESCRIPTION
    yield long, f"has a docstring over {MAX_DESCRIPTION} characters, which vendors refuse", "shorten it"
    yield not _is_model(item.schema), "has no input schema", "give a pydantic model"
    lost = item.subject is not None and item.subject not in item.schema.model_fields
    yield lost, f"has no argument {item.subject!r} to name its artefact by", "name a field of the schema"


def _effect_problems(item: Tool) -> Iterator[tuple[bool, str, str]]:
    both = bool(item.writes) and item.outside
    yield both, "writes versions and has effects outside; a call can have one effect", "make two of it"
    stale = bool(item.options.cache_s) and not item.is_pure_lookup
    yield stale, "has cache_s, but its results may change or have an effect", "leave out cache_s"
    cut_off = not item.is_async and bool(item.reads or item.writes)
    yield cut_off, "is not a coroutine, and only coroutines reach storage", "write async def"
    odd = item.isolated and item.is_async
    yield odd, "is a coroutine, and a sandbox process has no event loop", "write def"


def _is_model(schema: object) -> bool:
    return isinstance(schema, type) and issubclass(schema, BaseModel)


class Registry(Mapping[str, Tool]):
    """Tools by name, each of one domain; an added tool can be called at once.

    A domain given as module names is imported on first use, all of it or nothing.
    """

    def __init__(self, **domains: Iterable[Tool | str]) -> None:
        self._tools: dict[str, Tool] = {}
        self._domains: dict[str, str] = {}
        self._unloaded: dict[str, list[str]] = {}
        self._loading = RLock()
        for domain, items in domains.items():
            for item in items:
                if isinstance(item, Tool):
                    self._put(item, domain)
                else:
                    self._unloaded.setdefault(domain, []).append(item)

    def load(self, *domains: str) -> None:
        """Import the modules of these domains, or of all; calling it twice is safe."""
        if not self._unloaded:
            return
        with self._loading:
            for domain in domains or tuple(self._unloaded):
                modules = [import_module(name) for name in self._unloaded.get(domain, ())]
                for item in chain.from_iterable(module.TOOLS for module in modules):
                    self._put(item, domain)
                # Removed last, so that other threads wait for the lock until the domain is complete.
                self._unloaded.pop(domain, None)

    def add(self, item: Tool, domain: str) -> None:
        """Add a tool to a domain.

        Raises `Broken` for a second tool of a name and for a bad definition.
        """
        self.load()
        self._put(item, domain)

    def _put(self, item: Tool, domain: str) -> None:
        _check_tool(item)
        if item.name in self._tools:
            raise Broken(f"two tools are named {item.name!r}", remedy="rename one of them")
        self._tools[item.name] = item
        self._domains[item.name] = domain

    def of(self, *domains: str, internal: bool = False) -> Mapping[str, Tool]:
        """Return the tools of these domains that models are offered, or the internal ones.

        Tools that are added later are included.
        """
        self.load(*domains)
        return _Selection(
            self._tools, lambda tool: self._domains[tool.name] in domains and tool.internal == internal
        )

    def domain(self, name: str) -> str:
        """Return the domain of a tool; raises `KeyError` for an unknown one."""
        self.load()
        return self._domains[name]

    def __getitem__(self, name: str) -> Tool:
        if self._unloaded:
            self.load()
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(self._tools)

    def __len__(self) -> int:
        self.load()
        return len(self._tools)


class _Selection(Mapping[str, Tool]):
    """A live view of the tools that a condition selects."""

    def __init__(self, tools: Mapping[str, Tool], selects: Callable[[Tool], bool]) -> None:
        self._tools = tools
        self._selects = selects

    def __getitem__(self, name: str) -> Tool:
        tool = self._tools[name]
        if not self._selects(tool):
            raise KeyError(name)
        return tool

    def __iter__(self) -> Iterator[str]:
        return (name for name, tool in self._tools.items() if self._selects(tool))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def index(**domains: Iterable[Tool | str]) -> Registry:
    """Return a registry of domains, each given as tools or as names of modules with `TOOLS`."""
    return Registry(**domains)


def definitions(tools: Mapping[str, Tool]) -> list[dict[str, Any]]:
    """Return the definitions for models, in order."""
    return [definition(item) for item in tools.values()]


@cache
def definition(item: Tool) -> dict[str, Any]:
    """Return the tool in OpenAI's function format, `required` as an array; do not change it.

    The argument that names the artefact is left out: the server fills it in. Made on first use.
    """
    schema = model_schema(item.schema)
    properties = {name: about for name, about in schema.get("properties", {}).items() if name != item.subject}
    required = [name for name in schema.get("required", ()) if name != item.subject]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": item.name, "description": item.description, "parameters": parameters},
    }
