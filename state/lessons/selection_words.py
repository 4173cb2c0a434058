"""Choices in words: "the first two and the one about tea", "all but the third" (B52).

A message counts as a choice only if all of it parses as one.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol, TypeVar

from callsheet.state.errors import Invalid
from callsheet.state.lessons import choice_words
from callsheet.state.lessons.facts import Fact, new_fact

_LONGEST = 2_000
"""Maximum characters of a choice."""
_MAX_EXCEPTIONS = 20
"""Maximum words like "but" and "not", each of which begins a choice within the choice."""
_MAX_PARTS = 100
"""Maximum parts of a list."""
_MAX_ITEM_PARTS = 8
"""Maximum parts of one item: a name may have commas and "and"."""
_CONCEPT_WORDS = 4
"""Maximum words of a concept taken from a sentence."""


class Choosable(Protocol):
    """An item that words may choose: a fact or an image."""

    NOUN: ClassVar[str]
    """Name of the kind in messages."""

    @property
    def id(self) -> str:
        """Stable id."""

    @property
    def concept(self) -> str:
        """Short name."""

    @property
    def details(self) -> str:
        """Description."""


Item = TypeVar("Item", bound=Choosable)


class FactChoice(NamedTuple):
    """Facts that a message chooses or adds."""

    chosen: tuple[Fact, ...]
    """Empty if it only adds."""
    added: tuple[Fact, ...] = ()


def choose_facts(text: str, facts: Sequence[Fact]) -> FactChoice | None:
    """Return the facts that a text chooses or adds, or None if it is not a choice.

    Raises `Invalid` for an empty choice or an unknown fact.
    """
    addition = choice_words.ADDITION.search(text.strip())
    if addition and len(text) <= _LONGEST:
        before, added = text.strip()[: addition.start()], (fact_from_sentence(addition["fact"]),)
        chosen = _select(before, facts) if before else ()
        return None if chosen is None else FactChoice(chosen, added)
    chosen = choose(text, facts)
    return None if chosen is None else FactChoice(chosen)


def choose(text: str, offered: Sequence[Item]) -> tuple[Item, ...] | None:
    """Return the items that a text chooses, or None if it is not a choice; raises as `choose_facts` does."""
    if not text.strip():
        raise Invalid("the answer is empty", remedy=_remedy(offered))
    return _select(text, offered) if len(text) <= _LONGEST else None


def says_none(text: str) -> bool:
    """Return whether a text means "none" and nothing else."""
    return choice_words.NONE.fullmatch(choice_words.TRAILING_WORDS.sub("", _plain(text))) is not None


def revise_selection(text: str, current: Sequence[Fact]) -> tuple[Fact, ...] | None:
    """Return the facts after the addition or removal that a text asks for, or None if it asks for neither.

    Raises `Invalid` for a change that leaves no fact, or for an unknown fact.
    """
    addition = choice_words.ADDITION.fullmatch(text.strip())
    if addition:
        return (*current, fact_from_sentence(addition["fact"]))
    if len(text) > _LONGEST or not choice_words.EXCLUSION.match(_plain(text)):
        return None
    return _select(text, current)


def is_plain_yes(text: str) -> bool:
    """Return whether a text means "yes" and nothing else."""
    return _selects_all(_plain(text), ())


def asks_to_choose_again(text: str) -> bool:
    """Return whether a text asks to choose among the facts again."""
    return choice_words.CHOOSE_AGAIN.fullmatch(choice_words.TRAILING_WORDS.sub("", _plain(text))) is not None


def fact_from_sentence(text: str) -> Fact:
    """Return a fact from a person's sentence; the words before its verb are the concept."""
    bare = text.strip().strip('"“”').strip() or text.strip()
    details = bare[:1].upper() + bare[1:] + ("" if bare.endswith((".", "!", "?", "。")) else ".")
    verb = choice_words.VERB.search(bare, len(bare.split(maxsplit=1)[0]))
    words = (bare[: verb.start()] if verb else bare).strip(" .,:;!?").split()
    head = " ".join(words[:_CONCEPT_WORDS]) or " ".join(bare.split()[:_CONCEPT_WORDS])
    concept = re.sub(r"^(?:the|a|an)\s+", "", head, flags=re.IGNORECASE)[:200]
    return new_fact(concept[:1].upper() + concept[1:], details)


