"""A message that asks for a whole page, read: "I'm a dentist in Lisbon, make me a page with prices"."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from providers.offline.lexicon import Lexicon, entries
from providers.offline.page_builder.kits import capital
from providers.offline.page_builder.words import (
    Piece,
    language_of,
    marked,
    needs_accents,
    pieces,
    quotations,
    tidy,
)

_HERE: Final = "page_builder.briefs"
_HARD: Final = frozenset(".!?\n。！？")
_POINT: Final = "•"
_SOFT: Final = frozenset(f",;，、；{_POINT}")
_DASHES: Final = frozenset("-–—")
_COLONS: Final = frozenset(":：")
_BULLET: Final = re.compile(r"^[ \t]*(?:[-*•–—]|\d{1,2}[.)])[ \t]+", re.MULTILINE)
_OBLIQUE: Final = frozenset({"polish", "czech"})
"""Languages in which a thing after "with" has another ending than in a heading."""
_DECLINED: Final = frozenset({"polish"})
"""Languages in which "I am" changes the word after it: both are kept together."""
_THAI: Final = re.compile(r"[\u0e00-\u0e7f]")
"""Its words are written together: a space stands for a comma."""
_LINE: Final = 3
"""Pieces of a line without a colon that only names a thing, at most."""
_REACH: Final = 8
"""Pieces between "make" and "page", at most."""
_LOOKS: Final = ("colour.", "theme.", "degree.", "prop.")
_ENDS: Final = ("say.and", "say.make", "say.please", "say.with")
"""What a name does not go on after."""
_FIGURED: Final = frozenset({"hours", "prices", "where", "phone"})
"""Topics after whose name a figure is what is to be said of them."""


@dataclass(frozen=True)
class Topic:
    """One thing a page is to have."""

    heading: str
    kind: str = ""
    """Its name in the vocabulary; empty for any other."""
    said: str = ""
    """What the person told of it already."""
    fields: tuple[str, ...] = ()
    """Fields of a form, by name."""
    look: bool = False
    """Whether it is how the page looks, not what is on it."""


@dataclass(frozen=True)
class Brief:
    """What a whole page is to be."""

    language: str
    title: str = ""
    below: str = ""
    """What is said of whose page it is, beside the title."""
    topics: tuple[Topic, ...] = ()
    """In the order they were said."""
    rest: tuple[str, ...] = ()
    """Sentences that say nothing of these."""


def read(message: str) -> Brief | None:
    """Return the brief a message is; None for one that wants something else."""
    text = _BULLET.sub(lambda match: _POINT.ljust(len(match[0])), message)
    language = language_of(text, _HERE)
    every = list(_sentences(text, _pieces(text, language)))
    found = next((at for at, one in enumerate(every) if _page(one) is not None), None)
    if found is None:
        return _needs(text, language, every)
    return None if _asks(text, language, every[found]) else _brief(text, language, every, found)


def _asks(text: str, language: str, sentence: Sequence[Piece]) -> bool:
    """Whether a sentence about a page wants to know what is on it, not to have one made."""
    if any(one.means("say.make") for one in sentence):
        return False
    asked = pieces(_written(text, sentence), language)
    return any(one.means("ask.what", "ask.count", "ask.where") for one in asked)


@cache
def _lexicon(language: str, *, exact: bool) -> Lexicon:
    heard = (one for one in entries(_HERE, language) if one[0].startswith(("say.", "topic.")))
    return Lexicon(heard, exact=exact)


def _pieces(text: str, language: str) -> list[Piece]:
    lexicon = _lexicon(language, exact=needs_accents(text, language))
    return marked(text, quotations(text), lexicon)


def _sentences(text: str, spoken: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield the sentences; lines after a colon, or after a list that goes on, are one with what is before."""
    sentence: list[Piece] = []
    for one in spoken:
        if one.text in _HARD and not one.quoted and not _goes_on(text, one, sentence):
            yield sentence
            sentence = []
        else:
            sentence.append(one)
    yield sentence


def _goes_on(text: str, one: Piece, sentence: Sequence[Piece]) -> bool:
    if one.text == "\n":
        return any(_opens(piece) for piece in sentence)
    return one.text == "." and text[one.end : one.end + 1].isalnum()


