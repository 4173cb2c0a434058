"""What a narrator says around the facts, for the languages that have a table; no words for the others."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from state.narration import Kind

_ASKS = ("how ", "why ", "what ", "where ", "when ", "who ")
_MOST_NAMED = 4


@dataclass(frozen=True)
class Phrases:
    """One language's wordings."""

    table: dict[str, Any]
    known: bool
    """Whether there is a table of the language."""

    def objective(self, topic: str, concepts: Sequence[str]) -> str:
        """Return what the student will be able to do."""
        return str(self.table["objective"]).format(topic=topic, concepts=self.listed(concepts) or topic)

    def wonder(self, topic: str) -> list[str]:
        """Return openings, from the longest to the shortest."""
        asked = topic.casefold().startswith(_ASKS) and "wonder_how" in self.table
        # A bare name has no article, so it goes into no sentence but stands after a colon.
        shown = topic[:1].lower() + topic[1:] if asked else topic
        key = "wonder_how" if asked else "wonder"
        return [one.format(topic=shown.rstrip(" .!?")) for one in self.table[key]]

    def ways(self, name: str, **words: str) -> list[str]:
        """Return the wordings of `name` with its words filled in, from the longest to the shortest."""
        return [self._joined(one.format(**words)) for one in self.table[name]]

    def _joined(self, text: str) -> str:
        """Return a text whose articles join the word before them, as "de el" becomes "del" in Spanish."""
        joins: dict[str, str] = self.table.get("joins", {})
        if not joins:
            return text
        return re.sub(rf"\b(?:{'|'.join(joins)})\b", lambda found: joins[found[0]], text)

    def listed(self, words: Sequence[str]) -> str:
        """Return "a, b and c"."""
        if len(words) < 2 or not self.table["and"]:  # noqa: PLR2004
            return ", ".join(words)
        wide = ord(self.table["and"][0]) > 0x2E80  # noqa: PLR2004 -- where letters without blanks begin
        comma, blank = ("、", "") if wide else (", ", " ")
        return f"{comma.join(words[:-1])}{blank}{self.table['and']}{blank}{words[-1]}"

    def seen(self, kind: Kind, concepts: Sequence[str], interests: Sequence[str]) -> str:
        """Return what to show while a segment is spoken."""
        shown = self.table[f"see_{kind}"].format(concepts=self.listed(concepts[:_MOST_NAMED]))
        if kind != "hook" or not interests:
            return str(shown)
        return f"{shown} {self.table['see_interest'].format(interests=self.listed(interests))}"


@cache
def phrases(language: str) -> Phrases:
    """Return the wordings of a language."""
    folder = files("providers.offline.fact_narration").joinpath("phrases")
    own = folder.joinpath(f"{language}.toml")
    known = own.is_file() and language != "plain"
    return Phrases(tomllib.loads((own if known else folder.joinpath("plain.toml")).read_text("utf-8")), known)
