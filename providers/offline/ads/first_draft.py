"""A first draft: the client's own sentences in two voices, music by mood and effects by trade."""

import re
import zlib
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from callsheet.providers.offline.ads.ad import TITLES, ad_id, problems, written
from callsheet.providers.offline.ads.brief import DATA, Brief, is_copy, rank, sentences
from callsheet.providers.offline.conversation import Answer, Conversation, Request, Turn
from callsheet.state.ads.ad import effect_list, track_list
from callsheet.state.ads.timeline import build_timeline

_NO_NAME: Final = (
    "I am the offline demo model and could not tell the client's name, so I made nothing: begin the brief "
    "with the name in capitals, as in “Harbour Bikes rents e-bikes by the hour in Porto.”"
)
_STORY: Final = 4
"""Rank of a sentence that is no fact."""
_SHORT_S: Final = 10.0
"""Seconds of a spot that has no room for effects."""
_EFFECT_S: Final = 1.5
_NEGATION: Final = re.compile(r"\b(?:no|not|never|without|avoid|\w+n['’]t)\b", re.IGNORECASE)
_MAX_LINES: Final = 3
_MAX_SENTENCES: Final = 100
_MAX_QUOTED: Final = 6


class Part(NamedTuple):
    """A sentence that may be spoken by one of two voices; lower ranks go in first, while there is room."""

    text: str
    rank: int
    track: int


def answer(conversation: Conversation, brief: Brief) -> Answer:
    """Return the next step of a first draft: a search for voices, the drafts, or the report."""
    turn = conversation.turn
    searches = turn.answered("search_voices")
    voices = [voice["id"] for call in searches for voice in (call.result or {}).get("voices", ())]
    if not brief.name or written(turn):
        return Answer(_report(brief, turn) if brief.name else _NO_NAME)
    if searches and not voices:
        return Answer(f"No voice of the catalogue speaks {brief.language.title()}, so I made nothing.")
    calls = [Request("search_voices", {"language": brief.language, "count": 10})]
    if voices:
        calls = _drafts(brief, voices, ad_id(conversation.system))
    allowed = tuple(call for call in calls if call.name in conversation.tools)
    barred = f"I may not call the tools that make a draft for {brief.name} now, so I made nothing."
    return Answer((_plan(brief) if not voices else "") if allowed else barred, allowed)


def script(brief: Brief) -> tuple[tuple[str, ...], list[str]]:
    """Return what two voices say, the obligatory sentences first, and the copy that has no room."""
    copy = [one for one in sentences(brief.client, brief.language) if is_copy(one, brief)]
    parts = _parts(brief, copy[:_MAX_SENTENCES])
    effects = effect_list(_effects(brief), 2)
    chosen: set[Part] = set()
    for part in sorted(parts, key=lambda one: one.rank):
        tracks = track_list([{"voiceId": "any", "text": text} for text in _texts(parts, {*chosen, part})])
        if build_timeline(tracks, effects, language=brief.language, spot_s=brief.spot_s)["fits"]:
            chosen.add(part)
    heard = {part.text for part in chosen}
    return _texts(parts, chosen) or (f"{brief.name}.",), [one for one in copy if one not in heard]


def _parts(brief: Brief, copy: Sequence[str]) -> list[Part]:
    """Return what could be said, in the order in which it would be."""
    phrases = DATA.get(brief.language, {"openings": ["{brand}."], "lines": [], "closings": ["{brand}."]})
    pick = 0 if _solemn(brief) else zlib.crc32(brief.name.encode())
    opening, closing = (known[pick % len(known)] for known in (phrases["openings"], phrases["closings"]))
    return [
        Part(str(opening).format(brand=brief.name), 2, 0),
        *(Part(one, _STORY, 0) for one in copy if rank(one) == _STORY),
        *(Part(one, 5, 0) for one in phrases["lines"][:_MAX_LINES] if not _solemn(brief)),
        *(Part(one, rank(one), 1) for one in copy if rank(one) < _STORY),
        Part(str(closing).format(brand=brief.name), 1, 1),
    ]


def _texts(parts: Sequence[Part], chosen: Collection[Part]) -> tuple[str, ...]:
    """Return what each voice says of the chosen parts; a voice with nothing to say has no track."""
    spoken = [[_ended(one.text) for one in parts if one in chosen and one.track == at] for at in (0, 1)]
    return tuple(" ".join(texts) for texts in spoken if texts)


def _ended(sentence: str) -> str:
    return f"{sentence}." if sentence[-1].isalnum() and sentence[-1] < "\u0e00" else sentence


def _row(brief: Brief, table: str) -> list[str]:
    """Return the first row of a table whose words occur in the brief; the last has none and always does."""
    known = sentences(brief.client, brief.language)
    told = [one for one in known if is_copy(one, brief) or not _NEGATION.search(one)]
    text = " ".join([brief.name, *told]).casefold()
    return next(row[1:] for row in DATA[table] if re.search(rf"\b(?:{row[0]})\b", text))


def _solemn(brief: Brief) -> bool:
    return bool(_row(brief, "moods") == DATA["moods"][0][1:])


def _effects(brief: Brief) -> list[dict[str, Any]]:
    sounds = _row(brief, "trades") if brief.spot_s >= _SHORT_S else []
    placed = zip(sounds, ({"type": "start"}, {"type": "end"}), strict=False)
    return [{"description": one, "placement": where, "duration": _EFFECT_S} for one, where in placed]


def _plan(brief: Brief) -> str:
    sounds = " and ".join(effect["description"] for effect in _effects(brief)) or "none"
    return (
        f"My plan: {brief.spot_s:g} seconds for {brief.name} in two voices, with the client's own sentences "
        f"and stock phrases. Music: {_row(brief, 'moods')[0]}. Sounds: {sounds}. First I look for voices."
    )


def _drafts(brief: Brief, voices: Sequence[str], name: str) -> list[Request]:
    texts, _ = script(brief)
    tracks = [{"voiceId": voices[i % len(voices)], "text": text} for i, text in enumerate(texts)]
    prompt = f"{_row(brief, 'moods')[0]}, instrumental, room for a voice-over"
    return [
        Request("create_voice_draft", {"adId": name, "tracks": tracks}),
        Request("create_music_draft", {"adId": name, "prompt": prompt}),
        Request("create_sfx_draft", {"adId": name, "prompts": _effects(brief)}),
    ]


def _report(brief: Brief, turn: Turn) -> str:
    """Return what was made, by the receipts, and what of the brief is not in it."""
    made = {stream: call.result or {} for stream, call in written(turn) if call.version}
    if not made:
        return "\n".join(problems(turn))
    versions = ", ".join(f"{TITLES[stream]} {result['versionId']}" for stream, result in made.items())
    said = [f"The first draft for {brief.name} is ready: {versions}."]
    if brief.language != "english":
        said.append("These are stock phrases of the offline demo; a language model would write it properly.")
    _, left_out = script(brief)
    others = [one for one in sentences(brief.client, brief.language) if not is_copy(one, brief)]
    unvoiced = [one for one in others if one.strip(" .!") != brief.name]
    for reason, known in (("No room for", left_out), ("Not voiced, as it may be a direction:", unvoiced)):
        if known:
            more = [f"{len(known) - _MAX_QUOTED} more"] if known[_MAX_QUOTED:] else []
            said.append(f"{reason} {', '.join([*(f'“{one[:90]}”' for one in known[:_MAX_QUOTED]), *more])}")
    return "\n".join([*said, *(problems(turn) or ["Should I make the music calmer?"])])
