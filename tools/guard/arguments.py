"""Generous reading of a model's arguments: obvious slips are corrected, and then the schema decides.

Almost-JSON is read as JSON5, which covers trailing commas, unquoted keys and single quotes. Its parser leaves
string contents unchanged, and a cut-off string or a missing bracket stays an error.

Nothing is guessed: a value is changed only if the schema leaves one meaning. A name may have aliases, and an
argument beside the one object that has a property of its name is read as inside it. Names that the server
fills in are dropped silently, other unknown names are dropped and told to the model.
"""

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import json5
from langchain_core.utils.json_schema import dereference_refs
from pydantic import BaseModel, ValidationError

from callsheet.providers.tool_calls import MAX_CHARS
from callsheet.state.errors import Invalid, InvalidArguments
from callsheet.tools.registry import ALIASES, Tool

MAX_REPAIRED_CHARS: Final = 100_000
"""Characters of a text that is no JSON and may be repaired: JSON5's parser takes up to 30 µs for each."""
MAX_DEPTH: Final = 32
_MAX_CHARS_IN_PLACE: Final = 1_000
"""Characters that are repaired on the event loop."""
_FENCE: Final = "```"


def repair_arguments(text: str) -> dict[str, Any]:
    """Return the JSON object that `text` holds or nearly holds; valid JSON is never changed.

    An empty text is an empty object, as providers send it for a tool without arguments; text that is encoded
    twice is decoded twice. Raises `Invalid` for
    anything that is not an object even after repair.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_CHARS:
        raise Invalid(f"the arguments have more than {MAX_CHARS:,} characters", remedy="send less at once")
    if (depth := _depth(text)) > MAX_DEPTH:
        raise Invalid(
            f"the arguments are nested {depth} levels deep, over the limit of {MAX_DEPTH}",
            remedy="nest them less deeply",
        )
    value = _parse(_without_fence(text))
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _parse(value)
    if not isinstance(value, dict):
        raise Invalid(f"the arguments are {type(value).__name__}, not an object", remedy="send a JSON object")
    return value


async def repair_off_loop(text: str) -> dict[str, Any]:
    """Do the same as `repair_arguments` without holding up the event loop for a long text."""
    if len(text) <= _MAX_CHARS_IN_PLACE:
        return repair_arguments(text)
    return await asyncio.to_thread(repair_arguments, text)


def _without_fence(text: str) -> str:
    """Return what is inside a Markdown fence around all of the text; a text without one as it is."""
    block = text.strip()
    opening, _, rest = block.partition("\n")
    language = opening.removeprefix(_FENCE).strip().replace("-", "a").replace("_", "a")
    fenced = opening.startswith(_FENCE) and (not language or language.isalnum())
    return rest.removesuffix(_FENCE) if fenced and rest.endswith(_FENCE) else text


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as broken:
        try:
            _require_repairable(text)
            return _finite(json5.loads(text, allow_duplicate_keys=False))
        except (ValueError, RecursionError) as hopeless:
            raise Invalid(
                f"the arguments are not JSON: {_fault(broken)}",
                remedy="send a JSON object with double-quoted keys and strings",
            ) from hopeless


def _require_repairable(text: str) -> None:
    if len(text) > MAX_REPAIRED_CHARS:
        raise ValueError(f"texts of more than {MAX_REPAIRED_CHARS} characters are not repaired")


def _fault(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "a number has too many digits"


def _no_constant(name: str) -> float:
    raise Invalid(f"{name} is not a JSON number", remedy="send a finite number")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{value} is not a JSON number", remedy="send a finite number")
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _depth(text: str) -> int:
    # An upper bound: brackets inside strings count too, which only makes the limit stricter.
    deepest = level = 0
    for char in text:
        level += (char in "[{") - (char in "]}")
        deepest = max(deepest, level)
    return deepest


SERVER_FIELDS: Final = frozenset(
    {"adId", "pageId", "sessionId", "conversationId", "threadId", "userId", "ownerId", "toolCallId"}
)
"""Names that the server fills in."""
_WRAPPERS: Final = frozenset({"arguments", "args", "parameters", "params", "input"})
_MAX_EXAMPLE: Final = 600
"""Characters of a corrected example."""
_NEXT_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
_MAX_PROBLEMS: Final = 5
"""Wrong arguments that a message lists."""
_MAX_NAMES: Final = 200
"""Characters of unknown names that a message lists."""
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
    read = _read_object(unwrap_arguments(given, schema.get("properties", {})), schema, ignored)
    return read, [name for name in ignored if name not in SERVER_FIELDS]


def validate_arguments(tool: Tool, given: Mapping[str, Any], artefact: str) -> tuple[BaseModel, list[str]]:
    """Return the arguments of a call, and the unknown names that were dropped.

    The artefact's id is filled in. Raises `InvalidArguments` for arguments that do not fit the schema.
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
        if ignored:
            problems += f"; there is no argument {', '.join(ignored)[:_MAX_NAMES]}"
        raise InvalidArguments(
            f"{tool.name} was called with wrong arguments: {problems}",
            remedy=f"Call it again in this form: {corrected_example(tool, params, error)}",
        ) from error


