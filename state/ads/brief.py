"""Briefs for audio ads: parsing of both accepted forms, and the resulting message."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from callsheet.state.cards import shorten
from callsheet.state.errors import Invalid
from callsheet.state.languages import LANGUAGES, detect, find

DEFAULT_SPOT_S: Final = 30.0
"""Default length of an ad."""
MAX_SPOT_S: Final = 600.0
UNKNOWN_LANGUAGE: Final = "the brief's language"
MAX_TEXT: Final = 20_000
"""Maximum characters of one field."""


class Brief(TypedDict):
    """A brief in stored form."""

    clientDescription: str
    targetAudience: str
    format: str
    """Kind of ad, as the brief says it: "dialogue between two friends, then a jingle"; may be empty."""
    duration: float
    """Maximum length in seconds."""
    market: str
    language: str
    """English name; empty if it is unknown."""
    additionalContext: str
    displayName: NotRequired[str]
    """Name of the ad in lists: client and product or campaign, where the brief has fields for them."""


_WHO: Final = ("client", "brand", "company")
_WHAT: Final = ("title", "campaign", "campaignName", "campaign_name", "product")
"""Fields of a brief that name the client, and what the ad is about."""
_MAX_NAME: Final = 60
"""Characters of a name; a longer text describes."""

_ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "clientDescription": ("client_description", "client", "description", "product", "brand", "brief", "text"),
    "targetAudience": ("target_audience", "audience"),
    "additionalContext": ("additional_context", "context", "notes", "creativeBrief", "creative_brief"),
    "duration": ("durationSeconds", "duration_seconds", "duration_s", "length"),
    "format": ("adFormat", "ad_format"),
    "market": ("country",),
    "language": ("lang", "selectedLanguage"),
}
_FIELD_BY_ALIAS: Final = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}
_SECONDS: Final = re.compile(
    r"(?<!\d)(\d++(?:[.,]\d++)?)"
    r"(?:\s*+-?\s*+(?:(mins?|minutes?|minuty?|minutos?|minut[ey]?|menit|phút|นาที|分钟?|m)"
    r"|(s|secs?|seconde?s?|sek\w{0,5}|seg\w{0,6}|secunde?|detik|giây|vteřin\w?|วินาที|วิ(?![ก-๛])|秒钟?)))?"
    # Thai and Chinese text continues without a space.
    r"(?![a-zà-ɏḀ-ỹ\d])",
    re.IGNORECASE,
)


def parse(
    raw: object, *, language: str | None = None, market: str | None = None, duration: float | None = None
) -> Brief:
    """Return the brief in `raw`: a text, or an object in either of two forms.

    The arguments `language`, `market` and `duration` override the brief's fields. Unknown fields are
    added to `additionalContext`. Raises `Invalid` naming the field and the rule.
    """
    fields = _fields(raw)
    client = _text(fields, "clientDescription")
    if not client.strip():
        raise Invalid(
            "the brief is empty: 'clientDescription' says nothing about the client",
            remedy='send {"brief": {"clientDescription": "who the ad is for and what it should say"}}',
        )
    audience = _text(fields, "targetAudience")
    context = _text(fields, "additionalContext")
    brief = Brief(
        clientDescription=client.strip(),
        targetAudience=audience.strip(),
        format=(_text(fields, "format") if isinstance(fields.get("format"), str) else "").strip(),
        duration=_duration(fields) if duration is None else seconds(duration),
        market=(market or _text(fields, "market") or "US").strip(),
        language=_language(language, fields, audience, f"{client} {context}"),
        additionalContext="\n".join(part for part in (context.strip(), *_unknown_fields(fields)) if part),
    )
    if name := _display_name(raw):
        brief["displayName"] = name
    return brief


def message(brief: Brief) -> str:
    """Return the brief as a user message, with its format if it has one."""
    return "\n".join(
        (
            "Create an audio ad.",
            f"Client: {brief['clientDescription']}",
            f"Target Audience: {brief['targetAudience'] or None}",
            *([f"Format: {brief['format']}"] if brief["format"] else []),
            f"Duration: {brief['duration']:g}s",
            f"Market: {brief['market']}",
            f"Language: {brief['language'] or UNKNOWN_LANGUAGE}",
            f"Additional context: {brief['additionalContext'] or None}",
        )
    )


def language_name(text: str) -> str:
    """Return the stored name of a language; raises `Invalid` listing the supported ones."""
    language = find(text)
    if language is None:
        names = ", ".join(supported.name for supported in LANGUAGES)
        raise Invalid(
            f"language {text[:80]!r} is not known",
            remedy=f"use a name, an ISO-639-1 code, a BCP-47 tag or a native name of one of: {names}",
        )
    return language.name


def seconds(value: object, field: str = "duration") -> float:
    """Return `value` as seconds; raises `Invalid` unless it is a number with 0 < value ≤ 600."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise Invalid(
            f"{field} {repr(value)[:80]} is not a number of seconds",
            remedy=f"send {field} as a number such as 30",
        )
    if not 0 < value <= MAX_SPOT_S:
        raise Invalid(
            f"{field} is {value:g} s, and must be more than 0 and at most {MAX_SPOT_S:g} s",
            remedy="ad spots are usually 15, 30 or 60 seconds",
        )
    return float(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


def mentioned_seconds(text: str) -> float:
    """Return the ad's length in seconds that a chat message mentions; 0 if there is no valid one."""
    duration = _duration_field(text).get("duration")
    length_s = _parse_seconds(duration, "duration") if duration else 0.0
    return length_s if length_s <= MAX_SPOT_S else 0.0


def _fields(raw: object) -> dict[str, Any]:
    if isinstance(raw, str):
        return {"clientDescription": raw, **_duration_field(raw)}
    if not isinstance(raw, Mapping):
        raise Invalid(
            f"the brief is {type(raw).__name__}, and must be text or an object",
            remedy='send {"brief": {"clientDescription": "…", "targetAudience": "…", "duration": 30}}',
        )
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        name = _FIELD_BY_ALIAS.get(str(key), str(key))
        # The exact spelling wins over an alias, whichever comes first; what it wins over is kept by its name.
        if name in fields and key != name:
            fields.setdefault(str(key), value)
            continue
        if name in fields:
            fields[_first_alias(raw, name)] = fields[name]
        fields[name] = value
    return fields


def _first_alias(raw: Mapping[Any, Any], name: str) -> str:
    return next(str(key) for key in raw if _FIELD_BY_ALIAS.get(str(key)) == name)


def _display_name(raw: object) -> str:
    """Return client and product or campaign by the brief's fields; empty without a product or campaign."""
    given = raw if isinstance(raw, Mapping) else {}
    if name := _name(given, ("displayName",), 2 * _MAX_NAME + 2):
        return shorten(name)
    who, what = _name(given, _WHO), _name(given, _WHAT)
    return shorten(": ".join(part for part in (who, what) if part)) if what else ""


def _name(fields: Mapping[Any, Any], names: Sequence[str], most: int = _MAX_NAME) -> str:
    values = (fields.get(name) for name in names)
    texts = (" ".join(value.replace("\x00", "").split()) for value in values if isinstance(value, str))
    return next((text for text in texts if 0 < len(text) <= most), "")


def _duration_field(text: str) -> dict[str, str]:
    """Return the `duration` field with the length that a text mentions; empty if there is none.

    After the first number, lengths need a unit of more than one letter or a sentence of their own: "the 50s"
    is not a length.
    """
    matches = list(_SECONDS.finditer(text))
    with_unit = [
        match for at, match in enumerate(matches) if match.group(3) and (not at or len(match.group(3)) > 1)
    ]
    minutes = [match for match in matches[:1] if match.group(2)]
    sentences = [match for match in matches if match.group(3) and _is_own_sentence(text, match)]
    candidates = [*with_unit, *minutes, *sentences]
    return {"duration": candidates[0].group(0)} if candidates else {}


def _is_own_sentence(text: str, length: re.Match[str]) -> bool:
    """Return whether a length is the text's last sentence: "… for parents. 15s"."""
    return not text[length.end() :].strip(" .!") and text[: length.start()].rstrip()[-1:] in set(".!?;,\n")


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Invalid(
            f"brief.{name} is {type(value).__name__}, and must be text", remedy=f"send {name} as a string"
        )
    if len(value) > MAX_TEXT:
        raise Invalid(
            f"brief.{name} has {len(value)} characters, and the limit is {MAX_TEXT}", remedy="shorten it"
        )
    return value.replace("\x00", "")


def _duration(fields: Mapping[str, Any]) -> float:
    value = fields.get("duration")
    if isinstance(value, str):
        return seconds(_parse_seconds(value, "duration"), "brief.duration")
    if value is not None:
        return seconds(value, "brief.duration")
    ad_format = fields.get("format")
    if isinstance(ad_format, str) and _SECONDS.search(ad_format):
        return seconds(_parse_seconds(ad_format, "format"), "brief.format")
    return DEFAULT_SPOT_S


def _parse_seconds(text: str, field: str) -> float:
    match = _SECONDS.search(text)
    if match is None:
        raise Invalid(
            f"brief.{field} {text[:80]!r} holds no number of seconds", remedy='write it as 30 or "30s"'
        )
    number = float(match.group(1).replace(",", "."))
    return number * 60 if match.group(2) else number


def _language(requested: str | None, fields: Mapping[str, Any], audience: str, text: str) -> str:
    for choice in (requested, _text(fields, "language")):
        if choice and choice.strip():
            return language_name(choice)
    words = re.findall(r"[^\W\d_]+", audience.casefold())
    named = next((language.name for language in LANGUAGES if language.name in words), None)
    everything = f"{text} {audience}"
    return named or detect(everything) or ("english" if everything.isascii() else "")


def _unknown_fields(fields: Mapping[str, Any]) -> list[str]:
    known = {*_ALIASES, "displayName"}
    return [
        f"{key}: {value}".replace("\x00", "")[:MAX_TEXT]
        for key, value in fields.items()
        if key not in known and isinstance(value, str | int | float) and str(value).strip()
    ]
