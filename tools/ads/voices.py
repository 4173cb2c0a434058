"""Search of the bundled voice catalogue by language, accent and style.

The catalogue is `catalogue/voices.json`; `SOURCES.md` beside it names its sources.
An attribute its provider does not publish is absent, never guessed.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from itertools import chain, zip_longest
from operator import itemgetter
from typing import Any

from callsheet.state.errors import Broken, Invalid
from callsheet.state.languages import Language
from callsheet.state.languages import find as find_language

MAX_COUNT = 50
"""Voices in one answer, at most."""

_ALIKE = 0.7
"""Least likeness of an unknown id to the name of a voice that it is taken for."""
_TAG = re.compile(r"[a-z]{2,3}(?:-[a-z]{4})?-([a-z]{2}|\d{3})")
_PARENTHESES = re.compile(r"\(([^()]+)\)")


@dataclass(frozen=True)
class Voice:
    """One voice in one language. A multilingual voice has one for each of its languages."""

    id: str
    """`provider/reference`, and `@language` after it when the voice is multilingual: `openai/alloy@thai`."""
    name: str
    """The provider's name for it."""
    provider: str
    """`azure`, `google`, `gemini` or `openai`."""
    language: str
    """English name in lower case, as `callsheet.state.languages` stores it."""
    locale: str = ""
    """BCP-47 tag it is published under, spelled as the provider spells it; empty when there is none."""
    gender: str = ""
    """`female`, `male` or `neutral`; empty when the provider publishes none."""
    accent: str = ""
    """Name of the locale's accent ("American"); empty without a locale."""
    style: str = ""
    """Styles and personality, separated by commas; empty when the provider publishes none."""
    use_case: str = ""
    """Recommended uses, separated by commas."""
    multilingual: bool = False
    """True if the voice speaks several languages."""
    native: bool = False
    """True if the provider lists the voice under this language, not as a further one."""
    approved: bool = True
    """False for voices that must not be cast: in preview or being withdrawn."""
    rank: int = 0
    """Rank of its region within the language; 0 is the default region."""

    def words(self) -> str:
        """Return name, gender and accent as far as they are published."""
        return ", ".join(part for part in (self.name, self.gender, self.accent) if part)

    def public(self) -> dict[str, object]:
        """Return the voice for a tool result, without absent attributes."""
        shown: dict[str, object] = {
            "id": self.id,
            "name": self.name,
            "language": self.language,
            "gender": self.gender,
            "accent": self.accent,
            "style": self.style or self.use_case,
            "provider": self.provider,
            "multilingual": self.multilingual,
        }
        return {key: value for key, value in shown.items() if value}


