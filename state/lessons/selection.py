"""Parsing of a person's choice of a lesson's facts.

Beyond the common forms of a choice, facts may be edited or new. `SCHEMA` is the form for programs. A choice
in words is the model's call of `chooseFactsTool`, which `chosen_facts` reads.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from callsheet.state.errors import Invalid
from callsheet.state.figures import all_numbers
from callsheet.state.lessons.answer_reader import AnswerReader, by_number, choice_schema, without_deselected
from callsheet.state.lessons.facts import Fact, distinct, new_fact

MAX_CHOSEN: Final = 40
"""Maximum facts of one narration."""
OTHERS: Final = "other facts"
"""Guidance of a search for facts about no subject of its own."""
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
    "all, numbers, or words, which a model reads",
    count_limits={"minItems": 1, "maxItems": MAX_CHOSEN},
    message={"type": "string", "description": "further wishes for the narration"},
    target_duration={"type": "number", "description": "seconds of the narration"},
    level_shift={"type": "integer", "description": "school grades: below 0 easier, above 0 harder"},
)
"""JSON Schema of the answer."""


@dataclass(frozen=True)
class ChosenFacts:
    """Choice of the facts for the narration."""

    facts: tuple[Fact, ...]
    wish: str = ""
    """Further wishes for the narration."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """`target_duration` and `level_shift` of the narration, where they are given."""


@dataclass(frozen=True)
class OtherFacts:
    """Request for other facts."""

    guidance: str


@dataclass(frozen=True)
class NotAFactChoice:
    """Text for the model: it may be a choice in words, or no choice at all."""

    text: str


class FactOffer(NamedTuple):
    """The facts that a person may choose, numbered in one row, each as the person confirmed it."""

    newest: list[dict[str, Any]]
    """Those of the newest proposal."""
    earlier: list[dict[str, Any]]
    """Those of earlier proposals, each with its version, and those that the person added."""
    chosen: list[str]
    """Ids of those that are chosen now."""

    @property
    def facts(self) -> tuple[list[Fact], list[Fact]]:
        """Both lists as facts."""
        newest, earlier = ([Fact.model_validate(one) for one in facts] for facts in self[:2])
        return newest, earlier

    @property
    def earlier_entry(self) -> dict[str, Any]:
        """The entry of a tool's result on the earlier ones; none without any."""
        names = ("number", "id", "concept", "details")
        shown = [{name: one[name] for name in names} for one in self.earlier]
        return {"earlierFacts": shown} if shown else {}


def fact_offer(proposed: Mapping[str, Any], confirmed: Mapping[str, Any]) -> FactOffer:
    """Return the offer of a proposal, beside the facts that are confirmed now."""
    kept = {fact["id"]: fact for fact in confirmed.get("facts", ())}
    newest = {fact["id"]: fact for fact in proposed.get("facts", ())}
    earlier: dict[str, dict[str, Any]] = {}
    for fact in (*proposed.get("earlier", ()), *kept.values()):
        if fact["id"] not in newest:
            earlier.setdefault(fact["id"], fact)
    newest_row, earlier_row = (
        [{"number": number, **fact, **kept.get(fact["id"], {})} for number, fact in enumerate(facts, start)]
        for facts, start in ((newest.values(), 1), (earlier.values(), 1 + len(newest)))
    )
    return FactOffer(newest_row, earlier_row, list(kept))


Answer = ChosenFacts | OtherFacts | NotAFactChoice
_LENGTH: Final = re.compile(r"(?:about )?(\d{1,3}|[a-z]{3,8}) ?(s|sec|seconds?|min|minutes?)(?: long)?")
_LEVELS: Final[Mapping[str, int]] = {"easier": -2, "simpler": -2, "harder": 2}
_NUMBERS: Final = ("target_duration", "level_shift")


def read(answer: Any, offered: Sequence[Fact], earlier: Sequence[Fact] = ()) -> Answer:
    """Return the parsed answer; facts offered `earlier` have the numbers after those of the newest.

    Raises `Invalid` for an empty choice or an unknown fact.
    """
    read = _FactReader(offered, earlier).read(answer)
    if isinstance(read, ChosenFacts) and isinstance(answer, Mapping):
        return replace(
            read, numbers={name: answer[name] for name in _NUMBERS if _is_number(answer.get(name))}
        )
    return read


