"""Requests and replies of pages, and the messages of their web socket."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from callsheet.server.artefacts.schemas import (
    ActionDecision,
    ApprovalQuestion,
    ModelUse,
    Outcome,
    ToolCall,
    UsageReply,
    VersionSummary,
)
from callsheet.server.http.requests import ModelChoice
from callsheet.state.pages.history import PageChange
from callsheet.state.pages.page import Page
from callsheet.state.receipts import Receipt
from callsheet.state.uploads import FileType
from callsheet.state.workflow import DraftMade
from callsheet.tools.pages.edits import ElementChanges

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
    """The title that a person gave it, else the page's own."""
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

    page: Page
    digests: dict[str, str]
    """SHA-256 of each element with its children, by id."""
    locks: list[Lock]
    notices: NotRequired[list[str]]
    """Of a new page: that another version of the ad's script is active than the one that it has."""


class PageCreate(BaseModel):
    """A new page from an ad."""

    model_config = ConfigDict(extra="forbid")

    adId: str = Field(min_length=1, max_length=255, description="The ad whose message the page shows first")
    version: str | None = Field(
        None, min_length=1, max_length=80, description="Of the script: an id, or `active`; else the newest"
    )
    pageId: str | None = Field(None, min_length=1, max_length=255, description="Made if left out")


class PageVersionList(TypedDict):
    """Versions of a page."""

    versions: list[VersionSummary]
    """Newest last."""
    active: str | None
    before: str | None
    """Send it as `before` for older versions; null if there are none."""


class PageVersion(VersionSummary):
    """A version of a page."""

    page: Page
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


class ElementPatch(ElementChanges):
    """Changes of one element."""

    version: str | None = Field(None, max_length=80, description="Newest version; or send If-Match")

    def changes(self) -> ElementChanges:
        """Return the changes."""
        return ElementChanges(**self.model_dump(exclude={"version"}))


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


_Id = Annotated[str, Field(min_length=1, max_length=255)]


class _Message(ModelChoice):
    selectedElementId: str | None = Field(None, max_length=255, description='Element that "this" means')


class PageChatCreate(_Message):
    """A message about a page."""

    message: str
    conversationId: str | None = Field(None, description="The page's conversation; its own id unless chosen")


class DecisionBody(ModelChoice):
    """A person's answer to an approval question."""

    decisions: list[ActionDecision] = Field(
        min_length=1, max_length=100, description="One for each action, or one for all"
    )
    questionId: str | None = Field(None, max_length=255, description="The pending question when left out")


class DecisionCreate(DecisionBody):
    """The answer to an approval question."""


class UserMessage(_Message):
    """A message of a person."""

    type: Literal["userMessage"]
    conversationId: _Id
    content: str
    pageId: str | None = Field(None, max_length=255)
    messageId: str | None = Field(None, max_length=255)
    """In the message's frame; the same id within a day is the same message."""

    def to_chat(self) -> PageChatCreate:
        """Return the message as the body of the same request over REST."""
        fields = self.model_dump(include={"selectedElementId", *ModelChoice.model_fields})
        return PageChatCreate(message=self.content, conversationId=self.conversationId, **fields)


class ApprovalResponse(DecisionBody):
    """A person's answer to a question."""

    type: Literal["approvalResponse"]
    conversationId: _Id


class Join(BaseModel):
    """Follow a conversation after an event."""

    type: Literal["join"]
    conversationId: _Id
    lastEventId: str | None = Field(None, max_length=80)


class Leave(BaseModel):
    """Stop following a conversation."""

    type: Literal["leave"]
    conversationId: _Id


class Cancel(BaseModel):
    """Cancel the running turn of a conversation."""

    type: Literal["cancel"]
    conversationId: _Id


IncomingMessage = UserMessage | ApprovalResponse | Join | Leave | Cancel
INCOMING: Final[Mapping[str, type[IncomingMessage]]] = MappingProxyType(
    {
        "userMessage": UserMessage,
        "approvalResponse": ApprovalResponse,
        "join": Join,
        "leave": Leave,
        "cancel": Cancel,
    }
)
"""Every message that a client may send over the web socket, by its type."""


class PageTurn(TypedDict):
    """The result of a turn."""

    conversationId: str
    pageId: str
    outcome: Outcome
    drafts: dict[str, str]
    """`page`: the newest version, if the turn made one."""
    created: list[DraftMade]
    message: str
    """The model's words, or the text of `question`; with the line of `receipt` where that must be read."""
    question: ApprovalQuestion | None
    receipt: Receipt | None
    """Effects of the turn, by its versions and errors; null while a question waits."""
    truncated: bool
    """True if the turn ended at its limit of rounds."""
    provider: str
    providerReason: str
    toolCalls: list[ToolCall]
    usage: UsageReply
    turnUsage: ModelUse