def problems_in_words(error: InvalidArguments) -> str:
    """Return what is wrong with arguments for a person: each place, items counted from 1, and its rule."""
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return error.message
    problems = cause.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
    return "; ".join(f"{_place_in_words(item['loc'])}: {item['msg']}" for item in problems)


def _place_in_words(place: Sequence[int | str]) -> str:
    """Return `("tracks", 1, "voiceId")` as "Tracks 2, voice id"."""
    words = "".join(f" {part + 1}" if isinstance(part, int) else f", {part}" for part in place)
    plain = _NEXT_WORD.sub(" ", words.removeprefix(", "))
    return plain.capitalize()


def corrected_example(tool: Tool, params: Mapping[str, Any], error: ValidationError) -> str:
    """Return the arguments as JSON with what is wrong replaced by a bound, an allowed value, or a place.

    The caller's other values stay; unknown arguments and the one that the server fills in are left out.
    """
    example = json.loads(json.dumps({**params}, default=str))
    for item in error.errors(include_url=False, include_input=False):
        _replace_at(example, item["loc"], _right_value(item), remove=item["type"] == "extra_forbidden")
    example.pop(tool.subject or "", None)
    text = json.dumps(example, ensure_ascii=False)
    return text if len(text) <= _MAX_EXAMPLE else f"{text[:_MAX_EXAMPLE]}…"


def _right_value(item: Any) -> Any:
    context = item.get("ctx") or {}
    for bound, step in (("ge", 0), ("le", 0), ("gt", 1), ("lt", -1)):
        if isinstance(limit := context.get(bound), int | float):
            return limit + step
    place = item["loc"][-1] if item["loc"] else "value"
    return f"<{context.get('expected') or place}>"


def _replace_at(example: Any, place: Sequence[int | str], value: Any, *, remove: bool) -> None:
    """Set or remove the value at a place, as far as the arguments have the place."""
    at = example
    for name in place[:-1]:
        inner = at.get(name) if isinstance(at, dict) else _item(at, name)
        if not isinstance(inner, dict | list):
            return
        at = inner
    if place and isinstance(at, dict):
        at.pop(place[-1], None)
        if not remove:
            at[place[-1]] = value
    elif place and _item(at, place[-1]) is not None:
        at[place[-1]] = value


def _item(several: Any, at: int | str) -> Any:
    is_place = isinstance(several, list) and isinstance(at, int) and at < len(several)
    return several[at] if is_place else None


def unwrap_arguments(given: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
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
    by_spelling = _spellings(known)
    read: dict[str, Any] = {}
    for written, value in _with_nesting(given, known, by_spelling).items():
        name = written if written in known else by_spelling.get(_spelling(written))
        if name is None or (name != written and name in given):
            ignored.append(written)
        elif value is not None or name in required:
            read[name] = _read(value, known[name], ignored)
    return read


def _spellings(known: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of properties by the spelling of their aliases and of themselves."""
    aliases = {_spelling(alias): name for name in known for alias in known[name].get(ALIASES, ())}
    return aliases | {_spelling(name): name for name in known}


def _with_nesting(
    given: Mapping[str, Any], known: Mapping[str, Any], by_spelling: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return the arguments with those that belong into the one object with such a property inside it."""
    objects = {name: _spellings(_only_option(known[name]).get("properties", {})) for name in known}
    moved: dict[str, dict[str, Any]] = {}
    for written, value in given.items():
        owners = [name for name, names in objects.items() if _spelling(written) in names]
        if _spelling(written) not in by_spelling and len(owners) == 1:
            moved.setdefault(owners[0], {})[written] = value
    read = {name: value for name, value in given.items() if not any(name in one for one in moved.values())}
    for owner, inside in moved.items():
        written = next((name for name in read if by_spelling.get(_spelling(name)) == owner), owner)
        own = _parse_json(read.get(written) or {}, dict)
        if not isinstance(own, dict):
            return given
        read[written] = {**inside, **own}
    return read


def _only_option(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    return options[0] if len(options) == 1 else schema


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