@dataclass(frozen=True)
class Catalogue:
    """Approved voices, and the names of their accents."""

    voices: tuple[Voice, ...]
    """Approved voices in the order of the file."""
    accents: Mapping[str, frozenset[str]]
    """Case-folded names of the accent of each locale: its names, its region and the locale itself."""

    def find(self, voice_id: str) -> Voice | None:
        """Return the approved voice with this id, or None."""
        return next((voice for voice in self.voices if voice.id == voice_id), None)

    def search(
        self,
        language: str,
        *,
        gender: str | None = None,
        accent: str | None = None,
        style: str | None = None,
        count: int = 10,
    ) -> list[Voice]:
        """Return the first `count` (1–50) matching voices of `language`, the best to cast first.

        `language` is a name, an ISO-639 code, a BCP-47 tag or a native name; a region in it ("pt-BR",
        "British English", "es-419") keeps the voices of that region and those without a region. An unknown
        language has no voices. `gender` matches published genders only; `accent` is an accent's name, a
        country or a locale; `style` is part of a style or of a use case. Case never matters.
        """
        if self._parse_language(language) is None:
            return []
        voices = self.select(language=language, gender=gender, accent=accent, style=style)
        return _casting_order(voices)[: max(1, min(MAX_COUNT, count))]

    def select(
        self,
        *,
        language: str | None = None,
        gender: str | None = None,
        accent: str | None = None,
        style: str | None = None,
        name: str | None = None,
    ) -> list[Voice]:
        """Return all matching voices in the order of the catalogue; `name` is part of a name.

        The filters are those of `search`; None matches all. Raises `Invalid` for an unknown language.
        """
        voices, region, words = [*self.voices], "", ""
        if language:
            parsed = self._parse_language(language)
            if parsed is None:
                raise Invalid(
                    f"{language!r:.80} is no language that has voices", remedy="send its English name"
                )
            voices = [voice for voice in voices if voice.language == parsed[0].name]
            region, words = parsed[1], parsed[0].name
        wanted = _strip_accent_words(accent or "", words)
        if wanted:
            voices = [voice for voice in voices if self._has_accent(voice, wanted)]
        elif region:
            voices = [voice for voice in voices if not voice.locale or self._has_accent(voice, region)]
        if gender:
            voices = [voice for voice in voices if voice.gender == gender.strip().casefold()]
        if style:
            voices = [voice for voice in voices if _has_style(voice, style.strip().casefold())]
        return [voice for voice in voices if (name or "").strip().casefold() in voice.name.casefold()]

    def _has_accent(self, voice: Voice, accent: str) -> bool:
        return accent in self.accents.get(voice.locale, frozenset())

    def _parse_language(self, text: str) -> tuple[Language, str] | None:
        """Return the language that `text` names and its accent ("" for none); None for no language."""
        folded = " ".join(text.casefold().replace("_", "-").replace(",", " ").split())
        language = find_language(folded)
        if language is None:
            return next(self._qualified_languages(folded), None)
        marked = [match[1] for match in (_TAG.fullmatch(folded), _PARENTHESES.search(folded)) if match]
        hints = [*marked, *(head for head, _ in _splits(folded)), folded]
        return language, next((hint for hint in hints if self._is_accent_of(hint, language)), "")

    def _qualified_languages(self, folded: str) -> Iterator[tuple[Language, str]]:
        """Yield readings of "british english" or "english us" as a language and an accent."""
        for head, tail in _splits(folded):
            for name, hint in ((tail, head), (head, tail)):
                language = find_language(name)
                if language and self._is_accent_of(hint, language):
                    yield language, hint

    def _is_accent_of(self, hint: str, language: Language) -> bool:
        return any(hint in names for tag, names in self.accents.items() if _language(tag) == language)


def search(
    language: str,
    *,
    gender: str | None = None,
    accent: str | None = None,
    style: str | None = None,
    count: int = 10,
) -> list[Voice]:
    """Search the bundled catalogue: see `Catalogue.search`."""
    return bundled_catalogue().search(language, gender=gender, accent=accent, style=style, count=count)


def find(voice_id: str) -> Voice | None:
    """Return the approved voice of the bundled catalogue with this id, or None."""
    return bundled_catalogue().find(voice_id)


def casting(language: str, market: str = "", count: int = 6) -> list[Voice]:
    """Return the voices to offer for an ad: those with the market's accent first."""
    local = search(language, accent=market, count=count) if market else []
    others = [voice for voice in search(language, count=MAX_COUNT) if voice not in local]
    return [*local, *others][:count]


def nearest(voice_id: str, language: str, market: str, taken: Collection[str]) -> Voice | None:
    """Return the voice that an unknown id means most likely, and none that is `taken` if there are others.

    It has a similar name, else it is the first one to cast, of the gender that the id names. None for a
    language without voices.
    """
    wanted = _bare(voice_id)
    cast = casting(language, market, MAX_COUNT)
    free = [voice for voice in cast if voice.id not in taken] or cast
    if not free:
        return None
    matching = bundled_catalogue().select(language=language, name=wanted) if wanted else []
    if named := [voice for voice in matching if wanted in {voice.name.casefold(), _bare(voice.id)}]:
        return named[0]
    closest = max(free, key=lambda voice: _likeness(wanted, voice))
    if _likeness(wanted, closest) >= _ALIKE:
        return closest
    gender = next((word for word in ("female", "male") if word in voice_id.casefold()), "")
    return next((voice for voice in free if gender in {"", voice.gender}), free[0])


def _likeness(wanted: str, voice: Voice) -> float:
    names = (_bare(voice.id), voice.name.casefold())
    return max(SequenceMatcher(None, wanted, name).ratio() for name in names)


def _bare(voice_id: str) -> str:
    """Return an id without provider and language."""
    return voice_id.casefold().rpartition("/")[2].partition("@")[0]


@cache
def bundled_catalogue() -> Catalogue:
    """Return the catalogue of the package, read once."""
    return parse_catalogue(
        json.loads(files(__package__ or "").joinpath("catalogue/voices.json").read_text(encoding="utf-8"))
    )


