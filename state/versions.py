"""A version of a stream and its lineage (A29–A35).

A version is written once and never changes. Its status is not stored but follows from its neighbours:
the versions of the newest batch are drafts, all before them are frozen (A-R17). A batch is one run, or one
request by a person; so three variations made in one run stay drafts together (A77). *Active* is a pointer
that a person sets (A34).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

Status = Literal["draft", "frozen"]


@dataclass(frozen=True)
class Version:
    """One immutable version."""

    id: str
    """`v1`, `v2` … counted per stream; a number is never used twice."""
    stream: str
    data: Mapping[str, Any]
    """What the stream holds, as stored; its shape belongs to the artefact."""
    created_ms: int
    """Milliseconds since 1970 by the storage server's clock."""
    created_by: str
    """`llm`, or the owner who made it by hand."""
    parent: str | None
    """The version it came from: the newest at the time, or the one it clones or restores."""
    batch: str
    """The run or request that made it."""

    def created_at(self) -> str:
        """Return the creation time in ISO-8601, UTC."""
        return datetime.fromtimestamp(self.created_ms / 1000, UTC).isoformat(timespec="milliseconds")


def status(version: Version, newest: Version) -> Status:
    """Return whether `version` is still a draft, given the newest version of its stream."""
    return "draft" if version.batch == newest.batch else "frozen"


def latest(versions: Sequence[Version], wanted: Status | None = None) -> Version | None:
    """Return the newest of `versions` (oldest first) with the wanted status, or None."""
    for version in reversed(versions):
        if wanted is None or status(version, versions[-1]) == wanted:
            return version
    return None


def version_fields(version: Version, newest: Version) -> dict[str, Any]:
    """Return the wire form of a version without its data (A31)."""
    return {
        "id": version.id,
        "status": status(version, newest),
        "createdAt": version.created_at(),
        "createdBy": version.created_by,
        "parent": version.parent,
    }


def restored_version(versions: Sequence[Version], data: Mapping[str, Any]) -> str | None:
    """Return the id of the newest earlier version with exactly this data: what a new one restores."""
    return next((version.id for version in reversed(versions[:-1]) if version.data == data), None)
