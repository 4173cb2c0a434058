"""A person's answer to the question which facts a lesson tells, in any of its forms (B47, B48, B52-B54).

Beside what every choice is made by, facts may have changed or new words. `SCHEMA` is the form for programs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from callsheet.state.errors import Invalid
from callsheet.state.lessons.answer_reader import AnswerReader, at, choice, selected
from callsheet.state.lessons.facts import Fact, added, distinct
from callsheet.state.lessons.selection_words import spoken

MOST_CHOSEN: Final = 40
"""Facts that one narration tells at most."""
REQUEST: Final = "select_facts"
"""Name of the one action that the question asks about."""
SCHEMA: Final = choice(
    "facts",
    "a fact",
    {
        "description": "a fact, its words changed or not; without id a new one",
        "properties": {
            "id": {"type": "string"},
            "concept": {"type": "string", "minLength": 1, "maxLength": 200},
            "details": {"type": "string", "minLength": 1, "maxLength": 4000},
        },
    },
    "all, or which in plain words, or something else to say",
    some={"minItems": 1, "maxItems": MOST_CHOSEN},
    message={"type": "string", "description": "what else is wanted of the narration"},
)
"""What an answer looks like."""


@dataclass(frozen=True)
class Chosen:
    """These are to be told."""

    facts: tuple[Fact, ...]
    wish: str = ""
    """What is wanted of the narration, in the person's words."""


@dataclass(frozen=True)
class Stated:
    """These are to be offered beside the others."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Others:
    """Other facts are wanted."""

    guidance: str


@dataclass(frozen=True)
class Said:
    """It is no choice, but something to answer."""

    text: str


Answer = Chosen | Stated | Others | Said


def read(answer: Any, offered: Sequence[Fact], earlier: Sequence[Fact] = ()) -> Answer:
    """Return what an answer says of the facts offered; those offered `earlier` are known by their ids too.

    Raises `Invalid`, with what is wrong, for an answer that chooses nothing, or what is not there.
    """
    return _Facts(offered, earlier).read(answer)


class _Facts(AnswerReader[Answer]):
    ACTION = REQUEST
    LISTS = ("facts", "selectedFacts", "ids", "indices", "numbers")

    def __init__(self, offered: Sequence[Fact], earlier: Sequence[Fact]) -> None:
        self._offered = offered
        self._by_id = {fact.id: fact for fact in (*earlier, *offered)}

    def choose_all(self) -> Answer:
        return Chosen(tuple(self._offered))

    def rejected(self, message: str) -> Answer:
        return Others(message)

    def words(self, text: str) -> Answer:
        if self.known(text):
            return Chosen((self._by_id[text.strip()],))
        words = spoken(text, self._offered)
        if words is None:
            return Said(text)
        return Chosen((*words.chosen, *words.added)) if words.chosen else Stated(words.added)

    def items(self, items: Sequence[Any]) -> Answer:
        facts = distinct(self._item(one) for one in selected(items))
        if not facts:
            raise Invalid(
                "a lesson tells at least one fact, and none is chosen", remedy='choose some, or say "all"'
            )
        if len(facts) > MOST_CHOSEN:
            raise Invalid(f"{len(facts)} facts are chosen, over {MOST_CHOSEN}", remedy="choose fewer")
        return Chosen(tuple(facts))

    def wished(self, read: Answer, words: str) -> Answer:
        return replace(read, wish=words.strip()) if isinstance(read, Chosen) else read

    def known(self, text: str) -> bool:
        return text.strip() in self._by_id

    def malformed(self, answer: Any) -> Invalid:
        return Invalid(
            f"the answer {str(answer)[:200]!r} chooses no facts",
            remedy='send {"facts": [ids, numbers or facts]}, "all", or words',
        )

    def _item(self, one: Any) -> Fact:
        """Return the fact that one item of a list means."""
        counted = at(one, self._offered, Fact.NOUN)
        if counted:
            return counted
        if isinstance(one, str):
            return self._named(one)
        if isinstance(one, Mapping):
            return self._given(one)
        raise self.malformed(one)

    def _named(self, name: str) -> Fact:
        if self.known(name):
            return self._by_id[name.strip()]
        same = [fact for fact in self._offered if fact.concept.casefold() == name.strip().casefold()]
        if not same:
            raise Invalid(
                f"there is no fact {name[:200]!r} here",
                remedy=f"choose from {', '.join(one.id for one in self._offered)}",
            )
        return same[0]

    def _given(self, one: Mapping[str, Any]) -> Fact:
        """Return a known fact in the words it is given, or a new one that a person states."""
        known = self._by_id.get(str(one.get("id", "")))
        said = {name: one[name] for name in ("concept", "details") if one.get(name) is not None}
        if known is None and "id" in one and len(said) < 2:  # noqa: PLR2004 -- both fields
            return self._named(str(one["id"]))
        try:
            if known is not None:
                return Fact.model_validate(known.model_dump() | said)
            new = Fact.model_validate({"id": "new", **said})
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False)[0]
            raise Invalid(
                f"a fact's {'.'.join(str(part) for part in wrong['loc'])}: {wrong['msg']}",
                remedy="give concept and details, or an id",
            ) from error
        told = (new.concept, new.details)
        same = next((fact for fact in self._offered if (fact.concept, fact.details) == told), None)
        return same or added(new.concept, new.details)
