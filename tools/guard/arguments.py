"""Generous reading of a model's arguments: obvious slips are corrected, and then the schema decides.

Nothing is guessed: a value is changed only if the schema leaves one meaning. Names that the server fills in
are dropped silently, other unknown names are dropped and told to the model.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.utils.json_schema import dereference_refs
from pydantic import BaseModel, ValidationError

from callsheet.state.errors import Invalid
from callsheet.tools.registry import Tool

SERVER_FIELDS: Final = frozenset(
    {"adId", "pageId", "sessionId", "conversationId", "threadId", "userId", "ownerId", "toolCallId"}
)
"""Names that the server fills in."""
_WRAPPERS: Final = frozenset({"arguments", "args", "parameters", "params", "input"})
_MAX_PROBLEMS: Final = 5
"""Wrong arguments that a message lists."""
_BOOLEANS: Final = {"true": True, "yes": True, "false": False, "no": False}
_SCHEMAS: Final[dict[type[BaseModel], dict[str, Any]]] = {}


def read_arguments(model: type[BaseModel], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments as the schema of `model` wants them, and the unknown names that were dropped.

    What cannot be corrected is returned as it is; validation refuses it.
    """
    schema = _SCHEMAS.get(model)
    if schema is None:
        schema = _SCHEMAS[model] = dereference_refs(model.model_json_schema())
    ignored: list[str] = []
    read = _read_object(_unwrap(given, schema.get("properties", {})), schema, ignored)
    return read, [name for name in ignored if name not in SERVER_FIELDS]


def validate_arguments(tool: Tool, given: Mapping[str, Any], artefact: str) -> tuple[BaseModel, list[str]]:
    """Return the arguments of a call, and the unknown names that were dropped.

    The artefact's id is filled in. Raises `Invalid` for arguments that do not fit the tool's schema.
    """
    params, ignored = read_arguments(tool.schema, given)
    if tool.subject:
        params[tool.subject] = params.get(tool.subject) or artefact
    try:
        return tool.schema.model_validate(params), ignored
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or tool.name}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
        )
        raise Invalid(f"{tool.name} was called with wrong arguments: {problems}") from error


def _unwrap(given: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments inside `{"arguments": {…}}`."""
    if len(given) == 1:
        [(name, inner)] = given.items()
        inner = _parse_json(inner, dict)
        if name in _WRAPPERS and name not in known and isinstance(inner, dict):
            return inner
    return given


def _read(value: Any, schema: Mapping[str, Any], ignored: list[str]) -> Any:
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if value is None or len(options) > 1:
        return value
    if options:
        schema = {**options[0], **({"enum": schema["enum"]} if "enum" in schema else {})}
    kind = schema.get("type")
    if isinstance(value, str) and schema.get("enum"):
        return _choice(value, schema["enum"])
    if kind == "object":
        return _as_object(value, schema, ignored)
    if kind == "array":
        return _as_list(value, schema, ignored)
    return _as_scalar(value, str(kind))


def _read_object(given: Mapping[str, Any], schema: Mapping[str, Any], ignored: list[str]) -> dict[str, Any]:
    known: Mapping[str, Any] = schema.get("properties", {})
    if not known and schema.get("additionalProperties", True) is not False:
        return {**given}
    required = schema.get("required", ())
    by_spelling = {_spelling(name): name for name in known}
    read: dict[str, Any] = {}
    for written, value in given.items():
        name = written if written in known else by_spelling.get(_spelling(written))
        if name is None or (name != written and name in given):
            ignored.append(written)
        elif value is not None or name in required:
            read[name] = _read(value, known[name], ignored)
    return read


def _as_object(value: Any, schema: Mapping[str, Any], ignored: list[str]) -> Any:
    value = _parse_json(value, dict)
    required = schema.get("required", ())
    if isinstance(value, str) and len(required) == 1:
        value = {required[0]: value}
    return _read_object(value, schema, ignored) if isinstance(value, dict) else value


def _as_list(value: Any, schema: Mapping[str, Any], ignored: list[str]) -> Any:
    value = _parse_json(value, list)
    items = value if isinstance(value, list) else [value]
    return [_read(item, schema.get("items", {}), ignored) for item in items]


def _as_scalar(value: Any, kind: str) -> Any:
    if kind in {"number", "integer"} and isinstance(value, str):
        return _number(value)
    if kind == "boolean" and isinstance(value, str):
        return _BOOLEANS.get(value.strip().casefold(), value)
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return value


def _parse_json(value: Any, kind: type) -> Any:
    """Return the object or list that a text holds as JSON; else the value."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value
    try:
        parsed = json.loads(value)
    except ValueError:
        return value
    return parsed if isinstance(parsed, kind) else value


def _number(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def _choice(value: str, allowed: list[Any]) -> Any:
    """Return the one allowed value of this spelling."""
    same = [one for one in allowed if isinstance(one, str) and _spelling(one) == _spelling(value)]
    return same[0] if value not in allowed and len(same) == 1 else value


def _spelling(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())
