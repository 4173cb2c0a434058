"""Facts out of a material: the sentences that teach most, each with the words around it, never others."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from providers.offline.fact_narration.concepts import concept, frequencies, topic
from providers.offline.fact_narration.cues import Cues, cues
from providers.offline.fact_narration.passages import Sentence, taken_apart
from providers.offline.fact_narration.phrases import phrases
from providers.offline.fact_narration.ranking import Ranked, content_words, ranked
from state.facts import FEWEST, MOST

_LEAST_SCORE = 0.08
_SENTENCES = 2
_FEW_CHARACTERS = 110
"""A passage shorter than this takes in a third sentence."""
_ALIKE = 0.6
_SHORT_TEXT = 12
"""Sentences."""
_OF_A_SHORT_TEXT, _OF_A_TEXT = 0.8, 0.5
"""Share of the sentences that facts are built around."""
_BESIDE = 0.1
_NOT_ANOTHER = -0.3
"""Worth of a sentence that is part of a fact that is there already."""


def sheet(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of `request["material"]`, in the order of the text.

    `guidance` lifts what it names; passages in `avoid` are not proposed again.
    """
    language = str(request.get("language") or "english")
    table = cues(language)
    text = str(request["material"])
    material = taken_apart(text, table)
    wanted = frozenset(content_words(str(request.get("guidance") or ""), table))
    avoided = [str(one) for one in request.get("avoid") or ()]
    usable = [one for one in material.sentences if not any(one.text in quote for quote in avoided)]
    weighed = ranked(usable, table, wanted)
    chosen = _chosen(weighed, table)
    facts = _facts(text, weighed, chosen, table)
    about = topic(material.headings, weighed, table) if weighed else ""
    said = phrases(language)
    return {
        "topic": about,
        "learningObjective": said.objective(about, [fact["concept"] for fact in facts[:3]]) if facts else "",
        "facts": facts,
        "leftOut": material.orders,
    }


def _chosen(sentences: Sequence[Ranked], table: Cues) -> list[int]:
    """Return the places of the sentences to build facts around, in the order of the text."""
    good = [place for place, one in enumerate(sentences) if one.score >= _LEAST_SCORE]
    share = _OF_A_SHORT_TEXT if len(good) <= _SHORT_TEXT else _OF_A_TEXT
    count = min(MOST, max(math.ceil(len(good) * share), min(len(good), FEWEST)))
    chosen: list[int] = []
    while len(chosen) < count:
        worth = {place: _worth(place, chosen, sentences, table) for place in good if place not in chosen}
        best = max(worth, key=lambda place: (worth[place], -place))
        if worth[best] < _NOT_ANOTHER:
            break
        chosen.append(best)
    return sorted(chosen)


def _worth(place: int, chosen: Sequence[int], sentences: Sequence[Ranked], table: Cues) -> float:
    """Return what a sentence adds to those chosen: less if it says the same, or belongs to one."""
    mine = sentences[place].words
    alike = max(
        (len(mine & sentences[one].words) / max(1, len(mine | sentences[one].words)) for one in chosen),
        default=0.0,
    )
    beside = any(abs(place - one) == 1 for one in chosen)
    needs_it = place - 1 in chosen and _points_back(sentences, place, table)
    needed_by = place + 1 in chosen and _points_back(sentences, place + 1, table)
    return sentences[place].score - _ALIKE * alike - _BESIDE * beside - (needs_it or needed_by)


def _points_back(sentences: Sequence[Ranked], place: int, table: Cues) -> bool:
    return bool(table.points_back.match(sentences[place].sentence.text)) and _joins(
        sentences, place - 1, place
    )


def _facts(
    text: str, sentences: Sequence[Ranked], chosen: Sequence[int], table: Cues
) -> list[dict[str, Any]]:
    common, used, taken = frequencies(sentences), set[str](), set(chosen)
    facts = []
    for place in chosen:
        first, last = _passage(place, sentences, taken, table)
        taken |= set(range(first, last + 1))
        quote = text[sentences[first].sentence.start : sentences[last].sentence.end]
        within = sentences[first : last + 1]
        says = next((one for one in within if "definition" in one.kinds), sentences[place])
        name = concept(says.sentence.text, table, common, frozenset(used))
        used.add(name.casefold())
        confidence = round(min(0.99, 0.5 + sentences[place].score / 2), 2)
        facts.append({"concept": name, "details": quote, "quote": quote, "confidence": confidence})
    return facts


def _passage(place: int, sentences: Sequence[Ranked], taken: set[int], table: Cues) -> tuple[int, int]:
    """Return the first and last sentence of what is quoted around one."""
    first = last = place
    if _points_back(sentences, place, table):
        first -= 1
    while _has_room(sentences, first, last):
        if last + 1 not in taken and _joins(sentences, last, last + 1):
            last += 1
        elif first - 1 not in taken and _joins(sentences, first - 1, first):
            first -= 1
        else:
            break
    return first, last


def _has_room(sentences: Sequence[Ranked], first: int, last: int) -> bool:
    size = sentences[last].sentence.end - sentences[first].sentence.start
    count = last - first + 1
    return count < _SENTENCES or (count == _SENTENCES and size < _FEW_CHARACTERS)


def _joins(sentences: Sequence[Ranked], one: int, after: int) -> bool:
    """Return whether two sentences stand together, with nothing left out between them."""
    if one < 0 or after >= len(sentences):
        return False
    a, b = sentences[one], sentences[after]
    usable = min(a.score, b.score) >= _LEAST_SCORE
    return usable and a.sentence.paragraph == b.sentence.paragraph and _gap(a.sentence, b.sentence) <= 2  # noqa: PLR2004


def _gap(a: Sentence, b: Sentence) -> int:
    return b.start - a.end
