"""Facts, or images, chosen in plain words: "the first two and the one about tea", "all but the third" (B52).

Only a message that is a choice from its first word to its last is read as one; anything else is talk.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import ClassVar, NamedTuple, Protocol, TypeVar

from callsheet.state.errors import Invalid
from callsheet.state.lessons import choice_words
from callsheet.state.lessons.facts import Fact, added

_LONGEST = 2_000
"""Characters of a choice; what is longer is material or talk."""
_CONCEPT_WORDS = 4


class Offered(Protocol):
    """What words may choose: a fact, an image."""

    NOUN: ClassVar[str]
    """What people call one."""

    @property
    def id(self) -> str:
        """What programs call it."""

    @property
    def concept(self) -> str:
        """Its name."""

    @property
    def details(self) -> str:
        """What there is to know of it."""


One = TypeVar("One", bound=Offered)


class Spoken(NamedTuple):
    """What a message chooses."""

    chosen: tuple[Fact, ...]
    """Empty where it only adds."""
    added: tuple[Fact, ...] = ()


def spoken(text: str, facts: Sequence[Fact]) -> Spoken | None:
    """Return what a text chooses among facts, or None where it is not a choice.

    Raises `Invalid` for a choice of nothing, or of what is not there.
    """
    more = choice_words.ADDS.search(text.strip())
    if more and len(text) <= _LONGEST:
        rest, new = text.strip()[: more.start()], (stated(more["fact"]),)
        chosen = _chosen(rest, facts) if rest else ()
        return None if chosen is None else Spoken(chosen, new)
    chosen = named(text, facts)
    return None if chosen is None else Spoken(chosen)


def named(text: str, offered: Sequence[One]) -> tuple[One, ...] | None:
    """Return what a text chooses among things, or None where it is not a choice; raises as `spoken` does."""
    if not text.strip():
        raise Invalid("the answer is empty", remedy=_remedy(offered))
    return _chosen(text, offered) if len(text) <= _LONGEST else None


def nothing(text: str) -> bool:
    """Return whether a text says none and nothing else."""
    return choice_words.NOTHING.fullmatch(choice_words.TRAIL.sub("", _plain(text))) is not None


def revised(text: str, told: Sequence[Fact]) -> tuple[Fact, ...] | None:
    """Return what is to be told instead of the facts that are told, where a text says what to change of them.

    Raises `Invalid` for a change that leaves nothing, or of what is not there.
    """
    more = choice_words.ADDS.fullmatch(text.strip())
    if more:
        return (*told, stated(more["fact"]))
    if len(text) > _LONGEST or not choice_words.DROP.match(_plain(text)):
        return None
    return _chosen(text, told)


def agreed(text: str) -> bool:
    """Return whether a text says yes and nothing else."""
    return _agrees(_plain(text), ())


def reopened(text: str) -> bool:
    """Return whether a text asks to choose among the facts once more."""
    return choice_words.AGAIN.fullmatch(choice_words.TRAIL.sub("", _plain(text))) is not None


def stated(text: str) -> Fact:
    """Return the fact that a person states in a sentence; its first words are what it is about."""
    bare = text.strip().strip('"“”').strip() or text.strip()
    details = bare[:1].upper() + bare[1:] + ("" if bare.endswith((".", "!", "?", "。")) else ".")
    verb = choice_words.VERB.search(bare, len(bare.split(maxsplit=1)[0]))
    words = (bare[: verb.start()] if verb else bare).strip(" .,:;!?").split()
    head = " ".join(words[:_CONCEPT_WORDS]) or " ".join(bare.split()[:_CONCEPT_WORDS])
    concept = re.sub(r"^(?:the|a|an)\s+", "", head, flags=re.IGNORECASE)[:200]
    return added(concept[:1].upper() + concept[1:], details)


def _chosen(text: str, facts: Sequence[One]) -> tuple[One, ...] | None:
    """Return the facts that a text names, in their own order."""
    bare = _plain(text)
    lead = choice_words.LEAD.match(bare)
    if bare.endswith("?") and not (lead and lead["asks"]):
        return None
    bare = bare.rstrip("?").strip()
    named = _named(bare, facts)
    if named is None:
        return None
    chosen = tuple(fact for fact in facts if fact.id in named)
    if not chosen:
        raise Invalid(
            f"a lesson tells at least one {_noun(facts)}, and none is chosen", remedy=_remedy(facts)
        )
    return chosen


def _named(bare: str, facts: Sequence[Offered]) -> set[str] | None:
    """Return the ids of the facts that a text in plain form names."""
    every = {fact.id for fact in facts}
    if choice_words.NOTHING.fullmatch(bare) or _agrees(bare, facts):
        return set() if choice_words.NOTHING.fullmatch(bare) else every
    if chinese := choice_words.CHINESE_BUT.fullmatch(bare):
        return _but(every, chinese["but"], facts)
    if dropped := choice_words.DROP.match(bare):
        return _but(every, bare[dropped.end() :], facts)
    lead = choice_words.LEAD.match(bare)
    rest = choice_words.TRAIL.sub("", bare[lead.end() :] if lead else bare)
    return _positive(rest, facts, free=bool(lead and choice_words.CHOOSES.search(lead[0]))) if rest else None


def _positive(rest: str, facts: Sequence[Offered], *, free: bool) -> set[str] | None:
    """Return what a text names that says which, and which not; `free` where a verb says it chooses."""
    if _agrees(rest, facts):
        return {fact.id for fact in facts}
    if but := choice_words.BUT.search(rest):
        head = _named(rest[: but.start()], facts)
        return None if head is None else _but(head, rest[but.end() :], facts)
    return _listed(rest, facts, about=free)


def _but(kept: set[str], text: str, facts: Sequence[Offered]) -> set[str] | None:
    gone = _named(text, facts)
    return None if gone is None else kept - gone


def _agrees(bare: str, facts: Sequence[Offered]) -> bool:
    counted = choice_words.EVERY.fullmatch(choice_words.LEAD.sub("", bare, count=1))
    if counted and choice_words.number(counted["n"]) == len(facts):
        return True
    parts = [part for part in re.split(r"[\s]*[,.!;][\s]*", bare) if part]
    return bool(parts) and all(
        choice_words.AGREES.fullmatch(choice_words.TRAIL.sub("", part)) for part in parts
    )


def _listed(text: str, facts: Sequence[Offered], *, about: bool) -> set[str] | None:
    """Return what a list names: as many of its parts as belong together are read as one.

    Its parts may be subjects where it is a choice `about` them: "the ones about tea, sugar and rice".
    """
    if choice_words.BARE_NUMBERS.fullmatch(text):
        parts = text.split()
    else:
        parts = [part for part in choice_words.SEPARATOR.split(text) if part]
    named: set[str] = set()
    while parts:
        found = _longest(parts, facts)
        if found is None and about and (meant := _about(parts[0], facts, many=True)):
            found = (1, meant)
        if found is None:
            _refuse_unknown(parts[0], facts)
            return None
        about = about or choice_words.TOPIC.fullmatch(parts[0]) is not None
        named |= found[1]
        parts = parts[found[0] :]
    return named


def _longest(parts: Sequence[str], facts: Sequence[Offered]) -> tuple[int, set[str]] | None:
    """Return how many of the first parts name something together, as many as can, and what."""
    for size in range(len(parts), 0, -1):
        named = _item(" and ".join(parts[:size]), facts)
        if named is not None:
            return size, named
    return None


def _item(text: str, facts: Sequence[Offered]) -> set[str] | None:
    """Return what one item of a list names: an id, numbers, a subject or a fact's own name."""
    if choice_words.IDS.fullmatch(text):
        if text not in {fact.id for fact in facts}:
            raise Invalid(f"there is no {_noun(facts)} {text!r} here", remedy=_remedy(facts))
        return {text}
    numbers = _numbers(text, len(facts))
    if numbers is not None:
        return {_at(place, facts).id for place in numbers}
    if topic := choice_words.TOPIC.fullmatch(text) or choice_words.CALLED.fullmatch(text):
        return _about(topic["topic"], facts, many=bool(topic["many"])) or None
    same = [fact.id for fact in facts if _stems(fact.concept) == _stems(text)]
    return {same[0]} if same and _stems(text) else None


