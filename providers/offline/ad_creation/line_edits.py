"""Requests for sentences more or less: what shall be said, and what not."""

import re
from typing import Literal

from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.copywriter import sentences
from providers.offline.ad_creation.edits import (
    AddLine,
    Edit,
    OpenWithQuestion,
    RemoveLine,
    RemoveTracks,
    ReplaceWords,
    Unclear,
)
from providers.offline.ad_creation.facts import Contact, contact
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.script import TOPICS, text_of
from providers.offline.ad_creation.script import found as value_of
from providers.offline.ad_creation.tracks import named
from providers.offline.ad_creation.wording import GOOD_TO_KNOW
from providers.offline.lexicon import Mark, fold

_THAT = re.compile(
    r"^(?:that|the fact that|about|to|people|them|listeners|customers|everyone|how|says?|saying|also"
    r"|aussi|également|también|tambien|também"
    r"|please|jeszcze|proszę|prosze|że|ze|que|bahwa|rằng|ještě|jeste|prosím|že|v[aă] rog|[sș]i c[aă]|ca|că"
    r"|dabei|bitte)\s+|^qu['’]",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"[\s,]*\b(?:somewhere|everywhere|throughout|too|as well|please|irgendwo|bitte|im (?:text|spot)"
    r"|quelque part|dans (?:le texte|la pub|le spot)|svp|stp"
    r"|in the (?:script|text|ad|copy|spot|commercial)"
    r"|to the (?:script|text|ad|copy|spot)|if possible|pls|for me)\s*$",
    re.IGNORECASE,
)
_TIMES = re.compile(
    r"\b(?:twice|thrice|(?:two|three|four|five|\d) times|dos veces|tres veces|duas vezes|três vezes|dwa razy"
    r"|zweimal|dreimal|deux fois|trois fois"
    r"|trzy razy|dvakrát|třikrát|de (?:două|trei) ori|(?:dua|tiga) kali|(?:hai|ba) lần)\b"
    r"|(?:สอง|สาม)ครั้ง|[两三]遍",
    re.IGNORECASE,
)
"""How often something is said, which is nothing to be said."""
THING = re.compile(r"(?:the|our|their|his|her)(?: [\w'-]+){1,3}", re.IGNORECASE)
"""A thing that is only named: "the ticket price"."""
_MANNER = (
    "quality", "degree", "skip", "particle", "pronoun", "verb", "noun", "ordinal", "number", "gender",
    "accent", "join", "question",
)  # fmt: skip
"""What tells who speaks and how, or which part is meant, but not what is said."""
_LEAD = ("verb.mention", "verb.say", "particle.about")
FACT_CHARS = 400
"""Characters of a clause in which a phone number or an address is looked for."""
_FEW_WORDS = 2
_TWICE = 2
_NAME_WORDS = 6
_UNSPACED = re.compile(r"[\u0e00-\u9fff]")
_CALLED = re.compile(
    r"\b(?:is|are|we're|it's|its)(?: now)? called "
    r"|\b(?:our|the|company|brand|business|shop) name(?: is|'s)(?: now)? "
    r"|\bchanged (?:our|the|its) name(?: to|,? (?:and )?(?:it'?s|it is|we'?re|to|now)) "
    r"|\b(?:nos llamamos|se llama|el nombre es|nos chamamos|se chama|chama-se|o nome é|nazywamy się"
    r"|nazywa się|nazwa to|jmenujeme se|jmenuje se|název je|ne numim|se numește|numele este"
    r"|namanya(?: adalah)?|nama kami(?: adalah)?|tên là|tên quán là) "
    r"|ชื่อว่า\s?|ชื่อร้านคือ\s?|我们叫|名字是|店名是|品牌叫|叫做",
    re.IGNORECASE,
)


def called(clause: Clause) -> str:
    """Return the name a clause gives the client ("we are called X now", "the name is X"), or empty."""
    found = _CALLED.search(clause.text)
    if not found or clause.has(
        "noun.voice", "noun.announcer", "noun.version", "negation", "noun.music", "verb.mention"
    ):
        return ""
    name = clause.quotes[0] if clause.quotes else re.sub(r" now$", "", cleaned(clause.text[found.end() :]))
    wide = bool(_UNSPACED.match(name))
    return name if (name[:1].isupper() or wide) and len(name.split()) <= _NAME_WORDS else ""


