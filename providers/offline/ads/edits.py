"""Edits of an ad; each changes what its request names and nothing else."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from callsheet.providers.offline.ads import forms
from callsheet.providers.offline.ads.ad import Ad, Data, Unable, write_calls
from callsheet.providers.offline.ads.brief import rank, sentences
from callsheet.providers.offline.conversation import Turn
from callsheet.providers.offline.grammar import Match, number
from callsheet.state.ads.timeline import build_timeline

Slots = Mapping[str, str]
_MIN_SPEED, _MAX_SPEED, _SPEED_STEP = 0.5, 2.0, 1.1
_EFFECT_S: Final = 1.5
_MAX_VARIATIONS: Final = 5
_COUNTDOWN: Final = {
    "description": "countdown: 5, 4, 3, 2, 1",
    "placement": {"type": "withFirstVoice"},
    "duration": 5.0,
}


def search(ad: Ad, request: Match) -> dict[str, Any]:
    """Return the arguments of the voice search that a request needs; empty if it needs none."""
    if request.form == "variations":
        count = (int(number(request.slots["number"])) + 1) * len(_speakers(ad))
        return {"language": ad.language, "count": min(50, count)}
    if request.form != "voice.change":
        return {}
    kind = (request.slots.get("kind") or request.slots["trait"]).casefold()
    args: dict[str, Any] = {"language": ad.language, "count": 10}
    for word in kind.split():
        args |= {"gender": forms.GENDERS[word]} if word in forms.GENDERS else {}
        args |= {"style": word.replace("energetic", "excited")} if word in forms.STYLES else {}
    accents = [accent for accent in forms.ACCENTS.split("|") if accent.casefold() in kind]
    return {**args, "accent": accents[0]} if accents else args


def apply(
    ad: Ad, requests: Sequence[Match], turns: Sequence[Turn], results: Mapping[Any, Sequence[Data]]
) -> list[Ad]:
    """Return the ad after the requests, or its variations; raise `Unable`.

    `turns` are the earlier ones, for an undo; `results` has the voices of each search by its arguments.
    """
    for request in requests:
        voices = results.get(frozenset(search(ad, request).items()), ())
        if request.form == "variations":
            return _variations(ad, int(number(request.slots["number"])), voices)
        if request.form == "undo":
            ad = _undo(ad, turns)
        elif request.form == "voice.change":
            ad = _change_voice(ad, request.slots, voices)
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


def _undo(ad: Ad, turns: Sequence[Turn]) -> Ad:
    """Return the ad with the version before the newest change of the conversation."""
    turn = next(
        (each for each in reversed(turns) if any(call.version for _, call in write_calls(each))), Turn("")
    )
    changes = [(stream, call.version) for stream, call in write_calls(turn) if call.version]
    for stream, version in changes:
        data = ad.versions[stream].get(f"v{int(version[1:]) - 1}")
        if data is None or ad.versions[stream].get(version) != ad.streams[stream]:
            changes = []
            break
        ad = ad.with_data(stream, **data)
    if not changes:
        raise Unable("I see no change that I can undo.")
    return ad


def _change_music(ad: Ad, slots: Slots) -> Ad:
    if "music" not in ad.streams:
        raise Unable("There is no music yet.")
    prompt = slots.get("quote") or _add_wish(
        str(ad.streams["music"]["musicPrompt"]), slots["wish"].casefold()
    )
    return ad.with_data("music", musicPrompt=prompt)


def _add_wish(prompt: str, wish: str) -> str:
    """Return a description of music with a wish, which replaces an earlier one of its row."""
    plain = re.sub(f"^{forms.DEGREE}", "", wish)
    row = next(each for each in forms.WISHES if re.fullmatch(each, plain))
    slower, faster = re.fullmatch(forms.SLOWER, plain), re.fullmatch(forms.FASTER, plain)

    def tempo(bpm: re.Match[str]) -> str:
        return f"{round(int(bpm[1]) * (0.85 if slower else 1.15 if faster else 1))} BPM"

    parts = [part for part in prompt.split(", ") if not re.fullmatch(f"{forms.DEGREE}(?:{row})", part)]
    return ", ".join([*(re.sub(r"\b(\d{2,3}) BPM\b", tempo, part) for part in parts), wish])


def _add_effect(ad: Ad, slots: Slots) -> Ad:
    at_end = slots.get("place", "at the end").casefold().endswith("end")
    placement = {"type": "end" if at_end else "start"}
    effect = {"description": slots["sound"], "placement": placement, "duration": _EFFECT_S}
    return ad.with_data("sfx", soundFxPrompts=[*ad.effects, effect])


def _change_voice(ad: Ad, slots: Slots, voices: Sequence[Data]) -> Ad:
    index = _track(ad, slots.get("track") or slots["who"])
    others = [voice["id"] for voice in voices if voice["id"] != ad.tracks[index]["voiceId"]]
    if not others:
        raise Unable(f"The catalogue has no other such voice for {ad.language.title()}.")
    # A voice that another track has would make two speakers sound as one.
    return ad.with_track(
        index, voiceId=next((each for each in others if each not in _speakers(ad)), others[0])
    )


def _change_pace(ad: Ad, slots: Slots) -> Ad:
    words = slots["tracks"]
    factor = _SPEED_STEP if slots["pace"].casefold().endswith("faster") else 1 / _SPEED_STEP
    for index in range(len(ad.tracks)) if words.casefold().endswith("voices") else [_track(ad, words)]:
        speed = min(_MAX_SPEED, max(_MIN_SPEED, float(ad.tracks[index]["speed"]) * factor))
        ad = ad.with_track(index, speed=round(speed, 2))
    return ad


def _make_urgent(ad: Ad, slots: Slots) -> Ad:
    del slots
    ad = _change_pace(ad, {"tracks": "the voices", "pace": "faster"})
    for wish in ("faster", "more urgent"):
        ad = _change_music(ad, {"wish": wish})
    if any(effect["description"] == _COUNTDOWN["description"] for effect in ad.effects):
        return ad
    return ad.with_data("sfx", soundFxPrompts=[*ad.effects, _COUNTDOWN])


def _shorten(ad: Ad, slots: Slots) -> Ad:
    """Leave out one sentence, and more until the ad fits the spot; stories go before offers."""
    del slots
    shorter, fits = ad, False
    while not fits:
        scripts = [sentences(str(track["text"]), ad.language) for track in shorter.tracks]
        removable = [
            (rank(sentence), index, at)
            for index, parts in enumerate(scripts)
            for at, sentence in enumerate(parts)
            if rank(sentence) and len(parts) > 1
        ]
        if not removable:
            break
        _, index, at = max(removable)
        del scripts[index][at]
        shorter = shorter.with_track(index, text=" ".join(scripts[index]))
        fits = build_timeline(shorter.tracks, ad.effects, language=ad.language, spot_s=ad.spot_s)["fits"]
    if shorter is ad:
        raise Unable("Every voice has only one sentence, or only sentences that must be said.")
    return shorter


def _replace(ad: Ad, slots: Slots) -> Ad:
    pattern = re.compile(rf"(?<!\w){re.escape(slots['old'])}(?!\w)")
    if not any(pattern.search(str(track["text"])) for track in ad.tracks):
        raise Unable(f"No voice says “{slots['old']}”.")
    for index, track in enumerate(ad.tracks):
        ad = ad.with_track(index, text=pattern.sub(lambda _: slots["new"], str(track["text"])))
    return ad


def _speakers(ad: Ad) -> list[str]:
    return list(dict.fromkeys(str(track["voiceId"]) for track in ad.tracks))


def _track(ad: Ad, phrase: str) -> int:
    """Return the index of a track named like "the second voice" or "track 2"."""
    word = [word for word in phrase.casefold().split() if word not in {"voice", "track", "line"}][-1]
    index = len(ad.tracks) - 1 if number(word) < 0 else int(number(word)) - 1
    if not 0 <= index < len(ad.tracks):
        raise Unable(f"There is no {word} voice; the ad has {len(ad.tracks)}.")
    return index


_EDITS: Final[Mapping[str, Callable[[Ad, Slots], Ad]]] = {
    "music.wish": _change_music,
    "music.prompt": _change_music,
    "effect.add": _add_effect,
    "effect.remove": lambda ad, _: ad.with_data("sfx", soundFxPrompts=[]),
    "voice.pace": _change_pace,
    "script.shorter": _shorten,
    "script.replace": _replace,
    "urgent": _make_urgent,
}
