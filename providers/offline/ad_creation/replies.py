"""What the offline model says about edits, in the language of the message, from `replies/<language>.toml`."""

import re
from collections.abc import Iterable, Mapping

from providers.offline.ad_creation.edits import Note
from providers.offline.ad_creation.kinds import WRITTEN
from providers.offline.sentences import sentences
from state.languages import LANGUAGES

_SLOT = re.compile(r"\{([a-z_.]+(?::\d+)?|afterVoice:\d+|beforeVoices|withFirstVoice)\}")
_MAX_QUOTE = 200
"""Characters of a person's own words that are repeated to them."""
_NATIVE = {one.name: one.native[0] for one in LANGUAGES}


def _sentences(language: str) -> Mapping[str, str]:
    return sentences("ad_creation", language)


def phrase(key: str, language: str, values: Mapping[str, str] | None = None) -> str:
    """Return the sentence `key` in `language`, its slots filled; in English for other languages."""
    template = _sentences(language).get(key) or _sentences("english")[key]
    known = {name: _shown(name, value, language) for name, value in (values or {}).items()}
    known["languages"] = ", ".join(_shown("language", name, language) for name in WRITTEN)

    def filled(match: re.Match[str]) -> str:
        return known.get(match.group(1), match.group())

    return _SLOT.sub(filled, template)


def _shown(slot: str, value: str, language: str) -> str:
    """Return a slot's value as people read it: codes become words, long quotations are cut."""
    if slot == "where":
        return place(value, language)
    if slot in {"stream", "tone"}:
        return _sentences(language).get(f"{slot}.{value}", value)
    if slot == "language":
        return value.capitalize() if language == "english" else _NATIVE.get(value, value)
    if slot == "list":
        return _listed(value, language)
    return (
        value
        if len(value) <= _MAX_QUOTE or slot in {"prompt", "streams", "versions"}
        else value[:_MAX_QUOTE] + "…"
    )


def place(code: str, language: str) -> str:
    """Return a placement's code ("afterVoice:2") in words."""
    kind, _, index = code.partition(":")
    return _sentences(language).get(f"where.{kind}", code).replace("{index}", index)


def _listed(lines: str, language: str) -> str:
    def worded(match: re.Match[str]) -> str:
        code = match.group(1)
        return _sentences(language).get(code) or place(code, language)

    return re.sub(r"\{([A-Za-z.]+(?::\d+)?)\}", worded, lines)


def spoken(notes: Iterable[Note], language: str) -> list[str]:
    """Return the sentences of `notes`, without repeating one."""
    return list(dict.fromkeys(phrase(note.key, language, note.values) for note in notes))


def versions(made: Iterable[tuple[str, str]], language: str) -> str:
    """Return "music v2, effects v3" for pairs of stream and version."""
    return ", ".join(f"{phrase(f'stream.{stream}', language)} {version}" for stream, version in made)
