"""A narration out of facts: a question, the facts told in the student's words, and a word to remember."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from providers.offline.fact_narration.layout import Page, Telling, fitted, framed, grown, name, spread, told
from providers.offline.fact_narration.phrases import Phrases, phrases
from providers.offline.fact_narration.rewrites import easier, shorter
from providers.offline.fact_narration.statements import statements
from state.errors import Invalid
from state.narration import PURPOSES, Kind, Sentence

_ENOUGH_FOR_A_TEASER = 4
_RECAPPED = 3
_EASIER_BY = 2.0
"""School grades."""
_SHORT_SHARE = 0.6
"""Of its room that a segment takes where fewer words are wanted."""
_FIGURE = re.compile(r"\d|[零一二三四五六七八九十百千万〇]{2,}")
Frames = Iterator[tuple[Sequence[Sentence], Sequence[Sentence]]]


def script(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the segments asked for; only the facts given are told, and each of them is.

    Raises `Invalid` where not even the names of the facts have room.
    """
    if shorter(str(request.get("guidance") or "")):
        try:
            return _script(request, _SHORT_SHARE)
        except Invalid:
            return _script(request, 1)
    return _script(request, 1)


def _script(request: Mapping[str, Any], share: float) -> dict[str, Any]:
    language, guidance = str(request["language"]), str(request.get("guidance") or "")
    level = float(request["level"]) - _EASIER_BY * easier(guidance)
    known = {
        str(one["id"]): Telling(
            str(one["id"]),
            str(one["concept"]),
            tuple(statements(str(one["details"]), str(one["concept"]), level, language)),
        )
        for one in request["facts"]
    }
    said = phrases(language)
    slots: dict[Kind, int] = {slot["type"]: int(slot["budget"] * share) for slot in request["segments"]}
    pages = {kind: Page(kind, budget, language, said) for kind, budget in slots.items()}
    _put(pages, _shares(request, known, slots, language), known)
    was = {slot["type"]: str(slot.get("was", "")) for slot in request["segments"]}
    taken = {way for one in known.values() for way in one.ways if any(way in text for text in was.values())}
    for page in pages.values():
        framed(page, _otherwise(_frames(page, request, known, said), was[page.type]), known)
        grown(page, known, taken)
    named = [one for page in pages.values() for one in page.named]
    return {
        "segments": [_segment(page, request, known, said) for page in pages.values()],
        "notes": [_too_many(named)] if named else [],
    }


def _shares(
    request: Mapping[str, Any], known: Mapping[str, Telling], slots: Mapping[Kind, int], language: str
) -> dict[Kind, list[Telling]]:
    """Return the facts of each segment: as the request says, or spread over those it asks for."""
    asked: dict[Kind, list[Telling]] = {
        slot["type"]: [known[one] for one in slot["facts"]]
        for slot in request["segments"]
        if slot.get("facts") is not None
    }
    if asked:
        return asked
    facts = list(known.values())
    teaser = _teaser(facts, slots, language)
    given = spread([one for one in facts if one is not teaser], slots, language)
    if teaser:
        given["hook"] = [teaser]
    return given


def _teaser(facts: Sequence[Telling], slots: Mapping[Kind, int], language: str) -> Telling | None:
    """Return the fact that makes one curious: a short one with a figure in it."""
    if len(facts) < _ENOUGH_FOR_A_TEASER or "hook" not in slots:
        return None
    short = [
        one for one in facts if one.least(language) <= slots["hook"] // 2 and _FIGURE.search(one.ways[-1])
    ]
    return min(short, key=lambda one: one.least(language), default=None)


def _put(
    pages: Mapping[Kind, Page], given: Mapping[Kind, list[Telling]], known: Mapping[str, Telling]
) -> None:
    """Put every fact on a page: told on its own or another, or else named where there is room."""
    left = [one for kind, page in pages.items() for one in fitted(page, given.get(kind, []), known)]
    by_room = sorted(pages.values(), key=lambda page: page.size(known) - page.budget)
    for page in pages.values():
        for one in [*page.named]:
            page.named.remove(one)
            if not any(told(other, one, known) for other in by_room):
                page.named.append(one)
    for one in left:
        if not any(told(page, one, known) for page in by_room) and not any(
            name(page, one, known) for page in by_room
        ):
            words = sum(page.budget for page in pages.values())
            raise Invalid(
                f"{len(known)} facts cannot even be named in {words} words",
                remedy="choose fewer facts, or ask for a longer narration",
            )


def _frames(page: Page, request: Mapping[str, Any], known: Mapping[str, Telling], said: Phrases) -> Frames:
    """Yield what may be said before and after the facts of a page, the fullest first."""
    interests = said.listed([str(one) for one in request.get("interests") or ()])
    topic = str(request["topic"])
    if page.type == "hook":
        greeting = said.ways("interest_hook", interests=interests) if interests else []
        for hello, wonder in product([*greeting, ""], said.wonder(topic)):
            yield _spoken(hello, wonder), ()
    else:
        last = page.type == "conclusion"
        explains = bool(interests) and page.type == "process_explanation"
        opening = said.ways("interest_process", interests=interests) if explains else []
        goodbyes = said.ways("interest_closing", interests=interests) if interests else []
        goodbyes = [*goodbyes, *said.ways("closing", topic=topic)] if last else []
        for hello, recap, goodbye in product([*opening, ""], _recaps(page, known, said), [*goodbyes, ""]):
            yield [*_spoken(hello), *recap], _spoken(goodbye)


def _otherwise(frames: Frames, was: str) -> Frames:
    """Yield the frames that say something else than a segment said until now, then those that do not."""
    every = list(frames)
    same = [any(one.text in was for one in (*before, *after)) for before, after in every]
    fresh = [frame for frame, old in zip(every, same, strict=True) if not old and any(frame)]
    yield from [*fresh, *(frame for frame in every if frame not in fresh)] if was else every


def _recaps(page: Page, known: Mapping[str, Telling], said: Phrases) -> list[list[Sentence]]:
    """Return what a page says that has no fact of its own: the main ideas once more."""
    if page.told or page.named:
        return [[]]
    recapped = list(known.values())[:_RECAPPED]
    ids = tuple(one.id for one in recapped)
    ways = said.ways("recap", concepts=said.listed([one.concept for one in recapped]))
    return [[Sentence(text=way, factIds=ids)] for way in ways]


def _spoken(*texts: str) -> list[Sentence]:
    return [Sentence(text=text) for text in texts if text]


def _segment(
    page: Page, request: Mapping[str, Any], known: Mapping[str, Telling], said: Phrases
) -> dict[str, Any]:
    sentences = page.sentences(known)
    ids = dict.fromkeys(one for sentence in sentences for one in sentence.factIds)
    concepts = [known[one].concept for one in ids]
    shown = concepts or [one.concept for one in known.values()][:1] or [str(request["topic"])]
    seen = said.seen(page.type, shown, [str(one) for one in request.get("interests") or ()])
    return {
        "type": page.type,
        "sentences": [sentence.model_dump() for sentence in sentences],
        "visual_guidance": " ".join(part for part in (seen, str(request.get("style") or "")) if part),
        "key_concepts": concepts,
        "educational_purpose": PURPOSES[page.type],
    }


def _too_many(named: Sequence[Telling]) -> str:
    few = len(named) == 1
    return (
        f"{len(named)} {'fact is' if few else 'facts are'} only named, for there was no room to tell "
        f"{'it' if few else 'them'}: {', '.join(one.concept for one in named)}; a longer narration would"
    )
