"""Undo of an ad: the versions from before its last change.

A change is a run, or a request by a person, with all versions that it made. An undo writes the content before
it as new versions, whose parents are those that they restore; so the next undo goes further back.
"""

from collections.abc import Mapping, Sequence

from callsheet.state.errors import Gone, Invalid
from callsheet.state.versions import Version, number_of


def before_last_change(streams: Mapping[str, Sequence[Version]]) -> dict[str, Version | None]:
    """Return the version before the last change of each stream that it wrote; None where it was the first.

    `streams` have their newest versions, oldest first. Raises `Invalid` if there is nothing to undo, and
    `Gone` if a version before is not kept.
    """
    effective: dict[str, Version] = {}
    removed = False
    for name, versions in streams.items():
        try:
            one = _effective(versions)
        except Gone:
            removed = True
        else:
            effective |= {name: one} if one else {}
    if not effective:
        raise _gone() if removed else _nothing()
    batch = max(effective.values(), key=lambda one: one.created_ms).batch
    back = {name: _before(streams[name], one) for name, one in effective.items() if one.batch == batch}
    if "voices" in back and not any(back.values()):
        raise _nothing()
    return back


def _nothing() -> Invalid:
    return Invalid(
        "there is nothing to undo: the ad is in its first state", remedy="say what shall change instead"
    )


def _effective(versions: Sequence[Version]) -> Version | None:
    """Return the version whose content the newest one has, through all undoing; None before the first."""
    known = {one.id: one for one in versions}
    version = versions[-1] if versions else None
    while version and version.origin.get("by") == "undo":
        restored = known.get(version.parent or "")
        if restored is None:
            raise _gone()
        version = restored if restored.data == version.data else None
    return version


def _before(versions: Sequence[Version], version: Version) -> Version | None:
    earlier = [one for one in versions if number_of(one.id) < number_of(version.id)]
    before = next((one for one in reversed(earlier) if one.batch != version.batch), None)
    if before is None and number_of(versions[0].id) > 1:
        raise _gone()
    return before


def _gone() -> Gone:
    return Gone(
        "undo ends here: the version before is not kept any more", remedy="say what shall change instead"
    )
