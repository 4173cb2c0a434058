"""The materials of the lessons' tests, and the facts expected of each."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "material"


@dataclass(frozen=True)
class LessonMaterial:
    """One material and what is expected of its facts; see material/SOURCES.md."""

    file: str
    language: str
    topic: str
    facts: tuple[int, int]
    at_least: int
    quotes: tuple[str, ...]
    never_quoted: tuple[str, ...]
    warning: str = ""
    never_concepts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return (FOLDER / self.file).read_text(encoding="utf-8")

    def wrong_concepts(self, concepts: list[str]) -> list[str]:
        """Return the names that no fact of this material may have."""
        return [
            concept
            for pattern in self.never_concepts
            for concept in concepts
            if re.search(pattern, concept, re.IGNORECASE)
        ]

    def failures(self, topic: str, quotes: list[str], warnings: list[str]) -> list[str]:
        """Return what is not as expected, in words."""
        fewest, most = self.facts
        hits = [
            passage
            for passage in self.quotes
            if any(part in quote for quote in quotes for part in passage.split("|"))
        ]
        bad = [passage for passage in self.never_quoted if any(passage in quote for quote in quotes)]
        return [
            *([] if fewest <= len(quotes) <= most else [f"{len(quotes)} facts, not {fewest} to {most}"]),
            *([] if len(hits) >= self.at_least else [f"{len(hits)} of {self.quotes}, not {self.at_least}"]),
            *(f"quotes {passage!r}" for passage in bad),
            *([] if re.search(self.topic, topic, re.IGNORECASE) else [f"the topic is {topic!r}"]),
            *([] if self.warning in " ".join(warnings) else [f"no warning of {self.warning!r}"]),
        ]


def all_materials() -> list[LessonMaterial]:
    """Return every material in the order of the file."""
    return [_parse(entry) for entry in json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))]


def material(name: str) -> LessonMaterial:
    """Return the material whose file has this name."""
    return next(each for each in all_materials() if each.file.partition(".")[0] == name)


def _parse(entry: dict[str, Any]) -> LessonMaterial:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    }
    return LessonMaterial(**fields)
