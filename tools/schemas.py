"""JSON Schemas of arguments and forms, as models read them best."""

from typing import Any, Final

from pydantic import BaseModel

_DROPPED: Final = frozenset(
    {"title", "default", "additionalProperties", "maxLength", "minLength", "maxItems", "minItems"}
)


def model_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema without references, titles, defaults, unions with null and limits of length.

    Limits cost tokens with every request and are met without being named; the arguments are still checked.
    """
    # A sandbox process needs tools, but no models.
    from langchain_core.utils.json_schema import dereference_refs  # noqa: PLC0415

    schema: dict[str, Any] = _plain(dereference_refs(model.model_json_schema()))
    schema.pop("$defs", None)
    return schema


def _plain(schema: Any, *, names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if not names and "anyOf" in schema:
        schema = _without_null(schema)
    dropped = () if names else _DROPPED
    return {
        key: _plain(value, names=key == "properties" and not names)
        for key, value in schema.items()
        if key not in dropped
    }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**options[0], **rest} if len(options) == 1 else {**rest, "anyOf": options}
