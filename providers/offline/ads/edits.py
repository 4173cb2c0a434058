"""Edits of an ad by requests of the grammar; each changes what it names and nothing else."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from callsheet.providers.offline.ads import forms
from callsheet.providers.offline.ads.ad import TITLES, Ad, Data, Unable, written
from callsheet.providers.offline.ads.brief import rank, sentences
from callsheet.providers.offline.conversation import Turn
from callsheet.providers.offline.grammar import Match, match, number
from callsheet.state.ads.timeline import build_timeline

Slots = Mapping[str, str]
_SPEEDS: Final = (0.5, 2.0)
_STEP: Final = 1.1
_EFFECT_S: Final = 1.5
_RECAST: Final = frozenset({"voice.use", "voice.change"})
_MAX_VARIATIONS: Final = 5
_COUNTDOWN: Final = {"description": "countdown: 5, 4, 3, 2, 1", "placement": {"type": "withFirstVoice"}}


def search(ad: Ad, request: Match) -> dict[str, Any]:
    """Return the arguments of the search for voices that a request needs; none where it needs none."""
    if request.form == "variations":
        count = (int(number(request.slots["number"])) + 1) * len(_speakers(ad))
        return {"language": ad.language, "count": min(50, count)}
    if request.form not in _RECAST:
        return {}
    words = request.slots["kind"].casefold()
    wanted: dict[str, Any] = {"language": ad.language, "count": 10}
    for word in words.split():
        wanted |= {"gender": forms.GENDERS[word]} if word in forms.GENDERS else {}
        wanted |= {"style": word.replace("energetic", "excited")} if word in forms.STYLES else {}
    accents = [one for one in forms.ACCENTS.split("|") if one.casefold() in words]
    return {**wanted, "accent": accents[0]} if accents else wanted


def edited(
    ad: Ad, requests: Sequence[Match], turns: Sequence[Turn], found: Mapping[Any, Sequence[Data]]
) -> list[Ad]:
    """Return the ad after the requests, or its variations; raises `Unable`.

    `turns` are those before, for an undo; `found` has the voices of each search by its arguments.
    """
    for request in requests:
        voices = found.get(frozenset(search(ad, request).items()), ())
        if request.form == "variations":
            return _variations(ad, int(number(request.slots["number"])), voices)
        if request.form == "undo":
            ad = _undone(ad, turns)
        elif request.form in _RECAST:
            ad = _recast(ad, request.slots, voices)
        else:
            ad = _EDITS[request.form](ad, request.slots)
    return [ad]


def _variations(ad: Ad, count: int, voices: Sequence[Data]) -> list[Ad]:
    speakers = _speakers(ad)
    others = [voice["id"] for voice in voices if voice["id"] not in speakers]
    if not 1 < count <= _MAX_VARIATIONS or len(others) < count * len(speakers):
        raise Unable(f"I make 2 to {_MAX_VARIATIONS} variations, where the language has the voices.")
    casts = [dict(zip(speakers, others[i * len(speakers) :], strict=False)) for i in range(count)]
    recast = [[{**one, "voiceId": cast[one["voiceId"]]} for one in ad.tracks] for cast in casts]
    return [ad.having("voices", voiceTracks=tracks) for tracks in recast]


def _undone(ad: Ad, turns: Sequence[Turn]) -> Ad:
    """Return the ad as it was before the newest change that the conversation shows."""
    turn = next((one for one in reversed(turns) if any(call.version for _, call in written(one))), Turn(""))
    made = [(stream, call.version) for stream, call in written(turn) if call.version]
    untouched = all(ad.versions[one].get(version) == ad.streams[one] for one, version in dict(made).items())
    again = [one.form for one in match(turn.text, forms.FORMS)] == ["undo"]
    if not made or again or not untouched or any(version == "v1" for _, version in made):
        raise Unable("I see no change to undo; name a version, as in “go back to v1 of the music”.")
    # Of several versions of a stream, the first is the one that changed it.
    for stream, version in dict(reversed(made)).items():
        ad = _restored(ad, {"stream": stream, "version": f"v{int(version[1:]) - 1}"})
    return ad


def _restored(ad: Ad, slots: Slots) -> Ad:
    stream, version = forms.STREAMS[slots["stream"].casefold()], slots["version"].casefold()
    data = ad.versions.get(stream, {}).get(version)
    if data is None:
        raise Unable(f"I do not see that version among the last five of the {TITLES[stream]}.")
    return ad.having(stream, **data)


def _music(ad: Ad, slots: Slots) -> Ad:
    if "music" not in ad.streams:
        raise Unable("There is no music yet.")
    prompt = slots.get("quote") or str(ad.streams["music"]["musicPrompt"])
    for wish in filter(None, (slots.get("wish"), slots.get("more"))):
        prompt = _wished(prompt, wish.casefold())
    return ad.having("music", musicPrompt=prompt)


def _wished(prompt: str, wish: str) -> str:
    """Return a description of music with a wish, which replaces an earlier one of its kind."""
    plain = re.sub(f"^{forms.DEGREE}", "", wish)
    kind = next(row for row in forms.WISHES if re.fullmatch(row, plain))

    slower, faster = re.fullmatch(forms.SLOWER, plain), re.fullmatch(forms.FASTER, plain)

    def tempo(bpm: re.Match[str]) -> str:
        return f"{round(int(bpm[1]) * (0.85 if slower else 1.15 if faster else 1))} BPM"

    parts = [part for part in prompt.split(", ") if not re.fullmatch(f"{forms.DEGREE}(?:{kind})", part)]
    return ", ".join([*(re.sub(r"\b(\d{2,3}) BPM\b", tempo, part) for part in parts), wish])


def _add_effect(ad: Ad, slots: Slots) -> Ad:
    words = slots.get("place", "at the end").casefold()
    placement: dict[str, Any] = {"type": "end" if words.endswith("end") else "start"}
    if words.startswith("after"):
        placement = {"type": "afterVoice", "index": _track(ad, words)}
    effect = {"description": slots["sound"], "placement": placement, "duration": _EFFECT_S}
    return ad.having("sfx", soundFxPrompts=[*ad.effects, effect])


def _remove_effects(ad: Ad, slots: Slots) -> Ad:
    word = slots.get("sound", "").casefold()
    going = [i for i, effect in enumerate(ad.effects) if word in str(effect["description"]).casefold()]
    if "ordinal" in slots:
        going = [_nth(ad.effects, slots["ordinal"], "sound effect")]
    if not going or (word and len(going) > 1):
        raise Unable(f"There are {len(going) or 'no'} such effects.")
    return ad.having("sfx", soundFxPrompts=[effect for i, effect in enumerate(ad.effects) if i not in going])


def _recast(ad: Ad, slots: Slots, voices: Sequence[Data]) -> Ad:
    index = _track(ad, slots["track"])
    others = [voice["id"] for voice in voices if voice["id"] != ad.tracks[index]["voiceId"]]
    if not others:
        raise Unable(f"The catalogue has no other such voice for {ad.language.title()}.")
    # A voice of the cast would make two speakers sound as one.
    return ad.with_track(index, voiceId=next((one for one in others if one not in _speakers(ad)), others[0]))


def _pace(ad: Ad, slots: Slots) -> Ad:
    words, factor = slots["tracks"], _STEP if slots["pace"].casefold().endswith("faster") else 1 / _STEP
    for index in range(len(ad.tracks)) if words.casefold().endswith("voices") else [_track(ad, words)]:
        speed = min(_SPEEDS[1], max(_SPEEDS[0], float(ad.tracks[index]["speed"]) * factor))
        ad = ad.with_track(index, speed=round(speed, 2))
    return ad


def _urgent(ad: Ad, slots: Slots) -> Ad:
    faster = _pace(ad, {**slots, "tracks": "the voices", "pace": "faster"})
    ad = _music(faster, {"wish": "faster", "more": "more urgent"})
    counted = any(effect["description"] == _COUNTDOWN["description"] for effect in ad.effects)
    return ad if counted else ad.having("sfx", soundFxPrompts=[*ad.effects, {**_COUNTDOWN, "duration": 5.0}])


def _shorter(ad: Ad, slots: Slots) -> Ad:
    """Leave out a sentence, and then as many more as it takes to fit the spot; stories go before offers."""
    del slots
    shorter, fits = ad, False
    while not fits:
        scripts = [sentences(str(track["text"]), ad.language) for track in shorter.tracks]
        going = [
            (rank(part), index, at)
            for index, parts in enumerate(scripts)
            for at, part in enumerate(parts)
            if rank(part) and len(parts) > 1
        ]
        if not going:
            break
        _, index, at = max(going)
        shorter = shorter.with_track(index, text=" ".join(scripts[index][:at] + scripts[index][at + 1 :]))
        fits = build_timeline(shorter.tracks, ad.effects, language=ad.language, spot_s=ad.spot_s)["fits"]
    if shorter is ad:
        raise Unable("Every voice is down to one sentence or to what must be said.")
    return shorter


def _replace(ad: Ad, slots: Slots) -> Ad:
    """Replace a text, or take it out, wherever it is spoken."""
    old, texts = slots["old"], [str(track["text"]) for track in ad.tracks]
    after = [_reworded(text, old, slots.get("new", "")) for text in texts]
    if not all(after) or (after == texts and old != slots.get("new")):
        raise Unable(f"One voice says nothing but “{old}”." if not all(after) else f"Nobody says “{old}”.")
    for index, text in enumerate(after):
        ad = ad.with_track(index, text=text)
    return ad


def _reworded(text: str, old: str, new: str = "") -> str:
    """Return the text with whole words replaced, or without them and the blanks behind them."""
    words = rf"(?<!\w){re.escape(old)}(?!\w)"
    return re.sub(words, lambda _: new, text) if new else re.sub(rf"{words}\s*", "", text).rstrip()


def _line(ad: Ad, slots: Slots) -> Ad:
    index = _track(ad, slots.get("track") or slots["who"])
    text = slots.get("quote") or f"{ad.tracks[index]['text']} {slots['added']}"
    return ad.with_track(index, text=text)


def _speakers(ad: Ad) -> list[str]:
    return list(dict.fromkeys(str(track["voiceId"]) for track in ad.tracks))


def _track(ad: Ad, words: str) -> int:
    """Return the index of the track that words such as "after the second voice" or "track 2" name."""
    nouns = {"voice", "track", "line"}
    return _nth(ad.tracks, [word for word in words.casefold().split() if word not in nouns][-1], "voice")


def _nth(items: Sequence[Data], word: str, noun: str) -> int:
    index = len(items) - 1 if number(word) < 0 else int(number(word)) - 1
    if not 0 <= index < len(items):
        raise Unable(f"There is no {word} {noun}; the ad has {len(items)}.")
    return index


_EDITS: Final[Mapping[str, Callable[[Ad, Slots], Ad]]] = {
    **dict.fromkeys(("music.wish", "music.prompt"), _music),
    **dict.fromkeys(("script.replace", "script.remove"), _replace),
    **dict.fromkeys(("script.line", "script.add"), _line),
    "effect.add": _add_effect,
    "effect.remove": _remove_effects,
    "voice.pace": _pace,
    "script.shorter": _shorter,
    "urgent": _urgent,
    "restore": _restored,
}
