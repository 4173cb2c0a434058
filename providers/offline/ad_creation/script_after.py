"""The script after an edit of its words; voices, pace and order of the tracks stay."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from providers.offline.ad_creation import copywriter, deals
from providers.offline.ad_creation.copywriter import sentences
from providers.offline.ad_creation.desk import Desk
from providers.offline.ad_creation.edits import (
    AddLine,
    Note,
    OpenWithQuestion,
    Outcome,
    RemoveLine,
    Rename,
    ReplaceWords,
    Resize,
    Rewrite,
)
from providers.offline.ad_creation.facts import contact
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.lexicon import lexicon
from providers.offline.ad_creation.phrasebook import TONES
from providers.offline.ad_creation.replies import phrase
from providers.offline.ad_creation.script import (
    TOPICS,
    duration_s,
    found,
    joined,
    lead_s,
    roomy,
    spoken_of,
    without,
)
from providers.offline.ad_creation.tracks_after import people, rearranged, with_tracks
from providers.offline.lexicon import fold, tokens
from state.timeline import spoken_s

Track = Mapping[str, Any]
_WIDE = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
_SHORTER, _LONGER = 0.8, 1.2
_SHORTEST_S = 3.0
"""Seconds below which a script is no ad."""
_FULL = 0.95
"""Share of the spot that a longer script may take."""
_ASKING = ("?", "？")
_STOPPED = (".", "!", "?", "…", "。", "！", "？")
_MARGIN_S = 0.05
"""Seconds under a wished length, so that rounding does not exceed it."""
_FLUFF = 3
"""Words around a web address that say nothing else: "our website is"."""


def retexted(ad: Ad, texts: Sequence[str]) -> list[Track]:
    """Return the ad's tracks with these texts, one each."""
    return [
        {**track, "text": text} if text != track["text"] else track
        for track, text in zip(ad.tracks, texts, strict=True)
    ]


def with_texts(ad: Ad, texts: Sequence[str]) -> tuple[Ad, list[Track]]:
    """Return the ad with as many tracks as there are texts (the last one stays), and its tracks."""
    size = len(ad.tracks)
    kept = ad if len(texts) >= size else rearranged(ad, [*range(len(texts) - 1), size - 1])
    return kept, retexted(kept, texts[: len(kept.tracks)])


def apply_words(edit: ReplaceWords, ad: Ad, _desk: Desk) -> Outcome:
    """Return the ad with words of its script replaced wherever they stand."""
    pattern = _word(edit.old)
    texts = [
        _tidy(pattern.sub(lambda hit: _cased(hit.group(), edit.new), str(one["text"])), edit)
        for one in ad.tracks
    ]
    tracks = retexted(ad, texts)
    if tracks == list(ad.tracks):
        return Outcome(ad, (Note("cannot.not_in_script", {"words": edit.old}),))
    kept = [at for at, text in enumerate(texts) if any(char.isalnum() for char in text)]
    if not kept:
        return Outcome(ad, (Note("cannot.last_track"),))
    after = ad.holding("voices", {"voiceTracks": tracks})
    note = Note("done.words" if edit.new else "done.words_cut", {"old": edit.old, "new": edit.new})
    return Outcome(rearranged(after, kept) if len(kept) < len(texts) else after, (note,))


def apply_name(edit: Rename, ad: Ad, desk: Desk) -> Outcome:
    """Return the ad with another name for the client, wherever it is called by name or for want of one."""
    if desk.brief is None:
        return Outcome(ad, (Note("cannot.no_brief"),))
    old = deals.brand(desk.brief, deals.phrases_for(desk.brief, ad.language))
    return apply_words(ReplaceWords(old, edit.name), ad, desk)


def _word(words: str) -> re.Pattern[str]:
    head = r"(?<!\w)" if words[:1].isalnum() and not _WIDE.search(words) else ""
    tail = r"(?!\w)" if words[-1:].isalnum() and not _WIDE.search(words) else ""
    body = r"\s+".join(re.escape(part) for part in words.split())
    return re.compile(f"{head}{body}{tail}", re.IGNORECASE)


def _cased(old: str, new: str) -> str:
    """Return `new` in the case `old` stood in: a capital at the start of a sentence stays one."""
    if old.isupper() and len(old) > 1 and new.islower():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() and new[:1].islower() else new


