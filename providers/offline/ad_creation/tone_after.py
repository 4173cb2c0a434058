"""The ad in another tone: the script alone, or script, pace, music and effects together (A79)."""

from providers.offline.ad_creation import copywriter
from providers.offline.ad_creation.copywriter import sentences
from providers.offline.ad_creation.desk import Desk
from providers.offline.ad_creation.edits import (
    AddEffect,
    Note,
    Outcome,
    Retone,
    ShapeMusic,
    Trait,
)
from providers.offline.ad_creation.effects_after import apply_add
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.music_prompt import shaped
from providers.offline.ad_creation.qualities import qualities
from providers.offline.ad_creation.script import joined
from providers.offline.ad_creation.script_after import fitted, with_texts, written
from providers.offline.lexicon import fold
from state.ad import Placement


def apply_tone(edit: Retone, ad: Ad, desk: Desk) -> Outcome:
    """Return the ad in another tone: the script, and with `whole` pace, music and effects too (A79)."""
    after, notes = ad, list[Note]()
    if desk.brief is None and not edit.whole:
        return Outcome(ad, (Note("cannot.no_brief"),))
    if desk.brief is not None and ad.tracks:
        outcome = _toned(edit, ad, desk)
        after, notes = outcome.ad, list(outcome.notes)
    if edit.whole and after.music:
        name = edit.quality or next(name for name, one in qualities().items() if one.tone == edit.tone)
        prompt = shaped(
            str(after.music.get("musicPrompt", "")),
            ShapeMusic((Trait(f"quality.{name}", qualities()[name].say),)),
        )
        after = after.holding("music", {**after.music, "musicPrompt": prompt})
        notes.append(Note("done.music", {"prompt": prompt}))
    if edit.whole and edit.tone == "urgent":
        after, more = _ticking(after)
        notes += more
    return Outcome(after, tuple(notes))


def _toned(edit: Retone, ad: Ad, desk: Desk) -> Outcome:
    assert desk.brief is not None  # noqa: S101 - the caller asked before
    old = [str(track["text"]) for track in ad.tracks]
    if edit.tone == "urgent":
        texts = copywriter.urgent(
            old, desk.brief, language=ad.language, seconds=ad.spot_s, countdown=edit.countdown
        )
    else:
        texts = written(ad, desk, tone=edit.tone, variant=desk.variant)
    own = [one for text in old for one in sentences(text) if _own(one, desk)]
    missing = [one for one in own if fold(one) not in fold(joined(texts, ad.language))]
    texts = [*texts[:-1], joined([*missing, texts[-1]], ad.language)]
    kept, tracks = with_texts(ad, texts)
    pace = next((one.pace for one in qualities().values() if one.tone == edit.tone and edit.whole), 1.0)
    if pace != 1.0:
        tracks = [
            {**one, "speed": round(min(max(float(one.get("speed") or 1.0) * pace, 0.5), 2.0), 2)}
            for one in tracks
        ]
    return fitted(kept, tracks, joined(missing, ad.language), [Note("done.tone", {"tone": edit.tone})])


def _own(sentence: str, desk: Desk) -> bool:
    """Whether a sentence is in the person's own words."""
    bare = fold(sentence).strip(" .!?…。！？")
    return bool(bare) and bare in desk.said


def _ticking(ad: Ad) -> tuple[Ad, list[Note]]:
    """Return the ad with a clock under its end, unless one ticks already."""
    if any("tick" in str(one.get("description")) for one in ad.effects):
        return ad, []
    before_last = len(ad.tracks) - 2
    where: Placement = (
        {"type": "afterVoice", "index": before_last} if before_last >= 0 else {"type": "withFirstVoice"}
    )
    outcome = apply_add(AddEffect("clock ticking, accelerating countdown", where, 3.0), ad)
    return outcome.ad, list(outcome.notes)
