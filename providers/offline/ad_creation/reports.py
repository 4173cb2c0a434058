"""What the model tells the person about a first draft: the plan before it, the result after it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from providers.offline.ad_creation.brief import READ_CHARS, Brief
from providers.offline.ad_creation.copywriter import sentences
from providers.offline.ad_creation.deals import brand, deals, native, phrases_for
from providers.offline.ad_creation.kinds import WRITTEN
from providers.offline.ad_creation.phrasebook import Phrasebook, book, fill, written
from providers.offline.ad_creation.wording import folded

_SPARSE = 0.75
"""Below this share of the spot the person is asked for more to say."""
_HOOK_CHARS = 90
_SHOWN = 6
"""How many phrases a list in a report names at most."""


@dataclass(frozen=True)
class Made:
    """What came of a first draft."""

    texts: Sequence[str]
    versions: Mapping[str, Sequence[str]]
    """Versions by stream: voices, music, sfx; several of the voices when there are several takes."""
    tones: Sequence[str] = ()
    """The tone of every take."""
    duration_s: float | None = None
    """As the draft tool measured it."""
    tightened: Sequence[str] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    """Error by stream."""
    broadened: bool = False


def speech(brief: Brief) -> Phrasebook:
    """Return the phrases to talk to the person in: their own language where it is written, else English."""
    return book(brief.tongue or "english")


def plan(brief: Brief, *, texts: Sequence[str], tones: Sequence[str], seconds: float, roles: int) -> str:
    """Return the plan of an ad in the client's language: concept, tone, structure, roles; no casting yet."""
    words = speech(brief)
    name = _name(brief, words)
    hook = (
        words.quoted(texts[0] if len(texts[0]) <= _HOOK_CHARS else sentences(texts[0])[0]) if texts else name
    )
    lines = [
        _say(words, "concept", hook=hook, brand=name),
        _say(words, "tone", tone=" / ".join(_tone(words, tone) for tone in tones)),
        _say(words, "structure", seconds=f"{seconds:g}", beats=_beats(brief, words)),
        _roles(brief, words, roles),
    ]
    return "\n".join(
        [_say(words, "plan", brand=name), *(f"- {line}" for line in lines), _say(words, "casting")]
    )


def _tone(words: Phrasebook, tone: str) -> str:
    return str(words.entries["replies"]["tones"][tone])


def _say(phrases: Phrasebook, key: str, /, **slots: str) -> str:
    return fill(phrases.one("replies", key), slots) or ""


def _name(brief: Brief, words: Phrasebook) -> str:
    return brief.brand or brand(brief, words)


def _beats(brief: Brief, words: Phrasebook) -> str:
    names: Mapping[str, str] = words.entries["replies"]["beats"]
    told = {"offer": bool(brief.offers), "must": bool(brief.must)}
    contacts = brief.contact
    told["contact"] = bool(contacts.phone or contacts.url or contacts.place)
    return " → ".join(name for beat, name in names.items() if told.get(beat, True))


def _roles(brief: Brief, words: Phrasebook, roles: int) -> str:
    if roles == 1:
        return _say(words, "roles_one")
    if brief.wishes.dialogue:
        return _say(words, "roles_talk")
    return (
        _say(words, "roles_two")
        if roles == len(("lead", "announcer"))
        else _say(words, "roles_many", count=str(roles))
    )


def cast(brief: Brief, names: Sequence[str]) -> str:
    """Return one sentence on who was cast."""
    return _say(speech(brief), "cast", voices=", ".join(dict.fromkeys(names)))


def result(brief: Brief, made: Made, *, language: str, seconds: float) -> str:
    """Return the last word on a first draft: what was made, its length, what was left out, one idea."""
    words = speech(brief)
    head = [*_versions(made, words), *_timing(made, words, seconds)]
    notes = [
        *_language(brief, words, language),
        *_kept(brief, made, words, language),
        *_wished(brief, made, words),
    ]
    notes += [_say(words, "failed", what=stream, error=error) for stream, error in made.failures.items()]
    parts = [str(words.entries["grammar"]["join"]).join(head), *notes, _idea(brief, made, words)]
    return "\n".join(part for part in parts if part)


def _versions(made: Made, words: Phrasebook) -> Iterator[str]:
    if not made.versions:
        return
    single = len(made.texts) == 1
    named = [
        (_say(words, f"{stream}_one", version=", ".join(versions)) if single else "")
        or _say(words, stream, version=", ".join(versions), count=str(len(made.texts)))
        for stream, versions in made.versions.items()
    ]
    yield _say(words, "done", versions=words.listed(named))
    yield _say(words, "review")
    takes = made.versions.get("voices", ())
    if len(takes) > 1:
        named = [f"{version} {_tone(words, tone)}" for version, tone in zip(takes, made.tones, strict=False)]
        yield _say(words, "takes", takes=", ".join(named))


