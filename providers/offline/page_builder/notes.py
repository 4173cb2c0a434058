"""What the model has to say, before it is known in which language: a key and what fills its slots.

The sentences stand in `replies/<language>.toml`. Things are named after a colon or in a list, so that no
language needs another ending for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from providers.offline.sentences import sentences

_WORKFLOW: Final = "page_builder"


@dataclass(frozen=True)
class Note:
    """One sentence, or a part of one."""

    key: str
    """Group and name in the table, such as `not.found`."""
    values: Mapping[str, "Value"] = field(default_factory=dict)


Value = str | Note | Sequence[Note]
"""A person's own words as they are, or more to say; several are listed."""


def note(key: str, **values: Value) -> Note:
    """Return what to say with what fills its slots."""
    return Note(key, values)


def quoted(text: str) -> Note:
    """Return words as they were written, in the quotation marks of the language."""
    return note("thing.quoted", said=text)


def plain(text: str) -> Note:
    """Return words as they were written, where a list wants a note."""
    return note("thing.plain", said=text)


def valued(name: str, value: str) -> Note:
    """Return what a style, an attribute or a token of the theme is."""
    return note("thing.valued", name=Note(f"property.{name}"), value=value)


def told(one: Value, language: str) -> str:
    """Return it in the words of a language."""
    if isinstance(one, str):
        return one
    if isinstance(one, Note):
        filled = {name: told(value, language) for name, value in one.values.items()}
        return _template(one.key, language).format(**filled)
    return _template("frame.comma", language).join(told(each, language) for each in one)


def sentence(one: Note, language: str) -> str:
    """Return it as a sentence of its own, beginning large."""
    text = told(one, language)
    return text[:1].upper() + text[1:]


def said(several: Sequence[Note], language: str) -> str:
    """Return sentences one after another, each only once."""
    every = dict.fromkeys(sentence(one, language) for one in several)
    return _template("frame.blank", language).join(every)


def word(language: str, name: str, **values: str) -> str:
    """Return what stands on a page where nobody said other words, such as `todo` and `send`."""
    return told(Note(f"words.{name}", values), language)


def _template(key: str, language: str) -> str:
    group, _, name = key.partition(".")
    own = sentences(_WORKFLOW, language)
    if group == "new" and key not in own:
        key = f"kind.{name}"
    if group == "property":
        return own.get(key, name.replace("-", " ")).replace("{", "{{").replace("}", "}}")
    return own[key]