def _opens(one: Piece) -> bool:
    """Whether what a page is to have comes after it."""
    return one.means("say.with") or (one.text in _COLONS and not one.quoted)


def _page(sentence: Sequence[Piece]) -> int | None:
    """Return the place of the page a sentence wants to be made; None where it wants none."""
    for at, one in enumerate(sentence):
        if one.means("say.page") and _wants(sentence[:at]):
            return at
    return None


def _wants(before: Sequence[Piece]) -> bool:
    makes = [at for at, one in enumerate(before) if one.means("say.make")]
    if not makes:
        return all(one.means("say.own", "say.adj", "say.please") for one in before)
    between = before[makes[-1] + 1 :]
    between = between[: next((at for at, one in enumerate(between) if one.means("say.with")), None)]
    pointed = any(one.means("say.the") for one in between)
    return len(between) <= _REACH and not pointed and not any(_edits(one) for one in between)


def _edits(one: Piece) -> bool:
    return not one.concepts and any(
        piece.means("kind.") and not piece.means("kind.page") for piece in pieces(one.text, "english")
    )


def _brief(text: str, language: str, every: Sequence[list[Piece]], found: int) -> Brief | None:
    page = _page(every[found]) or 0
    before, tail = every[found][:page], every[found][page + 1 :]
    cut = next((at for at, one in enumerate(tail) if _opens(one)), len(tail))
    others = [one for at, one in enumerate(every) if at != found and one]
    selves = [one for one in others if _who(text, language, one)]
    more = [one for one in others if one not in selves and _having(one)]
    about, extra = _about(text, language, tail[:cut])
    titles = _whose(text, language, before, others, about)
    titles = _named(text, [before, tail[:cut], *selves], titles)
    told = [_with(_after_make(before)) or tail[cut + 1 :], *(_having(one) for one in more)]
    topics = [*extra, *(one for part in told for one in _topics(text, language, part))]
    if not titles and all(one.look for one in topics):
        return Brief(language) if _bare([*_after_make(before), *tail]) else None
    left = [one for one in others if one not in [*selves, *more] and not _polite(one)]
    rest = tuple(said for one in left if (said := _written(text, one)))
    return Brief(language, *_two(titles), topics=_once(topics), rest=rest)


def _needs(text: str, language: str, every: Sequence[list[Piece]]) -> Brief | None:
    """Return the brief of who says who they are and lists what they need, and never speaks of a page."""
    titles = next((said for one in every if (said := _who(text, language, one))), [])
    places = [next((at for at, piece in enumerate(one) if piece.means("say.need")), None) for one in every]
    needs = [one[at + 1 :] for one, at in zip(every, places, strict=True) if at is not None]
    topics = _once([topic for one in needs for topic in _topics(text, language, one)])
    known = [one for one in topics if one.kind]
    plain = not any(
        piece.means("colour.", "degree.") for one in topics for piece in pieces(one.heading, language)
    )
    several = len(topics) > 1
    return Brief(language, *_two(titles), topics=topics) if titles and known and several and plain else None


def _bare(around: Sequence[Piece]) -> bool:
    """Whether nothing is said around "make me a page"."""
    return all(
        one.means("say.own", "say.adj", "say.please", "say.for") or not one.text[:1].isalnum()
        for one in around
    )


def _whose(
    text: str,
    language: str,
    before: Sequence[Piece],
    others: Sequence[Sequence[Piece]],
    about: Sequence[str],
) -> list[str]:
    """Return whose page it is: what people say they are, else for what it is, else what stands before it."""
    own = next((said for one in [before, *others] if (said := _who(text, language, one))), [])
    if own and about and own[0] == own[0].title() and " " not in own[0] and not own[1:]:
        # "I'm Ana, make a page for my bakery" is about the bakery.
        return list(about)
    return [*own, *(about if not own else [])] or _for(text, before) or _described(text, _after_make(before))


def _two(titles: Sequence[str]) -> tuple[str, str]:
    return (titles[0] if titles else "", titles[1] if titles[1:] else "")


def _once(topics: Sequence[Topic]) -> tuple[Topic, ...]:
    first = {one.heading.casefold(): one for one in reversed(topics)}
    return tuple(one for one in topics if first[one.heading.casefold()] is one)


