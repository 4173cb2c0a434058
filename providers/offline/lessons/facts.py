"""Facts of a lesson's material: the passages that score highest, quoted and named by their own words.

A passage is a sentence with those after it that refer back to it ("It takes place …"). It scores higher if it
opens the text, defines or counts something, or has words that are frequent in the text.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

from callsheet.state.languages import detect
from callsheet.state.lessons.facts import MAX_FACTS, MIN_FACTS
from callsheet.state.sentences import sentence_spans

ENGLISH: Final[dict[str, Any]] = tomllib.loads(files(__package__).joinpath("english.toml").read_text("utf-8"))
_LIST_MARK: Final = re.compile(r"\s*(?:(?:[-*•‣–]|\(?\d{1,3}[.)])\s+)?")
_PIECE: Final = re.compile(r"\S.{0,900}(?=\s|$)|\S.{0,900}", re.DOTALL)
"""A sentence, or a part of a text without sentence ends."""
_MAX_SENTENCES: Final = 4
_MIN_WORDS: Final = 4
_MIN_LETTERS: Final = 3
_HEADING_CHARS: Final = 90
_STOP_WORDS: Final = frozenset(ENGLISH["stop_words"].split())
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_ENDINGS: Final = re.compile(r"(?:['’]s|ies|ing|edly|ed|es|ly|s|e)$")
_REFERS_BACK: Final = re.compile(
    r"(?:it|its|they|their|this|these|those|that|he|his|she|her|such|but|however|then|therefore|instead|also|"
    r"as a result|because of (?:this|that)|for example|in addition)\b",
    re.IGNORECASE,
)
_ORDERS: Final = re.compile(
    r"ignore (?:all|any|every|previous)\b.{0,200}instruction|system prompt|developer mode|\b\w+Tool\b|"
    r"</?material>",
    re.IGNORECASE,
)
"""Instructions to a model, which are left out and counted."""
_NOISE: Final = re.compile(
    r"cookies|newsletter|log ?in\b|subscribe|all rights reserved|click here|privacy policy|^read more|https?://|"
    r"\bwe will now\b|\bin (?:my|a) future work\b|\bhere I will\b|^don['’]t forget\b",
    re.IGNORECASE,
)
"""Words of a web page, or of an author about the text."""
_SENTENCE_END: Final = re.compile(r"[.!…。！।؟][\"'”’»」)\]]*$")
_TERM: Final = r"([\w’'-]{1,60}(?: [\w’'-]{1,60}){0,2}?)"
_DEFINED: Final = re.compile(
    rf"(?:(?:an?|the) )?{_TERM} (?:is|are|was|were|means?) (?:an?|the|any|all|what|that) ", re.IGNORECASE
)
_CALLED: Final = re.compile(
    rf"\b(?:called|known as|named|termed) (?:an? |the )?{_TERM}(?=[^\w\s’'-]|$| (?:that|which|and|or)\b)",
    re.IGNORECASE,
)
_PROPER_NAME: Final = re.compile(r"(?<!^)\b[A-Z][\w’']{1,60}(?: [A-Z][\w’']{1,60})+")


class _Passage(NamedTuple):
    start: int
    end: int
    size: int
    """Number of sentences."""


def sheet(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `FactSheet` of the request's `material`, in its order and without sentences in `avoid`.

    With a `guidance` that has content words, only passages with one of them are facts.
    """
    text = str(request["material"])
    detected = detect(text) or ("english" if all(map(str.isascii, filter(str.isalpha, text))) else "")
    english = detected in {"english", ""}
    passages, headings, orders = _read(text)
    avoid = {one for quote in request.get("avoid") or () for one in sentences(str(quote))}
    passages = [each for each in passages if avoid.isdisjoint(sentences(text[each.start : each.end]))]
    wanted = frozenset(stems(str(request.get("guidance") or "")))
    facts: list[dict[str, Any]] = []
    for quote, score in _quotes(text, passages, wanted):
        used = {fact["concept"].casefold() for fact in facts}
        name = _name(quote, text, used, english=english)
        facts.append({"concept": name, "details": quote, "quote": quote, "confidence": score})
    titles = [title for title in headings if any(map(str.isalpha, title))]
    topic = next(iter([*titles, *(fact["concept"] for fact in facts)]), "")
    objective = f"Explain in your own words: {topic}." if facts else ""
    known = {"topic": topic, "learningObjective": objective, "language": detected}
    return {**known, "facts": facts, "leftOut": orders}


def spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of every sentence. A line break ends one; a list item's mark is left out."""
    bounds: list[tuple[int, int]] = []
    for start, end in sentence_spans(text):
        begin = next(_LIST_MARK.finditer(text, start, end)).end()
        bounds += [piece.span() for piece in _PIECE.finditer(text, begin, max(begin, end))]
    return bounds


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[start:end] for start, end in spans(text)]


