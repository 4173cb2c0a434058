"""A narration of chosen facts in their own sentences, fitted to the words that each segment has room for.

A fact is told by its first sentence, shortened where there is no room; its others follow while there is room.
A fact without room for a sentence is named, and a note says so. Up to grade 4.5 sentences are parted, and
phrases simple.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from callsheet.providers.offline.lessons.sentences import ENGLISH, sentences
from callsheet.state.errors import Invalid
from callsheet.state.lessons.learning import shift
from callsheet.state.lessons.narration import KINDS, PURPOSES, Kind, length

_SIMPLE_TO: Final = 4.5
_JOINT: Final = re.compile(r"; |, (?=(?:so|but) (?!that\b))|, and (?=(?:they|it|he|she|we|you|this)\b)")
_TAIL: Final = re.compile(rf"(?:{_JOINT.pattern}|, (?:which|who|whose|where|when|while|although)\b(?!.*,)).*")
_CONDITION: Final = re.compile(r"(?:If|When|Because|As|While|Although|Since|Unless|After|Before|Once)\b")
_FOLLOWED: Final = re.compile(r'shorter|easier|harder|in other words|about "([^"]+)"|')
_LEAST_WORDS: Final = 4
_TEASED: Final = 4
"""Number of facts from which on one with a figure is told in the hook."""
_PHRASE_SHARE: Final = 0.6
"""Largest part of a segment with facts that its stock phrase takes."""
_TEASER: Final = "Did you know? "
_RECAPS: Final = ("Remember the main ideas: {}.", "Keep in mind: {}.", "Remember: {}.")
_NAMED: Final = ("There is more to find out about {}.", "Remember: {}.")
_NAMES: Final = re.compile(r"(?:Remember(?: the main ideas)?:|Keep in mind:|find out about) ([^.]*)\.")
"""What was said in one of these forms."""
Spoken = list[tuple[str, tuple[str, ...]]]
"""Sentences, each with the ids of the facts it says."""


class Fact:
    """A fact and the ways to tell it."""

    def __init__(self, concept: str, details: str, *, simple: bool) -> None:
        whole = sentences(details) or [details]
        told = [_parted(one) if simple else one for one in whole]
        prefixes = [(" " if " " in details else "").join(told[:n]) for n in range(len(told), 0, -1)]
        self.ways = list(dict.fromkeys([*prefixes, _cut(whole[0])]))
        """The longest first."""
        small = concept[:1].lower() + concept[1:]
        self.name = small if small in details else concept
        """Its concept as it is written within a sentence."""


@dataclass
class Page:
    """A segment being written."""

    kind: Kind
    budget: int
    language: str
    facts: Mapping[str, Fact]
    was: str
    """Its words so far; a phrase that is not among them is preferred."""
    shorter: bool
    """Whether it shall say no more than it has to."""
    told: dict[str, int] = field(default_factory=dict)
    """Fact id to the number of its wording."""
    extra: Spoken = field(default_factory=list)
    """Phrases and names around the facts."""

    def spoken(self) -> Spoken:
        """Return its sentences in order."""
        teaser = _TEASER if self.kind == "hook" and self.language == "english" else ""
        told: Spoken = [(teaser + self.facts[one].ways[way], (one,)) for one, way in self.told.items()]
        return [*told, *self.extra] if self.kind == "conclusion" else [*self.extra, *told]

    def room(self) -> int:
        """Return how much more it can say; below 0 where it says too much."""
        return self.budget - sum(length(text, self.language) for text, _ in self.spoken())

    def tell(self, fact: str) -> bool:
        """Tell a fact in its shortest wording, and return whether there is room."""
        self.told[fact] = len(self.facts[fact].ways) - 1
        if self.room() < 0:
            del self.told[fact]
        return fact in self.told

    def say(self, texts: Sequence[str], facts: Sequence[str] = ()) -> bool:
        """Say the first of the texts that has room, but rather a new one; return whether one has."""
        most = min(self.room(), self.budget * (_PHRASE_SHARE if self.told else 1))
        fitting = sorted(
            (one for one in texts if length(one, self.language) <= most), key=self.was.__contains__
        )
        ranked = sorted(fitting, key=len if self.shorter else self.was.__contains__)
        self.extra += [(one, tuple(facts)) for one in ranked[:1]]
        return bool(fitting)

    def name(self, forms: Sequence[str], facts: Sequence[str]) -> bool:
        """Name facts in the first of the forms that has room, and return whether one has."""
        names = [self.facts[one].name for one in facts]
        if self.language == "english":
            return self.say([form.format(listed(names)) for form in forms], facts)
        return self.say([f"{', '.join(names)}."], facts)

    def named(self, fact: str) -> bool:
        """Return whether the page only named a fact so far, so that another tells it."""
        names = _NAMES.findall(self.was) if self.language == "english" else [self.was]
        one = self.facts[fact]
        return one.ways[-1] not in self.was and any(one.name in each for each in names)

    def grow(self, word: str) -> None:
        """Tell facts at greater length while there is room, first those that have the word."""
        for fact in sorted(self.told, key=lambda one: word not in self.facts[one].ways[0].casefold()):
            for way in range(self.told[fact]):
                shortest, self.told[fact] = self.told[fact], way
                if self.room() >= 0:
                    break
                self.told[fact] = shortest


def script(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `NarrationScript` of a request; raises `Invalid` where not even the names have room."""
    language, guidance = str(request["language"]), str(request.get("guidance") or "")
    simple = language == "english" and float(request["level"]) + 2 * shift(guidance) <= _SIMPLE_TO
    facts = {one["id"]: Fact(one["concept"], one["details"], simple=simple) for one in request["facts"]}
    slots, shorter = request["segments"], "shorter" in guidance
    pages = [Page(one["type"], one["budget"], language, facts, one.get("was", ""), shorter) for one in slots]
    asked = {slot["type"]: slot["facts"] or () for slot in slots if slot["facts"] is not None}
    shares, left, unsaid = asked or _spread(pages), list[str](), list[str]()
    for page in pages:
        again = [one for one in shares[page.kind] if page.named(one)]
        if again and not page.name(_NAMED if len(again) < len(shares[page.kind]) else _RECAPS, again):
            again = []
        left = [one for one in [*left, *shares[page.kind]] if one not in again and not page.tell(one)]
        # The facts of a segment that is written again stay there.
        unsaid += _named(page, left) if asked else []
        left = [] if asked else left
    unsaid += _named(pages[-1], [one for one in left if not any(page.tell(one) for page in pages[1:])])
    followed = _FOLLOWED.fullmatch(guidance)
    word = str(followed[1] or "").casefold() if followed else ""
    for page in pages:
        _phrase(page, request, ENGLISH["simple" if simple else "older"])
        if not shorter:
            page.grow(word)
    names = listed([facts[one].name for one in unsaid])
    notes = [f"there was only room to name {names}; a longer narration tells more of them"] if unsaid else []
    if not any(word in one.ways[0].casefold() for one in facts.values()):
        notes.append(f"none of the facts told there is about “{word}”")
    if not followed and not shift(guidance):
        notes.append(f"the offline demo model follows the length and level of a wish only, not “{guidance}”")
    return {"segments": [_segment(page, request) for page in pages], "notes": notes}


