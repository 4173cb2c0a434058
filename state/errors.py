"""Every exception Callsheet raises, as one tree named by consequence.

CallsheetError
├── Refused            the caller must change something; a retry fails again
│   ├── Invalid          a value breaks a rule (422)
│   │   ├── Malformed        a request cannot be read (400)
│   │   └── InvalidArguments  arguments of a call do not fit its tool (422)
│   ├── Unauthenticated  the request has no valid credentials (401)
│   ├── BudgetUsedUp     an owner's budget is used up; nothing was done (402)
│   ├── Forbidden        not allowed: owner, permission, lock, write set (403)
│   ├── Missing          the thing does not exist, or is not the caller's (404)
│   ├── Conflict         the state has changed since the caller read it (409)
│   ├── NotInstalled     a part of the program is not installed (501)
│   ├── Gone             the thing existed, and is not kept any more (410)
│   ├── UnbuildableState  a graph's own code cannot build a thread's state from its checkpoint (400)
│   └── TooLarge         over a stated limit (413)
│       └── ContextOverflow  a conversation is longer than the model can read
├── Unavailable        a later retry may succeed (503)
│   ├── Busy             another run holds the thread (409, with Retry-After)
│   ├── Limited          a rate limit (429)
│   ├── TimedOut         no answer in time; the outcome may be unknown (504)
│   │   └── OutcomeUnknown         the effect may have happened; no retry without a person's consent
│   ├── UnusableAnswer   a model's answers do not fit a form, or refuse; its service works
│   ├── UnreadableSound  bytes that an engine of speech sent are no sound
│   ├── NotReached        the other side was not reached, so a retry is safe
│   │   └── DeadLink       an address that the caller gave does not answer; no service of ours has failed
│   │       └── SlowLink     it does not answer in time; also a TimedOut
│   └── StorageDown      Redis or Valkey cannot be reached (503)
│       ├── StorageFull    memory or disk is full, so a write was refused; nothing of it was done
│       ├── StorageSilent  no answer; also a TimedOut, since the outcome may be unknown
│       └── StorageRefused  the connection is refused; also an Invalid, since a setting may be wrong
├── BudgetExceeded     a model call could exceed a budget; a person decides whether it is raised
├── Oversized          a tool's result is too large
├── Fenced             this attempt lost its lease; its writes are refused and it must stop
└── Broken             a bug or a broken installation (500)
    └── RequestRejected  a vendor rejects the form of a request; a simpler one may be accepted
        └── ToolsUnsupported  its model cannot call tools; also an Invalid, since another model can
"""


def sentences(rule: str, *others: str) -> str:
    """Return a rule and its remedies as one text, a sentence each.

    The rule begins as it does alone, since it may begin with a name such as `brief.duration`.
    """
    parts = [rule, *(one[:1].upper() + one[1:] for one in others)]
    return " ".join(one if one[-1] in ".!?…" else f"{one}." for one in parts if one)


class CallsheetError(Exception):
    """Base of every error: `message` names the thing and the rule, `remedy` says what to do."""

    def __init__(self, message: str, *, remedy: str = "", details: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.details = details or {}


class Refused(CallsheetError):
    """The caller must change something; a retry fails again."""


class Invalid(Refused):
    """A value breaks a rule."""


class Malformed(Invalid):
    """A request cannot be read."""


class InvalidArguments(Invalid):
    """Arguments of a call do not fit its tool."""


class NotInstalled(Refused):
    """A part of the program is not installed."""


class Unauthenticated(Refused):
    """The request has no valid credentials."""


class BudgetUsedUp(Refused):
    """An owner's budget is used up until the next day; nothing of the request was done."""


class Forbidden(Refused):
    """Not allowed: owner, permission, lock or write set."""


class Missing(Refused):
    """The thing does not exist, or is not the caller's."""


class Conflict(Refused):
    """The state has changed since the caller read it."""


class Gone(Refused):
    """The thing existed, and is not kept any more."""


class UnbuildableState(Refused):
    """A graph's own code cannot build a thread's state from its checkpoint."""


class TooLarge(Refused):
    """Over a stated limit."""


class ContextOverflow(TooLarge):
    """A conversation is longer than the model can read; a shorter copy may succeed."""


class Unavailable(CallsheetError):
    """A retry after `retry_after_s` seconds may succeed."""

    retry_after_s: float = 1.0
    service: str = ""
    """Name of the service that failed; empty if it is none outside."""


class Busy(Unavailable):
    """Another run holds the thread."""


class Limited(Unavailable):
    """A rate limit was reached."""


class TimedOut(Unavailable):
    """No answer in time; the outcome may be unknown."""


class OutcomeUnknown(TimedOut):
    """The effect may have happened; a retry needs a person's consent."""


class UnusableAnswer(Unavailable):
    """A model's answers do not fit a form, or refuse; its service works, and asking again at once is vain."""


class UnreadableSound(Unavailable):
    """Bytes that an engine of speech sent are no sound."""


class NotReached(Unavailable):
    """The other side was not reached, so a retry is safe."""


class DeadLink(NotReached):
    """An address that the caller gave does not answer; no service of ours has failed."""


class SlowLink(DeadLink, TimedOut):
    """An address that the caller gave does not answer in time."""


class StorageDown(Unavailable):
    """Redis or Valkey cannot be reached."""


class StorageFull(StorageDown):
    """Redis or Valkey refuses a write because its memory or disk is full; nothing of it was done."""


class StorageSilent(StorageDown, TimedOut):
    """Redis or Valkey gives no answer; commands already sent may still take effect."""


class StorageRefused(StorageDown, Invalid):
    """Redis or Valkey refuses the connection because a setting is wrong or has changed."""


class Oversized(CallsheetError):
    """A tool's result is too large; a narrower request may succeed."""


class Fenced(CallsheetError):
    """This attempt lost its lease; its writes are refused and it must stop."""


class Broken(CallsheetError):
    """A bug or a broken installation."""


class RequestRejected(Broken):
    """A vendor rejects the form of a request; a simpler one may be accepted."""


class ToolsUnsupported(RequestRejected, Invalid):
    """A vendor's model cannot call tools; another model must be chosen for work that needs them."""
