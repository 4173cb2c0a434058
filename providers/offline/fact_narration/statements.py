"""One fact in the student's words: its own sentences, from whole to as short as they still make sense."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

import sentencex

from providers.offline.fact_narration.cues import Cues, cues
from providers.offline.fact_narration.passages import Sentence
from providers.offline.fact_narration.ranking import ranked
from state.languages import find
from state.narration import length
from state.reading_level import grade

EASY_TO: float = 6.5
"""The highest reading level for which harder words are replaced."""
_SLACK = 1.0
"""Grades that a sentence may be above the level."""
_LEAST = 3
"""Words of the shortest statement."""
_PARENTHESIS = re.compile(r"\s*(?:\([^()]*\)|\[[^\[\]]*\])")
_DASHES = re.compile(r"\s*[—–]\s*(?=\S)([^—–]*?)\s*[—–]\s*(?=[\w,])|(?<=\w)\s*—.*?(?=[.!?]?$)")
_SEMICOLON = re.compile(r"(?<!\d)[;；]\s*|:\s+(?=[a-z])")
_END = ".!?。！？।؟…"
_WIDE_COMMAS = re.compile(r"[，；、]")


def statements(details: str, concept: str, level: float, language: str) -> list[str]:
    """Return ways to say a fact, each one sentence or more, from the longest to the shortest.

    Every one is made of the fact's words; those too hard for the level are left out where an easier one is
    there.
    """
    table = cues(language)
    sentences = split(details, language)
    key = _key(sentences, concept, table)
    whole = [plain(one, table) for one in sentences]
    longest = _told(whole, table, level)
    made = [longest, _told(whole[key:], table, level), *_shorter(whole[key], table, level)]
    made += _shorter(_easiest(whole, concept), table, level)
    unique = list(dict.fromkeys(one for one in made if length(one, language) >= _least(language)))
    ordered = sorted(unique, key=lambda one: -length(one, language)) or [longest]
    easy = [one for one in ordered if language != "english" or grade(one) <= level + _SLACK]
    return easy or ordered[-2:]


def split(text: str, language: str) -> list[str]:
    """Return the sentences of a text, each with its end."""
    spoken = find(language)
    blocks = [block for block in re.split(r"\n\s*\n", text) if block.strip()]
    parts = [part for block in blocks for part in sentencex.segment(spoken.code if spoken else "en", block)]
    return [ended(" ".join(part.split()), language) for part in parts if part.strip()] or [text]


def plain(sentence: str, table: Cues) -> str:
    """Return a sentence without what stands beside its point: asides, and what joins it to the one before."""
    bare = _PARENTHESIS.sub("", sentence)
    bare = _DASHES.sub(" ", bare) if length(bare, table.language) > _LEAST else bare
    bare = table.asides.sub("", bare)
    for _ in range(2):
        bare = re.sub(rf"^(?:{table.openers.pattern})", "", bare, flags=re.IGNORECASE)
    return capital(re.sub(r"\s+([.,;])", r"\1", " ".join(bare.split())))


def ended(sentence: str, language: str) -> str:
    """Return a sentence that ends as one."""
    bare = sentence.rstrip(" ,;:，；：、–—-")
    if bare.rstrip("\"'”’»)」").endswith(tuple(_END)):
        return bare
    spoken = find(language)
    stop = {"thai": "", "chinese": "。", "cantonese": "。", "japanese": "。", "hindi": "।"}
    return bare + stop.get(spoken.name if spoken else "", ".")


def capital(text: str) -> str:
    """Return the text with its first letter as a sentence has it."""
    return text[:1].upper() + text[1:]


def _key(sentences: Sequence[str], concept: str, table: Cues) -> int:
    """Return the place of the sentence that says most about the concept."""
    weighed = ranked([Sentence(one, 0, 0) for one in sentences], table)
    named = [concept.casefold() in one.casefold() for one in sentences]
    back = [bool(table.points_back.match(one)) for one in sentences]
    return max(
        range(len(sentences)), key=lambda at: (weighed[at].score + 0.4 * named[at] - 0.5 * back[at], -at)
    )


def _easiest(sentences: Sequence[str], concept: str) -> str:
    named = [one for one in sentences if concept.casefold() in one.casefold()]
    return min(named or sentences, key=len)


def _told(sentences: Iterable[str], table: Cues, level: float) -> str:
    blank = "" if table.language in {"chinese", "cantonese", "japanese"} else " "
    return blank.join(part for one in sentences for part in _in_parts(one, table, level))


def _in_parts(sentence: str, table: Cues, level: float) -> Iterator[str]:
    """Yield a sentence as several where it is one only by its commas, in words of the level."""
    for piece in _SEMICOLON.split(sentence):
        for part in _clauses(plain(piece, table), table):
            yield capital(ended(easier(part, table.language, level), table.language))


def _clauses(piece: str, table: Cues) -> list[str]:
    # "If it rains, and the roof leaks, …" is one sentence, whatever its commas.
    if table.conditions.search(piece) or table.subordinate.match(piece):
        return [piece]
    return [part for part in table.joined.split(piece) if part.strip(" ,")]


def _shorter(sentence: str, table: Cues, level: float) -> Iterator[str]:
    """Yield the sentence with ever fewer of its clauses."""
    yield _told([sentence], table, level)
    current = sentence
    while (cut := _without_last_clause(current, table)) and cut != current:
        current = cut
        yield _told([current], table, level)


def _without_last_clause(sentence: str, table: Cues) -> str:
    """Return the sentence without its last clause, as far as what is left can stand alone."""
    body = sentence.rstrip(_END + "\"'”’»)」 ")
    for at in _boundaries(body, table):
        head = body[:at].rstrip(" ,;:，；、–—")
        # Without its condition a sentence may be false.
        if not table.conditions.search(body[at:]) and _stands(head, table):
            return ended(head, table.language)
    return ""


def _boundaries(body: str, table: Cues) -> list[int]:
    """Return where clauses that may be shed begin, the last one first."""
    found = {match.start() for match in re.finditer(r"[;；]\s*|:\s", body)}
    if table.sheds:
        starts = "|".join(re.escape(one) for one in table.sheds if one)
        found |= (
            {match.start() for match in re.finditer(rf",\s+(?:{starts})", body, re.IGNORECASE)}
            if starts
            else set()
        )
        found |= {match.start() for match in _WIDE_COMMAS.finditer(body)}
        found |= {match.start() for match in re.finditer(r"\s(?:because|although|so that)\s", body)}
    return sorted(found, reverse=True)


def _stands(head: str, table: Cues) -> bool:
    """Return whether the beginning of a sentence is one: long enough, and not only its condition."""
    if length(head, table.language) < _least(table.language):
        return False
    if table.subordinate.match(head):
        rest = re.split(r"[,，]\s*", head, maxsplit=1)[1:]
        return bool(rest) and length(rest[0], table.language) >= _LEAST and _stands(rest[0], table)
    condition = [match.end() for match in table.conditions.finditer(head)]
    unfinished = table.unfinished.search(head) or (
        condition and not re.search(r"[,，]", head[condition[-1] :])
    )
    listing = head.count(",") > 1 and length(head, table.language) < 2 * _least(table.language)
    return not unfinished and not listing


def _least(language: str) -> int:
    spoken = find(language)
    return _LEAST + 1 if spoken is None or spoken.unit == "word" else 6


@cache
def _easier_words() -> tuple[re.Pattern[str], Mapping[str, str]]:
    table = tomllib.loads(
        files("providers.offline.fact_narration").joinpath("easier.toml").read_text("utf-8")
    )
    words: Mapping[str, str] = table["words"]
    return re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE), words


def easier(text: str, language: str, level: float) -> str:
    """Return an English text in easier words, for a level up to 6.5."""
    if language != "english" or level > EASY_TO:
        return text
    pattern, words = _easier_words()

    def swapped(found: re.Match[str]) -> str:
        word = words[found[0].casefold()]
        return capital(word) if found[0][0].isupper() else word

    return pattern.sub(swapped, text)
