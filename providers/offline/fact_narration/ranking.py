"""Which sentences a text leans on (TextRank), and what each has to teach from."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from providers.offline.fact_narration.cues import Cues
from providers.offline.fact_narration.passages import Sentence
from state.languages import find

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_FIGURE = re.compile(r"\d|[零一二三四五六七八九十百千万〇]{2,}")
_SUFFIX = re.compile(r"(?:ies|ing|edly|ed|es|ly|s)$")
_DAMPING = 0.85
_ROUNDS = 20
_GOOD_WORDS = range(7, 40)
_COMMON_SHARE = 0.3
"""A word that is in more of the sentences than this tells none apart."""


@dataclass(frozen=True)
class Ranked:
    """One sentence and what speaks for it."""

    sentence: Sentence
    score: float
    """0 to about 1; below nothing where it teaches nothing."""
    words: frozenset[str]
    """What it is about: stems, or pairs of characters where a script does not part words."""
    kinds: frozenset[str]
    """Of `definition`, `number`, `cause`."""


def ranked(sentences: Sequence[Sentence], cues: Cues, wanted: frozenset[str] = frozenset()) -> list[Ranked]:
    """Return the sentences in their order with their scores; those about `wanted` words are lifted."""
    words = [frozenset(content_words(one.text, cues)) for one in sentences]
    central = _central(words)
    return [
        _ranked(one, about, weight, cues, wanted)
        for one, about, weight in zip(sentences, words, central, strict=True)
    ]


def content_words(text: str, cues: Cues) -> Iterator[str]:
    """Yield the stems of the words that name something, in order."""
    spoken = find(cues.language)
    if spoken and spoken.unit == "character":
        for run in re.findall(r"[^\W\d_]+", text):
            yield from (run[at : at + 2] for at in range(len(run) - 1))
        return
    for word in _WORD.findall(text.casefold()):
        if len(word) > 2 and word not in cues.stop:  # noqa: PLR2004 -- letters
            yield stem(word)


def stem(word: str) -> str:
    """Return a word without its commonest English endings; equal stems are taken for one word."""
    cut = _SUFFIX.sub("", word)
    return cut if len(cut) > 3 else word  # noqa: PLR2004 -- letters


def _ranked(
    sentence: Sentence, about: frozenset[str], central: float, cues: Cues, wanted: frozenset[str]
) -> Ranked:
    text = sentence.text
    kinds = {
        "definition": bool(cues.term(text)),
        "number": bool(_FIGURE.search(text)),
        "cause": bool(cues.causes.search(text)),
    }
    score = 0.45 * central + 0.25 * kinds["definition"] + 0.2 * kinds["number"] + 0.15 * kinds["cause"]
    spoken = find(cues.language)
    fair = len(text) >= 10 if spoken and spoken.unit == "character" else len(text.split()) in _GOOD_WORDS  # noqa: PLR2004
    score += 0.1 * fair - 0.5 * bool(cues.meta.search(text)) - 0.05 * bool(cues.points_back.match(text))
    score += 0.6 * min(2, len(about & wanted))
    return Ranked(sentence, round(score, 4), about, frozenset(name for name, has in kinds.items() if has))


def _central(words: Sequence[frozenset[str]]) -> list[float]:
    """Return each sentence's weight by TextRank, the heaviest being 1."""
    links = _links(words)
    strength = [sum(row.values()) for row in links]
    weights = [1.0] * len(words)
    for _ in range(_ROUNDS):
        weights = [
            1 - _DAMPING + _DAMPING * sum(weights[j] * link / strength[j] for j, link in row.items())
            for row in links
        ]
    heaviest = max(weights, default=1.0)
    return [weight / heaviest for weight in weights]


def _links(words: Sequence[frozenset[str]]) -> list[dict[int, float]]:
    """Return how alike every two sentences are: the words they share, by how long they are."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, about in enumerate(words):
        for word in about:
            places[word].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    limit = max(3, _COMMON_SHARE * len(words))
    # In the order of the text, since sets are not the same from process to process.
    for word in sorted(places):
        if len(places[word]) <= limit:
            shared.update((i, j) for i in places[word] for j in places[word] if i < j)
    links: list[dict[int, float]] = [{} for _ in words]
    for (i, j), count in sorted(shared.items()):
        alike = count / (1 + math.log(len(words[i])) + math.log(len(words[j])))
        links[i][j] = links[j][i] = alike
    return links