def parse_catalogue(document: Mapping[str, Any]) -> Catalogue:
    """Return the catalogue of a document, without unapproved voices.

    Raises Broken for a locale without an accent, a tag that names no language, or two voices of one id.
    """
    accents: Mapping[str, Sequence[str]] = document["accents"]
    places = dict(_ranked_locales(accents))
    voices = [voice for entry in document["voices"] for voice in _voices(entry, document["speaks"], places)]
    for voice_id, times in Counter(voice.id for voice in voices).items():
        if times > 1:
            raise Broken(f"voice {voice_id!r} is in the catalogue {times} times", remedy="remove the others")
    return Catalogue(
        tuple(voice for voice in voices if voice.approved),
        {locale: _accent_names(locale, names) for locale, names in accents.items()},
    )


def _voices(
    entry: Mapping[str, Any], speaks: Mapping[str, Sequence[str]], places: Mapping[str, tuple[str, int]]
) -> Iterator[Voice]:
    """One voice for each language of an entry; with a `{locale}` in its reference, each is native."""
    own: str = entry.get("locale", "")
    per_locale = "{locale}" in entry["ref"]
    multilingual = "speaks" in entry and not per_locale
    for tag in speaks[entry["speaks"]] if "speaks" in entry else [own]:
        language = _language(tag)
        at_home = bool(own) and _language(own) == language
        locale = own if at_home else tag if "-" in tag else ""
        if locale and locale not in places:
            raise Broken(f"locale {locale!r} has no place", remedy="add it to `accents` in voices.json")
        accent, rank = places.get(locale, ("", 0))
        yield Voice(
            id=f"{entry['provider']}/{entry['ref'].format(locale=tag)}"
            + (f"@{language.name}" if multilingual else ""),
            name=entry["name"],
            provider=entry["provider"],
            language=language.name,
            locale=locale,
            gender=entry.get("gender", ""),
            accent=accent,
            style=entry.get("style", ""),
            use_case=entry.get("use_case", ""),
            multilingual=multilingual,
            native=at_home or per_locale,
            approved=entry.get("approved", True),
            rank=rank,
        )


@cache
def _language(tag: str) -> Language:
    language = find_language(tag)
    if language is None:
        raise Broken(f"catalogue tag {tag!r} names no language", remedy="add it to state/languages.py")
    return language


def _ranked_locales(accents: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Each locale with the name of its accent and the rank of its region, which is the order of the file."""
    regions: dict[str, list[str]] = {}
    for locale, names in accents.items():
        ranked = regions.setdefault(_language(locale).name, [])
        if _region(locale) not in ranked:
            ranked.append(_region(locale))
        yield locale, (names[0] if names else "", ranked.index(_region(locale)))


def _region(locale: str) -> str:
    return locale.rpartition("-")[2]


def _accent_names(locale: str, names: Sequence[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in (*names, locale, _region(locale)))


def _strip_accent_words(accent: str, language: str) -> str:
    """`accent` without the words "accent" and the language's name: "US English accent" is "us"."""
    words = accent.casefold().replace("_", "-").split()
    return " ".join(word for word in words if word not in {"accent", language})


def _splits(text: str) -> list[tuple[str, str]]:
    words = text.split()
    return [(" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words))]


def _has_style(voice: Voice, style: str) -> bool:
    return style in voice.style.casefold() or style in voice.use_case.casefold()


def _casting_order(voices: Iterable[Voice]) -> list[Voice]:
    """Native voices first; female, male and other in turn, so that the first two can hold a dialogue."""
    ordered: list[Voice] = []
    several = list(voices)
    for native in (True, False):
        lanes: dict[str, list[Voice]] = {"female": [], "male": [], "": []}
        for voice in several:
            if voice.native is native:
                lanes[voice.gender if voice.gender in lanes else ""].append(voice)
        turns = zip_longest(*(_alternate_providers(lane) for lane in lanes.values()))
        ordered += [voice for voice in chain.from_iterable(turns) if voice]
    return ordered


def _alternate_providers(voices: Iterable[Voice]) -> list[Voice]:
    """By region, and within one region the first voice of each provider, then the second of each."""
    seen: Counter[tuple[str, int]] = Counter()
    places: list[tuple[int, int, Voice]] = []
    for voice in voices:
        places.append((voice.rank, seen[voice.provider, voice.rank], voice))
        seen[voice.provider, voice.rank] += 1
    return [voice for _, _, voice in sorted(places, key=itemgetter(0, 1))]
