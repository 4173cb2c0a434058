"""What a tool is, and how tools are listed (A1, C1-C4)."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from langchain_core.utils.json_schema import dereference_refs
from pydantic import BaseModel

from state.errors import Broken
from tools.call import Call

Args = TypeVar("Args", bound=BaseModel, contravariant=True)


class Run(Protocol[Args]):
    """What a tool does: validated arguments and the server's own context in, a JSON object out."""

    def __call__(self, args: Args, call: Call) -> Awaitable[dict[str, Any]]:
        """Do it; raises `Refused` for arguments that cannot be carried out."""
        ...


@dataclass(frozen=True)
class Tool:
    """A tool and everything the guard must know of it."""

    name: str
    description: str
    """What the model reads when it chooses (A21)."""
    schema: type[BaseModel]
    run: Run[Any]
    timeout_s: float
    reads: frozenset[str]
    """Streams it looks at."""
    writes: frozenset[str]
    """Streams it makes versions of; empty for a tool without effect."""
    subject: str | None
    """Argument that names the artefact; the guard checks that it is the one the thread is about."""
    display: str
    """What a person reads while it runs."""


def tool(
    *,
    schema: type[BaseModel],
    display: str,
    timeout_s: float = 30.0,
    reads: Iterable[str] = (),
    writes: Iterable[str] = (),
    subject: str | None = None,
) -> Callable[[Run[Any]], Tool]:
    """Make a tool of an async function: its name and docstring are the tool's name and description."""

    def made(run: Run[Any]) -> Tool:
        name, description = getattr(run, "__name__", ""), run.__doc__
        if not name or not description:
            raise Broken(f"tool {name!r} has no docstring, and the model chooses by it", remedy="write one")
        return Tool(
            name,
            " ".join(description.split()),
            schema,
            run,
            timeout_s,
            frozenset(reads),
            frozenset(writes),
            subject,
            display,
        )

    return made


def index(*groups: Iterable[Tool]) -> Mapping[str, Tool]:
    """Return the tools by name; refuses two of one name (C4)."""
    found: dict[str, Tool] = {}
    for group in groups:
        for item in group:
            if item.name in found:
                raise Broken(f"two tools are named {item.name!r}", remedy="rename one of them")
            found[item.name] = item
    return found


def definition(item: Tool) -> dict[str, Any]:
    """Return the tool in OpenAI's function format (A1), `required` as an array (A-R2)."""
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
        key: _plain(value, names=key == "properties") for key, value in schema.items() if key not in dropped
    }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**options[0], **rest} if len(options) == 1 else {**rest, "anyOf": options}