def chosen_facts(
    named: Sequence[str],
    edits: Sequence[Mapping[str, Any]],
    offered: Sequence[Fact],
    earlier: Sequence[Fact] = (),
) -> list[Fact]:
    """Return the facts that a model names by id or number, with a person's edits of them.

    Raises `Invalid` for an unknown fact, and for an edit of a fact that is not named.
    """
    reader = _FactReader(offered, earlier)
    facts = {fact.id: fact for fact in map(reader.fact, named)}
    for edit in edits:
        fields = {name: edit[name] for name in ("concept", "details") if edit.get(name)}
        fact = reader.fact(str(edit["id"]))
        if not fields:
            raise Invalid(f"the edit of {fact.id!r} gives no concept or details", remedy="give the new text")
        if fact.id not in facts:
            raise Invalid(f"the edited fact {fact.id!r} is not chosen", remedy="add its id to fact_ids")
        facts[fact.id] = fact.model_copy(update=fields)
    return list(facts.values())


def narration_arguments(wish: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the narration's arguments: all of it for a wish, else the segments that the facts change.

    `given` has the length, the level and the language, as far as they are given. A wish for a length or level
    and nothing else is read here.
    """
    numbers = _numbers_of(wish)
    given, wish = {**numbers, **given}, "" if numbers else wish
    if not wish and not given:
        return {"segments": []}
    return {**given, **({"guidance": wish[:1000]} if wish else {})}


def _numbers_of(wish: str) -> dict[str, float]:
    """Return the length and level of a wish that has nothing else in it; {} for any other."""
    numbers: dict[str, float] = {}
    for part in re.split(r",(?: and)? ?| and ", wish.casefold().strip(" .!")):
        words = part.strip().removeprefix("please ").removesuffix(" please").removeprefix("make it ")
        length = _LENGTH.fullmatch(words)
        counts = all_numbers(length[1]) if length else ()
        if length and len(counts) == 1:
            numbers["target_duration"] = next(iter(counts)) * (60 if length[2].startswith("m") else 1)
        elif words in _LEVELS:
            numbers["level_shift"] = _LEVELS[words]
        elif words != "please":
            return {}
    return numbers


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _FactReader(AnswerReader[Answer]):
    ACTION = REQUEST
    LISTS = ("facts", "selectedFacts", "ids", "indices", "numbers")

    def __init__(self, offered: Sequence[Fact], earlier: Sequence[Fact]) -> None:
        self._newest = offered
        self._offered = (*offered, *earlier)
        self._by_id = {fact.id: fact for fact in (*earlier, *offered)}

    def from_approval(self) -> Answer:
        return ChosenFacts(tuple(self._newest))

    def from_rejection(self, message: str) -> Answer:
        return OtherFacts(message)

    def from_words(self, text: str) -> Answer:
        return NotAFactChoice(text)

    def from_items(self, items: Sequence[Any]) -> Answer:
        facts = distinct(self.fact(item) for item in without_deselected(items))
        if not facts:
            raise Invalid(
                "a lesson tells at least one fact, and none is chosen", remedy='choose some, or say "all"'
            )
        if len(facts) > MAX_CHOSEN:
            raise Invalid(f"{len(facts)} facts are chosen, over {MAX_CHOSEN}", remedy="choose fewer")
        return ChosenFacts(tuple(facts))

    def with_comment(self, read: Answer, words: str) -> Answer:
        return replace(read, wish=words.strip()) if isinstance(read, ChosenFacts) else read

    def is_offered_id(self, text: str) -> bool:
        return text.strip() in self._by_id

    def malformed_error(self, answer: Any) -> Invalid:
        return Invalid(
            f"the answer {str(answer)[:200]!r} chooses no facts",
            remedy='send {"facts": [ids, numbers or facts]}, "all", or words',
        )

    def fact(self, item: Any) -> Fact:
        """Return the fact for one item of a list; raises `Invalid` for none."""
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
