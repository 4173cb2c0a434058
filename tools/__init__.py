"""What a workflow may do to the world."""

from typing import Final

from tools import audio
from tools.registry import index

REGISTRY: Final = index(audio.TOOLS)
"""Every tool by name; a graph names the ones it allows."""