def _tidy(text: str, edit: ReplaceWords) -> str:
    if edit.new:
        return text
    clean = re.sub(r"\s+([,.!?;:])", r"\1", re.sub(r"\s{2,}", " ", text)).strip(" ,")
    return clean[:1].upper() + clean[1:]


def apply_line(edit: AddLine, ad: Ad, desk: Desk) -> Outcome:
    """Return the ad with one sentence more; other sentences make room where the spot is full."""
    wording = _known(edit.text, desk)
    if not wording:
        return Outcome(ad, (Note("cannot.no_words"),))
    sentence = _sentence(wording, ad.language)
    at = (
        edit.track
        if edit.track is not None
        else {"start": 0, "end": len(ad.tracks) - 1}.get(edit.where, max(0, len(ad.tracks) - 2))
    )
    parts = sentences(str(ad.tracks[at]["text"]))
    if any(fold(sentence).rstrip(".") == fold(one).rstrip(".") for one in parts):
        return Outcome(ad, (Note("kept.said", {"words": sentence}),))
    index = 0 if edit.where == "start" else len(parts)
    if edit.where == "body" and at == len(ad.tracks) - 1 and len(parts) > 1:
        index = len(parts) - 1
    parts.insert(index, sentence)
    tracks = retexted(
        ad, [joined(parts, ad.language) if i == at else str(one["text"]) for i, one in enumerate(ad.tracks)]
    )
    notes = [Note("done.line_added", {"words": sentence, "tracks": people([at])})]
    return fitted(ad, tracks, sentence, [*notes, *_untranslated(wording, ad, desk)])


def _known(text: str, desk: Desk) -> str:
    """Return the words to add: for a bare "our phone number" the brief's own; empty when it has none."""
    spoken = tokens(text)
    marks = lexicon(desk.language, text).marks(spoken)
    bare = {
        at
        for mark in marks
        if mark.concept.split(".")[0] in {"topic", "pronoun", "skip", "noun"}
        for at in range(mark.first, mark.last)
    }
    topics = [mark.concept.partition(".")[2] for mark in marks if mark.concept.startswith("topic.")]
    if len(bare) < len(spoken) or not topics:
        return text
    brief = f"{desk.brief.client}\n{desk.brief.context}" if desk.brief else ""
    return next((held for topic in topics if (held := found(topic, brief))), "")


def _sentence(text: str, language: str) -> str:
    """Return a person's words as a sentence; a bare address or number gets "Visit" or "Call"."""
    clean = re.sub(r"\s+", " ", text).strip(" ,;:")
    ways = contact(clean)
    for key, value in (("copy.visit", ways.url), ("copy.call", ways.phone)):
        rest = clean.replace(value, " ") if value else ""
        marks = lexicon("english").marks(tokens(rest))
        if (
            value
            and len(rest.split()) <= _FLUFF
            and (not rest.strip() or any(mark.concept.startswith("topic.") for mark in marks))
        ):
            return phrase(key, language, {"value": value})
    address = ways.email or ways.url or ways.handle
    sentence = clean if address and clean.startswith(address) else clean[:1].upper() + clean[1:]
    if sentence.endswith(_STOPPED) or language == "thai":
        return sentence
    return sentence + ("。" if language == "chinese" and _WIDE.search(sentence) else ".")


def _untranslated(text: str, ad: Ad, desk: Desk) -> list[Note]:
    foreign = desk.language != ad.language and any(char.isalpha() for char in text) and not contact(text).url
    return [Note("done.untranslated", {"words": text, "language": ad.language})] if foreign else []


def fitted(ad: Ad, tracks: Sequence[Track], protected: str, notes: Sequence[Note]) -> Outcome:
    """Return the ad with `tracks` made to fit the spot around `protected` words, and what was left out."""
    current, gone = roomy(ad, tracks, protected)
    left = [Note("done.room", {"words": " ".join(gone)})] if gone else []
    return with_tracks(ad, current, *notes, *left)


