"""The words of an ad: sentences, topics, and how long they take."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.copywriter import sentences
from providers.offline.ad_creation.facts import contact
from providers.offline.ad_creation.history import Ad
from providers.offline.lexicon import fold, tokens
from state.errors import Invalid
from state.timeline import place

Track = Mapping[str, Any]
TOPICS = ("price", "phone", "website", "email", "discount", "code", "address", "hours", "date")
"""What a script can speak of that has a recognisable form."""
_MONEY = re.compile(
    r"(?:[$€£฿¥₫₹]|\b(?:Rp|R\$|US\$|USD|EUR|PLN|THB|RON|CZK|VND))\s?\d[\d.,]{0,14}|(?<![\d.,])\d[\d.,]{0,14}\s?"
    r"(?:[$€£฿¥₫₹]|zł|Kč|dollars?|euros?|pounds?|baht|บาท|lei\b|đồng|đ\b|元|块|pesos?|reais|złotych|korun|rupiah|ribu|USD|EUR|PLN|THB)",
    re.IGNORECASE,
)
_PERCENT = re.compile(r"\d{1,3}(?:[.,]\d+)?\s?(?:%|percent|per cent|procent|prozent)", re.IGNORECASE)
_DATE = re.compile(
    r"\b\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?\b|\b(?:until|till|by) [^.!?,]{3,30}|"
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:january|february|march|april|may|june|july|august"
    r"|september|october|november|december) \d{1,2}\b",
    re.IGNORECASE,
)
_CONTACTS = {
    "phone": "phone",
    "website": "url",
    "email": "email",
    "code": "code",
    "address": "place",
    "hours": "hours",
}
_SMALL = frozenset(
    [
        "the",
        "and",
        "for",
        "you",
        "your",
        "our",
        "with",
        "that",
        "this",
        "are",
        "was",
        "has",
        "have",
        "from",
        "its",
        "about",
        "part",
        "bit",
        "line",
        "sentence",
        "words",
        "word",
        "mention",
        "say",
        "script",
        "text",
        "any",
        "more",
        "all",
    ]
)
_STEM = 5
_ALIKE = 0.8
"""Share of letters two spellings of one name have in common, at least."""
LONGEST = 4000
"""Characters of a text that is searched for facts; no script of a spot is longer."""
PACE_UP = 1.1
"""The fastest a voice is made to make room for words."""


def text_of(ad: Ad) -> str:
    """Return the whole script, a track a line."""
    return "\n".join(str(track.get("text", "")) for track in ad.tracks)


def found(topic: str, text: str) -> str:
    """Return the words of `text` that are of `topic` ("phone" → "555-1234"), or empty."""
    if len(text) > LONGEST:
        return ""
    if topic in _CONTACTS:
        return str(getattr(contact(text), _CONTACTS[topic]))
    pattern = {"price": _MONEY, "discount": _PERCENT, "date": _DATE}[topic]
    match = pattern.search(text)
    if topic == "discount" and not match:
        match = _MONEY.search(text)
    return match.group().strip(" .,") if match else ""


def topic_of(part: Clause, ad: Ad) -> str:
    """Return the words of the script that a clause names by their topic ("the phone number"), or empty."""
    named = (name for name in TOPICS if part.has(f"topic.{name}"))
    return next((held for name in named if (held := found(name, text_of(ad)))), "")


def nearest(name: str, text: str) -> str:
    """Return the words of `text` that `name` spells a letter or two otherwise; or empty."""
    if len(name) < _STEM or not name[:1].isupper():
        return ""
    words = re.findall(r"[\w'’-]+|&", text)
    size = len(re.findall(r"[\w'’-]+|&", name))
    runs = {" ".join(words[at : at + size]) for at in range(len(words) - size + 1)}
    alike = [
        (SequenceMatcher(None, fold(run), fold(name)).ratio(), run)
        for run in sorted(runs)
        if fold(run)[:2] == fold(name)[:2]
    ]
    ratio, best = max(alike, default=(0.0, ""))
    return best if ratio > _ALIKE else ""


def lead_s(ad: Ad) -> float:
    """Return the seconds of the effects that come before the first word."""
    before = {"start", "beforeVoices"}
    return sum(
        float(one.get("duration") or 0)
        for one in ad.effects
        if (one.get("placement") or {}).get("type") in before
    )


def duration_s(ad: Ad, tracks: Sequence[Track]) -> float:
    """Return the seconds the ad takes with `tracks`; infinite when they do not form a timeline."""
    try:
        return place(tracks, ad.effects, language=ad.language, spot_s=ad.spot_s)["durationSeconds"]
    except (Invalid, KeyError, TypeError, ValueError):
        return spoken_only_s(ad, tracks)


def spoken_only_s(ad: Ad, tracks: Sequence[Track]) -> float:
    """Return the seconds the voices alone take, without effects."""
    try:
        return place(tracks, (), language=ad.language, spot_s=ad.spot_s)["durationSeconds"]
    except (Invalid, KeyError, TypeError, ValueError):
        return float("inf")


def fits(ad: Ad, tracks: Sequence[Track]) -> bool:
    """Return whether the ad with `tracks` ends within its spot."""
    return duration_s(ad, tracks) <= ad.spot_s + 0.05


def joined(parts: Sequence[str], language: str) -> str:
    """Return sentences as one text, with spaces where the language has them."""
    return ("" if language == "chinese" else " ").join(part.strip() for part in parts if part.strip())


def spoken_of(sentence: str, words: str) -> bool:
    """Return whether a sentence speaks of `words`: it holds them, or most of their stems."""
    if fold(words) in fold(sentence):
        return True
    wanted = {token.word for token in tokens(words) if len(token.word) > 2} - _SMALL  # noqa: PLR2004 - shorter words tell nothing
    if not wanted:
        return False
    said = {token.word for token in tokens(sentence)}
    hits = sum(any(_same(one, other) for other in said) for one in wanted)
    return hits * 2 > len(wanted) or hits == len(wanted)


def _same(one: str, other: str) -> bool:
    return one == other or (len(one) >= _STEM and len(other) >= _STEM and one[:_STEM] == other[:_STEM])


def without(ad: Ad, unwanted: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Return the texts of the tracks without the sentences that are unwanted, and those sentences.

    A part after a comma goes alone where the sentence holds more.
    """
    texts, gone = [], []
    for track in ad.tracks:
        kept = []
        for sentence in sentences(str(track.get("text", ""))):
            left = _less(sentence, unwanted)
            if left != sentence:
                gone.append(sentence)
            kept += [left] if left else []
        texts.append(joined(kept, ad.language))
    return texts, gone


