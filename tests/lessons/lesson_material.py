"""The material of the lessons' tests, and what is to be found in it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "material"


@dataclass(frozen=True)
class Expected:
    """What one material has to teach from; see lessons/SOURCES.md."""

    file: str
    language: str
    topic: str
    facts: tuple[int, int]
    at_least: int
    found: tuple[str, ...]
    never: tuple[str, ...]
    warns: str = ""
    never_concepts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return (FOLDER / self.file).read_text(encoding="utf-8")

    def misnamed(self, concepts: list[str]) -> list[str]:
        """Return what no fact should be called."""
        return [
            each for bad in self.never_concepts for each in concepts if re.search(bad, each, re.IGNORECASE)
        ]

    def failures(self, topic: str, quotes: list[str], warnings: list[str]) -> list[str]:
        """Return what is not as expected, in words."""
        fewest, most = self.facts
        hits = [
            one for one in self.found if any(part in quote for quote in quotes for part in one.split("|"))
        ]
        bad = [one for one in self.never if any(one in quote for quote in quotes)]
        return [
            *([] if fewest <= len(quotes) <= most else [f"{len(quotes)} facts, not {fewest} to {most}"]),
            *([] if len(hits) >= self.at_least else [f"{len(hits)} of {self.found}, not {self.at_least}"]),
            *(f"holds {one!r}" for one in bad),
            *([] if re.search(self.topic, topic, re.IGNORECASE) else [f"the topic is {topic!r}"]),
            *([] if self.warns in " ".join(warnings) else [f"no warning of {self.warns!r}"]),
        ]


def expected() -> list[Expected]:
    """Return every material in its order."""
    return [_expected(one) for one in json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))]


def material(name: str) -> Expected:
    """Return the material whose file has this name."""
    return next(one for one in expected() if one.file.partition(".")[0] == name)


def _expected(one: dict[str, Any]) -> Expected:
    told: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in one.items()
    }
    return Expected(**told)
