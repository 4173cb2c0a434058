"""Every exception Callsheet raises, as one tree named by consequence.

CallsheetError
├── Refused            the caller must change something; asking again changes nothing
│   ├── Invalid          a value breaks a rule (400 or 422)
│   ├── Unauthenticated  nobody has said who is asking (401)
│   ├── Forbidden        not allowed: owner, permission, lock, write set (403)
│   ├── Missing          the thing does not exist, or is not the caller's (404)
│   ├── Conflict         true a moment ago, not now (409)
│   └── TooLarge         over a stated limit (413)
├── Unavailable        worth asking again later (503)
│   ├── Busy             another run holds the thread (409, with Retry-After)
│   ├── Limited          a rate limit (429)
│   ├── TimedOut         no answer in time; the outcome may be unknown (504)
│   │   └── OutcomeUnknown         it may have had its effect, and must not be tried again unasked
│   ├── NotReached        the other side was not reached, so nothing happened there
│   └── StorageDown      Redis or Valkey cannot be reached (503)
│       ├── StorageSilent  it gives no answer; also a TimedOut, for the outcome may be unknown
│       └── StorageRefused  it lets us in no more; also an Invalid, for a setting may be wrong
├── Oversized          a tool made more than it may
├── Fenced             this attempt lost its lease; its writes are refused and it must stop
└── Broken             a bug or a broken installation (500)
"""


class CallsheetError(Exception):
    """Base of every error here: `message` names the thing and the rule, `remedy` says what to do."""

    def __init__(self, message: str, *, remedy: str = "", details: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.details = details or {}


class Refused(CallsheetError):
    """The caller must change something; asking again changes nothing."""


class Invalid(Refused):
    """A value breaks a rule."""


class Unauthenticated(Refused):
    """Nobody has said who is asking."""


class Forbidden(Refused):
    """Not allowed: owner, permission, lock or write set."""


class Missing(Refused):
    """The thing does not exist, or is not the caller's."""


class Conflict(Refused):
    """True a moment ago, not now."""


class TooLarge(Refused):
    """Over a stated limit."""


class Unavailable(CallsheetError):
    """Worth asking again later; `retry_after_s` says when."""

    retry_after_s: float = 1.0


class Busy(Unavailable):
    """Another run holds the thread."""


class Limited(Unavailable):
    """A rate limit was reached."""


class TimedOut(Unavailable):
    """No answer in time; the outcome may be unknown."""


class OutcomeUnknown(TimedOut):
    """It may have had its effect, and must not be tried again before a person was asked."""


class NotReached(Unavailable):
    """The other side was not reached, so nothing happened there and trying again is safe."""


class StorageDown(Unavailable):
    """Redis or Valkey cannot be reached."""


class StorageSilent(StorageDown, TimedOut):
    """Redis or Valkey gives no answer; what it was told may yet happen."""


class StorageRefused(StorageDown, Invalid):
    """Redis or Valkey refuses the connection: at the start a wrong setting, later a changed one."""


class Oversized(CallsheetError):
    """A tool made more than it may; asking for less may help."""


class Fenced(CallsheetError):
    """This attempt lost its lease; its writes are refused and it must stop."""


class Broken(CallsheetError):
    """A bug or a broken installation."""
