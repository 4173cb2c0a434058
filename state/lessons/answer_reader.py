"""How an answer is read that chooses among what was offered, in any of its forms (B52).

Accepted are ids, numbers counted from 1, things with their fields, "all", plain words, and the answers of
LangChain's and Agent Inbox's cards; also as JSON text.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from callsheet.state.approvals import SCHEMA as DECISIONS
from callsheet.state.approvals import Decision, parse_decision
from callsheet.state.errors import Invalid

Reading = TypeVar("Reading")
Offer = TypeVar("Offer")
_WORDS: Final = ("message", "text", "answer")


def choice(
    name: str,
    noun: str,
    own: Mapping[str, Any],
    words: str,
    *,
    some: Mapping[str, int] | None = None,
    **more: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what an answer looks like, as JSON Schema: a list under `name`, a decision, or words.

    What is listed is a `noun`'s id, its number, or the object `own`; `some` says how many, and `more` what
    may stand beside the list.
    """
    items = [
        {"type": "string", "description": f"{noun}'s id"},
        {"type": "integer", "minimum": 1, "description": "its number, from 1"},
        {"type": "object", **own},
    ]
    listed = {"type": "array", **(some or {}), "items": {"anyOf": items}}
    chosen = {"type": "object", "required": [name], "properties": {name: listed, **more}}
    return {"anyOf": [chosen, DECISIONS, {"type": "string", "description": words}]}


class AnswerReader(ABC, Generic[Reading]):
    """Reads the answer to the question about one action."""

    ACTION: ClassVar[str]
    LISTS: ClassVar[tuple[str, ...]]
    """Names under which an answer may list what it chooses."""

    def read(self, answer: Any) -> Reading:
        """Return what an answer says.

        Raises `Invalid`, with what is wrong, for one that chooses nothing, or what is not there.
        """
        decided = None if isinstance(answer, str) else parse_decision(answer, self.ACTION)
        if decided is not None:
            return self._decided(decided)
        return self._mapping(answer) if isinstance(answer, Mapping) else self._listed(answer)

    @abstractmethod
    def choose_all(self) -> Reading:
        """Return what an approval says."""

    @abstractmethod
    def rejected(self, message: str) -> Reading:
        """Return what a rejection says."""

    @abstractmethod
    def words(self, text: str) -> Reading:
        """Return what plain words say."""

    @abstractmethod
    def items(self, items: Sequence[Any]) -> Reading:
        """Return what a list says."""

    @abstractmethod
    def wished(self, read: Reading, words: str) -> Reading:
        """Return what a list says along with words sent beside it; raises `Invalid` where none go."""

    @abstractmethod
    def known(self, text: str) -> bool:
        """Return whether a text is the id of something offered."""

    @abstractmethod
    def malformed(self, answer: Any) -> Invalid:
        """Return what is wrong with an answer that is none."""

    def _listed(self, answer: Any) -> Reading:
        if isinstance(answer, str):
            return self._text(answer)
        if isinstance(answer, bool):
            return self.choose_all() if answer else self.rejected("")
        if isinstance(answer, int):
            return self.items([answer])
        if not isinstance(answer, list):
            raise self.malformed(answer)
        if len(answer) == 1 and isinstance(answer[0], str) and not self.known(answer[0]):
            return self._text(answer[0])
        return self.items(answer)

    def _text(self, text: str) -> Reading:
        if text.strip()[:1] in {"[", "{"}:
            try:
                told = json.loads(text)
            except json.JSONDecodeError:
                return self.words(text)
            return self.read(told)
        return self.words(text)

    def _mapping(self, answer: Mapping[str, Any]) -> Reading:
        listed = next((answer[name] for name in self.LISTS if name in answer), None)
        words = next((answer[name] for name in _WORDS if isinstance(answer.get(name), str)), None)
        if listed is not None:
            return self.wished(self._listed(listed), words or "")
        if words is None:
            raise self.malformed(answer)
        return self._text(words)

    def _decided(self, one: Decision) -> Reading:
        if one.kind == "approve":
            return self.choose_all()
        if one.kind == "reject":
            return self.rejected(one.message)
        return self._mapping(one.args) if one.kind == "edit" else self._text(one.message)


def selected(items: Sequence[Any]) -> list[Any]:
    """Return the items that are not said to be left out."""
    return [one for one in items if not (isinstance(one, Mapping) and one.get("selected") is False)]


def at(one: Any, offered: Sequence[Offer], noun: str) -> Offer | None:
    """Return what a number, also one in figures, counts from 1; None for what is none."""
    if isinstance(one, str) and one.strip().isdecimal():
        one = int(one)
    if not isinstance(one, int) or isinstance(one, bool):
        return None
    if not 1 <= one <= len(offered):
        raise Invalid(
            f"there is no {noun} {one}; they are counted from 1 to {len(offered)}",
            remedy="choose by number or id",
        )
    return offered[one - 1]
