"""Parsing of a person's choice of a lesson's facts (B47, B48, B52-B54).

Beyond the common forms of a choice, facts may be edited or new. `SCHEMA` is the form for programs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from callsheet.state.errors import Invalid
from callsheet.state.lessons.answer_reader import AnswerReader, by_number, choice_schema, without_deselected
from callsheet.state.lessons.facts import Fact, distinct, new_fact
from callsheet.state.lessons.selection_words import choose_facts

MAX_CHOSEN: Final = 40
"""Maximum facts of one narration."""
REQUEST: Final = "select_facts"
"""Name of the question's action."""
SCHEMA: Final = choice_schema(
    "facts",
    "a fact",
    {
        "description": "a fact, edited or not; a new one has no id",
        "properties": {
            "id": {"type": "string"},
            "concept": {"type": "string", "minLength": 1, "maxLength": 200},
            "details": {"type": "string", "minLength": 1, "maxLength": 4000},
        },
    },
    "all, or which in plain words, or something else to say",
    count_limits={"minItems": 1, "maxItems": MAX_CHOSEN},
    message={"type": "string", "description": "further wishes for the narration"},
)
"""JSON Schema of the answer."""


@dataclass(frozen=True)
class Chosen:
    """Choice of the facts for the narration."""

    facts: tuple[Fact, ...]
    wish: str = ""
    """Further wishes for the narration."""


@dataclass(frozen=True)
class AddedFacts:
    """New facts to offer with the others."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class OtherFacts:
    """Request for other facts."""

    guidance: str


@dataclass(frozen=True)
class NotAChoice:
    """Text that is not a choice and needs a reply."""

    text: str


Answer = Chosen | AddedFacts | OtherFacts | NotAChoice


def read(answer: Any, offered: Sequence[Fact], earlier: Sequence[Fact] = ()) -> Answer:
    """Return the parsed answer; facts offered `earlier` may be chosen by id, too.

    Raises `Invalid` for an empty choice or an unknown fact.
    """
    return _FactReader(offered, earlier).read(answer)


class _FactReader(AnswerReader[Answer]):
    ACTION = REQUEST
    LISTS = ("facts", "selectedFacts", "ids", "indices", "numbers")

    def __init__(self, offered: Sequence[Fact], earlier: Sequence[Fact]) -> None:
        self._offered = offered
        self._by_id = {fact.id: fact for fact in (*earlier, *offered)}

    def from_approval(self) -> Answer:
        return Chosen(tuple(self._offered))

    def from_rejection(self, message: str) -> Answer:
        return OtherFacts(message)

    def from_text(self, text: str) -> Answer:
        if self.is_offered_id(text):
            return Chosen((self._by_id[text.strip()],))
        words = choose_facts(text, self._offered)
        if words is None:
            return NotAChoice(text)
        return Chosen((*words.chosen, *words.added)) if words.chosen else AddedFacts(words.added)

    def from_items(self, items: Sequence[Any]) -> Answer:
        facts = distinct(self._item(item) for item in without_deselected(items))
        if not facts:
            raise Invalid(
                "a lesson tells at least one fact, and none is chosen", remedy='choose some, or say "all"'
            )
        if len(facts) > MAX_CHOSEN:
            raise Invalid(f"{len(facts)} facts are chosen, over {MAX_CHOSEN}", remedy="choose fewer")
        return Chosen(tuple(facts))

    def with_comment(self, read: Answer, words: str) -> Answer:
        return replace(read, wish=words.strip()) if isinstance(read, Chosen) else read

    def is_offered_id(self, text: str) -> bool:
        return text.strip() in self._by_id

    def malformed_error(self, answer: Any) -> Invalid:
        return Invalid(
            f"the answer {str(answer)[:200]!r} chooses no facts",
            remedy='send {"facts": [ids, numbers or facts]}, "all", or words',
        )

    def _item(self, item: Any) -> Fact:
        """Return the fact for one item of a list."""
        by_place = by_number(item, self._offered, Fact.NOUN)
        if by_place:
            return by_place
        if isinstance(item, str):
            return self._by_name(item)
        if isinstance(item, Mapping):
            return self._from_object(item)
        raise self.malformed_error(item)

    def _by_name(self, name: str) -> Fact:
        if self.is_offered_id(name):
            return self._by_id[name.strip()]
        same = [fact for fact in self._offered if fact.concept.casefold() == name.strip().casefold()]
        if not same:
            raise Invalid(
                f"there is no fact {name[:200]!r} here",
                remedy=f"choose from {', '.join(fact.id for fact in self._offered)}",
            )
        return same[0]

    def _from_object(self, item: Mapping[str, Any]) -> Fact:
        """Return a known fact with its edits, or a new fact."""
        known = self._by_id.get(str(item.get("id", "")))
        fields = {name: item[name] for name in ("concept", "details") if item.get(name) is not None}
        if known is None and "id" in item and len(fields) < 2:  # noqa: PLR2004 -- both fields
            return self._by_name(str(item["id"]))
        try:
            if known is not None:
                return Fact.model_validate(known.model_dump() | fields)
            new = Fact.model_validate({"id": "new", **fields})
        except ValidationError as error:
            detail = error.errors(include_url=False, include_input=False)[0]
            raise Invalid(
                f"a fact's {'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}",
                remedy="give concept and details, or an id",
            ) from error
        content = (new.concept, new.details)
        same = next((fact for fact in self._offered if (fact.concept, fact.details) == content), None)
        return same or new_fact(new.concept, new.details)