def _less(sentence: str, unwanted: Callable[[str], bool]) -> str:
    if not unwanted(sentence):
        return sentence
    parts = re.split(r"(?<=[,;，；])\s*|\s+(?=[–—] )", sentence)
    kept = [part for part in parts if not unwanted(part)]
    if len(parts) == 1 or not kept or unwanted(parts[0]):
        return ""
    end = sentence[-1] if sentence[-1] in ".!?。！？…" else ""
    left = " ".join(part.strip() for part in kept).rstrip(" ,;，；–—")
    return "" if unwanted(left) else left if left.endswith((".", "!", "?", "。")) else left + end


def roomy(ad: Ad, tracks: Sequence[Track], protected: str) -> tuple[list[Track], list[str]]:
    """Return `tracks` made to fit the spot around `protected` words, and the sentences left out for it.

    The first and the last sentence of the ad and those with figures stay longest, and what turns out to have
    room after all stays too; then the pace rises a little.
    """
    current, gone = list(tracks), list[tuple[int, str]]()
    while not fits(ad, current):
        option = _dispensable(current, protected)
        if option is None:
            break
        at, index = option
        gone.append((at, sentences(str(current[at]["text"]))[index]))
        current = _lacking(ad, tracks, gone)
    # What went first may find room beside what is left, now that something longer went.
    for one in gone[-2::-1]:
        fewer = [other for other in gone if other is not one]
        if fits(ad, _lacking(ad, tracks, fewer)):
            gone, current = fewer, _lacking(ad, tracks, fewer)
    if not fits(ad, current):
        faster = [
            {**one, "speed": round(min(float(one.get("speed") or 1) * PACE_UP, 2.0), 2)} for one in current
        ]
        current = list[Track](faster) if fits(ad, faster) else current
    return current, [sentence for _, sentence in gone]


def _lacking(ad: Ad, tracks: Sequence[Track], gone: Sequence[tuple[int, str]]) -> list[Track]:
    """Return `tracks` without sentences of them: (track, sentence)."""
    result = list(tracks)
    for at, sentence in gone:
        parts = sentences(str(result[at]["text"]))
        if sentence in parts:
            parts.remove(sentence)
        result[at] = {**result[at], "text": joined(parts, ad.language)}
    return result


def _dispensable(tracks: Sequence[Track], protected: str) -> tuple[int, int] | None:
    last = len(tracks) - 1
    options = []
    for at, track in enumerate(tracks):
        parts = sentences(str(track["text"]))
        for index, sentence in enumerate(parts):
            edge = (at, index) == (0, 0) or (at == last and index == len(parts) - 1)
            if len(parts) > 1 and not edge and protected not in sentence and sentence not in protected:
                options.append((any(char.isdigit() for char in sentence), -len(sentence), at, index))
    if not options:
        return None
    _, _, at, index = min(options)
    return at, index
