"""What a workflow may do to the world."""

from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tools.registry import Registry

    REGISTRY: Registry
    """Every tool by name, each of one domain; a graph names the domains it allows. Made on first use."""

_making: Final = Lock()


def __getattr__(name: str) -> "Registry":
    """Return `REGISTRY`; a process for one piece of work imports its own module of this package alone."""
    if name != "REGISTRY":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _making:
        made: Registry | None = globals().get(name)
        if made is None:
            made = globals()[name] = _indexed()
        return made


def _indexed() -> "Registry":
    from tools import audio, fetching, lesson, pages, uploads  # noqa: PLC0415 -- bring the workflows' state along
    from tools.registry import index  # noqa: PLC0415

    return index(ad=audio.TOOLS, lesson=lesson.TOOLS, page=(*pages.TOOLS, *uploads.TOOLS, *fetching.TOOLS))
