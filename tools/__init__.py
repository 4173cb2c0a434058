"""What a workflow may do to the world."""

from typing import Final

from tools import audio, fetching, lesson, pages, uploads
from tools.registry import index

REGISTRY: Final = index(
    ad=audio.TOOLS, lesson=lesson.TOOLS, page=(*pages.TOOLS, *uploads.TOOLS, *fetching.TOOLS)
)
"""Every tool by name, each of one domain; a graph names the domains it allows."""
