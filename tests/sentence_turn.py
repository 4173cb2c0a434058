"""One turn of a conversation about an ad as the checks see it, and the reading of states and texts."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "sentences"
MARKERS: Mapping[str, Mapping[str, list[str]]] = json.loads((FOLDER / "markers.json").read_text("utf-8"))
"""{kind: {language: words}}: small words, ways to admit, phrases that only sound so, number words."""
_LATIN = "0-9a-z\u00c0-\u024f\u1e00-\u1eff"
_PLAIN = str.maketrans(
    {**dict.fromkeys("‘’", "'"), **dict.fromkeys("“”„«»", '"'), **dict.fromkeys("-‐‑–—", " "), "&": " and "}
)
Data = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One sentence and what must happen."""

    id: str
    group: str
    lang: str
    """English name of the sentence's language; the ad's, when the brief is the sentence."""
    brief: Data
    """Body of the generate request, resolved."""
    say: str | None
    """None: the brief is the sentence."""
    expect: Data
    said: Sequence[str] = ()
    now: Data = field(default_factory=dict)
    outside: Data = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """What a check looks at."""

    case: Case
    expect: Data
    before: Data
    after: Data
    created: Sequence[Mapping[str, str]]
    reply: str

    @property
    def pairs(self) -> list[tuple[Data, Data]]:
        """Every track before and after; LookupError if their number changed."""
        old, new = tracks(self.before), tracks(self.after)
        if len(old) != len(new):
            raise LookupError(f"the same number of tracks: had {len(old)}, has {len(new)}")
        return list(zip(old, new, strict=True))

    def made(self, stream: str) -> list[Any]:
        """Data of the versions of `stream` made in this turn, oldest first."""
        names = [one["versionId"] for one in self.created if one["stream"] == stream]
        return [version(self.after, stream, name) for name in names]


Check = Callable[[Turn, Any], str]
"""Empty when the expectation holds, else what was found."""


def data(state: Data, stream: str) -> Data:
    """Return what the newest version of a stream holds, {} without one."""
    return dict(state[stream]["data"]) if stream in state else {}


def version(state: Data, stream: str, name: str) -> Any:
    """Return what a version held; LookupError if there is none."""
    return state[stream]["versions"][name]


def tracks(state: Data) -> list[Data]:
    """Return the voice tracks of the newest version."""
    return list(data(state, "voices").get("voiceTracks", []))


def effects(state: Data) -> list[Data]:
    """Return the sound effects of the newest version."""
    return list(data(state, "sfx").get("soundFxPrompts", []))


def spoken(lines: Iterable[Data]) -> str:
    """Return all that tracks say, in order."""
    return " ".join(str(line["text"]) for line in lines)


def prompt(state: Data) -> str:
    """Return the newest music prompt, empty without one."""
    return str(data(state, "music").get("musicPrompt", ""))


def norm(text: str) -> str:
    """Return `text` without the differences that do not matter: case, width, hyphens, quotes, spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().translate(_PLAIN).split())


def words(text: str) -> str:
    """Return the words of `text`, each between spaces."""
    bare = re.sub(r"(?<!\w)'|'(?!\w)", " ", norm(text))
    kept = (char if unicodedata.category(char)[0] in "LMN" or char == "'" else " " for char in bare)
    return f" {' '.join(''.join(kept).split())} "


def found(text: str, term: str) -> int:
    """Return how often `term` starts a word of `text`; its last figure also ends one."""
    core = norm(term)
    head = f"(?<![{_LATIN}])" if re.match(f"[{_LATIN}]", core) else ""
    return len(re.findall(head + re.escape(core) + (r"(?!\d)" if core[-1:].isdigit() else ""), norm(text)))


def sentences(text: str) -> list[str]:
    """Return the sentences of `text`."""
    return re.findall(r"\S.*?(?:[.!?…]+[\"'”’)]*(?=\s|$)|[。！？]+|$)", text, re.DOTALL)


def contains_any(part: Callable[[Turn], str]) -> Check:
    """Return the check that a part of the turn has one of some words."""
    return lambda turn, want: "" if any(found(part(turn), one) for one in want) else repr(part(turn))


def contains_all(part: Callable[[Turn], str]) -> Check:
    """Return the check that a part of the turn has every word, or one of each list of them."""

    def check(turn: Turn, want: Any) -> str:
        groups = [[one] if isinstance(one, str) else one for one in want]
        absent = [group for group in groups if not any(found(part(turn), one) for one in group)]
        return f"no {absent!r} in {part(turn)!r}" if absent else ""

    return check


def lacks(part: Callable[[Turn], str]) -> Check:
    """Return the check that a part of the turn has none of some words."""

    def check(turn: Turn, want: Any) -> str:
        there = [one for one in want if found(part(turn), one)]
        return f"{there!r} in {part(turn)!r}" if there else ""

    return check


def measure(part: Callable[[Turn], float], holds: Callable[[float, float], bool]) -> Check:
    """Return the check that a number and the number wanted hold together."""

    def check(turn: Turn, want: Any) -> str:
        value = round(part(turn), 3)
        return "" if holds(value, want) else f"{value:g}"

    return check


def near(value: float, want: float) -> bool:
    """Return whether two numbers are the same to a twentieth."""
    return abs(value - want) <= 0.05


def chosen(lines: Sequence[Data], which: Any) -> list[Data]:
    """Return the lines numbered in `which` (from 1, -1 the last), or all; LookupError for one that is not."""
    if which == "all":
        return list(lines)
    spots = [number - 1 if number > 0 else len(lines) + number for number in map(int, which)]
    if any(not 0 <= spot < len(lines) for spot in spots):
        raise LookupError(f"one of the tracks {which}: there are {len(lines)}")
    return [lines[spot] for spot in spots]
