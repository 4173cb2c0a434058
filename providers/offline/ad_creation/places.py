"""Where a clause says that an effect should play."""

from dataclasses import dataclass

from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.tracks import Named, named
from providers.offline.lexicon import Mark, fold
from state.ad import Placement


@dataclass(frozen=True)
class Place:
    """A placement and what named it."""

    placement: Placement
    marks: tuple[Mark, ...]
    missing: int | None = None
    """A track that it names and that is not there."""


def place(clause: Clause, ad: Ad) -> Place | None:
    """Return where `clause` wants an effect, or None when it does not say."""
    between = clause.get("place.between")
    if between:
        return _between(clause, between, ad)
    background = clause.get("place.background")
    if background:
        return Place({"type": "withFirstVoice"}, (background,))
    for concept in ("after", "before", "under"):
        for mark in clause.all(f"place.{concept}"):
            found = _beside_track(clause, mark, concept, ad)
            if found:
                return found
    return _edge(clause, ad)


def _beside_track(clause: Clause, mark: Mark, concept: str, ad: Ad) -> Place | None:
    rest = clause.part(mark.last, clause.last)
    stop = next(
        (one.first for one in rest.all("place", "verb", "join.but") if one.first > mark.last), clause.last
    )
    rest = clause.part(mark.last, stop)
    track = _named(rest, ad)
    if not track.tracks and track.missing is None:
        return None
    marks = (mark, *track.marks)
    if track.missing is not None:
        return Place({"type": "end"}, marks, track.missing)
    return Place(_relative(concept, track, len(ad.tracks)), marks)


def _named(rest: Clause, ad: Ad) -> Named:
    for quote in rest.quotes:
        hit = next((i for i, one in enumerate(ad.tracks) if fold(quote) in fold(str(one.get("text")))), None)
        if hit is not None:
            return Named((hit,))
    found = named(rest, ad)
    if found.tracks or found.missing is not None:
        return found
    if rest.has("noun.text", "noun.line", "noun.ad") and ad.tracks:
        return Named(tuple(range(len(ad.tracks))), tuple(rest.all("noun")), everyone=True)
    return found


def _relative(concept: str, track: Named, size: int) -> Placement:
    first, last = track.tracks[0], track.tracks[-1]
    if concept == "after":
        return {"type": "end"} if track.everyone else {"type": "afterVoice", "index": last}
    if first == 0 or track.everyone:
        return {"type": "beforeVoices" if concept == "before" else "withFirstVoice"}
    # What follows the track before starts together with this one.
    return {"type": "afterVoice", "index": min(first, size) - 1}


def _between(clause: Clause, mark: Mark, ad: Ad) -> Place:
    rest = clause.part(mark.last, clause.last)
    track = named(rest, ad)
    if track.missing is not None:
        return Place({"type": "end"}, (mark, *track.marks), track.missing)
    index = 0 if track.everyone or not track.tracks else track.tracks[0]
    return Place({"type": "afterVoice", "index": index}, (mark, *track.marks, *rest.all("noun.voice")))


def _edge(clause: Clause, ad: Ad) -> Place | None:
    for mark in clause.all("place.start", "place.end", "place.middle"):
        kind = mark.concept.partition(".")[2]
        if kind == "middle":
            index = (len(ad.tracks) - 1) // 2
            return Place({"type": "afterVoice", "index": index} if ad.tracks else {"type": "end"}, (mark,))
        rest = clause.part(mark.last, min(mark.last + 5, clause.last))
        track = named(rest, ad, plural=False)
        if track.tracks and not track.everyone and rest.has("noun"):
            concept = "before" if kind == "start" else "after"
            return Place(_relative(concept, track, len(ad.tracks)), (mark, *track.marks))
        return Place({"type": "start"} if kind == "start" else {"type": "end"}, (mark, *rest.all("noun.ad")))
    return _bare(clause)


def _bare(clause: Clause) -> Place | None:
    """Return where "to the front" is: what is before or after names nothing, and something moves there."""
    mark = clause.get("place.before", "place.after")
    if not mark or not clause.has("verb.move"):
        return None
    return Place({"type": "start" if mark.concept == "place.before" else "end"}, (mark,))