def _after_make(before: Sequence[Piece]) -> Sequence[Piece]:
    makes = [at for at, one in enumerate(before) if one.means("say.make")]
    return before[makes[-1] + 1 :] if makes else []


def _with(inner: Sequence[Piece]) -> Sequence[Piece]:
    """Return what the page is to have where that is said before it."""
    at = next((at for at, one in enumerate(inner) if one.means("say.with")), None)
    return [] if at is None else inner[at + 1 : _of(inner)]


def _of(inner: Sequence[Piece]) -> int | None:
    """Return the place of the word between what a page has and what it is, where they stand in this order."""
    return next((at for at in reversed(range(len(inner))) if inner[at].means("say.of")), None)


def _having(sentence: Sequence[Piece]) -> Sequence[Piece]:
    """Return what a further sentence says the page is to have, too; nothing where it says something else."""
    thing = next((one for one in sentence if not one.means("say.own")), sentence[0])
    listed = len(sentence) <= _LINE or any(one.text in _COLONS for one in sentence[:_LINE])
    if thing.text == _POINT or (thing.means("topic.") and listed):
        return sentence
    at = next((at for at, one in enumerate(sentence[:3]) if one.means("say.with")), None)
    return [] if at is None else sentence[at + 1 :]


def _polite(sentence: Sequence[Piece]) -> bool:
    return all(one.means("say.please", "say.own") or not one.text[:1].isalnum() for one in sentence)


def _who(text: str, language: str, sentence: Sequence[Piece]) -> list[str]:
    """Return who somebody says they are: "I'm a dentist in Lisbon"."""
    at = next((at for at, one in enumerate(sentence) if one.means("say.iam")), None)
    if at is None:
        return []
    start = at if language in _DECLINED else at + 1
    rest = sentence[at + 1 :]
    end = next((n for n, one in enumerate(rest) if one.means("say.make", "say.please")), len(rest))
    parts = _split(rest[:end], _SOFT)
    heads = [[*sentence[start : at + 1], *part] if not number else part for number, part in enumerate(parts)]
    return [said for at, part in enumerate(heads) if (said := _thing(text, part, articles=at > 0))]


def _for(text: str, before: Sequence[Piece]) -> list[str]:
    """Return for whom the page is where that is said before it, as in Chinese."""
    at = next((n for n, one in enumerate(before) if one.means("say.for")), None)
    make = next((n for n, one in enumerate(before) if one.means("say.make")), None)
    return [_thing(text, before[at + 1 : make])] if at is not None and make is not None and at < make else []


def _about(text: str, language: str, tail: Sequence[Piece]) -> tuple[list[str], list[Topic]]:
    """Return for what the page is, and the things that are listed right after it."""
    at = next((n for n, one in enumerate(tail) if one.means("say.for")), None)
    if at is None:
        return [], []
    first, *more = _split(tail[at + 1 :], _SOFT) or [[]]
    start = [tail[at]] if language in _OBLIQUE else []
    topics = [one for part in more for one in _topics(text, language, part)]
    return [said] if (said := _thing(text, [*start, *first])) else [], topics


def _described(text: str, inner: Sequence[Piece]) -> list[str]:
    """Return what stands before the page: "a bakery website"."""
    cut = next((n for n, one in enumerate(inner) if one.means("say.with")), len(inner))
    around = [*inner[:cut], *inner[(_of(inner) or len(inner)) + 1 :]] if cut < len(inner) else inner
    bare = [one for one in around if not one.means("say.adj", "say.please")]
    return [said] if (said := _thing(text, bare)) else []


def _named(text: str, around: Sequence[Sequence[Piece]], names: Sequence[str]) -> list[str]:
    """Return the title and what stands below it; a name that is given is the title."""
    for part in around:
        at = next((n for n, one in enumerate(part) if one.means("say.named")), len(part))
        after = part[at + 1 :]
        end = next((n for n, one in enumerate(after) if one.text in _SOFT or one.means(*_ENDS)), None)
        if after:
            return [after[0].text if after[0].quoted else _thing(text, after[:end])]
    return list(names)


