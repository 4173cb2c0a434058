"""Requests about the words: length, wording, sentences, tone and language."""

import re

from providers.offline.ad_creation.amounts import before, seconds
from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.edits import (
    AddLine,
    Edit,
    ReplaceWords,
    Resize,
    Retone,
    Rewrite,
    Translate,
    Unclear,
)
from providers.offline.ad_creation.facts import names_currency
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.line_edits import (
    FACT_CHARS,
    THING,
    added,
    cleaned,
    names_only,
    removed,
    wording_of,
)
from providers.offline.ad_creation.qualities import asked, qualities
from providers.offline.ad_creation.script import TOPICS, duration_s, nearest, text_of, topic_of
from providers.offline.ad_creation.script import found as value_of
from providers.offline.ad_creation.tracks import named
from providers.offline.lexicon import Mark, fold
from state.languages import find
from state.timeline import spoken_s

_WRITING = (
    "pronoun.different",
    "verb.write",
    "verb.say",
    "verb.change",
    "verb.replace",
    "verb.make",
    "particle.to",
)
_NAME = re.compile(r"(?<!\w)[^\W\d_a-z][\w'’-]*(?: (?:(?:&|and|of|the) )?[^\W\d_a-z][\w'’-]*)*")
_QUOTED_PAIR = 2
_FEW_TOKENS = 8
"""Tokens of a clause that only puts something right: "Wednesday, not Tuesday"."""
_LEAD = re.compile(r"(?:it'?s|it is|on|at|is) ", re.IGNORECASE)
_LINE_WORDS = 3
"""Words that can be a sentence, at least."""
_MIN_NAME = 4
"""Letters of a language's name; shorter words are codes, or words of another meaning ("spa")."""


