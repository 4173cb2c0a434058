"""The words that a person entered, of a message whose content has other words for the model."""

from collections.abc import Mapping
from typing import Any, Final

ENTERED: Final = "entered"
"""Key of a message's `additional_kwargs`: the person's text, or the fields of their form by name."""
UPLOADED: Final = "Find the facts in the file I uploaded."
"""Request of a client that has uploaded a file for a lesson, behind the person's own words."""


def form_fields(raw: object, options: Mapping[str, object]) -> str | dict[str, str]:
    """Return a text as it is; a form, or a text with `options`, as fields, those without a value left out."""
    given = raw if isinstance(raw, Mapping) else {"brief": raw}
    both = [*given.items(), *options.items()]
    fields = {str(name): value for name, value in both if value not in (None, "", [])}
    if fields == {"brief": raw}:
        return str(raw)
    return {name: _text(value) for name, value in fields.items()}


def upload_fields(text: str, name: str) -> dict[str, str]:
    """Return the name of the file that a message ends with, and the person's words before it."""
    request = text.strip().removesuffix(UPLOADED)
    fields = {"request": request.strip(), "file": name}
    return {field: value for field, value in fields.items() if value} if request != text.strip() else {}


def entered_text(message: Mapping[str, Any]) -> str | None:
    """Return the text that a person entered for a message in wire form; None for the content itself."""
    more = message.get("additional_kwargs")
    shown = more.get(ENTERED) if isinstance(more, Mapping) else None
    if isinstance(shown, Mapping):
        return "\n".join(f"{name}: {value}" for name, value in shown.items())
    return shown if isinstance(shown, str) else None


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else str(value)