def _split(spoken: Sequence[Piece], signs: frozenset[str]) -> list[list[Piece]]:
    parts: list[list[Piece]] = [[]]
    for one in spoken:
        if one.text in signs and not one.quoted:
            parts.append([])
        else:
            parts[-1].append(one)
    return [part for part in parts if part]


def _thing(text: str, part: Sequence[Piece], *, articles: bool = False) -> str:
    """Return what pieces say, without the small words around it, beginning large."""
    kept = list(part)
    small = ("say.and", "say.please", *(() if articles else ("say.own",)))
    while kept and kept[0].means(*small) and not kept[0].means("topic."):
        kept = kept[1:]
    while kept and (
        kept[-1].means("say.and", "say.please", "say.own") or not kept[-1].text[:1].strip("-–—:")
    ):
        kept = kept[:-1]
    return capital(_written(text, kept))


def _written(text: str, part: Sequence[Piece]) -> str:
    return tidy(text[part[0].start : part[-1].end]).strip("\"'“”") if part else ""


def _topics(text: str, language: str, spoken: Sequence[Piece]) -> list[Topic]:
    """Return the things listed; on lines of their own, a line is one thing, or more without a colon."""
    lines = [one for line in _split(spoken, frozenset("\n")) if (one := _opened(line))]
    found = []
    for line in lines:
        told = any(one.text in _COLONS for one in line) and (len(lines) > 1 or spoken[0].text == _POINT)
        parts = [line] if told else [part for some in _split(line, _SOFT) for part in _joined(some)]
        found += [made for part in parts if (made := _topic(text, language, part))]
    return _with_fields(found, language)


def _with_fields(topics: Sequence[Topic], language: str) -> list[Topic]:
    """Return the topics; the fields that go on after "a form with name" belong to the form."""
    found: list[Topic] = []
    for one in topics:
        names = _fields(one.heading, language)
        if found and found[-1].fields and names and not one.said:
            found[-1] = replace(found[-1], fields=(*found[-1].fields, *names))
        else:
            found.append(one)
    return found


def _fields(text: str, language: str) -> tuple[str, ...]:
    return tuple(name for one in pieces(text, language) for name in one.names("field"))


def _opened(line: Sequence[Piece]) -> Sequence[Piece]:
    """Return a line without the signs before its first word."""
    return line[next((at for at, one in enumerate(line) if one.text not in _COLONS | _SOFT), len(line)) :]


def _joined(part: Sequence[Piece]) -> list[list[Piece]]:
    parts: list[list[Piece]] = [[]]
    for one in part:
        if one.means("say.and"):
            parts.append([])
        elif parts[-1] and _THAI.match(one.text) and one.start > parts[-1][-1].end:
            parts.append([one])
        else:
            parts[-1].append(one)
    return [one for one in parts if one]


def _topic(text: str, language: str, part: Sequence[Piece]) -> Topic | None:
    colon = next((at for at, one in enumerate(part) if one.text in _COLONS), None)
    known = next((at for at, one in enumerate(part) if one.means("topic.")), None)
    kind = part[known].names("topic")[0] if known is not None else ""
    cut = known + 1 if known is not None and _figures(kind, part[known + 1 :]) else len(part)
    cut = cut if colon is None else colon
    said = re.sub(r"^\((.*)\)$", r"\1", _written(text, part[cut + (colon is not None) :]))
    detail = next((at for at, one in enumerate(part[:cut]) if one.means("say.with")), None)
    fields: tuple[str, ...] = ()
    if kind in {"contact", "form"} and detail:
        cut, fields = detail, _fields(_written(text, part[detail + 1 :]), language)
    heading = _thing(text, part[:cut])
    if kind and language in _OBLIQUE and kind != "machine":
        heading = _nominative(language, kind)
    look = _is_look(heading, kind, language)
    return Topic(heading, kind, said, fields, look=look) if heading else None


def _figures(kind: str, rest: Sequence[Piece]) -> bool:
    return kind in _FIGURED and any(one.text[:1].isdigit() for one in rest)


def _nominative(language: str, kind: str) -> str:
    return next(one for concept, one in entries(_HERE, language) if concept == f"heading.{kind}")


def _is_look(heading: str, kind: str, language: str) -> bool:
    spoken = [one for one in pieces(heading, language) if not one.means("small.")]
    return not kind and all(one.means(*_LOOKS) for one in spoken)
