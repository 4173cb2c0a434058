"""What lies on the table while a turn's edits are carried out."""

from dataclasses import dataclass, field

from providers.offline.ad_creation.brief import Brief
from providers.offline.ad_creation.history import Stacks
from providers.offline.ad_creation.recasting import Offers


@dataclass(frozen=True)
class Desk:
    """What edits may need beside the ad."""

    offers: Offers
    """The voices that were found."""
    brief: Brief | None = None
    """What the client wrote; None when it is no longer visible."""
    said: str = ""
    """Everything the person typed in the chat, folded: their own sentences in the script are theirs."""
    language: str = "english"
    """The language of the message that is answered."""
    stacks: Stacks = field(default_factory=Stacks)
    """What can be undone and redone."""
    variant: int = 0
    """How many scripts there were already, so that a new one differs."""
