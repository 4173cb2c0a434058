"""What a tool is, and how tools are listed (A1, C1-C5)."""

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
from callsheet.tools.guard.call import Call, Scope
from callsheet.tools.guard.policy import ToolOptions

Args = TypeVar("Args", bound=BaseModel, contravariant=True)
Safety = Literal["safe", "potentially_destructive"]
"""Whether a person is asked before it is carried out (C-R1)."""
MAX_DESCRIPTION: Final = 1024
"""Characters of a description that vendors accept."""
OUTSIDE_CALLS: Final = 10
DEFAULT_CALLS: Final = 600
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class AsyncTool(Protocol[Args]):
    """What a tool does: validated arguments and the server's own context in, a JSON object out."""

    def __call__(self, args: Args, call: Call) -> Awaitable[dict[str, Any]]:
        """Do it; raises `Refused` for arguments that cannot be carried out."""
        ...


class BlockingTool(Protocol[Args]):
    """The same without `async`: it runs in a thread, or in a process of its own, away from storage."""

    def __call__(self, args: Args, scope: Scope) -> dict[str, Any]:
        """Do it; raises `Refused` for arguments that cannot be carried out."""
        ...


class Options(TypedDict, total=False):
    """What `tool` takes beside the rest, each as the field of `Tool` that has its name."""

    reads: Iterable[str]
    writes: Iterable[str]
    subject: str | None
    permissions: Iterable[str]
    safety: Safety
    outside: bool
    idempotent: bool
    isolated: bool
    rate_key: str
    cacheable: Callable[[Mapping[str, Any]], bool]
    options: ToolOptions
    internal: bool


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool and everything the guard must know of it; equal to itself alone."""

    name: str
    description: str
    """What the model reads when it chooses (A21)."""
    schema: type[BaseModel]
    run: AsyncTool[Any] | BlockingTool[Any]
    display: str
    """What a person reads while it runs."""
    reads: frozenset[str] = frozenset()
    """Streams it looks at."""
    writes: frozenset[str] = frozenset()
    """Streams it makes versions of; empty for a tool without effect on the artefact."""
    subject: str | None = None
    """Argument that names the artefact; the guard checks that it is the one the thread is about."""
    permissions: frozenset[str] = frozenset()
    """What its caller must have been granted, every one of them (C1); everything is, unless restricted."""
    safety: Safety = "safe"
    outside: bool = False
    """Whether it has effects outside our storage, where no receipt can be written along with them."""
    idempotent: bool = False
    """Whether an effect outside may be tried again when nobody knows what became of it."""
    isolated: bool = False
    """Whether it gets a process of its own, with limits of memory and processor (C51-C53)."""
    rate_key: str = ""
    """What its calls are counted under together with those of other tools; empty is its own name."""
    cacheable: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether a result may answer the same question later (C47); None for a tool of which each may."""
    options: ToolOptions = field(default_factory=ToolOptions)
    """What it says of time, limits, tries and cache itself (C-R4)."""
    internal: bool = False
    """Whether it carries out a person's answer, so that no model is offered it."""

    @property
    def is_pure_lookup(self) -> bool:
        """Whether it neither changes anything nor looks at what may change by a version (C-R5)."""
        return not (self.writes or self.reads or self.outside)

    @property
    def calls(self) -> int:
        """How many calls an owner has in a window where nobody says otherwise (ARCHITECTURE 4)."""
        return OUTSIDE_CALLS if self.outside else DEFAULT_CALLS

    @property
    def effect(self) -> Literal["read", "write", "outside"]:
        """What it does to the world."""
        return "outside" if self.outside else "write" if self.writes else "read"

    @cached_property
    def is_async(self) -> bool:
        """Whether it is a coroutine; else it is work for a thread or a process."""
        return inspect.iscoroutinefunction(self.run)

    @property
    def is_destructive(self) -> bool:
        """Whether it may take away what a person cannot easily bring back."""
        return self.safety == "potentially_destructive"


def tool(
    *, schema: type[BaseModel], display: str, **options: Unpack[Options]
) -> Callable[[AsyncTool[Any] | BlockingTool[Any]], Tool]:
    """Make a tool of a function: its name and docstring are the tool's name and description.

    Raises `Broken` for a definition that cannot be right (C4).
    """

    def decorate(run: AsyncTool[Any] | BlockingTool[Any]) -> Tool:
        about = " ".join((run.__doc__ or "").split())
        known: dict[str, Any] = {**options}
        for several in ("reads", "writes", "permissions"):
            known[several] = frozenset(known.get(several, ()))
        return check_tool(Tool(getattr(run, "__name__", ""), about, schema, run, display, **known))

    return decorate