def _timing(made: Made, words: Phrasebook, seconds: float) -> Iterator[str]:
    if made.duration_s is not None:
        key = "length" if made.duration_s <= seconds + 0.05 else "too_long"
        length = f"{made.duration_s:.1f}".replace(".", str(words.entries["grammar"]["decimal"]))
        yield _say(words, key, length=length, seconds=f"{seconds:g}")
        if made.duration_s < _SPARSE * seconds:
            yield _say(words, "sparse", seconds=f"{seconds - made.duration_s:.0f}")


def _language(brief: Brief, words: Phrasebook, language: str) -> Iterator[str]:
    if language == "cantonese":
        yield _say(words, "cantonese")
    elif written(language) is None:
        key = "own_words" if brief.tongue == language else "unwritten"
        yield _say(words, key, language=language.capitalize(), count=str(len(WRITTEN)))


def _kept(brief: Brief, made: Made, words: Phrasebook, language: str) -> Iterator[str]:
    if brief.script:  # Nothing was chosen, so nothing was left out.
        return
    script = folded("\n".join(made.texts))
    foreign = not native(brief, phrases_for(brief, language).language)
    if not brief.brand:
        yield _say(words, "nameless")
    said = [phrase for phrase in (*brief.must, brief.slogan) if phrase]
    if foreign:
        kept = [phrase for phrase in said if folded(phrase) in script]
        yield _say(words, "untranslated", words=_quotes(kept, words)) if kept else ""
        lost = [phrase for phrase in (brief.what, *brief.claims) if phrase and folded(phrase) not in script]
        yield _say(words, "left_out", words=_quotes(lost, words)) if lost else ""
    own = () if foreign else (*brief.claims, *deals(brief, phrases_for(brief, language)))
    missing = [
        phrase for phrase in (*said, *own, *_ways(brief)) if folded(phrase.rstrip(" .!")) not in script
    ]
    if missing and made.texts:
        yield _say(words, "no_room", words=_quotes(missing, words))


def _ways(brief: Brief) -> list[str]:
    contact, avoid = brief.contact, brief.avoid
    ways = {"phone": contact.phone, "web": contact.url, "address": contact.place, "code": contact.code}
    return [way for topic, way in ways.items() if way and topic not in avoid]


def _quotes(phrases: Sequence[str], words: Phrasebook) -> str:
    shown = [words.quoted(phrase) for phrase in phrases[:_SHOWN]]
    return ", ".join(shown) + (" …" if len(phrases) > _SHOWN else "")


def _wished(brief: Brief, made: Made, words: Phrasebook) -> Iterator[str]:
    wishes = brief.wishes
    if made.broadened:
        yield _say(words, "broadened")
    if wishes.age:
        yield _say(words, "age", age=wishes.age)
    if wishes.music_level == "bed" and "music" in made.versions:
        yield _say(words, "music_bed", version=made.versions["music"][-1])
    if wishes.music_level == "none":
        yield _say(words, "music_none")
    if wishes.no_effects:
        yield _say(words, "effects_none")
    if made.tightened:
        yield _say(words, "tightened", words=_quotes(made.tightened, words))
    if brief.cut:
        yield _say(words, "cut", count=str(READ_CHARS))


def _idea(brief: Brief, made: Made, words: Phrasebook) -> str:
    contacts = brief.contact
    if not (contacts.phone or contacts.url or contacts.place or contacts.handle):
        return _say(words, "suggest_contact")
    if not brief.offers and not brief.when and brief.kind.category not in {"care", "public"}:
        return _say(words, "suggest_offer")
    if len(made.texts) > 1 and "voices" in made.versions:
        return _say(words, "suggest_slower", version=_next(made.versions["voices"][-1]))
    return _say(words, "suggest_tones")


def _next(version: str) -> str:
    number = version.removeprefix("v")
    return f"v{int(number) + 1}" if number.isdigit() else version


def no_voice(brief: Brief, texts: Sequence[str]) -> str:
    """Return the answer when the catalogue has nobody for the ad's language: the script, and a question."""
    words = speech(brief)
    script = [f"{index}. {text}" for index, text in enumerate(texts, 1)]
    return "\n".join([_say(words, "no_voice"), *script, _say(words, "no_voice_next")])
