"""Scripts: what is said on each voice track, fitted to the seconds of the spot.

The written languages are those of `kinds.WRITTEN`; for any other the copy is English and the caller says so.
"""

import re
from collections.abc import Sequence
from functools import cache

from providers.offline.ad_creation.brief import Brief
from providers.offline.ad_creation.deals import day, phrases_for
from providers.offline.ad_creation.fitting import Window, breath_s, fitted, grouped, line_s
from providers.offline.ad_creation.phrasebook import TONES, Phrasebook, book, fill, turned
from providers.offline.ad_creation.pitch import Piece, Voice, mood, pieces
from providers.offline.ad_creation.wording import DATED
from state.timeline import spoken_s

LOW, HIGH = 0.80, 0.92
"""Share of the seconds that is spoken, at least and at most."""
_SENTENCE = re.compile(rf"(?<=[.!?…。！？])(?!(?<=\d\.)\s{DATED})\s+|(?<=[。！？])|\n+")
_FACT = re.compile(r"\d|%|@|\.\w{2,}|[\"“„«»”]")


def write(
    brief: Brief,
    *,
    language: str,
    seconds: float,
    tone: str | None = None,
    voices: int | None = None,
    variant: int = 0,
) -> list[str]:
    """Return the texts of the tracks of an ad for `brief`, together 80–92 % of `seconds` when spoken.

    Tracks go round the voices in order. Another `variant` chooses other lines; the same arguments always
    give the same texts. With `voices=2` and a wish for dialogue the two talk to each other.
    """
    if brief.script:
        return _given(brief.script)
    wanted = voices or brief.wishes.voices or 2
    chosen = tone if tone in TONES else mood(brief)
    dialogue = brief.wishes.dialogue and wanted > 1 and seconds >= _TALK_S
    voice = Voice(language, chosen, variant, dialogue)
    phrases = phrases_for(brief, language)
    material = [piece for piece in pieces(brief, voice) if piece.beat != "again" or seconds >= _AGAIN_S]
    count = tracks(seconds, wanted)
    asks = _asks(brief, voice, material, count) if dialogue else []
    spare = sum(line_s(ask, language) for ask in asks)
    # The last line of a track has no breath after it, and every line is counted with one.
    unbreathed = breath_s(language) * (len(asks) + 2 if dialogue else count)
    window = Window(language, LOW * seconds + _EDGE_S, HIGH * seconds - _EDGE_S)
    kept = fitted(material, window.less(spare - unbreathed))
    if dialogue:
        return _talk(kept, asks, phrases)
    return [_joined(group, phrases) for group in grouped(kept, count, language)]


_LABEL = re.compile(r"^(?:[\w' -]{2,20}?\s?\d?)[:：]\s+(?=\S)")


def _given(script: str) -> list[str]:
    """Return the client's script as it is: a track for every line, without the names of who speaks it."""
    lines = [line.strip(" -–—•*") for line in script.split("\n") if line.strip()]
    labelled = len(lines) > 1 and all(_LABEL.match(line) for line in lines)
    return [_LABEL.sub("", line) if labelled else line for line in lines]


_EDGE_S = 0.05
"""Kept from both ends of the window, since times are rounded."""
_AGAIN_S = 45
"""A spot this long says twice how to get there."""
_TALK_S = 12
"""A conversation needs at least this long."""