def check_tool(item: Tool) -> Tool:
    """Return the tool; raises `Broken` for the first thing that is wrong with its definition."""
    for wrong, rule, remedy in chain(_description_problems(item), _effect_problems(item)):
        if wrong:
            raise Broken(f"tool {item.name!r} {rule}", remedy=remedy)
    return item


def _description_problems(item: Tool) -> Iterator[tuple[bool, str, str]]:
    named = _NAME.fullmatch(item.name) is not None
    yield not named, "must have a name of letters, digits, _ and -, at most 64", "rename it"
    yield not item.description, "has no docstring, and the model chooses by it", "write one"
    long = len(item.description) > MAX_DESCRIPTION
    yield long, f"has a docstring over {MAX_DESCRIPTION} characters, which vendors refuse", "shorten it"
    yield not _is_model(item.schema), "has no input schema", "give a pydantic model"
    lost = item.subject is not None and item.subject not in item.schema.model_fields
    yield lost, f"has no argument {item.subject!r} to name its artefact by", "name a field of the schema"


def _effect_problems(item: Tool) -> Iterator[tuple[bool, str, str]]:
    both = bool(item.writes) and item.outside
    yield both, "writes versions and has effects outside; a call can have one effect", "make two of it"
    stale = bool(item.options.cache_s) and not item.is_pure_lookup
    yield stale, "wants results cached that may change or have an effect", "leave out cache_s"
    cut_off = not item.is_async and bool(item.reads or item.writes)
    yield cut_off, "is no coroutine, and only those reach storage", "write async def"
    odd = item.isolated and item.is_async
    yield odd, "is a coroutine, and a process of its own has no event loop", "write def"


def _is_model(schema: object) -> bool:
    return isinstance(schema, type) and issubclass(schema, BaseModel)


class Registry(Mapping[str, Tool]):
    """Tools by name, each of one domain; what is added can be called at once (C4).

    A domain that is named by modules is imported when it is first asked for (C5), all of it or not at all.
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
        """Import what these domains, or all, are named by; twice is safe."""
        if not self._unloaded:
            return
        with self._loading:
            for domain in domains or tuple(self._unloaded):
                modules = [import_module(name) for name in self._unloaded.get(domain, ())]
                for item in chain.from_iterable(module.TOOLS for module in modules):
                    self._put(item, domain)
                # Until now others wait for the lock rather than miss what is not there yet.
                self._unloaded.pop(domain, None)

    def add(self, item: Tool, domain: str, *, replace: bool = False) -> None:
        """Add a tool to a domain; `replace` takes the place of one with its name.

        Raises `Broken` for a second tool of a name and for a bad definition.
        """
        self.load()
        self._put(item, domain, replace=replace)

    def _put(self, item: Tool, domain: str, *, replace: bool = False) -> None:
        check_tool(item)
        if item.name in self._tools and not replace:
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
        """Return the domain of a tool; raises `KeyError` for none of ours."""
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
    """Return the tools by name, of each domain tools or modules whose `TOOLS` are meant; as `Registry`."""
    return Registry(**domains)


def definitions(tools: Mapping[str, Tool]) -> list[dict[str, Any]]:
    """Return the tools as models are given them (C3), in their order."""
    return [definition(item) for item in tools.values()]


@cache
def definition(item: Tool) -> dict[str, Any]:
    """Return the tool in OpenAI's function format (A1), `required` as an array (A-R2); do not change it.

    Made when it is first asked for (C5).
    """
    # A process of its own needs tools, and no models.
    from langchain_core.utils.json_schema import dereference_refs  # noqa: PLC0415

    schema = dereference_refs(item.schema.model_json_schema())
    parameters = {
        "type": "object",
        **_plain({key: schema[key] for key in ("properties", "required") if key in schema}),
    }
    return {
        "type": "function",
        "function": {"name": item.name, "description": item.description, "parameters": parameters},
    }


def _plain(schema: Any, *, names: bool = False) -> Any:
    """Return a JSON Schema as models read it best: no titles, no defaults of None, no unions with null."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if not names and "anyOf" in schema:
        schema = _without_null(schema)
    dropped = () if names else ("title", "default", "additionalProperties")
    return {
        key: _plain(value, names=key == "properties" and not names)
        for key, value in schema.items()
        if key not in dropped
    }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**options[0], **rest} if len(options) == 1 else {**rest, "anyOf": options}