def listed(names: Sequence[str]) -> str:
    """Return names as an English list: "a, b and c"."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _parted(sentence: str) -> str:
    """Return a sentence as several where it joins clauses that can stand alone."""
    parts = _JOINT.split(sentence)
    if _CONDITION.match(sentence) or any(len(one.split()) < _LEAST_WORDS for one in parts):
        return sentence
    return " ".join(f"{one[:1].upper()}{one[1:].rstrip('.')}." for one in parts)


def _cut(sentence: str) -> str:
    """Return a sentence without its last clauses, where what is left can stand alone."""
    head = _TAIL.sub("", sentence)
    stands = head != sentence and not _CONDITION.match(sentence) and len(head.split()) >= _LEAST_WORDS
    return f"{head}." if stands else sentence


def _spread(pages: Sequence[Page]) -> Mapping[Kind, list[str]]:
    """Return the facts of each segment in their order, as many as it has room for."""
    shares: dict[Kind, list[str]] = {kind: [] for kind in KINDS}
    shortest = {one: fact.ways[-1] for one, fact in pages[0].facts.items()}
    size = {one: length(text, pages[0].language) for one, text in shortest.items()}
    figures = [one for one in [*size][1:] if re.search(r"\d", shortest[one]) and len(size) >= _TEASED]
    teaser = min(figures, key=size.__getitem__, default="")
    if teaser and size[teaser] <= pages[0].budget * _PHRASE_SHARE:
        shares["hook"].append(teaser)
        del size[teaser]
    whole = sum(size.values())
    # Where there is room the conclusion only sums up.
    telling = pages[1:] if whole > 0.7 * (pages[1].budget + pages[2].budget) else pages[1:3][: len(size)]
    ends = list(accumulate(page.budget for page in telling))
    for one, passed in zip(size, accumulate(size.values()), strict=True):
        middle = (passed - size[one] / 2) / (whole or 1) * ends[-1]
        shares[telling[next(at for at, end in enumerate(ends) if middle <= end)].kind].append(one)
    return shares


def _named(page: Page, left: list[str]) -> list[str]:
    """Name the facts that are left, in the place of others where that is needed; return all it names."""
    while left and not page.name(_NAMED, left):
        if not page.told:
            raise Invalid(
                f"{len(left)} facts cannot even be named in {page.budget} words",
                remedy="choose fewer facts, or ask for a longer narration",
            )
        left.append(page.told.popitem()[0])
    return left


def _phrase(page: Page, request: Mapping[str, Any], table: Mapping[str, Sequence[str]]) -> None:
    """Put a stock phrase on a page; one that tells no fact names some again."""
    hook, empty = page.kind == "hook", not page.told and not page.extra
    if empty and not hook:
        recaps = _RECAPS[::-1] if page.kind == "process_explanation" else _RECAPS
        any(page.name(recaps, [*page.facts][:n]) for n in (3, 2, 1))
    topic, liked = str(request["topic"]).rstrip(" .?!:"), listed(request.get("interests") or ())
    phrases = [
        one.format(liked=liked, topic=topic) for one in table[page.kind] if liked or "{liked}" not in one
    ]
    if (
        page.language == "english"
        and (empty or not page.shorter)
        and (hook or not empty or page.kind == KINDS[-1])
    ):
        page.say(phrases)
    if not page.spoken() and not page.say([f"{topic}."]):
        page.extra = [((topic.split() or ["…"])[0], ())]


def _segment(page: Page, request: Mapping[str, Any]) -> dict[str, Any]:
    said = {one for _, facts in page.spoken() for one in facts}
    labels = [str(one["concept"]) for one in request["facts"] if one["id"] in said]
    picture = f"{ENGLISH['pictures'][page.kind]}: {', '.join(labels) or request['topic']}."
    return {
        "type": page.kind,
        "sentences": [{"text": text, "factIds": list(facts)} for text, facts in page.spoken()],
        "visual_guidance": f"{picture} {request.get('style') or ''}".strip(),
        "key_concepts": labels,
        "educational_purpose": PURPOSES[page.kind],
    }
