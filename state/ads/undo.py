"""Undo of an ad: the versions from before its last change.

A change is a run, or a request by a person, with all versions that it made. An undo writes the content before
it as new versions, whose parents are those that they restore; so the next undo goes further back.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from callsheet.state.errors import Gone, Invalid
from callsheet.state.versions import Version, number_of

_NONE_REMOVED: Final[Mapping[str, int]] = MappingProxyType({})


class LastChange(NamedTuple):
    """The change that an undo takes back."""

    before: dict[str, Version | None]
    """The version before it of each stream that it wrote; None where it was the first."""
    request: str
    """Words that it was made for; empty if unknown."""


def last_change(
    streams: Mapping[str, Sequence[Version]], removed: Mapping[str, int] = _NONE_REMOVED
) -> LastChange:
    """Return the last change that is not taken back yet.

    `streams` have their newest versions, oldest first; `removed` the highest number of a version that was
    removed as an old one. Raises `Invalid` if there is nothing to undo, and `Gone` if a version before is not
    kept.
    """
    effective: dict[str, Version] = {}
    is_incomplete = False
    for name, versions in streams.items():
        try:
            chain = _chain(versions)
        except Gone:
            is_incomplete = True
        else:
            effective |= {name: chain[-1]} if chain else {}
    if not effective:
        raise _gone() if is_incomplete else _nothing()
    last = max(effective.values(), key=lambda one: one.created_ms)
    back = {
        name: _before(streams[name], one, removed.get(name, 0))
        for name, one in effective.items()
        if one.batch == last.batch
    }
    if "voices" in back and not any(back.values()):
        raise _nothing()
    return LastChange(back, last.origin.get("request", ""))


def needed_versions(versions: Sequence[Version]) -> list[str]:
    """Return the ids of a stream's versions that its next undo needs."""
    try:
        chain = _chain(versions)
        before = _before(versions, chain[-1], 0) if chain else None
    except Gone:
        return []
    return [one.id for one in (*chain, before) if one]


def _nothing() -> Invalid:
    return Invalid(
        "there is nothing to undo: the ad is in its first state", remedy="say what shall change instead"
    )


def _chain(versions: Sequence[Version]) -> list[Version]:
    """Return the newest version and those it restores, through all undoing; empty before the first.

    The last one has the content of all, and is no undo.
    """
    known = {one.id: one for one in versions}
    chain = [*versions[-1:]]
    while chain and chain[-1].origin.get("by") == "undo":
        restored = known.get(chain[-1].parent or "")
        if restored is None:
            raise _gone()
        chain = [*chain, restored] if restored.data == chain[-1].data else []
    return chain


def _before(versions: Sequence[Version], version: Version, removed: int) -> Version | None:
    number = number_of(version.id)
    earlier = [one for one in versions if number_of(one.id) < number]
    before = next((one for one in reversed(earlier) if one.batch != version.batch), None)
    # One in between may be missing while an older one is kept, such as the active one.
    first = number_of(before.id) if before else 0
    missing = {*range(first + 1, number)} - {number_of(one.id) for one in earlier}
    if any(each <= removed for each in missing) or (before is None and number_of(versions[0].id) > 1):
        raise _gone()
    return before


def _gone() -> Gone:
    return Gone(
        "undo ends here: the version before is not kept any more: somebody deleted it, or it was removed as "
        "an old one",
        remedy="say what shall change instead",
        details={"setting": "CALLSHEET_KEPT_VERSIONS"},
    )
