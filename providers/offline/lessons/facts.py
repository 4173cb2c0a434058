"""Facts of a material: its passages ranked by TextRank, each quoted word for word and named by its own words.

A passage is a sentence and those after it that point back to it ("It takes place …"). One that shares words
with many others ranks high; that it opens the text, defines, counts or explains adds to that. Every two
sentences give a fact, but a text five at least and fifteen at most.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from callsheet.providers.offline.lessons.labels import content, defines, label
from callsheet.providers.offline.lessons.sentences import sentences, spans
from callsheet.state.lessons.facts import FEWEST, MOST

_MOST_SENTENCES: Final = 4
_LEAST_WORDS: Final = 4
_HEADING_CHARS: Final = 90
_DAMPING: Final = 0.85
_ROUNDS: Final = 20
_BACK: Final = re.compile(
    r"(?:it|its|they|their|this|these|those|that|he|his|she|her|such|but|however|then|therefore|instead|also|"
    r"as a result|because of (?:this|that)|for example|in addition)\b",
    re.IGNORECASE,
)
"""Beginning of a sentence that points back to the one before."""
_ORDERS: Final = re.compile(
    r"ignore (?:all|any|every|previous)\b.*instruction|system prompt|developer mode|\b\w+Tool\b|</?material>",
    re.IGNORECASE,
)
_NOISE: Final = re.compile(
    r"cookies|newsletter|log ?in\b|subscribe|all rights reserved|click here|privacy policy|^read more|https?://|"
    r"\bwe will now\b|\bin (?:my|a) future work\b|\bhere I will\b|^don['’]t forget\b",
    re.IGNORECASE,
)
"""Words of a web page, or of an author about the text, which teach nothing."""
_CAUSE: Final = re.compile(
    r"\b(?:because|so that|therefore|as a result|since|causes?|leads? to)\b", re.IGNORECASE
)
_ENDS: Final = re.compile(r"[.!…。！।؟]+[\"'”’»」)\]]*$")


class Passage(NamedTuple):
    """Sentences that follow each other, with their place in the material."""

    start: int
    end: int
    size: int
    """Number of sentences."""


def sheet(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `FactSheet` of the request's `material`, in its order and without what `avoid` quotes.

    With a `guidance` that names something, only passages that say it are facts.
    """
    text, english = str(request["material"]), request.get("language") == "english"
    passages, headings, orders = _read(text)
    avoid = [str(one) for one in request.get("avoid") or ()]
    fresh = [
        one
        for one in passages
        if not any(sentences(text[one.start : one.end])[0] in quote for quote in avoid)
    ]
    facts = _facts(text, fresh, frozenset(content(str(request.get("guidance") or ""))), english=english)
    topic = next(
        (one for one in headings if any(map(str.isalpha, one))), facts[0]["concept"] if facts else ""
    )
    aim = f"Explain in your own words: {topic}." if facts else ""
    return {"topic": topic, "learningObjective": aim, "facts": facts, "leftOut": orders}


def _read(text: str) -> tuple[list[Passage], list[str], int]:
    """Return the passages and headings of a text, and the number of sentences that give orders to a model."""
    passages: list[Passage] = []
    headings: list[str] = []
    orders = 0
    for start, end in spans(text):
        sentence, last = text[start:end], passages[-1] if passages else Passage(0, -1, _MOST_SENTENCES)
        orders += bool(_ORDERS.search(sentence))
        if len(sentence) < _HEADING_CHARS and (not _ENDS.search(sentence) or sentence.isupper()):
            title = sentence.strip(" .:#*=-_")
            headings += [title.capitalize() if title.isupper() else title] * (not _NOISE.search(sentence))
        elif _teaches(sentence):
            back = _BACK.match(sentence) and last.size < _MOST_SENTENCES and _adjoin(text, last.end, start)
            passages[len(passages) - bool(back) :] = [
                Passage(last.start, end, last.size + 1) if back else Passage(start, end, 1)
            ]
    return passages, headings, orders


def _adjoin(text: str, end: int, start: int) -> bool:
    return end >= 0 and text[end:start] in {" ", ""}


def _teaches(sentence: str) -> bool:
    words = len(sentence.split())
    spaced = words >= _LEAST_WORDS or len(sentence) > 8 * words
    letters = sum(map(str.isalpha, sentence)) * 2 > len(sentence)
    asks = sentence.rstrip("\"'”’»)").endswith(("?", "？", ":"))
    return spaced and letters and not asks and not _NOISE.search(sentence) and not _ORDERS.search(sentence)


def _facts(
    text: str, passages: Sequence[Passage], wanted: frozenset[str], *, english: bool
) -> list[dict[str, Any]]:
    told = [text[one.start : one.end] for one in passages]
    # A script without blanks has characters for words.
    words = [frozenset(content(one) if " " in one else one) for one in told]
    worth = [rank + _teaching(one) for rank, one in zip(_ranks(words), told, strict=True)]
    worth[:1] = [one + 0.5 for one in worth[:1]]
    chosen = _chosen(passages, worth, [at for at, about in enumerate(words) if not wanted or wanted & about])
    common = Counter(word for about in words for word in about)
    facts: list[dict[str, Any]] = []
    for at in chosen:
        one, after = passages[at], passages[at + 1] if at + 1 < len(passages) else passages[at]
        joins = one.size == 1 and at + 1 not in chosen and _adjoin(text, one.end, after.start)
        quote = text[one.start : after.end if joins else one.end]
        used = {fact["concept"].casefold() for fact in facts}
        name = label(sentences(quote), common, used) if english else _opening(quote, used)
        sure = round(0.6 + 0.35 * worth[at] / max(worth), 2)
        facts.append({"concept": name, "details": quote, "quote": quote, "confidence": sure})
    return facts


def _chosen(passages: Sequence[Passage], worth: Sequence[float], usable: Sequence[int]) -> list[int]:
    """Return the places of the passages that become facts; a single sentence rather takes in the next one."""
    count = min(MOST, max(FEWEST, math.ceil(sum(one.size for one in passages) / 2)))
    chosen: list[int] = []
    for _ in usable[:count]:
        beside = {at + 1 for at in chosen if passages[at].size == 1} | {
            at - 1 for at in chosen if passages[at - 1].size == 1
        }
        left = [at for at in usable if at not in chosen]
        chosen.append(max(left, key=lambda at: worth[at] - 0.4 * (at in beside)))
    return sorted(chosen)


def _ranks(words: Sequence[frozenset[str]]) -> list[float]:
    """Return each passage's TextRank, the highest being 1."""
    links = [
        {j: len(a & b) / (1 + math.log(len(a) * len(b))) for j, b in enumerate(words) if i != j and a & b}
        for i, a in enumerate(words)
    ]
    strength = [sum(row.values()) for row in links]
    ranks = [1.0] * len(words)
    for _ in range(_ROUNDS):
        given = [rank / (by or 1) for rank, by in zip(ranks, strength, strict=True)]
        ranks = [1 - _DAMPING + _DAMPING * sum(given[j] * by for j, by in row.items()) for row in links]
    return [rank / max(ranks) for rank in ranks]


def _teaching(text: str) -> float:
    figures = any(map(str.isdigit, text))
    return 0.5 * any(map(defines, sentences(text))) + 0.35 * figures + 0.35 * bool(_CAUSE.search(text))


def _opening(quote: str, used: Collection[str]) -> str:
    """Return the first long word of a passage that is not used, or else its beginning."""
    words = (one.capitalize() for one in re.findall(r"[^\s\d.,;:!?()，。、；：“”]{4,40}", quote))
    return next((one for one in words if one.casefold() not in used), quote[:40])