def wording_of(part: Clause) -> str:
    """Return the words of a part as they were written, without articles and commas at the edges."""
    if part.quotes:
        return part.quotes[0]
    text = _TAIL.sub("", part.text).strip(" ,.:")
    return re.sub(r"^(?:the (?:word|words|name|phrase) |the |word )", "", text, flags=re.IGNORECASE)


def cleaned(text: str) -> str:
    """Return a person's words without "that …" before and "please" after them."""
    shortened = _TAIL.sub("", text.strip())
    for _ in range(3):
        shortened = _THAT.sub("", shortened)
    return shortened.strip(" ,;:")


def removed(clause: Clause, ad: Ad, _focused: tuple[int, ...]) -> list[Edit]:
    """Return "drop the part about the price", "don't mention parking", "remove 'fresh'"."""
    silencing = clause.has("negation") and clause.has("verb.say", "verb.mention")
    if not (silencing or clause.has("verb.remove", "negation.no")):
        return []
    if clause.has("noun.exclamation"):
        return [ReplaceWords("!", ".")]
    if clause.quotes or clause.has("unit.word"):
        return _words_removed(clause, ad, whole=silencing or not clause.has("verb.remove"))
    if clause.has("noun.sentence") and clause.has("ordinal") and clause.has("verb.remove"):
        return _sentence_removed(clause, ad)
    return _topic_removed(clause, ad)


def _words_removed(clause: Clause, ad: Ad, *, whole: bool) -> list[Edit]:
    """Return words taken out, alone when they are few, else with the sentence they are in."""
    units = clause.all("unit.word")
    words = clause.quotes[0] if clause.quotes else wording_of(clause.part(units[-1].last, clause.last))
    alone = not whole and len(words.split()) <= _FEW_WORDS and _in_script(words, ad)
    return [ReplaceWords(words, "") if alone else RemoveLine(words)] if words else []


