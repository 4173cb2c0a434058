"""What callers get about pages: the shape of every reply, for the documentation."""

from typing import Any, Literal

from typing_extensions import TypedDict

from callsheet.server.ads.replies import VersionSummary
from callsheet.state.pages.changes import Change
from callsheet.state.uploads import FileType

_From = TypedDict("_From", {"from": str})
"""The older version; `start` for the starter page."""


class Lock(TypedDict):
    """What a person has locked."""

    elementId: str
    """`page` for the whole page."""
    by: str
    at: str | None


class LockList(TypedDict):
    """Everything that is locked."""

    locks: list[Lock]


class PageSummary(TypedDict):
    """A page in a list."""

    pageId: str
    conversationId: str
    title: str
    versionId: str | None
    """Null for the starter page, before the first edit."""
    activeVersionId: str | None
    createdAt: str | None
    updatedAt: str | None


class PageList(TypedDict):
    """Some of the owner's pages."""

    pages: list[PageSummary]
    next: str | None
    """What the next list begins `after`."""


class PageView(PageSummary):
    """A page as it is now."""

    page: dict[str, Any]
    """`root`, the tree of elements, with `theme`."""
    digests: dict[str, str]
    """SHA-256 of each element with all inside it, by id."""
    locks: list[Lock]


class PageVersionList(TypedDict):
    """Versions of a page."""

    versions: list[VersionSummary]
    """Newest last."""
    active: str | None
    before: str | None
    """What to ask for next, to see older ones; null where there are none."""


class PageVersion(VersionSummary):
    """A version of a page."""

    page: dict[str, Any]
    changes: list[Change]
    digests: dict[str, str]


class PageActivated(VersionSummary):
    """What is told of an activation."""

    active: str


class Diff(_From):
    """What is different between two versions."""

    to: str
    changes: list[Change]
    unchanged: list[str]
    """Elements that are the same to the byte, with all inside them."""


class Upload(TypedDict):
    """A file that came to a page, or is waited for."""

    uploadId: str
    fileType: FileType
    fileName: str
    maxSize: int
    """Bytes."""
    allowedFormats: list[str]
    status: Literal["waiting", "ready"]
    url: str
    """Where it is sent to and got from."""
    size: int | None
    """Bytes."""
    mediaType: str | None
    sha256: str | None


class UploadList(TypedDict):
    """The files of a page."""

    uploads: list[Upload]
    """Oldest first."""