def _select(text: str, items: Sequence[Item]) -> tuple[Item, ...] | None:
    """Return the items that a text names, in the order offered, or None."""
    plain = _plain(text)
    exceptions = (choice_words.EXCEPT, choice_words.EXCLUSION)
    if sum(len(pattern.findall(plain)) for pattern in exceptions) > _MAX_EXCEPTIONS:
        return None
    lead = choice_words.LEADING_WORDS.match(plain)
    if plain.endswith("?") and not (lead and lead["asks"]):
        return None
    ids = _ids_in(plain.rstrip("?").strip(), items)
    if ids is None:
        return None
    chosen = tuple(item for item in items if item.id in ids)
    if not chosen:
        raise Invalid(
            f"a lesson tells at least one {_noun(items)}, and none is chosen", remedy=_remedy(items)
        )
    return chosen


def _ids_in(plain: str, facts: Sequence[Choosable]) -> set[str] | None:
    """Return the ids that a normalized text names, or None."""
    every = {fact.id for fact in facts}
    if choice_words.NONE.fullmatch(plain) or _selects_all(plain, facts):
        return set() if choice_words.NONE.fullmatch(plain) else every
    if chinese := choice_words.CHINESE_EXCEPT.fullmatch(plain):
        return _without(every, chinese["but"], facts)
    if exclusion := choice_words.EXCLUSION.match(plain):
        return _without(every, plain[exclusion.end() :], facts)
    lead = choice_words.LEADING_WORDS.match(plain)
    rest = choice_words.TRAILING_WORDS.sub("", plain[lead.end() :] if lead else plain)
    if not rest:
        return None
    return _positive_ids(rest, facts, allow_topics=bool(lead and choice_words.CHOICE_VERB.search(lead[0])))


def _positive_ids(rest: str, facts: Sequence[Choosable], *, allow_topics: bool) -> set[str] | None:
    """Return the ids of a text without leading words; after a verb of choice it may be a list of topics."""
    if _selects_all(rest, facts):
        return {fact.id for fact in facts}
    if exception := choice_words.EXCEPT.search(rest):
        head = _ids_in(rest[: exception.start()], facts)
        return None if head is None else _without(head, rest[exception.end() :], facts)
    return _list_ids(rest, facts, allow_topics=allow_topics)


def _without(ids: set[str], text: str, facts: Sequence[Choosable]) -> set[str] | None:
    excluded = _ids_in(text, facts)
    return None if excluded is None else ids - excluded


def _selects_all(plain: str, facts: Sequence[Choosable]) -> bool:
    counted = choice_words.ALL_COUNTED.fullmatch(choice_words.LEADING_WORDS.sub("", plain, count=1))
    if counted and choice_words.number(counted["n"]) == len(facts):
        return True
    parts = [part for part in re.split(r" ?[,.!;] ?", plain) if part]
    return bool(parts) and all(
        choice_words.ALL.fullmatch(choice_words.TRAILING_WORDS.sub("", part)) for part in parts
    )


def _list_ids(text: str, facts: Sequence[Choosable], *, allow_topics: bool) -> set[str] | None:
    """Return the ids of a list; each item is the longest run of parts that names something.

    Parts may be mere topics if allowed, or after a topic: "the ones about tea, sugar and rice".
    """
    if choice_words.BARE_NUMBERS.fullmatch(text):
        parts = text.split()
    else:
        parts = [part for part in choice_words.SEPARATOR.split(text) if part]
    if len(parts) > _MAX_PARTS:
        return None
    ids: set[str] = set()
    while parts:
        match = _longest_item(parts, facts)
        if match is None and allow_topics and (topic_ids := _ids_about(parts[0], facts, many=True)):
            match = (1, topic_ids)
        if match is None:
            _refuse_unknown(parts[0], facts)
            return None
        allow_topics = allow_topics or choice_words.TOPIC.fullmatch(parts[0]) is not None
        ids |= match[1]
        parts = parts[match[0] :]
    return ids


