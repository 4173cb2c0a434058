"""Base class for parsing an answer that selects among offered items.

Accepted are ids, numbers counted from 1, objects, "all", and the answers of LangChain's and Agent Inbox's
cards, also as JSON text. Other words are no choice: they are for the model.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

from callsheet.state.approvals import SCHEMA as DECISIONS
from callsheet.state.approvals import Decision, consent, parse_decision
from callsheet.state.errors import Invalid

_SEPARATORS: Final = re.compile(r"[\s,;&+、，和]+")
_AND: Final = frozenset({"and", "und", "y", "et", "e"})
_ALL: Final = frozenset({"all", "everything"})
_NONE: Final = frozenset({"none", "nothing"})
_MAX_DIGITS: Final = 9
"""Maximum digits of a number."""


def _read_plain(text: str, is_id: Callable[[str], bool]) -> list[str] | Literal["all"] | None:
    """Return the numbers and ids of a text that has nothing else, or "all"; None for other words.

    The list is empty for "none"; a plain yes is "all".
    """
    word = text.strip(" .!").casefold()
    if word in _ALL or consent(text):
        return "all"
    if word in _NONE:
        return []
    parts = [part.lstrip("#").rstrip(".") for part in _SEPARATORS.split(text)]
    parts = [part for part in parts if part and part.casefold() not in _AND]
    return parts if parts and all(_is_number(part) or is_id(part) for part in parts) else None


def is_plain(text: str) -> bool:
    """Return whether a text is numbers, or a word such as "all" or "yes", which may answer any question."""
    return _read_plain(text, lambda _part: False) is not None


def _is_number(text: str) -> bool:
    """Return whether a text is a number in digits."""
    return text.isdecimal() and len(text) <= _MAX_DIGITS


Reading = TypeVar("Reading")
Offer = TypeVar("Offer")
_WORDS: Final = ("message", "text", "answer")


def choice_schema(
    name: str,
    noun: str,
    object_schema: Mapping[str, Any],
    words: str,
    *,
    count_limits: Mapping[str, int] | None = None,
    **extra_properties: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the JSON Schema of an answer: a list under `name`, a decision, or a text.

    An item of the list is the id of a `noun`, its number, or an object with `object_schema`; `words`
    describes the text form.
    """
    items = [
        {"type": "string", "description": f"{noun}'s id"},
        {"type": "integer", "minimum": 1, "description": "its number, from 1"},
        {"type": "object", **object_schema},
    ]
    item_list = {"type": "array", **(count_limits or {}), "items": {"anyOf": items}}
    selection = {"type": "object", "required": [name], "properties": {name: item_list, **extra_properties}}
    return {"anyOf": [selection, DECISIONS, {"type": "string", "description": words}]}


class AnswerReader(ABC, Generic[Reading]):
    """Parser of the answers to the question about one action."""

    ACTION: ClassVar[str]
    LISTS: ClassVar[tuple[str, ...]]
    """Keys under which an answer may list its items."""

    def read(self, answer: Any) -> Reading:
        """Return the parsed answer; raises `Invalid` for an empty choice or an unknown item."""
        decision = None if isinstance(answer, str) else parse_decision(answer, self.ACTION)
        if decision is not None:
            return self._read_decision(decision)
        return self._read_mapping(answer) if isinstance(answer, Mapping) else self._read_list(answer)

    @abstractmethod
    def from_approval(self) -> Reading:
        """Return the result of an approval."""

    @abstractmethod
    def from_rejection(self, message: str) -> Reading:
        """Return the result of a rejection."""

    @abstractmethod
    def from_words(self, text: str) -> Reading:
        """Return the result of a text that code does not read."""

    @abstractmethod
    def from_items(self, items: Sequence[Any]) -> Reading:
        """Return the result of a list."""

    @abstractmethod
    def with_comment(self, read: Reading, words: str) -> Reading:
        """Return the result of a list with a comment; raises `Invalid` if comments are not allowed."""

    @abstractmethod
    def is_offered_id(self, text: str) -> bool:
        """Return whether a text is the id of an offered item."""

    @abstractmethod
    def malformed_error(self, answer: Any) -> Invalid:
        """Return the error for an answer of no accepted form."""

    def _read_list(self, answer: Any) -> Reading:
        if isinstance(answer, str):
            return self._read_text(answer)
        if isinstance(answer, bool):
            return self.from_approval() if answer else self.from_rejection("")
        if isinstance(answer, int):
            return self.from_items([answer])
        if not isinstance(answer, list):
            raise self.malformed_error(answer)
        return self.from_approval() if answer == ["all"] else self.from_items(answer)

    def _read_text(self, text: str) -> Reading:
        if text.strip()[:1] in {"[", "{"}:
            try:
                parsed = json.loads(text)
            except json.JSONDecodeError:
                return self.from_words(text)
            return self.read(parsed)
        if not text.strip():
            raise Invalid("the answer is empty", remedy='choose by number, such as "1 and 3", or say "all"')
        items = _read_plain(text, self.is_offered_id)
        if items is None:
            return self.from_words(text)
        return self.from_approval() if items == "all" else self.from_items(items)

    def _read_mapping(self, answer: Mapping[str, Any]) -> Reading:
        items = next((answer[name] for name in self.LISTS if name in answer), None)
        words = next((answer[name] for name in _WORDS if isinstance(answer.get(name), str)), None)
        if items is not None:
            return self.with_comment(self._read_list(items), words or "")
        if words is None:
            raise self.malformed_error(answer)
        return self._read_text(words)

    def _read_decision(self, decision: Decision) -> Reading:
        if decision.kind == "approve":
            return self.from_approval()
        if decision.kind == "reject":
            return self.from_rejection(decision.message)
        return (
            self._read_mapping(decision.args)
            if decision.kind == "edit"
            else self._read_text(decision.message)
        )


def without_deselected(items: Sequence[Any]) -> list[Any]:
    """Return the items without those marked `"selected": false`."""
    return [item for item in items if not (isinstance(item, Mapping) and item.get("selected") is False)]


def by_number(item: Any, offered: Sequence[Offer], noun: str) -> Offer | None:
    """Return the offered item with a number from 1, also given as text; None for other items."""
    if isinstance(item, str) and _is_number(item.strip()):
        item = int(item)
    if not isinstance(item, int) or isinstance(item, bool):
        return None
    if not 1 <= item <= len(offered):
        raise Invalid(
            f"there is no {noun} {item}; they are counted from 1 to {len(offered)}",
            remedy="choose by number or id",
        )
    return offered[item - 1]