def read(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    """Return what `clause` asks of the words; empty when nothing is recognised."""
    if clause.has("verb.shorten", "verb.lengthen") and not clause.has("noun.pause"):
        found = _resized(clause, ad, focused)
        if found:
            return found
    for find_edit in (
        _translated,
        _updated,
        _respelled,
        _replaced,
        _rewritten,
        removed,
        added,
        _retold,
        _resized,
    ):
        found = find_edit(clause, ad, focused)
        if found:
            return found
    return _toned(clause)


def translation(clause: Clause) -> Translate | None:
    """Return the language a clause wants the ad in, or None."""
    mark = clause.get("tongue")
    name = mark.concept.partition(".")[2] if mark else _language_word(clause)
    if not name:
        return None
    wanted = clause.has(
        "verb", "particle.in", "noun.language", "noun.ad", "noun.text", "particle.to", "pronoun.it"
    )
    if not wanted or clause.has("noun.accent", "negation", "noun.music", "genre", "noun.effect"):
        return None
    return Translate(name)


def _language_word(clause: Clause) -> str:
    """Return the language a word of the clause names, in any spelling the project accepts."""
    for token in clause.own:
        known = find(token.word) if len(token.word) >= _MIN_NAME and not token.quoted else None
        if known:
            return known.name
    return ""


def _translated(clause: Clause, ad: Ad, _focused: tuple[int, ...]) -> list[Edit]:
    if clause.has("noun.voice", "gender") and not clause.has("verb.translate", "noun.text", "noun.ad"):
        return []
    edit = translation(clause)
    if not edit:
        return [Unclear(clause.text, "cannot.no_language")] if clause.has("verb.translate") else []
    return [edit] if edit.language != ad.language else [Unclear(edit.language, "kept.language")]


def _updated(clause: Clause, ad: Ad, _focused: tuple[int, ...]) -> list[Edit]:
    """Return a fact with another value: "the phone number is 555-0000 now", "it's $35, not 29"."""
    if (
        clause.quotes
        or len(clause.text) > FACT_CHARS
        or clause.has("verb.mention", "verb.remove", "particle.instead", "place")
    ):
        return []
    asked_for = [name for name in TOPICS if clause.has(f"topic.{name}")]
    for name in asked_for or ("phone", "website", "email", "price"):
        new, held = value_of(name, clause.text), value_of(name, text_of(ad))
        if new and held and fold(new) not in fold(text_of(ad)):
            stated = asked_for or clause.has("pronoun.it", "verb.change")
            return [ReplaceWords(held, new)] if stated else []
    return []


def _respelled(clause: Clause, ad: Ad, _focused: tuple[int, ...]) -> list[Edit]:
    """Return a name spelled right: "it's Crumb & Kettel, please correct it"."""
    if not clause.has("noun.spelling", "verb.correct"):
        return []
    script = text_of(ad)
    for name in _NAME.findall(clause.text):
        near = nearest(name, script)
        if near and near != name:
            return [ReplaceWords(near, name)]
    return []


def _replaced(clause: Clause, ad: Ad, _focused: tuple[int, ...]) -> list[Edit]:
    """Return "say 'fresh' instead of 'new'", "change the phone number to 555", "call it X, not Y"."""
    instead = clause.get("particle.instead")
    if instead:
        verb = next((one for one in clause.all("verb") if instead.first == clause.first < one.first), None)
        old = wording_of(clause.part(instead.last, verb.first if verb else clause.last))
        said = (verb.last, clause.last) if verb else (_after_verb(clause), instead.first)
        new = wording_of(clause.part(*said))
        told = bool(clause.quotes) or clause.has("verb.say", "verb.mention", "unit.word")
        return [ReplaceWords(_amount(old, new, ad), new)] if told and old and new else _pair(old, new, ad)
    if len(clause.quotes) == _QUOTED_PAIR and clause.has(
        "verb.replace", "verb.change", "particle.to", "particle.with"
    ):
        return [ReplaceWords(*clause.quotes[:2])]
    contrast = _contrasted(clause)
    if contrast:
        return _pair(*contrast, ad)
    return _turned(clause, ad)


def opening_or_closing(clause: Clause) -> AddLine | None:
    """Return "end with Call Dawson before it floods": words with a capital are to be spoken."""
    verbs = {(mark.first, mark.last) for mark in clause.all("verb.add")}
    edge = next((one for one in clause.all("place") if (one.first, one.last) in verbs), None)
    words = cleaned(clause.words(edge.last, clause.last)) if edge else ""
    if edge is None or not words[:1].isupper() or len(words.split()) < _LINE_WORDS or clause.has("sound"):
        return None
    return AddLine(words, "end" if edge.concept == "place.end" else "start")


def exchanges(clause: Clause, ad: Ad) -> bool:
    """Return whether `clause` gives other words for words of the script."""
    return not clause.has("sound") and bool(_replaced(clause, ad, ()))


def _after_verb(clause: Clause) -> int:
    verb = clause.get("verb")
    return verb.last if verb else clause.first


def _contrasted(clause: Clause) -> tuple[str, str] | None:
    """Return old and new of "call it 'Mocha', not 'Latte'"."""
    negation = next(
        (one for one in clause.all("negation.not", "particle.not") if one.first > clause.first + 1), None
    )
    bare = (
        negation
        and clause.last - clause.first <= _FEW_TOKENS
        and not clause.has("verb", "noun", "quality", "sound")
    )
    if not negation or not (bare or clause.has("verb.say", "verb.use", "verb.write")):
        return None
    head = clause.part(_after_verb(clause), negation.first)
    old, new = wording_of(clause.part(negation.last, clause.last)), _LEAD.sub("", wording_of(head))
    figures = re.findall(r"\d+", new)
    return old, figures[0] if old.isdecimal() and len(figures) == 1 else new


def _turned(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "change X to Y", where X is in the script or a topic that is ("the phone number")."""
    verb = clause.get("verb.change", "verb.replace", "verb.make") or next(
        (one for one in clause.all("skip") if clause.words(one.first, one.last) == "把"), None
    )
    turns = [
        one
        for one in clause.all("particle.to", "particle.with", "particle.for")
        if verb and one.first >= verb.last
    ]
    if not verb or not turns:
        return []
    turn = turns[0]
    new = wording_of(clause.part(turn.last, clause.last))
    old_part = clause.part(verb.last, turn.first)
    if old_part.has("pronoun.it") and not old_part.rest() and not old_part.quotes:
        return []
    old = wording_of(old_part)
    held = topic_of(old_part, ad)
    return _pair(held or old, new, ad) if new else []


def _amount(old: str, new: str, ad: Ad) -> str:
    """Return `old`, with its currency in the script where `new` brings its own."""
    held = value_of("price", text_of(ad)) if old.isdecimal() and names_currency(new) else ""
    return held if old in re.findall(r"\d+", held) else old


def _pair(old: str, new: str, ad: Ad) -> list[Edit]:
    if not old or not new:
        return []
    old = _amount(old, new, ad)
    script = fold(" ".join(str(track.get("text")) for track in ad.tracks))
    return [ReplaceWords(old, new)] if fold(old) in script else []


def _rewritten(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    """Return a track's new text: "rewrite the second line to: …", "voice 1 should say '…'"."""
    which = named(clause, ad, plural=False)
    if which.missing is not None:
        return [Unclear(str(which.missing), "cannot.no_track")]
    if clause.has("quality"):
        return []
    if (
        which.tracks
        and clause.quotes
        and clause.has("verb.say", "verb.mention", "verb.add")
        and _goes_before(clause)
    ):
        return [AddLine(clause.quotes[0], "start", which.tracks[0])]
    tracks = which.tracks or (focused if clause.has("pronoun.it") else ())
    own = _track_rewritten(clause, tracks, which.marks) if tracks else []
    return own or _all_rewritten(clause, tracks or tuple(range(len(ad.tracks))))


def _track_rewritten(clause: Clause, tracks: tuple[int, ...], marks: tuple[Mark, ...]) -> list[Edit]:
    another = clause.has("pronoun.different") and not _known_one(clause)
    if another and not clause.quotes and clause.has("noun.line", "noun.text"):
        return [Rewrite(tracks)]
    if not clause.has(*_WRITING) or clause.has("verb.add", "place.after", "place.before"):
        return []
    text = clause.quotes[-1] if clause.quotes else _said_by(clause, marks)
    if text:
        return [Rewrite(tracks[:1], text)]
    return [Rewrite(tracks)] if clause.has("verb.write", "pronoun.different") else []


def _all_rewritten(clause: Clause, tracks: tuple[int, ...]) -> list[Edit]:
    if not clause.has("noun.text", "noun.line") or clause.has("verb.add", "verb.remove"):
        return []
    another = clause.has("pronoun.different") and not _known_one(clause)
    if clause.quotes and (another or clause.has("verb.write", "verb.change", "verb.replace", "particle.to")):
        return [Rewrite(tracks, clause.quotes[0])]
    anew = another or clause.has("verb.write", "verb.dislike", "verb.replace")
    return [Rewrite(tracks)] if anew and not clause.has("negation") else []


def _known_one(clause: Clause) -> bool:
    """Whether "new" names what is there: "the new text"."""
    marks = clause.all("pronoun.different")
    return any(mark.first > clause.first and clause.tokens[mark.first - 1].word == "the" for mark in marks)


def _goes_before(clause: Clause) -> bool:
    """Whether the words come before what is there: "says 'No way!' first, then the rest"."""
    after = max(
        (at for at in range(clause.first, clause.last) if clause.tokens[at].quoted), default=clause.first
    )
    return any(
        mark.first > after
        for mark in clause.all("ordinal.1", "pronoun.other", "pronoun.else", "place.start", "place.before")
    )


def _said_by(clause: Clause, marks: tuple[Mark, ...]) -> str:
    """Return what a voice shall say when it stands without quotation marks."""
    say = clause.get("verb.say")
    if not say or not marks or min(mark.first for mark in marks) > say.first:
        return ""
    words = cleaned(clause.words(say.last, clause.last))
    thing = clause.has("topic") and THING.fullmatch(words)
    return "" if thing or names_only(clause, words) else words


def _retold(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    """Return "write it again", "a different script"."""
    del ad, focused
    fresh = clause.has("verb.write") or (
        not _known_one(clause) and clause.has("pronoun.different", "verb.dislike") and clause.has("noun.text")
    )
    return [Rewrite(())] if fresh and not clause.has("quality", "negation") else []


def _resized(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    """Return "shorter", "cut it to 20 seconds", "a bit longer"."""
    wanted = {one.name: one.more for one in asked(clause)}
    shorter = wanted.get("short", False) or wanted.get("long") is False or clause.has("verb.shorten")
    longer = wanted.get("long", False) or wanted.get("short") is False or clause.has("verb.lengthen")
    length = seconds(clause)
    if clause.has("negation.not") and not length and not clause.has("degree"):
        return []
    if not (
        shorter
        or longer
        or (length and clause.has("verb.fit", "verb.make", "noun.length", "verb.remove", "verb.change"))
    ):
        return []
    which = named(clause, ad, plural=False)
    if which.missing is not None:
        return [Unclear(str(which.missing), "cannot.no_track")]
    tracks = which.tracks or (
        focused if clause.has("pronoun.it") and not clause.has("noun.text", "noun.ad") else ()
    )
    if length and (clause.has("particle.by", "verb.remove") or _compared(clause)):
        now = _now_s(ad, tracks)
        length = max(now + (length if longer else -length), 1.0)
    return [Resize(length or _share(clause, _now_s(ad, tracks), longer=longer), longer, tracks)]


def _now_s(ad: Ad, tracks: tuple[int, ...]) -> float:
    """Return the seconds of the ad, or of what some tracks say: what a length of them is compared with."""
    said = (spoken_s(str(ad.tracks[at].get("text")), ad.language) for at in tracks)
    return sum(said) if tracks else duration_s(ad, ad.tracks)


def _compared(clause: Clause) -> bool:
    """Whether seconds are a difference: "5 seconds shorter"."""
    ends = {mark.last for mark in clause.all("unit.second")}
    return any(mark.first in ends for mark in clause.all("quality.short")) or any(
        mark.first in ends and clause.tokens[mark.first].word.endswith("er")
        for mark in clause.all("quality.long")
    )


def _share(clause: Clause, now: float, *, longer: bool) -> float | None:
    """Return the seconds of "half as long", "20 % shorter" than `now`, or None."""
    if clause.has("number.0.5"):
        return now * (1.5 if longer and not clause.has("quality.long") else 0.5)
    percent = next((before(clause, mark.first) for mark in clause.all("unit.percent")), None)
    if not percent or percent > 90:  # noqa: PLR2004 - no text is left of more
        return None
    return now * (1 + percent / 100 if longer else 1 - percent / 100)


def _toned(clause: Clause) -> list[Edit]:
    """Return another tone of the script, or of the whole ad where nothing narrows it (A79)."""
    for one in asked(clause):
        quality = qualities()[one.name]
        tone = quality.tone if one.more else qualities().get(quality.counter, quality).tone
        if tone:
            whole = not clause.has("noun.text", "noun.line")
            name = one.name if one.more else ""
            return [Retone(tone, name, whole, clause.has("noun.countdown") or tone == "urgent")]
    if clause.has("noun.countdown"):
        return [Retone("urgent", countdown=True)]
    return []