def _longest_item(parts: Sequence[str], facts: Sequence[Choosable]) -> tuple[int, set[str]] | None:
    """Return the length of the longest run of first parts that names something, and its ids."""
    for size in range(min(len(parts), _MAX_ITEM_PARTS), 0, -1):
        ids = _item_ids(" and ".join(parts[:size]), facts)
        if ids is not None:
            return size, ids
    return None


def _item_ids(text: str, facts: Sequence[Choosable]) -> set[str] | None:
    """Return the ids of one item of a list: an id, numbers, a topic or a name."""
    if choice_words.IDS.fullmatch(text):
        if text not in {fact.id for fact in facts}:
            raise Invalid(f"there is no {_noun(facts)} {text!r} here", remedy=_remedy(facts))
        return {text}
    numbers = _positions(text, len(facts))
    if numbers is not None:
        return {_by_position(place, facts).id for place in numbers}
    if topic := choice_words.TOPIC.fullmatch(text) or choice_words.NAMED_TOPIC.fullmatch(text):
        return _ids_about(topic["topic"], facts, many=bool(topic["many"])) or None
    same = [fact.id for fact in facts if _stems(fact.concept) == _stems(text)]
    return {same[0]} if same and _stems(text) else None


def _positions(text: str, count: int) -> Sequence[int] | None:
    """Return the positions that an item names, from 1, or None."""
    if match := choice_words.EDGE.fullmatch(text):
        size = choice_words.number(match["n"] or match["m"])
        first = match["first"] or match["premiers"]
        return range(1, size + 1) if first else range(count - size + 1, count + 1)
    if match := choice_words.SPAN.fullmatch(text):
        start, end = _position(match["at"], count), _position(match["to"], count)
        return range(min(start, end), max(start, end) + 1)
    if match := choice_words.ONWARDS.fullmatch(text):
        return range(_position(match["at"], count), count + 1)
    match = choice_words.NUMBER.fullmatch(text)
    return [_position(match["at"], count)] if match else None


def _position(word: str, count: int) -> int:
    position = choice_words.number(word)
    return count if position == -1 else position


def _by_position(position: int, facts: Sequence[Item]) -> Item:
    if not 1 <= position <= len(facts):
        raise Invalid(
            f"there is no {_noun(facts)} {position}; they are counted from 1 to {len(facts)}",
            remedy=_remedy(facts),
        )
    return facts[position - 1]


def _ids_about(topic: str, facts: Sequence[Choosable], *, many: bool) -> set[str]:
    """Return the ids of the facts about a topic, matched by name first and then by details."""
    stems = _stems(topic)
    if not stems:
        return set()
    by_name = [fact for fact in facts if stems <= _stems(fact.concept)]
    by_text = [fact for fact in facts if stems <= _stems(f"{fact.concept} {fact.details}")]
    if many:
        return {fact.id for fact in by_text}
    exact = [fact for fact in by_name if stems == _stems(fact.concept)]
    matches = exact or by_name or by_text
    if len(matches) > 1:
        names = ", ".join(repr(fact.concept) for fact in matches)
        raise Invalid(
            f"several {_noun(facts)}s are about {topic!r}: {names}", remedy="name one of them, or its number"
        )
    return {fact.id for fact in matches}


def _refuse_unknown(part: str, facts: Sequence[Choosable]) -> None:
    """Raise `Invalid` if a part clearly refers to a fact and none matches."""
    topic = choice_words.TOPIC.fullmatch(part)
    if topic and re.match(r"(?:the|that|those) ", part):
        about = topic["topic"]
        raise Invalid(f"no {_noun(facts)} is about {about!r}", remedy="choose by number, or add it yourself")


def _plain(text: str) -> str:
    """Return a text with case, width, apostrophes, whitespace and final punctuation normalized."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return " ".join(folded.split()).rstrip(".!。 ")


@lru_cache(maxsize=256)
def _stems(text: str) -> frozenset[str]:
    words = frozenset(re.findall(r"[^\W_]+", text.casefold())) - choice_words.STOP_WORDS
    return frozenset(_singular(word) for word in words)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word  # noqa: PLR2004


def _noun(facts: Sequence[Choosable]) -> str:
    return facts[0].NOUN if facts else "fact"


def _remedy(facts: Sequence[Choosable]) -> str:
    return f'choose by number, 1 to {len(facts)}, by id or by name, or say "all"'
