"""A message as clauses, one edit each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from providers.offline.page_builder.words import Piece, tidy

_HARD: Final = frozenset(".!?;\n。！？；")
_SOFT: Final = frozenset(",，、")
_OPENING: Final = 3
"""Pieces at the beginning of a clause among which its verb is looked for."""
_VALUES: Final = ("colour.", "degree.", "prop.", "theme.dark", "theme.light")
_THINGS: Final = ("kind.", "pron.this", "pron.it")
_SMALL: Final = "small.word"


@dataclass(frozen=True)
class Clause:
    """One thing that is asked for."""

    message: str
    pieces: tuple[Piece, ...]
    verb: str = ""
    """Its own, or that of the clause before."""
    asked: bool = False
    """Whether it ends in a question mark."""
    language: str = "english"
    """In which it was said."""

    def has(self, *names: str) -> bool:
        """Return whether a piece has one of these meanings."""
        return any(one.means(*names) for one in self.pieces)

    def place(self, *names: str) -> int | None:
        """Return the place of the first piece with one of these meanings."""
        return next((place for place, one in enumerate(self.pieces) if one.means(*names)), None)

    def names(self, group: str) -> list[str]:
        """Return the names of all meanings of a group, in order."""
        return [name for one in self.pieces for name in one.names(group)]

    def quotes(self) -> list[str]:
        """Return its literal wordings, in order."""
        return [one.text for one in self.pieces if one.quoted]

    def part(self, first: int, last: int | None = None) -> "Clause":
        """Return the clause of some of its pieces."""
        return replace(self, pieces=self.pieces[first:last])

    def after(self, place: int) -> str:
        """Return what was written after a piece, as it was written."""
        rest = self.pieces[place + 1 :]
        return tidy(self.message[rest[0].start : rest[-1].end]) if rest else ""

    @property
    def text(self) -> str:
        """What was written."""
        if not self.pieces:
            return ""
        return tidy(self.message[self.pieces[0].start : self.pieces[-1].end])


def clauses(message: str, pieces: Sequence[Piece], language: str = "english") -> list[Clause]:
    """Return the clauses of a message; one without a verb has that of the clause before in its sentence."""
    found: list[Clause] = []
    for sentence, asked in _sentences(message, pieces):
        verb = ""
        for part in _parts(sentence):
            own = verb_of(part)
            verb = own or verb
            found.append(Clause(message, tuple(part), verb, asked, language))
    return found


def verb_of(pieces: Sequence[Piece]) -> str:
    """Return the verb that says what is to be done; the strongest where there are several."""
    verbs = [name for one in pieces for name in one.names("verb")]
    return next((verb for verb in verbs if verb not in {"change", "put"}), verbs[0] if verbs else "")


def _sentences(message: str, pieces: Sequence[Piece]) -> list[tuple[list[Piece], bool]]:
    found: list[tuple[list[Piece], bool]] = [([], False)]
    for one in pieces:
        if one.text in _HARD and not one.quoted and not _inside_a_number(message, one):
            found[-1] = (found[-1][0], one.text in "?？")
            found.append(([], False))
        else:
            found[-1][0].append(one)
    return [sentence for sentence in found if sentence[0]]


def _inside_a_number(message: str, one: Piece) -> bool:
    return one.text == "." and message[one.end : one.end + 1].isalnum() and message[one.start - 1].isalnum()


def _parts(sentence: Sequence[Piece]) -> list[list[Piece]]:
    """Cut a sentence where another edit begins: at a comma or an "and" before a verb, or thing and value."""
    parts: list[list[Piece]] = [[]]
    for place, one in enumerate(sentence):
        if one.means("except.except") or (_joins(one) and _begins(sentence[place + 1 :], parts[-1])):
            parts.append([one] if one.means("except.except") else [])
        elif not (_joins(one) and not parts[-1]):
            parts[-1].append(one)
    return [part for part in parts if part]


def _joins(one: Piece) -> bool:
    return not one.quoted and (one.text in _SOFT or one.means("join."))


def _begins(rest: Sequence[Piece], before: Sequence[Piece]) -> bool:
    """Whether the pieces that follow are an edit of their own."""
    head = [one for one in rest if not one.means("join.")][: _OPENING + _small(rest)]
    if any(one.means("verb.") for one in head[:_OPENING]):
        return True
    ahead = _until_a_join(rest)
    if not _complete(before) or any(_is_colour(one) for one in ahead[:1]):
        return False
    thing = any(one.means(*_THINGS) for one in ahead)
    return any(one.means(*_VALUES) for one in ahead) or (thing and any(_is_value(one) for one in ahead))


def _small(rest: Sequence[Piece]) -> int:
    return sum(one.means(_SMALL) and not one.means("verb.") for one in rest[:_OPENING])


def _complete(pieces: Sequence[Piece]) -> bool:
    return any(_is_value(one) for one in pieces) and (
        any(one.means(*_THINGS) for one in pieces) or any(one.means("verb.") for one in pieces)
    )


def _until_a_join(rest: Sequence[Piece]) -> list[Piece]:
    found: list[Piece] = []
    for one in rest:
        if found and _joins(one):
            break
        if not _joins(one):
            found.append(one)
    return found


def _is_value(one: Piece) -> bool:
    return one.means(*_VALUES) or _is_colour(one) or (one.text[:1].isdigit())


def _is_colour(one: Piece) -> bool:
    return one.means("colour.") or (one.quoted and one.text.startswith(("#", "rgb", "hsl")))
