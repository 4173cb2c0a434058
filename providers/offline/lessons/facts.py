"""Facts of a lesson's material: the passages that score highest, quoted and named by their own words.

A passage is a sentence with those after it that refer back to it ("It takes place …"). It scores higher if it
opens the text, defines, counts or explains something, or has words that are frequent in the text.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from callsheet.providers.offline.lessons.labels import defines, label, stems
from callsheet.providers.offline.lessons.sentences import sentences, spans
from callsheet.state.lessons.facts import FEWEST, MOST

_MAX_SENTENCES: Final = 4
_MIN_WORDS: Final = 4
_HEADING_CHARS: Final = 90
_REFERS_BACK: Final = re.compile(
    r"(?:it|its|they|their|this|these|those|that|he|his|she|her|such|but|however|then|therefore|instead|also|"
    r"as a result|because of (?:this|that)|for example|in addition)\b",
    re.IGNORECASE,
)
_ORDERS: Final = re.compile(
    r"ignore (?:all|any|every|previous)\b.*instruction|system prompt|developer mode|\b\w+Tool\b|</?material>",
    re.IGNORECASE,
)
"""Instructions to a model, which are left out and counted."""
_NOISE: Final = re.compile(
    r"cookies|newsletter|log ?in\b|subscribe|all rights reserved|click here|privacy policy|^read more|https?://|"
    r"\bwe will now\b|\bin (?:my|a) future work\b|\bhere I will\b|^don['’]t forget\b",
    re.IGNORECASE,
)
"""Words of a web page, or of an author about the text."""
_CAUSE: Final = re.compile(
    r"\b(?:because|so that|therefore|as a result|since|causes?|leads? to)\b", re.IGNORECASE
)
_SENTENCE_END: Final = re.compile(r"[.!…。！।؟]+[\"'”’»」)\]]*$")


class _Passage(NamedTuple):
    start: int
    end: int
    size: int
    """Number of sentences."""


def sheet(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `FactSheet` of the request's `material`, in its order and without passages in `avoid`.

    With a `guidance` that has content words, only passages with one of them are facts.
    """
    text, english = str(request["material"]), request.get("language") == "english"
    passages, headings, orders = _read(text)
    avoid = [sentences(str(quote))[:1] for quote in request.get("avoid") or ()]
    passages = [each for each in passages if sentences(text[each.start : each.end])[:1] not in avoid]
    wanted = frozenset(stems(str(request.get("guidance") or "")))
    facts: list[dict[str, Any]] = []
    for quote, score in _quotes(text, passages, wanted):
        used = {fact["concept"].casefold() for fact in facts}
        name = label(sentences(quote), used) if english else _first_long_word(quote, used)
        facts.append({"concept": name, "details": quote, "quote": quote, "confidence": score})
    titles = [title for title in headings if any(map(str.isalpha, title))]
    topic = next(iter([*titles, *(fact["concept"] for fact in facts)]), "")
    objective = f"Explain in your own words: {topic}." if facts else ""
    return {"topic": topic, "learningObjective": objective, "facts": facts, "leftOut": orders}


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
    count = min(MOST, max(FEWEST, math.ceil(sum(each.size for each in passages) / 2)))
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
    figures = any(map(str.isdigit, text))
    return 0.5 * any(map(defines, sentences(text))) + 0.35 * figures + 0.35 * bool(_CAUSE.search(text))


def _first_long_word(quote: str, used: Collection[str]) -> str:
    """Return the first long word of a passage that is not used, or else its beginning."""
    words = (word.capitalize() for word in re.findall(r"[^\s\d.,;:!?()，。、；：“”]{4,40}", quote))
    return next((word for word in words if word.casefold() not in used), quote[:40])
