"""How a student learns best, and how hard the words may be after what was said of them (B64)."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

Style = Literal["visual", "auditory", "reading", "hands-on"]
_CUES: Final[Mapping[Style, str]] = {
    "hands-on": r"hands[\s-]?on|by doing|learns? by (?:touch\w*|mak\w+|build\w*|mov\w+)|kinesthetic|tactile",
    "visual": r"visual(?:ly| learner| thinker)?|(?:with|from|through|by) (?:pictures|images|"
    r"diagrams|drawings|seeing|watching)",
    "auditory": r"auditory|(?:by|from|through) (?:listening|hearing|songs?|stories)|learns? best by ear",
    "reading": r"(?:by|from|through) reading|reading and writing|reads? to learn",
}
_LEARNS: Final = re.compile(
    r"\b(?:learn\w*|understand\w*|remember\w*|takes? in|thinker|style)\b", re.IGNORECASE
)
_WISHES: Final[Mapping[Style, str]] = {
    "visual": "Show it in large, clear pictures and diagrams.",
    "auditory": "Let sounds and the voice carry it; keep the picture calm.",
    "reading": "Put the key words on the screen to read along.",
    "hands-on": "Show what the student can try with their own hands.",
}
_EASIER: Final = re.compile(
    r"\b(?:easier|simpler|simplify|plainer|too (?:hard|difficult|complicated|advanced))\b", re.IGNORECASE
)
_HARDER: Final = re.compile(
    r"\b(?:harder|too (?:easy|simple|childish)|more (?:challenging|difficult|advanced))\b", re.IGNORECASE
)
LOWEST: Final = 1.0
HIGHEST: Final = 12.0
"""School grades that words are written for, after every wish."""


def style(said: str | None) -> Style | None:
    """Return how a student learns best where `said` says so: "learns best with pictures"; else None."""
    if not said or not _LEARNS.search(said):
        return None
    found = (name for name, cue in _CUES.items() if re.search(rf"\b(?:{cue})\b", said, re.IGNORECASE))
    return next(found, None)


def liked(interests: Iterable[str]) -> list[str]:
    """Return the interests among some wishes: what says how a student learns is none."""
    return [one for one in interests if style(one) is None]


def wish(found: Style | None) -> str:
    """Return what is shown for a student who learns so; empty where it is not known."""
    return _WISHES[found] if found else ""


def shift(guidance: str | None) -> int:
    """Return how many grades a wish moves the words: -1 for easier ones, 1 for harder, else 0."""
    if not guidance:
        return 0
    return 1 if _HARDER.search(guidance) else -1 if _EASIER.search(guidance) else 0


def adapted(level: float, moved: int) -> float:
    """Return the grade after so many moves from the one that the age asks for."""
    return min(HIGHEST, max(LOWEST, level + moved))