def stems(text: str) -> list[str]:
    """Return the stems of the content words in order; words with equal stems count as one word."""
    words = [word.casefold() for word in _WORD.findall(text) if len(word) >= _MIN_LETTERS]
    return [_stem(word) for word in words if word not in _STOP_WORDS]


def _stem(word: str) -> str:
    stem = _ENDINGS.sub("", word)
    return stem if len(stem) >= _MIN_LETTERS else word


def _read(text: str) -> tuple[list[_Passage], list[str], int]:
    """Return the passages and headings of a text, and the number of sentences with orders to a model."""
    passages: list[_Passage] = []
    headings: list[str] = []
    orders = 0
    for start, end in spans(text):
        sentence = text[start:end]
        orders += bool(_ORDERS.search(sentence))
        if len(sentence) < _HEADING_CHARS and (not _SENTENCE_END.search(sentence) or sentence.isupper()):
            title = sentence.strip(" .:#*=-_")
            headings += [title.capitalize() if title.isupper() else title] * (not _NOISE.search(sentence))
        elif _is_statement(sentence):
            last = passages[-1] if passages else None
            if last and _REFERS_BACK.match(sentence) and last.size < _MAX_SENTENCES and start <= last.end + 1:
                passages[-1] = _Passage(last.start, end, last.size + 1)
            else:
                passages.append(_Passage(start, end, 1))
    return passages, headings, orders


def _is_statement(sentence: str) -> bool:
    words = len(sentence.split())
    long_enough = words >= _MIN_WORDS or len(sentence) > 8 * words
    mostly_letters = sum(map(str.isalpha, sentence)) * 2 > len(sentence)
    question = sentence.rstrip("\"'”’»)").endswith(("?", "？", ":"))
    excluded = question or _NOISE.search(sentence) or _ORDERS.search(sentence)
    return long_enough and mostly_letters and not excluded


def _quotes(text: str, passages: Sequence[_Passage], wanted: frozenset[str]) -> list[tuple[str, float]]:
    """Return the best passages in order, each with a confidence: one for every two sentences, 5 to 15."""
    texts = [text[each.start : each.end] for each in passages]
    # A script without blanks has characters for words.
    words = [frozenset(stems(each) if " " in each else each) for each in texts]
    frequency = Counter(word for each in words for word in each)
    scores = [
        _score(each) + sum(frequency[word] for word in known) / (len(texts) * len(known) or 1)
        for each, known in zip(texts, words, strict=True)
    ]
    scores[:1] = [score + 0.5 for score in scores[:1]]
    count = min(MAX_FACTS, max(MIN_FACTS, math.ceil(sum(each.size for each in passages) / 2)))
    usable = [at for at, known in enumerate(words) if not wanted or wanted & known]
    best = sorted(sorted(usable, key=lambda at: -scores[at])[:count])
    facts: list[tuple[str, float]] = []
    for at in best:
        # A single sentence takes in the next one, unless that is a fact itself or after a gap.
        joins = passages[at].size == 1 and at + 1 < len(passages) and at + 1 not in best
        after = passages[at + 1] if joins and passages[at + 1].start <= passages[at].end + 1 else passages[at]
        confidence = round(0.6 + 0.35 * scores[at] / max(scores), 2)
        facts.append((text[passages[at].start : after.end], confidence))
    return facts


def _score(text: str) -> float:
    defines = any(_DEFINED.match(each) or _CALLED.search(each) for each in sentences(text))
    return 0.5 * defines + 0.35 * any(map(str.isdigit, text))


def _name(quote: str, text: str, used: Collection[str], *, english: bool) -> str:
    """Return a short name that is not in `used` (case-folded)."""
    candidates = _names(quote, text) if english else re.findall(r"[^\s\d.,;:!?()，。、；：“”]{4,40}", quote)
    names = [name[:1].upper() + name[1:] for name in candidates]
    names.append(" ".join(quote.split()[:3])[:40].strip(" ,;:."))
    names += [f"{names[0]} ({number})" for number in range(2, len(used) + 3)]
    return next(name for name in names if name.casefold() not in used)


def _names(quote: str, text: str) -> Iterator[str]:
    """Yield defined terms, proper names, and the words of the first sentence, frequent ones first."""
    for sentence in sentences(quote):
        for definition in (_DEFINED.match(sentence), _CALLED.search(sentence)):
            if definition and definition[1].casefold() not in _STOP_WORDS:
                yield definition[1]
        yield from _PROPER_NAME.findall(sentence)
    words = [word for word in _WORD.findall(sentences(quote)[0]) if stems(word)]
    frequency = Counter(stems(text))
    yield from sorted(words, key=lambda word: -frequency[_stem(word.casefold())])
