"""A message cut into clauses, one request each: "make the music faster | and add a bell".

A new sentence is a new clause; a joining word ("and", a comma) begins one only where a new request does.
What stands in quotation marks, or after "say:", is one token, so nothing in it is taken for a request.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from providers.offline.lexicon import Lexicon, Mark, Quote, Token, tokens

LONGEST = 120
"""Tokens of one clause that are read."""
MOST_JOINS = 40
"""Joining words of one sentence that may begin a new request."""
TARGETS = (
    "noun.music",
    "noun.effect",
    "noun.voice",
    "noun.announcer",
    "noun.text",
    "noun.line",
    "noun.track",
    "noun.ad",
)
"""Nouns that name what to change."""
_STOPS = frozenset(".!?;…\n。！？；")
_ASKING = frozenset("?？")
_ARTICLES = frozenset({"the", "our", "my", "his", "their", "that"})
_PAIRS = {"“": "”", "„": "”“", "«": "»", '"': '"', "「": "」", "『": "』", "‘": "’", "'": "'", "《": "》"}
_LITERAL = ("quality", "genre", "instrument", "gender", "accent", "degree", "sound", "provider", "language")
_OPENERS = ("verb", "negation", "question", "limit")
_FILLERS = frozenset({"skip.polite", "join.and", "join.but", "particle.only"})
_WIDE = re.compile("[\u0e00-\u0e7f\u3400-\u9fff]")
_WORD = re.compile(r"[\w\u0e00-\u0e7f]")
_SPOKEN_SIGNS = frozenset("$€£฿¥₫₹%")


@dataclass(frozen=True)
class Clause:
    """One request of a message: its tokens `first` to `last`, and what they express."""

    source: str
    """The whole message."""
    tokens: tuple[Token, ...]
    """All tokens of the message; marks count in them."""
    marks: tuple[Mark, ...]
    first: int
    last: int
    asking: bool = False
    """It ends with a question mark."""

    @cached_property
    def _index(self) -> dict[str, list[int]]:
        """Places of marks by concept and by group."""
        places: dict[str, list[int]] = {}
        for place, mark in enumerate(self.marks):
            for key in {mark.concept, mark.concept.split(".", 1)[0]}:
                places.setdefault(key, []).append(place)
        return places

    def has(self, *concepts: str) -> bool:
        """Return whether one of `concepts` ("verb.add", or a group: "verb") is expressed."""
        return any(concept in self._index for concept in concepts)

    def all(self, *concepts: str) -> list[Mark]:
        """Return the marks of `concepts` (or groups), in order."""
        found = {place for concept in concepts for place in self._index.get(concept, ())}
        return [self.marks[place] for place in sorted(found)]

    def get(self, *concepts: str) -> Mark | None:
        """Return the first mark of `concepts` (or groups), or None."""
        first = min((self._index[one][0] for one in concepts if one in self._index), default=None)
        return None if first is None else self.marks[first]

    def names(self, group: str) -> list[str]:
        """Return the names of the marks of a group, in order: ["calm", "warm"] for "quality"."""
        return list(dict.fromkeys(mark.concept.split(".", 1)[1] for mark in self.all(group)))

    def without(self, marks: Iterable[Mark]) -> "Clause":
        """Return this clause without any mark that stands on the tokens of `marks`."""
        taken = {place for mark in marks for place in range(mark.first, mark.last)}
        kept = tuple(
            mark for mark in self.marks if not any(at in taken for at in range(mark.first, mark.last))
        )
        return replace(self, marks=kept)

    def part(self, first: int, last: int) -> "Clause":
        """Return the tokens `first` to `last` of this clause as a clause of their own."""
        inside = tuple(mark for mark in self.marks if mark.first >= first and mark.last <= last)
        return replace(self, first=first, last=last, marks=inside)

    @property
    def quotes(self) -> list[str]:
        """The literal wordings in it, in order."""
        return [self.source[one.start : one.end].strip() for one in self.own if one.quoted]

    @property
    def own(self) -> tuple[Token, ...]:
        """Its own tokens."""
        return self.tokens[self.first : self.last]

    @property
    def text(self) -> str:
        """Its words as they were written."""
        return self.words(self.first, self.last)

    def words(self, first: int, last: int) -> str:
        """Return the tokens `first` to `last` as they were written, without signs at either end."""
        while first < last and not self._speaks(first):
            first += 1
        while last > first and not self._speaks(last - 1):
            last -= 1
        if first >= last:
            return ""
        return self.source[self.tokens[first].start : self.tokens[last - 1].end].strip()

    def _speaks(self, place: int) -> bool:
        token = self.tokens[place]
        return token.quoted or bool(_WORD.search(token.word)) or token.word in _SPOKEN_SIGNS

    def rest(self, *, keep: tuple[str, ...] = (), first: int | None = None, last: int | None = None) -> str:
        """Return the longest run of words that no mark covers, marks of `keep` aside."""
        covered = {
            place
            for mark in self.marks
            if mark.concept not in keep and mark.concept.split(".", 1)[0] not in keep
            for place in range(mark.first, mark.last)
        }
        return max(self._runs(covered, first, last), key=len, default="")

    def _runs(self, covered: set[int], first: int | None, last: int | None) -> Iterable[str]:
        begin = self.first if first is None else first
        end = self.last if last is None else last
        at = begin
        for place in range(begin, end + 1):
            if place == end or place in covered or self.tokens[place].quoted or not self._joins(place):
                yield self.words(at, place)
                at = place + 1

    def _joins(self, place: int) -> bool:
        """Whether the token may stand inside a run of words: a word, or a sign within one ("24/7")."""
        word = self.tokens[place].word
        return bool(_WORD.search(word)) or word in {"-", "/", "&", "'", "%", "@", "."}

    @cached_property
    def unknown_thing(self) -> bool:
        """Whether an English article stands before a word that means nothing here: "the disclaimer"."""
        covered = {at for mark in self.marks for at in range(mark.first, mark.last)}
        return any(
            token.word in _ARTICLES and at + 1 not in covered and self.tokens[at + 1].word.isalpha()
            for at, token in enumerate(self.own[:-1], self.first)
        )

    @cached_property
    def targets(self) -> list[str]:
        """The kinds of thing it names, in order: ["music", "voice"]."""
        return [mark.concept.removeprefix("noun.") for mark in self.all(*TARGETS)]


def clauses(message: str, words: Lexicon) -> list[Clause]:
    """Return the clauses of `message` in order; empty when it holds no words."""
    spoken = tokens(message, quotations(message))
    marks = words.marks(spoken)
    literal = _after_colon(message, spoken, marks)
    if literal:
        before = [one for one in quotations(message) if one.end <= literal.start]
        spoken = tokens(message, [*before, literal])
        marks = words.marks(spoken)
    result: list[Clause] = []
    for first, last, asking in _sentences(message, spoken):
        whole = Clause(message, spoken, marks, 0, len(spoken)).part(first, last)
        result += [replace(_fronted(_bounded(one)), asking=asking) for one in _requests(whole)]
    return [one for one in result if one.text]


def _bounded(clause: Clause) -> Clause:
    """Return the clause, or its beginning: no request is longer than that."""
    return (
        clause if clause.last - clause.first <= LONGEST else clause.part(clause.first, clause.first + LONGEST)
    )


def _fronted(clause: Clause) -> Clause:
    """Return a clause with a "replace" that ends it at its beginning: German "X durch Y ersetzen"."""
    verb = next((mark for mark in clause.all("verb.replace") if mark.last == clause.last), None)
    if verb is None or not any(mark.first < verb.first for mark in clause.all("particle.with")):
        return clause
    rest = clause.part(clause.first, verb.first)
    return replace(rest, marks=(Mark(verb.concept, rest.first, rest.first), *rest.marks))


def quotations(text: str) -> list[Quote]:
    """Return what stands in quotation marks; an apostrophe within a word is none."""
    result: list[Quote] = []
    at = 0
    while at < len(text):
        closing = _PAIRS.get(text[at])
        end = _closing(text, at, closing) if closing and _opens_quote(text, at) else -1
        if end > at + 1:
            result.append(Quote(at, end + 1, at + 1, end))
            at = end
        at += 1
    return result


def _opens_quote(text: str, at: int) -> bool:
    return text[at] not in "'‘" or at == 0 or not text[at - 1].isalnum()


def _closing(text: str, at: int, signs: str) -> int:
    # A quotation longer than this is no quotation but a forgotten mark; it also bounds the search.
    for place in range(at + 1, min(len(text), at + 2000)):
        if text[place] in signs and (text[place] not in "'’" or not text[place + 1 : place + 2].isalnum()):
            return place
    return -1


def _after_colon(message: str, spoken: Sequence[Token], marks: Sequence[Mark]) -> Quote | None:
    """Return what follows "say:", "rewrite line 2 to:" … as a quotation, or None."""
    colons = [place for place, token in enumerate(spoken) if token.word in {":", "："}]
    for place in colons[:MOST_JOINS]:
        token = spoken[place]
        if place + 1 >= len(spoken) or spoken[place + 1].quoted:
            continue
        opening = max((i + 1 for i in range(place) if spoken[i].word in _STOPS), default=0)
        before = [mark for mark in marks if opening <= mark.first < place]
        if _announces(before, place) or _adds_words(before, marks, place):
            line = message.find("\n", token.end)
            end = len(message) if line < 0 else line
            return Quote(token.end, end, token.end, end)
    return None


def _adds_words(before: Sequence[Mark], marks: Sequence[Mark], place: int) -> bool:
    """Whether what follows "add:" is to be spoken: no sound is named on either side."""
    concepts = {mark.concept for mark in before}
    fact = bool(concepts & {"verb.add", "verb.put"}) and any(one.startswith("topic.") for one in concepts)
    leading = fact or any(mark.last == place and mark.concept == "verb.add" for mark in before)
    after = (mark for mark in marks if mark.first > place)
    return leading and not any(
        mark.concept.startswith(("sound", "noun.effect")) for mark in (*before, *after)
    )


def _announces(before: Sequence[Mark], place: int) -> bool:
    concepts = {mark.concept for mark in before}
    leading = {mark.concept for mark in before if mark.last == place}
    wording = {"noun.text", "noun.line", "noun.track", "noun.voice"} & concepts
    return bool(
        {"verb.say", "verb.write"} & concepts
        or (wording and {"particle.to", "particle.with", "verb.add"} & concepts)
        or ("particle.to" in leading and "noun.music" not in concepts)
    )


def _sentences(message: str, spoken: Sequence[Token]) -> Iterable[tuple[int, int, bool]]:
    first = 0
    for place, token in enumerate(spoken):
        if token.word in _STOPS and _stops(message, token):
            if place > first:
                yield first, place, token.word in _ASKING
            first = place + 1
    if first < len(spoken):
        yield first, len(spoken), False


def _stops(message: str, token: Token) -> bool:
    """Whether the sign ends a sentence: a full stop within "example.com" or "7.30" does not."""
    return token.word != "." or not message[token.end : token.end + 1].strip()


def _requests(sentence: Clause) -> Iterable[Clause]:
    found = (*_spaces(sentence), *sentence.all("join"), *_excepting(sentence))
    joins = sorted({mark.first: mark.last for mark in found}.items())
    first = sentence.first
    for at, after in joins[:MOST_JOINS]:
        if at <= first:
            continue
        left, right = sentence.part(first, at), _until_join(sentence, after, joins)
        if _begins(sentence, left, right):
            yield left
            first = at
    yield sentence.part(first, sentence.last)


def _spaces(sentence: Clause) -> Iterable[Mark]:
    """Return the spaces that set Thai or Chinese clauses apart, none of them within what is to be said."""
    worded = sentence.get("verb.mention", "unit.word")
    for at in range(sentence.first + 1, worded.first if worded else sentence.last):
        left, right = sentence.tokens[at - 1 : at + 1]
        if left.end < right.start and _WIDE.match(left.word) and _WIDE.match(right.word):
            yield Mark("join.and", at, at)


def _excepting(sentence: Clause) -> Iterable[Mark]:
    """Return "without" where it begins "without changing the voices": a request of its own."""
    acting = {mark.first for mark in sentence.all("verb.touch", "verb.change")}
    without = (mark for mark in sentence.all("verb.remove") if mark.last in acting)
    return (Mark("join.but", mark.first, mark.first) for mark in without)


def _until_join(sentence: Clause, first: int, joins: Sequence[tuple[int, int]]) -> Clause:
    first = _past_fillers(sentence, first)
    return sentence.part(first, next((at for at, _ in joins if at > first), sentence.last))


def _past_fillers(sentence: Clause, first: int) -> int:
    fillers = {mark.first: mark.last for mark in sentence.marks if mark.concept in _FILLERS}
    strong = {mark.first for mark in sentence.marks if mark.concept.split(".")[0] in _OPENERS}
    while first in fillers and first not in strong:
        first = fillers[first]
    return first


def _begins(sentence: Clause, left: Clause, right: Clause) -> bool:
    """Whether `right` is a request of its own beside `left`."""
    names_target = right.has(*TARGETS, "sound", "noun.version", "noun.pause", "noun.everything")
    if _waits(left, right) or (_only_names(left) and not right.has(*TARGETS)):
        return False
    kept = right.has("pronoun.else") and right.has("verb.keep", "pronoun.alone")
    if left.has("verb.say", "verb.write") and not left.quotes:
        return kept or (names_target and right.has("verb")) or right.has("verb.undo", "verb.keep")
    only = any(left.last <= mark.first < right.first for mark in sentence.all("particle.only"))
    only_one = only and (names_target or right.has("instrument", "genre", "gender", "accent"))
    opens = only_one or any(mark.first == right.first for mark in right.all(*_OPENERS))
    opens = opens or (_answers(left) and right.has("verb.undo", "verb.redo", "verb.back"))
    if opens and not _only_less(right):
        return _complete(left) or right.has("verb", "negation")
    if _tells(left, right):
        return True
    placed = (
        right.has("sound")
        and right.has("place")
        and not left.has("sound", "noun.effect", "verb.add", "verb.put")
    )
    if (placed or kept) and _complete(left):
        return True
    digits = any(token.word.isdecimal() for token in right.own)
    numbered = (digits or right.has("ordinal")) and right.has("gender", "accent")
    return (
        names_target
        and (
            numbered
            or right.has(
                "pronoun.original", "pronoun.alone", "quality", "degree", "verb", "genre", "instrument"
            )
        )
        and _complete(left)
    )


def _answers(left: Clause) -> bool:
    """Whether `left` is only a yes or a no."""
    said = {at for mark in left.all("chat.yes", "chat.no", "skip") for at in range(mark.first, mark.last)}
    return left.has("chat.yes", "chat.no") and said.issuperset(range(left.first, left.last))


def _waits(left: Clause, right: Clause) -> bool:
    """Whether `left` waits for what it is about: "add at the start | and a bell", "a male, | deep voice"."""
    if any(mark.last == left.last for mark in left.all("pronoun.we")):
        # A subject waits for its verb: "… that we also fix boilers".
        return True
    following = next(iter(right.marks), None)
    if any(mark.last == left.last for mark in left.all("gender", "accent")) and not left.has(*TARGETS):
        return bool(following and following.first == right.first and following.concept.startswith("quality."))
    opening = left.all("verb.add", "verb.put", "place", "skip", "degree.more")
    said = {at for mark in opening for at in range(mark.first, mark.last)}
    placed = left.has("verb.add", "verb.put") and left.has("place") and right.has("sound", "noun.effect")
    return placed and said.issuperset(range(left.first, left.last))


def _only_names(left: Clause) -> bool:
    """Whether it only names what the rest is about: Chinese "the script | again in three versions"."""
    named = {at for mark in left.all("noun", "skip") for at in range(mark.first, mark.last)}
    return left.has(*TARGETS) and len(named) == left.last - left.first


def _tells(left: Clause, right: Clause) -> bool:
    """Whether a fact stands behind a wish: "more urgent, the sale ends on Sunday"."""
    saying = left.has("verb.mention", "verb.say", "verb.add", "verb.put", "negation")
    wished = left.has("quality") and not saying
    plain = right.has("topic") and not right.has(*TARGETS, "verb", "quality", "negation", "particle.not")
    return wished and plain and len(right.rest().split()) > 1


def _only_less(right: Clause) -> bool:
    """Whether it merely softens what came before: "but not too fast"."""
    return right.has("degree.less", "negation.not") and not right.has(*TARGETS, "verb", "sound", "pronoun")


def _complete(left: Clause) -> bool:
    bare: Callable[[Mark], bool] = lambda mark: mark.concept in {"verb.make", "verb.create", "verb.change"}  # noqa: E731
    return left.has(*_LITERAL, "negation", "pronoun.alone", "pronoun.different") or any(
        not bare(mark) for mark in left.all("verb")
    )
