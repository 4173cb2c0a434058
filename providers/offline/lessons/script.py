"""A narration of chosen facts in their own sentences, within the words that each segment has room for.

A fact is told by its first sentence, and by more of them where there is room. A fact without room for a
sentence is named, and a note says so. Up to grade 4.5 the phrases are simple.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from callsheet.providers.offline.lessons.facts import ENGLISH, sentences
from callsheet.state.errors import Invalid
from callsheet.state.lessons.narration import KINDS, PURPOSES, Kind, kind_name, length

_SIMPLE_UP_TO: Final = 4.5
_GUIDANCE: Final = re.compile(r"shorter|longer|easier|in other words|")
_RECAPS: Final = ("Remember the main ideas: {}.", "Keep in mind: {}.", "Remember: {}.")
_NAMED: Final = ("There is more to find out about {}.", "Remember: {}.")


class _Fact:
    """A fact and its wordings."""

    def __init__(self, concept: str, details: str) -> None:
        parts = sentences(details) or [details]
        blank = " " if " " in details else ""
        self.wordings = [blank.join(parts[:count]) for count in range(len(parts), 0, -1)]
        """The longest first."""
        lowered = concept[:1].lower() + concept[1:]
        self.name = lowered if lowered in details else concept
        """Its concept as it is written within a sentence."""


@dataclass
class _Segment:
    """A segment being written."""

    kind: Kind
    budget: int
    language: str
    facts: Mapping[str, _Fact]
    earlier: str
    """Its text so far; a phrase outside it is preferred."""
    guidance: str
    """`shorter` to say no more than it has to, `longer` to sum up what it tells as well, or others."""
    wordings: dict[str, int] = field(default_factory=dict)
    """Fact id to the index of its wording."""
    phrases: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Sentences around the facts, each with the ids of the facts it names."""

    def sentences(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return its sentences in order, each with its fact ids."""
        facts = [(self.facts[fact].wordings[index], (fact,)) for fact, index in self.wordings.items()]
        return [*facts, *self.phrases] if self.kind == "conclusion" else [*self.phrases, *facts]

    def room(self) -> int:
        """Return the length that is left; below 0 if its sentences are too long."""
        return self.budget - sum(length(text, self.language) for text, _ in self.sentences())

    def tell(self, fact: str) -> bool:
        """Tell a fact in its shortest wording if there is room; return whether there is."""
        self.wordings[fact] = len(self.facts[fact].wordings) - 1
        if self.room() < 0:
            del self.wordings[fact]
        return fact in self.wordings

    def say(self, texts: Sequence[str], facts: Sequence[str] = ()) -> bool:
        """Add the first text that has room, preferably a new one; return whether one has."""
        fitting = [text for text in texts if length(text, self.language) <= self.room()]
        order = {"shorter": len, "longer": lambda text: -len(text)}
        fitting.sort(key=order.get(self.guidance, self.earlier.__contains__))
        self.phrases += [(text, tuple(facts)) for text in fitting[:1]]
        return bool(fitting)

    def name(self, forms: Sequence[str], facts: Sequence[str]) -> bool:
        """Name facts in the first form that has room; return whether one has."""
        names = [self.facts[fact].name for fact in facts]
        if self.language == "english":
            return self.say([form.format(_join(names)) for form in forms], facts)
        return self.say([f"{', '.join(names)}."], facts)

    def name_all(self, facts: list[str]) -> list[str]:
        """Name facts, in place of told ones if necessary, and return all that are named."""
        while facts and not self.name(_NAMED, facts):
            if not self.wordings:
                raise Invalid(
                    f"{len(facts)} facts cannot even be named in {self.budget} words",
                    remedy="choose fewer facts, or ask for a longer narration",
                )
            facts.append(self.wordings.popitem()[0])
        return facts

    def recap(self) -> None:
        """Name the facts that it tells, or else the first ones of all, if there is room."""
        # Two segments in a row do not sum up in the same words.
        recaps = _RECAPS[::-1] if self.kind in {"hook", "process_explanation"} else _RECAPS
        any(self.name(recaps, [*(self.wordings or self.facts)][:count]) for count in (3, 2, 1))

    def check_length(self) -> None:
        """Raise `Invalid` if it was to be longer or shorter than it was, and is not."""
        grown = self.budget - self.room() - length(self.earlier, self.language)
        if self.earlier and {"longer": grown <= 0, "shorter": grown >= 0}.get(self.guidance):
            raise Invalid(
                f"the {kind_name(self.kind)} cannot be {self.guidance} with these facts in its time",
                remedy="ask for another length of the whole narration",
            )

    def lengthen(self) -> None:
        """Tell each fact in its longest wording that has room."""
        for fact, shortest in self.wordings.items():
            for index in range(shortest):
                self.wordings[fact] = index
                if self.room() >= 0:
                    break
                self.wordings[fact] = shortest


def script(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `NarrationScript` of a request; raise `Invalid` if not even the names have room."""
    language, guidance = str(request["language"]), str(request.get("guidance") or "")
    facts = {fact["id"]: _Fact(fact["concept"], fact["details"]) for fact in request["facts"]}
    segments = [
        _Segment(slot["type"], slot["budget"], language, facts, slot.get("was", ""), guidance)
        for slot in request["segments"]
    ]
    fixed = {slot["type"]: slot["facts"] for slot in request["segments"] if slot["facts"] is not None}
    named = _tell_fixed(segments, fixed) if fixed else _tell_all(segments)
    simple = float(request["level"]) <= _SIMPLE_UP_TO or guidance == "easier"
    for segment in segments:
        _add_phrase(segment, request, ENGLISH["simple" if simple else "older"])
        if guidance != "shorter":
            segment.lengthen()
        if guidance == "longer":
            segment.recap()
        segment.check_length()
    names = _join([facts[fact].name for fact in named])
    notes = [f"there was only room to name {names}; a longer narration tells more of them"] if named else []
    if not _GUIDANCE.fullmatch(guidance):
        notes.append(f"the offline demo model follows guidance on length and level only, not “{guidance}”")
    return {"segments": [_written(segment, request) for segment in segments], "notes": notes}


def _tell_all(segments: Sequence[_Segment]) -> list[str]:
    """Spread the facts over the segments after the hook; return those that are only named."""
    telling = [segment for segment in segments if segment.kind != "hook"] or segments
    facts, remaining = [*segments[0].facts], list[str]()
    for number, segment in enumerate(telling):
        share = [fact for at, fact in enumerate(facts) if at * len(telling) // len(facts) == number]
        remaining = [fact for fact in [*remaining, *share] if not segment.tell(fact)]
    return segments[-1].name_all([fact for fact in remaining if not any(each.tell(fact) for each in telling)])


def _tell_fixed(segments: Sequence[_Segment], fixed: Mapping[Kind, Sequence[str] | None]) -> list[str]:
    """Tell each segment's own facts; return those that are only named for lack of room."""
    named: list[str] = []
    for segment in segments:
        share = list(fixed[segment.kind] or ())
        named += segment.name_all([fact for fact in share if not segment.tell(fact)])
    return named


def _add_phrase(segment: _Segment, request: Mapping[str, Any], table: Mapping[str, Sequence[str]]) -> None:
    """Add a stock phrase to a segment, or a recap to one that tells no fact."""
    tells = bool(segment.sentences())
    if not tells and segment.kind != "hook":
        segment.recap()
    topic, liked = str(request["topic"]).rstrip(" .?!:"), _join(request.get("interests") or ())
    phrases = [each for each in table[segment.kind] if liked or "{liked}" not in each]
    wanted = segment.guidance != "shorter" if tells else segment.kind in {KINDS[0], KINDS[-1]}
    if segment.language == "english" and wanted:
        segment.say([phrase.format(liked=liked, topic=topic) for phrase in phrases])
    if not segment.sentences() and not segment.say([f"{topic}."]):
        segment.phrases = [((topic.split() or ["…"])[0], ())]


def _written(segment: _Segment, request: Mapping[str, Any]) -> dict[str, Any]:
    ids = {fact for _, facts in segment.sentences() for fact in facts}
    concepts = [str(fact["concept"]) for fact in request["facts"] if fact["id"] in ids]
    picture = f"Show this: {', '.join(concepts) or request['topic']}."
    return {
        "type": segment.kind,
        "sentences": [{"text": text, "factIds": list(facts)} for text, facts in segment.sentences()],
        "visual_guidance": f"{picture} {request.get('style') or ''}".strip(),
        "key_concepts": concepts,
        "educational_purpose": PURPOSES[segment.kind],
    }


def _join(names: Sequence[str]) -> str:
    """Return names as an English list: "a, b and c"."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
