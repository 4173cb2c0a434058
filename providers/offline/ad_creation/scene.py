"""What a message is read against."""

from dataclasses import dataclass

from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.version_edits import Choices
from state.ad import Stream


@dataclass(frozen=True)
class Scene:
    """What a message is read against."""

    ad: Ad
    language: str = "english"
    """The language of the message."""
    focus: Stream | None = None
    """What "it" means: the stream the last turn changed."""
    focused: tuple[int, ...] = ()
    """The tracks the last turn changed."""
    choices: Choices = None
    """Variations that were just made."""
    effects: tuple[int, ...] = ()
    """The effects the clause before named."""