def tracks(seconds: float, voices: int) -> int:
    """Return how many tracks a spot of `seconds` has when `voices` speak."""
    usual = next(
        count for limit, count in ((10, 1), (20, 2), (40, 3), (60, 5), (90, 6), (1e9, 8)) if seconds <= limit
    )
    return max(1, (usual + 1) // 2) if voices == 1 else max(usual, min(voices, int(seconds // 4) or 1))


def _asks(brief: Brief, voice: Voice, material: Sequence[Piece], count: int) -> list[str]:
    phrases = phrases_for(brief, voice.language)
    answers = max(1, (count + 1) // 2)
    more = turned(phrases.lines("dialogue", "more"), brief.client, "more", voice.variant)
    offered = any(piece.beat == "offer" for piece in material)
    last = phrases.lines("dialogue", "deal" if offered else "how")
    final = turned(last, brief.client, "last", voice.variant)[:1]
    return [*more[: max(0, answers - 2)], *(final if answers > 1 else [])]


def _talk(kept: Sequence[tuple[Piece, str]], asks: Sequence[str], phrases: Phrasebook) -> list[str]:
    opening = [text for piece, text in kept if piece.beat == "hook"]
    middle = [(piece, text) for piece, text in kept if piece.beat in {"intro", "body"}]
    finish = [(piece, text) for piece, text in kept if piece.beat not in {"hook", "intro", "body"}]
    answers = [_joined(group, phrases) for group in grouped(middle, max(1, len(asks)), phrases.language)]
    if not asks:
        return [*opening, _joined([text for _, text in (*middle, *finish)], phrases)]
    said = [*opening]
    for answer, ask in zip(answers, asks, strict=False):
        said += [answer, ask]
    return [*said, _joined([text for _, text in finish], phrases)]


def _joined(texts: Sequence[str], phrases: Phrasebook) -> str:
    return str(phrases.entries["grammar"]["join"]).join(texts).strip()


def sentences(text: str, language: str = "") -> list[str]:
    """Return the sentences of `text`; Thai, which marks none, is cut where a known line begins or ends."""
    if language == "thai":
        return _thai_lines(text)
    return [part.strip() for part in _SENTENCE.split(text) if part and part.strip()]


def _thai_lines(text: str) -> list[str]:
    parts: list[str] = []
    rest = text
    while rest:
        known = [(position, line) for line in _thai_book() if (position := rest.find(line)) >= 0]
        if not known:
            break
        position, line = min(known, key=lambda found: (found[0], -len(found[1])))
        parts += [rest[:position], line]
        rest = rest[position + len(line) :]
    return [part.strip() for part in (*parts, rest) if part.strip()]


@cache
def _thai_book() -> tuple[str, ...]:
    """Every Thai line without slots, except those that are part of a longer one."""
    return tuple(line for line in book("thai").every() if "{" not in line and len(line) >= _THAI_LINE)


_THAI_LINE = 10


def total_s(texts: Sequence[str], language: str) -> float:
    """Return the seconds all `texts` take to say."""
    return sum(spoken_s(text, language) for text in texts)


def shorten(
    texts: Sequence[str], *, language: str, seconds: float, told: tuple[str, Sequence[str]] = ("", ())
) -> list[str]:
    """Return as many texts, together within `seconds` if possible, without the most dispensable sentences.

    Sentences with figures, addresses or quotes go last, as do those with what the brief `told`: its claims,
    and once its brand. Every track keeps at least one sentence.
    """
    brand, claims = told
    said = [one for text in texts for one in sentences(text, language)]
    held = {one for one in said if any(claim.casefold() in one.casefold() for claim in claims)}
    held |= set(sorted((one for one in said if brand and brand in one), key=len)[:1])
    parts = [list(enumerate(sentences(text, language))) for text in texts]
    gone: list[tuple[int, tuple[int, str]]] = []
    while _said_s(parts, language) > seconds:
        drops = [
            (
                bool(_FACT.search(one)) or one in held,
                not 0 < row < len(parts) - 1,
                -spoken_s(one, language),
                row,
                at,
            )
            for row, row_parts in enumerate(parts)
            if len(row_parts) > 1
            for at, (_, one) in enumerate(row_parts)
        ]
        if not drops:
            return [
                _clipped(text, language, seconds / max(len(texts), 1)) for text in _texts(parts, language)
            ]
        *_, row, at = min(drops)
        gone.append((row, parts[row].pop(at)))
    for row, sentence in reversed(gone):
        fuller = [sorted([*own, sentence]) if at == row else own for at, own in enumerate(parts)]
        parts = fuller if _said_s(fuller, language) <= seconds else parts
    return _texts(parts, language)


def _said_s(parts: Sequence[Sequence[tuple[int, str]]], language: str) -> float:
    return total_s(_texts(parts, language), language)


def _texts(parts: Sequence[Sequence[tuple[int, str]]], language: str) -> list[str]:
    return [_joined([one for _, one in row], book(language)) for row in parts]


def _clipped(text: str, language: str, seconds: float) -> str:
    """Return `text` cut back at its commas until it fits, or its shortest such form."""
    clauses = re.split(r"(?<=[,，、:：–—])\s*", text)
    while len(clauses) > 1 and spoken_s(" ".join(clauses), language) > seconds:
        clauses.pop()
    end = "" if language == "thai" else "。" if language == "chinese" else "."
    return text if " ".join(clauses) == text else " ".join(clauses).rstrip(" ,，、:：–—.") + end


def lengthen(texts: Sequence[str], brief: Brief, *, language: str, seconds: float) -> list[str]:
    """Return `texts` with more lines about the brief, up to 92 % of `seconds`; every line there was stays."""
    phrases = phrases_for(brief, language)
    said = "\n".join(texts)
    grown = list(texts)
    row = 0 if len(grown) == 1 else len(grown) - 2
    for piece in pieces(brief, Voice(language, mood(brief))):
        line = next((one for one in piece.wordings if one not in said), None)
        if piece.beat != "body" or line is None:
            continue
        longer = [*grown[:row], _joined([grown[row], line], phrases), *grown[row + 1 :]]
        if total_s(longer, language) <= HIGH * seconds:
            grown = longer
    return grown


def urgent(
    texts: Sequence[str], brief: Brief, *, language: str, seconds: float, countdown: bool = False
) -> list[str]:
    """Return `texts` made urgent: the brief's own deadline if it has one, else "today, now".

    With `countdown` somebody counts down before the last words. Nothing is promised that the brief does
    not say. What no longer fits is shortened.
    """
    phrases = phrases_for(brief, language)
    push = _push(brief, phrases, "\n".join(texts))
    first, last = sentences(texts[0], language), sentences(texts[-1], language)
    count = phrases.lines("dates", "countdown") if countdown else []
    spoken = phrases.one("grammar", "comma").join(count)
    tail = [f"{spoken[:1].upper()}{spoken[1:]}{_stop(phrases)}"] if count else []
    closing = last[-1:] if len(last) > 1 else []
    ending = [*last[: len(last) - len(closing)], *push, *tail, *closing]
    hook = turned(phrases.lines("tones", "urgent", "hook"), brief.client, "urgent")[0]
    made = [*texts[:-1], _joined(ending, phrases)]
    made[0] = _joined([hook, *(first if len(texts) > 1 else [made[0]])], phrases)
    return shorten(made, language=language, seconds=HIGH * seconds)


def _stop(phrases: Phrasebook) -> str:
    return {"thai": "", "chinese": "！"}.get(phrases.language, "!")


def _push(brief: Brief, phrases: Phrasebook, said: str) -> list[str]:
    if brief.when and brief.when.deadline and "deadline" not in brief.avoid:
        named = day(brief.when, phrases)
        lines = [fill(line, {"until": named}) for line in phrases.lines("frames", "until")]
        return [line for line in lines if line and line not in said][-1:]
    return turned(phrases.lines("frames", "now"), brief.client, "now")[:1]
