"""What a workflow may do to the world."""

from typing import Final

from tools.registry import index

REGISTRY: Final = index(
    ad=["tools.audio"], lesson=["tools.lesson"], page=["tools.pages", "tools.uploads", "tools.fetching"]
)
"""Every tool by name, each of one domain; a graph names the domains it allows."""
