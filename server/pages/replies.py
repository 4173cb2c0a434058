"""Reply shapes of pages, for the documentation."""

from typing import Any, Literal

from typing_extensions import TypedDict

from callsheet.server.artefacts.replies import VersionSummary
from callsheet.state.pages.history import PageChange
from callsheet.state.uploads import FileType

_From = TypedDict("_From", {"from": str})
"""The older version; `start` for the starter page."""


class Lock(TypedDict):
    """A lock."""

    elementId: str
    """`page` for the whole page."""
    by: str
    at: str | None


class LockList(TypedDict):
    """All locks of a page."""

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
    """A list of the owner's pages."""

    pages: list[PageSummary]
    next: str | None
    """Send it as `after` for the next list; null at the end."""


class PageView(PageSummary):
    """A page."""

    page: dict[str, Any]
    """`root`, the tree of elements, with `theme`."""
    digests: dict[str, str]
    """SHA-256 of each element with its children, by id."""
    locks: list[Lock]


class PageVersionList(TypedDict):
    """Versions of a page."""

    versions: list[VersionSummary]
    """Newest last."""
    active: str | None
    before: str | None
    """Send it as `before` for older versions; null if there are none."""


class PageVersion(VersionSummary):
    """A version of a page."""

    page: dict[str, Any]
    changes: list[PageChange]
    digests: dict[str, str]


class PageActivated(VersionSummary):
    """An activated version."""

    active: str


class Diff(_From):
    """The changes between two versions."""

    to: str
    changes: list[PageChange]
    unchanged: list[str]
    """Ids of byte-identical elements."""


class Upload(TypedDict):
    """A file of a page, uploaded or requested."""

    uploadId: str
    fileType: FileType
    fileName: str
    maxSize: int
    """Bytes."""
    allowedFormats: list[str]
    status: Literal["waiting", "ready"]
    url: str
    """URL for PUT and GET."""
    size: int | None
    """Bytes."""
    mediaType: str | None
    sha256: str | None


class UploadList(TypedDict):
    """The files of a page."""

    uploads: list[Upload]
    """Oldest first."""
