"""The music's description after an edit.

A description is a list of English phrases for a generator. An edit adds to it and takes out what
contradicts; everything else in it stays word for word.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

from providers.offline.ad_creation.edits import (
    MusicSource,
    Note,
    Outcome,
    ReplaceMusic,
    ShapeMusic,
    SilenceMusic,
    Trait,
)
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.lexicon import lexicon
from providers.offline.ad_creation.qualities import opposes, qualities
from providers.offline.lexicon import tokens

MAX_PROMPT = 400
"""Characters of a description; the oldest phrases go first when it would grow beyond."""
SILENT = "near silence: barely audible room tone, no melody, no rhythm, no instruments, no vocals"
"""The nearest thing to no music a generator can be asked for."""
_BPM = re.compile(r"\b(\d{2,3}) ?(?:bpm|beats per minute)\b", re.IGNORECASE)
_SLOWEST, _FASTEST = 40, 220
_UNSUNG = "instrumental, no vocals"
_NO_VOICE = re.compile(r"instrumental|no vocals?|without vocals?|no singing", re.IGNORECASE)
_DEGREES = r"(?:very|extremely|slightly|much|more|really|quite|rather|a bit|fairly)"
_STRONGER = {"": "very ", "slightly ": "", "very ": "extremely ", "extremely ": "extremely "}
_EDGES = re.compile(
    rf"^(?:(?:and|with|but|a|an|the|of|in|{_DEGREES})\b\s*)+|(?:\s*\b(?:and|with|but|a|an|the|of|in|{_DEGREES}))+$",
    re.IGNORECASE,
)
_TEMPO = re.compile(
    r"\b(?:(?:much |slightly |very |extremely )*(?:slow|medium|mid|moderate|steady|fast|slower|faster)"
    r"[ -](?:paced|tempo)|(?:mid|up|down)-?tempo)\b",
    re.IGNORECASE,
)
_STYLES = (
    "jazz, upright bass and brushed drums",
    "acoustic pop, acoustic guitar and light percussion",
    "modern electronic, synths and a steady beat",
    "funk, bass guitar and rhythm guitar",
    "orchestral, strings and piano",
    "folk, ukulele and hand claps",
    "lo-fi, electric piano and mellow drums",
    "bossa nova, nylon guitar and shaker",
)


def _parts(prompt: str) -> list[str]:
    return [part.strip() for part in re.split(r"[,;\n]+", prompt) if part.strip()]


def _joined(parts: Sequence[str]) -> str:
    kept = list(dict.fromkeys(parts))
    while len(kept) > 1 and len(", ".join(kept)) > MAX_PROMPT:
        kept.pop()
    return ", ".join(kept)[:MAX_PROMPT]


def shaped(prompt: str, edit: ShapeMusic) -> str:
    """Return the music description `prompt` after `edit`."""
    parts = _parts(prompt)
    new = [_stronger(parts, trait) for trait in edit.add]
    for trait in edit.add:
        parts = _cut(parts, partial(_displaces, trait, blend=edit.blend))
    for concept in edit.drop:
        parts = _cut(parts, partial(_is, concept))
    new += _lessened(edit)
    sung = {trait.concept for trait in edit.add} & {"noun.vocals"}
    if sung or "noun.vocals" in edit.drop:
        parts = [part for part in parts if not _NO_VOICE.search(part)]
    return _joined([*new, *_tempo(parts, edit), *([_UNSUNG] if "noun.vocals" in edit.drop else [])])


def _is(concept: str, found: str) -> bool:
    """Whether `found` is what `concept` names, or a kind of it: an acoustic guitar is a guitar."""
    group, _, name = concept.partition(".")
    return concept == found or (found.startswith(f"{group}.") and found.endswith(f" {name}"))


def _stronger(parts: Sequence[str], trait: Trait) -> str:
    """Return the words for a trait; one that is there already is asked for more strongly."""
    if not trait.concept.startswith("quality.") or trait.words.startswith("slightly "):
        return trait.words
    word = re.escape(trait.words)
    found = re.search(rf"\b((?:slightly |very |extremely )?){word}\b", ", ".join(parts), re.IGNORECASE)
    return _STRONGER[found.group(1).lower()] + trait.words if found else trait.words


def _displaces(trait: Trait, found: str, *, blend: bool) -> bool:
    """Whether a phrase that says `found` goes when `trait` comes."""
    if trait.concept == found:
        return True
    group, _, name = trait.concept.partition(".")
    other, _, held = found.partition(".")
    if group == other == "genre":
        return not blend
    return group == other == "quality" and opposes(name, more=True, other=held)


def _cut(parts: Sequence[str], unwanted: Callable[[str], bool]) -> list[str]:
    return [kept for part in parts if (kept := _without(part, unwanted))]


def _without(part: str, unwanted: Callable[[str], bool]) -> str:
    spoken = tokens(part)
    # "Family-friendly" is no "friendly".
    hits = [
        mark
        for mark in lexicon("english").marks(spoken)
        if unwanted(mark.concept) and part[max(0, spoken[mark.first].start - 1)] != "-"
    ]
    if not hits:
        return part
    for mark in sorted(hits, key=lambda one: -one.first):
        before = re.sub(
            rf"\b{_DEGREES}\s*$", "", part[: spoken[mark.first].start].rstrip(), flags=re.IGNORECASE
        )
        part = f"{before.rstrip()} {part[spoken[mark.last - 1].end :].lstrip(' -')}"
    bare = re.sub(r"\bwith and\b", "with", re.sub(r"\s+", " ", part))
    left = _EDGES.sub("", bare.strip()).strip()
    return left if re.search(r"\w", left) and left != "tempo" else ""


def _lessened(edit: ShapeMusic) -> list[str]:
    """Return what to say for traits that are refused: the word for less, or "no drums"."""
    swapped = {trait.concept.partition(".")[0] for trait in edit.add}
    result = []
    for concept in edit.drop:
        group, _, name = concept.partition(".")
        if group in swapped or group == "noun":
            continue
        result.append(qualities()[name].less if group == "quality" else f"no {name}")
    return result


def _tempo(parts: Sequence[str], edit: ShapeMusic) -> list[str]:
    asked = {trait.concept for trait in edit.add}
    faster = "quality.fast" in asked or "quality.slow" in edit.drop
    slower = "quality.slow" in asked or "quality.fast" in edit.drop
    if edit.bpm:
        bare = [_TEMPO.sub("", _BPM.sub("", part)).strip() for part in parts]
        return [f"{min(max(edit.bpm, _SLOWEST), _FASTEST)} BPM", *(part for part in bare if part)]
    if not (faster or slower):
        return list(parts)
    factor = 1.15 if faster else 0.87

    def scaled(match: re.Match[str]) -> str:
        return f"{min(max(round(int(match.group(1)) * factor), _SLOWEST), _FASTEST)} BPM"

    kept = (_TEMPO.sub("", part).strip() for part in parts)
    return [_BPM.sub(scaled, part) for part in kept if part]


def apply_shape(edit: ShapeMusic, ad: Ad) -> Outcome:
    """Return the ad with its music shaped."""
    old = str((ad.music or {}).get("musicPrompt", ""))
    prompt = shaped("" if old == SILENT else old, edit)
    return _with(ad, {"musicPrompt": prompt}, Note("done.music", {"prompt": prompt}))


def apply_replace(edit: ReplaceMusic, ad: Ad) -> Outcome:
    """Return the ad with its music described anew."""
    old = str((ad.music or {}).get("musicPrompt", ""))
    parts = _parts(edit.words) if edit.words else _another(ad, old)
    if _NO_VOICE.search(old) and not re.search(r"vocal|sing|sung", ", ".join(parts)):
        parts.append(_UNSUNG)
    prompt = _joined(parts)
    return _with(ad, {"musicPrompt": prompt}, Note("done.music", {"prompt": prompt}))


def _another(ad: Ad, old: str) -> list[str]:
    """Return another style than any music of this ad had, in the mood it has."""
    tried = " ".join(str(data.get("musicPrompt", "")) for data in ad.held.get("music", {}).values())
    fresh = [style for style in _STYLES if _genre(style) not in tried.lower()] or [
        style for style in _STYLES if _genre(style) not in old.lower()
    ]
    spoken = tokens(old)
    moods = [mark for mark in lexicon("english").marks(spoken) if mark.concept.startswith("quality.")]
    first = [old[spoken[mark.first].start : spoken[mark.last - 1].end] for mark in moods[:2]]
    return [*first, *_parts(fresh[len(old) % len(fresh)])]


def _genre(style: str) -> str:
    return style.partition(",")[0].rpartition(" ")[2]


def apply_source(edit: MusicSource, ad: Ad) -> Outcome:
    """Return the ad with its music from another provider or of another length."""
    change: dict[str, object] = {}
    notes = []
    if edit.provider:
        change |= {"musicProvider": edit.provider, "provider": edit.provider}
        notes.append(Note("done.music_provider", {"provider": edit.provider}))
    if edit.seconds:
        change["duration"] = edit.seconds
        notes.append(Note("done.music_length", {"seconds": f"{edit.seconds:g}"}))
    return _with(ad, change, *notes)


def apply_silence(_edit: SilenceMusic, ad: Ad) -> Outcome:
    """Return the ad with the nearest thing to no music, and say that music cannot be deleted."""
    return _with(ad, {"musicPrompt": SILENT}, Note("done.music_silent"))


def _with(ad: Ad, change: dict[str, object], *notes: Note) -> Outcome:
    return Outcome(ad.holding("music", {**(ad.music or {"musicProvider": "loudly"}), **change}), notes)