def apply_less(edit: RemoveLine, ad: Ad, _desk: Desk) -> Outcome:
    """Return the ad without the sentences that speak of something; an emptied track goes too."""
    topic = edit.topic if edit.topic in TOPICS else ""
    exact = any(edit.words == one for track in ad.tracks for one in sentences(str(track["text"])))
    texts, gone = without(
        ad,
        lambda one: (
            one == edit.words if exact else bool(found(topic, one)) if topic else spoken_of(one, edit.words)
        ),
    )
    if not gone and topic:
        texts, gone = without(ad, lambda one: spoken_of(one, edit.words))
    if not gone:
        return Outcome(ad, (Note("cannot.not_in_script", {"words": edit.words or topic}),))
    kept = [at for at, text in enumerate(texts) if text.strip()]
    if not kept:
        return Outcome(ad, (Note("cannot.last_track"),))
    after = ad.holding("voices", {"voiceTracks": retexted(ad, texts)})
    note = Note("done.line_removed", {"words": " ".join(gone)})
    return Outcome(rearranged(after, kept) if len(kept) < len(texts) else after, (note,))


def apply_rewrite(edit: Rewrite, ad: Ad, desk: Desk) -> Outcome:
    """Return the ad with tracks in a person's words, or written anew from the brief."""
    if edit.text:
        return _dictated(edit, ad, desk)
    if desk.brief is None:
        return Outcome(ad, (Note("cannot.no_brief"),))
    chosen = set(edit.tracks) or set(range(len(ad.tracks)))
    note = Note("done.rewritten", {"tracks": people(chosen)})
    old = {str(one["text"]) for one in ad.tracks}
    for variant in range(desk.variant, desk.variant + 6):
        fresh = written(ad, desk, variant=variant)
        if len(fresh) == len(ad.tracks) and all(fresh[at] not in old for at in chosen):
            break
    if len(chosen) == len(ad.tracks):
        kept, tracks = with_texts(ad, fresh)
        return fitted(kept, tracks, "", [note])
    texts = [_at(fresh, at) if at in chosen else str(one["text"]) for at, one in enumerate(ad.tracks)]
    return fitted(ad, retexted(ad, texts), "", [note])


def _at(texts: Sequence[str], at: int) -> str:
    return texts[min(at, len(texts) - 1)]


def _dictated(edit: Rewrite, ad: Ad, desk: Desk) -> Outcome:
    text = re.sub(r"\s+", " ", edit.text).strip()
    if len(edit.tracks) > 1:
        kept, tracks = with_texts(ad, _spread(text, len(ad.tracks)))
        note = Note("done.rewritten", {"tracks": people(range(len(tracks)))})
        return fitted(kept, tracks, text, [note, *_untranslated(text, ad, desk)])
    texts = [text if at in edit.tracks else str(one["text"]) for at, one in enumerate(ad.tracks)]
    note = Note("done.dictated", {"tracks": people(edit.tracks), "words": text})
    return fitted(ad, retexted(ad, texts), text, [note, *_untranslated(text, ad, desk)])