def _numbers(text: str, count: int) -> Sequence[int] | None:
    """Return the places that an item counts out, from 1."""
    if found := choice_words.EDGE.fullmatch(text):
        size = choice_words.number(found["n"] or found["m"])
        first = found["first"] or found["premiers"]
        return range(1, size + 1) if first else range(count - size + 1, count + 1)
    if found := choice_words.SPAN.fullmatch(text):
        start, end = _place(found["at"], count), _place(found["to"], count)
        return range(min(start, end), max(start, end) + 1)
    if found := choice_words.ONWARDS.fullmatch(text):
        return range(_place(found["at"], count), count + 1)
    found = choice_words.NUMBER.fullmatch(text)
    return [_place(found["at"], count)] if found else None


def _place(word: str, count: int) -> int:
    place = choice_words.number(word)
    return count if place == -1 else place


def _at(place: int, facts: Sequence[One]) -> One:
    if not 1 <= place <= len(facts):
        raise Invalid(
            f"there is no {_noun(facts)} {place}; they are counted from 1 to {len(facts)}",
            remedy=_remedy(facts),
        )
    return facts[place - 1]


def _about(topic: str, facts: Sequence[Offered], *, many: bool) -> set[str]:
    """Return the facts about a subject: by their names, and by what they say where that is needed."""
    wanted = _stems(topic)
    if not wanted:
        return set()
    by_name = [fact for fact in facts if wanted <= _stems(fact.concept)]
    by_text = [fact for fact in facts if wanted <= _stems(f"{fact.concept} {fact.details}")]
    if many:
        return {fact.id for fact in by_text}
    exact = [fact for fact in by_name if wanted == _stems(fact.concept)]
    found = exact or by_name or by_text
    if len(found) > 1:
        names = ", ".join(repr(fact.concept) for fact in found)
        raise Invalid(
            f"several {_noun(facts)}s are about {topic!r}: {names}", remedy="name one of them, or its number"
        )
    return {fact.id for fact in found}


def _refuse_unknown(part: str, facts: Sequence[Offered]) -> None:
    """Raise `Invalid` where a part can only have meant a fact, and there is none."""
    topic = choice_words.TOPIC.fullmatch(part)
    if topic and re.match(r"(?:the|that|those) ", part):
        about = topic["topic"]
        raise Invalid(f"no {_noun(facts)} is about {about!r}", remedy="choose by number, or add it yourself")


def _plain(text: str) -> str:
    """Return a text without what does not matter: case, width, shapes of apostrophes, ends of sentences."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return " ".join(folded.split()).rstrip(".!。 ")


def _stems(text: str) -> frozenset[str]:
    words = chain.from_iterable(_words(part) for part in re.findall(r"[^\W_]+", text.casefold()))
    return frozenset(words)


def _words(word: str) -> Iterator[str]:
    if word not in choice_words.SMALL:
        yield word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word  # noqa: PLR2004


def _noun(facts: Sequence[Offered]) -> str:
    return facts[0].NOUN if facts else "fact"


def _remedy(facts: Sequence[Offered]) -> str:
    return f'choose by number, 1 to {len(facts)}, by id or by name, or say "all"'
