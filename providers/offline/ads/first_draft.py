"""A first draft: the client's own sentences in two voices, music by mood and effects by trade."""

import re
import zlib
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from callsheet.providers.offline.ads.ad import TITLES, ad_id, problems, write_calls
from callsheet.providers.offline.ads.brief import DATA, STORY, Brief, is_copy, rank, sentences
from callsheet.providers.offline.conversation import Answer, Conversation, Request, Turn
from callsheet.state.ads.ad import effect_list, track_list
from callsheet.state.ads.timeline import build_timeline

_NO_NAME: Final = (
    "I am the offline demo model and found no client's name, so I made nothing: begin the brief with the name "
    "in capitals, as in “30 seconds for Miel, a bakery in Lyon”."
)
_MIN_EFFECTS_S: Final = 10.0
"""Shorter spots have no effects."""
_EFFECT_S: Final = 1.5
_NEGATION: Final = re.compile(r"\b(?:no|not|never|without|avoid|\w+n['’]t)\b", re.IGNORECASE)
_MAX_LINES: Final = 3
_MAX_SENTENCES: Final = 100
_MAX_QUOTED: Final = 6


class _Part(NamedTuple):
    """A sentence for one of two voices; while there is room, lower ranks are spoken first."""

    text: str
    rank: int
    voice: int


def answer(conversation: Conversation, brief: Brief) -> Answer:
    """Return the search for voices, then the drafts, then the report."""
    turn = conversation.turn
    if not brief.name:
        return Answer(_NO_NAME)
    if write_calls(turn):
        return Answer(_report(brief, turn))
    searches = turn.calls_to("search_voices")
    voices = [voice["id"] for call in searches for voice in (call.result or {}).get("voices", ())]
    if searches and not voices:
        return Answer(f"No voice of the catalogue speaks {brief.language.title()}, so I made nothing.")
    if voices:
        text, calls = "", _drafts(brief, voices, ad_id(conversation.system))
    else:
        text, calls = _plan(brief), [Request("search_voices", {"language": brief.language, "count": 10})]
    callable_now = tuple(call for call in calls if call.name in conversation.tools)
    if not callable_now:
        return Answer(f"I may not call the tools that make a draft for {brief.name} now, so I made nothing.")
    return Answer(text, callable_now)


def script(brief: Brief) -> tuple[list[str], list[str]]:
    """Return the text of each voice, obligatory sentences first, and the sentences without room."""
    copy = [each for each in sentences(brief.client, brief.language) if is_copy(each, brief)]
    phrases = DATA.get(brief.language, {"openings": ["{brand}."], "lines": [], "closings": ["{brand}."]})
    solemn = _row(brief, "moods") == DATA["moods"][0][1:]
    pick = 0 if solemn else zlib.crc32(brief.name.encode())
    opening, closing = (known[pick % len(known)] for known in (phrases["openings"], phrases["closings"]))
    facts = [_Part(each, rank(each), 1) for each in copy[:_MAX_SENTENCES]]
    parts = [
        _Part(str(opening).format(brand=brief.name), 2, 0),
        *(part._replace(voice=0) for part in facts if part.rank == STORY),
        *(_Part(line, STORY + 1, 0) for line in phrases["lines"][:_MAX_LINES] if not solemn),
        *(part for part in facts if part.rank < STORY),
        _Part(str(closing).format(brand=brief.name), 1, 1),
    ]
    effects = effect_list(_effects(brief), 2)
    chosen: set[_Part] = set()
    for part in sorted(parts, key=lambda each: each.rank):
        tracks = track_list([{"voiceId": "any", "text": text} for text in _texts(parts, {*chosen, part})])
        if build_timeline(tracks, effects, language=brief.language, spot_s=brief.spot_s)["fits"]:
            chosen.add(part)
    spoken_texts = {part.text for part in chosen}
    return _texts(parts, chosen) or [f"{brief.name}."], [each for each in copy if each not in spoken_texts]


def _texts(parts: Sequence[_Part], chosen: Collection[_Part]) -> list[str]:
    """Return the text of each voice; a voice with nothing to say is left out."""
    by_voice = [
        [_punctuate(each.text) for each in parts if each in chosen and each.voice == at] for at in (0, 1)
    ]
    return [" ".join(texts) for texts in by_voice if texts]


def _punctuate(sentence: str) -> str:
    return f"{sentence}." if sentence[-1].isalnum() and sentence[-1] < "\u0e00" else sentence


def _row(brief: Brief, table: str) -> list[str]:
    """Return the first row of a table with words that occur in the brief; the last row always matches."""
    known = sentences(brief.client, brief.language)
    usable = [each for each in known if is_copy(each, brief) or not _NEGATION.search(each)]
    text = " ".join([brief.name, *usable]).casefold()
    return next(row[1:] for row in DATA[table] if re.search(rf"\b(?:{row[0]})\b", text))


def _effects(brief: Brief) -> list[dict[str, Any]]:
    sounds = _row(brief, "trades") if brief.spot_s >= _MIN_EFFECTS_S else []
    places = ({"type": "start"}, {"type": "end"})
    return [
        {"description": sound, "placement": place, "duration": _EFFECT_S}
        for sound, place in zip(sounds, places, strict=False)
    ]


def _plan(brief: Brief) -> str:
    sounds = " and ".join(effect["description"] for effect in _effects(brief)) or "none"
    return (
        f"My plan: {brief.spot_s:g} seconds for {brief.name} in two voices, with the client's own sentences "
        f"and stock phrases. Music: {_row(brief, 'moods')[0]}. Sounds: {sounds}. First I look for voices."
    )


def _drafts(brief: Brief, voices: Sequence[str], name: str) -> list[Request]:
    texts, _ = script(brief)
    tracks = [{"voiceId": voices[at % len(voices)], "text": text} for at, text in enumerate(texts)]
    prompt = f"{_row(brief, 'moods')[0]}, instrumental, room for a voice-over"
    return [
        Request("create_voice_draft", {"adId": name, "tracks": tracks}),
        Request("create_music_draft", {"adId": name, "prompt": prompt}),
        Request("create_sfx_draft", {"adId": name, "prompts": _effects(brief)}),
    ]


def _report(brief: Brief, turn: Turn) -> str:
    """Return the new versions, and the sentences of the brief that are not in the script."""
    versions = [f"{TITLES[stream]} {call.version}" for stream, call in write_calls(turn) if call.version]
    if not versions:
        return "\n".join(problems(turn))
    lines = [f"The first draft for {brief.name} is ready: {', '.join(versions)}."]
    if brief.language != "english":
        lines.append("These are stock phrases of the offline demo; a language model would write it properly.")
    others = [each for each in sentences(brief.client, brief.language) if not is_copy(each, brief)]
    directions = [each for each in others if each.strip(" .!") != brief.name]
    left_out = script(brief)[1]
    for reason, texts in (("No room for", left_out), ("Not spoken, as it may be a direction:", directions)):
        if texts:
            more = [f"{len(texts) - _MAX_QUOTED} more"] if texts[_MAX_QUOTED:] else []
            lines.append(
                f"{reason} {', '.join([*(f'“{text[:90]}”' for text in texts[:_MAX_QUOTED]), *more])}"
            )
    return "\n".join([*lines, *(problems(turn) or ["Should I make the music calmer?"])])