def _spread(text: str, count: int) -> list[str]:
    """Return `text` in at most `count` parts of whole sentences."""
    parts = sentences(text)
    size = -(-len(parts) // min(count, len(parts)))
    return [" ".join(parts[at : at + size]) for at in range(0, len(parts), size)]


def written(
    ad: Ad, desk: Desk, *, tone: str | None = None, variant: int = 0, language: str = ""
) -> list[str]:
    """Return new texts, as many as the ad has tracks."""
    assert desk.brief is not None  # noqa: S101 - callers ask before
    room = max(ad.spot_s - lead_s(ad), _SHORTEST_S)
    texts = copywriter.write(
        desk.brief,
        language=language or ad.language,
        seconds=room,
        tone=tone,
        voices=len(ad.tracks),
        variant=variant,
    )
    return evened(texts, len(ad.tracks), language or ad.language)


def evened(texts: Sequence[str], count: int, language: str) -> list[str]:
    """Return the same words as `count` texts where their sentences allow, else as fewer."""
    parts = list(texts)
    while len(parts) > count:
        at = min(range(len(parts) - 1), key=lambda i: len(parts[i]) + len(parts[i + 1]))
        parts[at : at + 2] = [joined(parts[at : at + 2], language)]
    while len(parts) < count:
        at = max(range(len(parts)), key=lambda i: (len(sentences(parts[i])) > 1, len(parts[i])))
        own = sentences(parts[at])
        if len(own) == 1:
            break
        half = (len(own) + 1) // 2
        parts[at : at + 1] = [joined(own[:half], language), joined(own[half:], language)]
    return parts


def apply_opening(_edit: OpenWithQuestion, ad: Ad, desk: Desk) -> Outcome:
    """Return the ad with a question as its first sentence, taken from what the copywriter would ask."""
    first = str(ad.tracks[0]["text"])
    if desk.brief is None:
        return Outcome(ad, (Note("cannot.no_brief"),))
    asked = (sentences(written(ad, desk, tone=tone, variant=at)[0])[:1] for at in range(4) for tone in TONES)
    question = next((one[0] for one in asked if one and one[0].rstrip().endswith(_ASKING)), "")
    if not question:
        return Outcome(ad, (Note("cannot.no_words"),))
    rest = sentences(first)[1:] or [first]
    tracks = [{**ad.tracks[0], "text": joined([question, *rest], ad.language)}, *ad.tracks[1:]]
    return fitted(ad, tracks, question, [Note("done.line_added", {"words": question, "tracks": "1"})])


def apply_resize(edit: Resize, ad: Ad, desk: Desk) -> Outcome:
    """Return the ad with a shorter or longer text; sentences stay whole where possible."""
    if edit.seconds and not edit.tracks and edit.seconds > ad.spot_s + _MARGIN_S:
        return Outcome(ad, (Note("cannot.spot", {"spot": f"{ad.spot_s:g}"}),))
    chosen = edit.tracks or tuple(range(len(ad.tracks)))
    now = sum(_said_s(ad, at) for at in chosen)
    target = _target_s(edit, ad, chosen, now)
    texts = [str(ad.tracks[at]["text"]) for at in chosen]
    if target > now:
        if desk.brief is None:
            return Outcome(ad, (Note("cannot.no_brief"),))
        sized = copywriter.lengthen(texts, desk.brief, language=ad.language, seconds=target / 0.92)
    else:
        sized = _shortened(ad, chosen, target, edit.seconds if not edit.tracks else None, desk)
    if list(sized) == texts:
        return Outcome(ad, (Note("cannot.longer" if target > now else "cannot.shorter"),))
    new = dict(zip(chosen, sized, strict=True))
    tracks = retexted(ad, [new.get(at, str(one["text"])) for at, one in enumerate(ad.tracks)])
    key = "done.longer" if target > now else "done.shorter"
    return with_tracks(ad, tracks, Note(key, {"tracks": people(chosen)}))


def _shortened(ad: Ad, chosen: Sequence[int], target: float, whole_s: float | None, desk: Desk) -> list[str]:
    """Return shorter texts of `chosen`, which lose what the client said last.

    Where the ad shall last `whole_s`, all that takes time counts.
    """
    brief = desk.brief
    told = (brief.brand, (*brief.claims, *brief.offer_words, *brief.must)) if brief else ("", ())
    texts = [str(ad.tracks[at]["text"]) for at in chosen]
    for _ in range(8):
        sized = copywriter.shorten(texts, language=ad.language, seconds=target, told=told)
        new = dict(zip(chosen, sized, strict=True))
        tracks = retexted(ad, [new.get(at, str(one["text"])) for at, one in enumerate(ad.tracks)])
        over = duration_s(ad, tracks) - whole_s if whole_s else 0.0
        if over <= -_MARGIN_S or not whole_s:
            break
        target = max(target - over - 0.1, 1.0)
    return sized


def _said_s(ad: Ad, at: int) -> float:
    return spoken_s(str(ad.tracks[at]["text"]), ad.language)


def _target_s(edit: Resize, ad: Ad, chosen: Sequence[int], now: float) -> float:
    if edit.seconds is None:
        return now * (_LONGER if edit.longer else _SHORTER)
    if edit.tracks:
        return edit.seconds
    # Gaps and effects take their part of the seconds; the pace of each track stays as it is.
    spoken = sum(_said_s(ad, at) / float(ad.tracks[at].get("speed") or 1.0) for at in chosen)
    room = max(edit.seconds - lead_s(ad), edit.seconds / 2)
    return min(room * _FULL, room * now / spoken if spoken else room)
