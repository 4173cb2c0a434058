"""A person's answer to the question which facts a lesson tells, in any of its forms (B47, B48, B52-B54).

Accepted are ids, numbers counted from 1, facts with changed or new words, "all", plain words, and the answers
of LangChain's and Agent Inbox's cards; also as JSON text. `SCHEMA` is the form for programs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from state.decisions import SCHEMA as DECISIONS
from state.decisions import Decision, decision
from state.errors import Invalid
from state.facts import Fact, added, distinct
from state.selection_words import spoken

MOST_CHOSEN: Final = 40
"""Facts that one narration tells at most."""
REQUEST: Final = "select_facts"
"""Name of the one action that the question asks about."""
SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {
            "type": "object",
            "required": ["facts"],
            "properties": {
                "facts": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MOST_CHOSEN,
                    "items": {
                        "anyOf": [
                            {"type": "string", "description": "a fact's id"},
                            {"type": "integer", "minimum": 1, "description": "its number, from 1"},
                            {
                                "type": "object",
                                "description": "a fact, its words changed or not; without id a new one",
                                "properties": {
                                    "id": {"type": "string"},
                                    "concept": {"type": "string", "minLength": 1, "maxLength": 200},
                                    "details": {"type": "string", "minLength": 1, "maxLength": 4000},
                                },
                            },
                        ]
                    },
                }
            },
        },
        DECISIONS,
        {"type": "string", "description": "all, or which in plain words, or something else to say"},
    ]
}
"""What an answer looks like."""
_LISTS: Final = ("facts", "selectedFacts", "ids", "indices", "numbers")
_WORDS: Final = ("message", "text", "answer")


@dataclass(frozen=True)
class Chosen:
    """These are to be told."""

    facts: tuple[Fact, ...]


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
    if isinstance(answer, str):
        return _text(answer, offered, earlier)
    decided = decision(answer, REQUEST)
    if decided is not None:
        return _decided(decided, offered, earlier)
    if isinstance(answer, int):
        return _items([answer], offered, earlier)
    if isinstance(answer, list):
        return _list(answer, offered, earlier)
    if isinstance(answer, Mapping):
        return _mapping(answer, offered, earlier)
    raise _malformed(answer)


def _text(text: str, offered: Sequence[Fact], earlier: Sequence[Fact]) -> Answer:
    if text.strip()[:1] in {"[", "{"}:
        try:
            return read(json.loads(text), offered, earlier)
        except json.JSONDecodeError:
            return Said(text)
    found = next((fact for fact in earlier if fact.id == text.strip()), None)
    if found:
        return Chosen((found,))
    words = spoken(text, offered)
    if words is None:
        return Said(text)
    return Chosen((*words.chosen, *words.added)) if words.chosen else Stated(words.added)


def _list(answer: list[Any], offered: Sequence[Fact], earlier: Sequence[Fact]) -> Answer:
    if len(answer) == 1 and isinstance(answer[0], str) and answer[0] not in _by_id(offered, earlier):
        return _text(answer[0], offered, earlier)
    return _items(answer, offered, earlier)


def _mapping(answer: Mapping[str, Any], offered: Sequence[Fact], earlier: Sequence[Fact]) -> Answer:
    listed = next((answer[name] for name in _LISTS if name in answer), None)
    if listed is not None:
        return read(listed, offered, earlier)
    words = next((answer[name] for name in _WORDS if isinstance(answer.get(name), str)), None)
    if words is None:
        raise _malformed(answer)
    return _text(words, offered, earlier)


def _decided(one: Decision, offered: Sequence[Fact], earlier: Sequence[Fact]) -> Answer:
    if one.kind == "approve":
        return Chosen(tuple(offered))
    if one.kind == "reject":
        return Others(one.message)
    return (
        _mapping(one.args, offered, earlier) if one.kind == "edit" else _text(one.message, offered, earlier)
    )


def _items(items: Sequence[Any], offered: Sequence[Fact], earlier: Sequence[Fact]) -> Chosen:
    kept = [one for one in items if not (isinstance(one, Mapping) and one.get("selected") is False)]
    facts = distinct(_item(one, offered, earlier) for one in kept)
    if not facts:
        raise Invalid(
            "a lesson tells at least one fact, and none is chosen", remedy='choose some, or say "all"'
        )
    if len(facts) > MOST_CHOSEN:
        raise Invalid(f"{len(facts)} facts are chosen, over {MOST_CHOSEN}", remedy="choose fewer")
    return Chosen(tuple(facts))


def _item(one: Any, offered: Sequence[Fact], earlier: Sequence[Fact]) -> Fact:
    """Return the fact that one item of a list means."""
    if isinstance(one, str) and one.strip().isdecimal():
        one = int(one)
    if isinstance(one, int) and not isinstance(one, bool):
        if not 1 <= one <= len(offered):
            raise Invalid(
                f"there is no fact {one}; they are counted from 1 to {len(offered)}",
                remedy="choose by number or id",
            )
        return offered[one - 1]
    if isinstance(one, str):
        return _named(one, offered, earlier)
    if isinstance(one, Mapping):
        return _given(one, offered, earlier)
    raise _malformed(one)


def _named(name: str, offered: Sequence[Fact], earlier: Sequence[Fact]) -> Fact:
    known = _by_id(offered, earlier)
    if name.strip() in known:
        return known[name.strip()]
    same = [fact for fact in offered if fact.concept.casefold() == name.strip().casefold()]
    if not same:
        raise Invalid(
            f"there is no fact {name[:200]!r} here",
            remedy=f"choose from {', '.join(one.id for one in offered)}",
        )
    return same[0]


def _given(one: Mapping[str, Any], offered: Sequence[Fact], earlier: Sequence[Fact]) -> Fact:
    """Return a known fact in the words it is given, or a new one that a person states."""
    known = _by_id(offered, earlier).get(str(one.get("id", "")))
    said = {name: one[name] for name in ("concept", "details") if one.get(name) is not None}
    if known is None and "id" in one and len(said) < 2:  # noqa: PLR2004 -- both fields
        return _named(str(one["id"]), offered, earlier)
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
    same = next(
        (fact for fact in offered if (fact.concept, fact.details) == (new.concept, new.details)), None
    )
    return same or added(new.concept, new.details)


def _by_id(offered: Sequence[Fact], earlier: Sequence[Fact]) -> dict[str, Fact]:
    return {fact.id: fact for fact in (*earlier, *offered)}


def _malformed(answer: Any) -> Invalid:
    return Invalid(
        f"the answer {str(answer)[:200]!r} chooses no facts",
        remedy='send {"facts": [ids, numbers or facts]}, "all", or words',
    )