def _sentence_removed(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "cut the last sentence": counted over the whole script."""
    script = [one for track in ad.tracks for one in sentences(str(track.get("text")))]
    value = int(clause.all("ordinal")[0].concept.partition(".")[2])
    at = value - 1 if value > 0 else len(script) + value
    return [RemoveLine(script[at])] if 0 <= at < len(script) else []


def _topic_removed(clause: Clause, ad: Ad) -> list[Edit]:
    topic = next((name for name in TOPICS if clause.has(f"topic.{name}")), "")
    about = clause.get("particle.about", "verb.say", "verb.mention")
    which = named(clause, ad, plural=False)
    taking = clause.has("verb.remove") or any(
        no.last == one.first for no in clause.all("negation.no") for one in which.marks
    )
    if which.tracks and taking and not about and not topic:
        return [RemoveTracks(which.tracks)]
    if clause.has("noun.announcer", "noun.voice", "noun.effect", "noun.music", "sound") and not about:
        return []
    verb = clause.get("verb.remove", "negation.no")
    start = about.last if about else (verb.last if verb else clause.first)
    words = (
        ""
        if clause.has("pronoun.it") and not clause.rest(first=start)
        else wording_of(clause.part(start, clause.last))
    )
    return [RemoveLine(words, topic)] if topic or about or _in_script(words, ad) else []


def _in_script(words: str, ad: Ad) -> bool:
    return bool(words) and any(fold(words) in fold(str(track.get("text"))) for track in ad.tracks)


def added(clause: Clause, ad: Ad, _focused: tuple[int, ...]) -> list[Edit]:
    """Return a sentence more: "mention free parking", "end with 'Come by today'"."""
    if clause.has("noun.question") and clause.has("place.start", "verb.make") and not clause.quotes:
        return [OpenWithQuestion()]
    speaking = clause.has("verb.say", "verb.mention")
    wording = bool(clause.quotes) or clause.has("pronoun.we", "topic") or reachable(clause.text)
    adding = (
        (bool(clause.quotes) and clause.has("place.start", "place.end"))
        or _required(clause)
        or _once_more(clause)
        or (wording and clause.has("verb.put") and (clause.quotes or clause.has("place")))
        or (clause.has("verb.add") and (wording or clause.has("noun.text", "noun.line")))
    )
    if clause.has("negation") or not (speaking or adding):
        return []
    which = named(clause, ad, plural=False)
    content = clause.quotes[0] if clause.quotes else _content(clause, which.marks)
    if not content and _required(clause):
        content = next((value for name in TOPICS if (value := value_of(name, clause.text))), "")
    again = _again(clause, ad)
    if again:
        return again
    if not clause.quotes and (names_only(clause, content) if content else clause.has("gender", "accent")):
        return []
    if not content or (not clause.quotes and _names_fact(clause, content)):
        return [Unclear(clause.text, "cannot.no_words")]
    inside = bool(which.tracks) and clause.has("particle.in", "particle.to", "verb.mention")
    return [AddLine(content, _where(clause), which.tracks[0] if inside else None)]


def reachable(text: str) -> bool:
    """Return whether `text` holds a phone number, an address or another way to get in touch."""
    return len(text) <= FACT_CHARS and contact(text) != Contact()


def _required(clause: Clause) -> bool:
    """Whether a fact has to be in the ad: "our website x.com must be in there"."""
    return (
        reachable(clause.text)
        and clause.has("verb.make", "skip.polite")
        and clause.has("pronoun.we", "topic")
        and clause.has("particle.in", "noun.ad", "noun.text", "particle.inside")
    )


def names_only(clause: Clause, content: str) -> bool:
    """Whether `content` is no wording but tells who speaks, or how: "more slowly", "a woman", "it twice"."""
    if _TIMES.search(content):
        return True
    covered = {at for mark in clause.all(*_MANNER) for at in range(mark.first, mark.last)}
    spoken = [
        at
        for at in range(clause.first, clause.last)
        if clause.tokens[at].word.strip() and clause.words(at, at + 1) in content
    ]
    telling = clause.has("quality", "gender", "accent", "particle.twice", "noun", "ordinal")
    return telling and all(at in covered or not clause.words(at, at + 1) for at in spoken)


def _again(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "say the phone number twice": the fact as often as it is missing."""
    once = _once_more(clause)
    if not (clause.has("particle.twice") or once) or clause.quotes:
        return []
    script = text_of(ad)
    asked_for = [name for name in TOPICS if clause.has(f"topic.{name}")]
    own = (value_of(name, clause.text) for name in ("phone", "website", "email"))
    held = next((value for value in own if value), "") or next(
        (value for name in asked_for if (value := value_of(name, script))), ""
    )
    if held and once:
        return [AddLine(held, _where(clause))]
    said = script.count(held) if held else _TWICE
    places: tuple[Literal["body", "end"], ...] = ("body", "end")
    return [AddLine(held, where) for where in places[: max(0, _TWICE - said)]]


def _once_more(clause: Clause) -> bool:
    """Whether a fact is to be said again somewhere: "the web address at the end once more"."""
    placed = clause.has("place.start", "place.end") and not clause.has("verb", "noun")
    return placed and clause.has("particle.again") and clause.has("topic")


def _names_fact(clause: Clause, content: str) -> bool:
    """Whether `content` only names a fact by words of its own: "the ticket price"."""
    covered = {at for mark in clause.all("topic", "pronoun", "skip") for at in range(mark.first, mark.last)}
    strange = any(
        at not in covered and clause.words(at, at + 1) in content.split()
        for at in range(clause.first, clause.last)
    )
    return strange and clause.has("topic") and bool(THING.fullmatch(content))


def _where(clause: Clause) -> Literal["start", "end", "body"]:
    for mark in clause.all("place.start", "place.end", "place.before"):
        return "end" if mark.concept == "place.end" else "start"
    return "body"


def _content(clause: Clause, tracks: tuple[Mark, ...]) -> str:
    """Return what shall be said, without the words around it."""
    about = clause.get("particle.about")
    speaking = clause.get("verb.mention", "verb.say", "verb.add", "verb.put")
    opening = about if about and (not speaking or about.first >= speaking.last) else speaking
    if opening is None:
        return ""
    first, last = opening.last, clause.last
    around = (
        *clause.all("place", "noun.text", "noun.ad", "particle.in", "particle.to", "skip", "particle.again"),
        *tracks,
    )
    while any(mark.last == last > mark.first >= first for mark in around):
        last = min(mark.first for mark in around if mark.last == last and mark.first >= first)
    while any(
        mark.first == first < mark.last <= last
        for mark in clause.all("place", "noun.line", "particle.with", *_LEAD)
    ):
        first = max(
            mark.last
            for mark in clause.all("place", "noun.line", "particle.with", *_LEAD)
            if mark.first == first
        )
    said = cleaned(clause.words(first, last))
    return f"{GOOD_TO_KNOW}dass {said}" if said and clause.tokens[first - 1].word == "dass" else said
