"""The grammar of requests about an ad, and the edits; each changes only what its request names."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from callsheet.providers.offline.ads.ad import Ad, Data, Unable
from callsheet.providers.offline.ads.first_draft import EFFECT_S, rank, sentences
from callsheet.providers.offline.grammar import SLOTS, Form, FormMatch, number

Slots = Mapping[str, str]
# The requests that "make the ad more urgent" stands for.
URGENT: Final = "make the voices faster, make the music more urgent, add a countdown 5,4,3,2,1 at the start"
_DEGREE: Final = r"(?:(?:a bit|a little|slightly|much|even) )?"
_WISHES: Final = (
    "slower|faster|louder|quieter|softer|calmer|gentler|livelier|happier|warmer|brighter|darker|simpler|"
    "more (?:relaxed|upbeat|urgent|energetic|cheerful|playful|dramatic|modern|acoustic|electronic)"
)
_GENDERS: Final = {"male": "male", "man": "male", "female": "female", "woman": "female"}
_ACCENTS: Final = "American|British|Australian|Irish|Indian|Canadian|South African|Mexican|Brazilian"
_STYLES: Final = ("energetic", "cheerful", "friendly", "warm", "calm", "serious", "confident")
_SOUNDS: Final = (
    "whoosh|chime|(?:bicycle |door )?bell|gong|pop|applause|laughter|footsteps|rain|thunder|wind|waves|"
    "birdsong|heartbeat|countdown(?: 5,4,3,2,1)?|drum roll|whistle|siren|(?:car )?horn|engine|click|splash"
)
_NTH: Final = rf"(?:the )?(?:{SLOTS['ordinal']}) (?:voice|track|line)|(?:voice|track|line) \d{{1,2}}"
_TRAIT: Final = rf"(?:{'|'.join(_GENDERS)}|{_ACCENTS}|{_DEGREE}(?:more )?(?:{'|'.join(_STYLES)}))"
_SLOTS: Final = {
    "track": _NTH,
    "tracks": rf"{_NTH}|(?:the |both |all )voices",
    "kind": rf"(?:(?:another|a different|an?) )?{_TRAIT}(?: {_TRAIT})?|another|a different",
    "pace": rf"{_DEGREE}(?:slower|faster)",
    "wish": rf"{_DEGREE}(?:{_WISHES})",
    "sound": rf"(?:(?:the )?sound of (?:(?:a|an|the) )?)?(?:(?:short|soft|loud|distant) )?(?:{_SOUNDS})",
    "place": "at the (?:very )?(?:start|beginning|end)",
    "agreed": "yes|ok|okay|sure|go ahead|do it",
}
_REQUESTS: Final = (
    ("music.wish", "make the music {wish}", "make the music more upbeat"),
    ("effect.add", "add [(a|an|the|some) ]{sound}[ (sound|effect)][ {place}]", "add a whoosh at the start"),
    ("effect.remove", "remove the [sound ]effects", "remove the effects"),
    ("voice.change",
     "(use {kind} voice for {track}|(change|make) {who:track} [to [be ]]{trait:kind}[ voice])",
     "use a British voice for the second track"),
    ("voice.pace", "make {tracks} {pace}", "make the first voice a bit slower"),
    ("script.shorter", "make (it|the script|the ad|{track}) shorter", "make the script shorter"),
    ("script.replace", "(replace|change) {old:quote} (with|to) {new:quote}", 'replace "June" with "July"'),
    ("variations", "create {number} variations[ of this ad][ with different voice tones]",
     "create 3 variations"),
    ("urgent", "make the ad [feel ]more urgent", "make the ad feel more urgent"),
    ("undo", "undo(| that| it| this| the last change)", "undo that"),
    ("reply", "({agreed}|no|no thanks)", "yes"),
)  # fmt: skip
FORMS: Final = tuple(Form(*row, _SLOTS) for row in _REQUESTS)
_MIN_SPEED, _MAX_SPEED, _SPEED_STEP = 0.5, 2.0, 1.1
_MAX_VARIATIONS: Final = 5


def search(ad: Ad, request: FormMatch) -> dict[str, Any]:
    """Return the arguments of the voice search that a request needs; empty if it needs none."""
    if request.form == "variations":
        count = (int(number(request.slots["number"])) + 1) * len(_speakers(ad))
        return {"language": ad.language, "count": min(50, count)}
    if request.form != "voice.change":
        return {}
    kind = (request.slots.get("kind") or request.slots["trait"]).casefold()
    gender = ad.genders.get(ad.tracks[_track(ad, request.slots)]["voiceId"])
    args: dict[str, Any] = {"language": ad.language, "count": 10} | ({"gender": gender} if gender else {})
    for word in kind.split():
        args |= {"gender": _GENDERS[word]} if word in _GENDERS else {}
        args |= {"style": word.replace("energetic", "excited")} if word in _STYLES else {}
    accents = [accent for accent in _ACCENTS.split("|") if accent.casefold() in kind]
    return {**args, "accent": accents[0]} if accents else args


def apply(ad: Ad, requests: Sequence[FormMatch], results: Mapping[Any, Sequence[Data]]) -> list[Ad]:
    """Return the ad after the requests, or its variations; raise `Unable`.

    `results` has the voices of each search by its arguments.
    """
    for request in requests:
        voices = results.get(frozenset(search(ad, request).items()), ())
        if request.form == "variations":
            return _variations(ad, int(number(request.slots["number"])), voices)
        if request.form == "voice.change":
            ad = _change_voice(ad, request, voices)
        else:
            ad = _EDITS[request.form](ad, request.slots)
    return [ad]


def _variations(ad: Ad, count: int, voices: Sequence[Data]) -> list[Ad]:
    speakers = _speakers(ad)
    others = [voice["id"] for voice in voices if voice["id"] not in speakers]
    if not 1 < count <= _MAX_VARIATIONS or len(others) < count * len(speakers):
        raise Unable(f"I make 2 to {_MAX_VARIATIONS} variations, if the language has enough voices.")
    casts = [dict(zip(speakers, others[at * len(speakers) :], strict=False)) for at in range(count)]
    scripts = [[{**track, "voiceId": cast[track["voiceId"]]} for track in ad.tracks] for cast in casts]
    return [ad.with_data("voices", voiceTracks=tracks) for tracks in scripts]


def _change_music(ad: Ad, slots: Slots) -> Ad:
    if "music" not in ad.streams:
        raise Unable("There is no music yet.")
    prompt = f"{ad.streams['music']['musicPrompt']}, {slots['wish'].casefold()}"
    return ad.with_data("music", musicPrompt=prompt)


def _add_effect(ad: Ad, slots: Slots) -> Ad:
    at_end = slots.get("place", "at the end").casefold().endswith("end")
    placement = {"type": "end" if at_end else "start"}
    effect = {"description": slots["sound"], "placement": placement, "duration": EFFECT_S}
    return ad.with_data("sfx", soundFxPrompts=[*ad.effects, effect])


def _change_voice(ad: Ad, request: FormMatch, voices: Sequence[Data]) -> Ad:
    index = _track(ad, request.slots)
    others = [voice["id"] for voice in voices if voice["id"] != ad.tracks[index]["voiceId"]]
    if not others:
        wanted = [value for name, value in search(ad, request).items() if name not in {"language", "count"}]
        raise Unable(f"The catalogue has no other {' '.join(wanted)} voice for {ad.language.title()}.")
    # A voice that another track has would make two speakers sound as one.
    free = [each for each in others if each not in _speakers(ad)] or others
    return ad.with_track(index, voiceId=free[0])


def _change_pace(ad: Ad, slots: Slots) -> Ad:
    words = slots["tracks"]
    factor = _SPEED_STEP if slots["pace"].casefold().endswith("faster") else 1 / _SPEED_STEP
    for index in range(len(ad.tracks)) if words.casefold().endswith("voices") else [_track(ad, slots)]:
        speed = min(_MAX_SPEED, max(_MIN_SPEED, float(ad.tracks[index]["speed"]) * factor))
        ad = ad.with_track(index, speed=round(speed, 2))
    return ad


def _shorten(ad: Ad, slots: Slots) -> Ad:
    """Leave out the least important sentence of all or one track, a story before an offer."""
    among = [_track(ad, slots)] if "track" in slots else range(len(ad.tracks))
    scripts = [sentences(str(track["text"]), ad.language) for track in ad.tracks]
    removable = [
        (rank(sentence), index, at)
        for index, parts in enumerate(scripts)
        for at, sentence in enumerate(parts)
        if rank(sentence) and len(parts) > 1 and index in among
    ]
    if not removable:
        raise Unable("Every voice has only one sentence, or only sentences that must be said.")
    _, index, at = max(removable)
    del scripts[index][at]
    return ad.with_track(index, text=" ".join(scripts[index]))


def _replace(ad: Ad, slots: Slots) -> Ad:
    pattern = re.compile(rf"(?<!\w){re.escape(slots['old'])}(?!\w)")
    if not any(pattern.search(str(track["text"])) for track in ad.tracks):
        raise Unable(f"No voice says “{slots['old']}”.")
    for index, track in enumerate(ad.tracks):
        ad = ad.with_track(index, text=pattern.sub(lambda _: slots["new"], str(track["text"])))
    return ad


def _speakers(ad: Ad) -> list[str]:
    return list(dict.fromkeys(str(track["voiceId"]) for track in ad.tracks))


def _track(ad: Ad, slots: Slots) -> int:
    """Return the index of the track that a request names, like "the second voice" or "track 2"."""
    phrase = slots.get("track") or slots.get("who") or slots["tracks"]
    word = [word for word in phrase.casefold().split() if word not in {"voice", "track", "line"}][-1]
    index = len(ad.tracks) - 1 if number(word) < 0 else int(number(word)) - 1
    if not 0 <= index < len(ad.tracks):
        raise Unable(f"There is no {word} voice; the ad has {len(ad.tracks)}.")
    return index


_EDITS: Final[Mapping[str, Callable[[Ad, Slots], Ad]]] = {
    "music.wish": _change_music,
    "effect.add": _add_effect,
    "effect.remove": lambda ad, _: ad.with_data("sfx", soundFxPrompts=[]),
    "voice.pace": _change_pace,
    "script.shorter": _shorten,
    "script.replace": _replace,
}
