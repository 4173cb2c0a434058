"""Versions of a stream, their lineage and status.

A version never changes. Its status is derived: versions of the newest batch are drafts, all earlier ones are
frozen. A batch is one run, or one request by a person, so that the variations made in one run stay
drafts together. *Active* is a pointer that a person sets.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from callsheet.state.times import iso_time

Status = Literal["draft", "frozen"]
MODEL: Final = "llm"
"""Author of versions that a model made."""
Author = Literal["model", "person", "undo", "import"]
"""Kind of author: a model, a person by hand, the restoring of an earlier version, or an import."""
MAX_REQUEST: Final = 300
"""Characters of a request that are kept with a version."""
_ID: Final = re.compile(r"v([1-9][0-9]{0,14})")


class Origin(TypedDict, total=False):
    """The author of a version, and the words that it was made for."""

    by: Author
    model: str
    """Model that made it; empty for none."""
    request: str
    """The person's words, or the action, shortened to `MAX_REQUEST`; empty if unknown."""


@dataclass(frozen=True)
class Version:
    """One immutable version."""

    id: str
    """`v1`, `v2` … per stream; never reused."""
    stream: str
    data: Mapping[str, Any]
    """Content as stored; the artefact defines its shape."""
    created_ms: int
    """Milliseconds since 1970 by the storage server's clock."""
    created_by: str
    """`llm`, or the owner who created it by hand."""
    parent: str | None
    """Id of the newest version at the time, or of the one it clones or restores."""
    batch: str
    """Id of the run or request that created it."""
    origin: Origin = field(default_factory=Origin)
    """Empty for versions of earlier releases."""

    def created_at(self) -> str:
        """Return the creation time in ISO-8601, UTC."""
        return iso_time(self.created_ms)


def created_by_model(version: Version) -> bool:
    """Return True if a model created the version, False if a person did."""
    return version.created_by == MODEL


def origin(by: Author, request: str = "", model: str = "") -> Origin:
    """Return the origin of a new version, with its request on one line, shortened."""
    words = " ".join(request.split())
    shown = words if len(words) <= MAX_REQUEST else f"{words[: MAX_REQUEST - 1]}…"
    return Origin(by=by, model=model, request=shown)


def number_of(version_id: str) -> int:
    """Return the number in a version's id; 0 for a text that is none."""
    match = _ID.fullmatch(version_id)
    return int(match[1]) if match else 0


def status(version: Version, newest: Version) -> Status:
    """Return the status of `version`, given the newest version of its stream."""
    return "draft" if version.batch == newest.batch else "frozen"


def version_fields(version: Version, newest: Version) -> dict[str, Any]:
    """Return the wire form of a version without its data."""
    return {
        "id": version.id,
        "status": status(version, newest),
        "createdAt": version.created_at(),
        "createdBy": version.created_by,
        "parent": version.parent,
        "by": version.origin.get("by") or ("model" if created_by_model(version) else "person"),
        "model": version.origin.get("model", ""),
        "request": version.origin.get("request", ""),
    }


def restored_version(versions: Sequence[Version], data: Mapping[str, Any]) -> str | None:
    """Return the id of the newest earlier version with exactly this data, or None."""
    return next((version.id for version in reversed(versions[:-1]) if version.data == data), None)
