"""Tools: every effect that a workflow may have, called through the guard."""

from typing import Final

from callsheet.tools.registry import index

REGISTRY: Final = index(
    ad=["callsheet.tools.ads.drafts", "callsheet.tools.ads.undo"],
    lesson=[
        "callsheet.tools.lessons.lesson",
        "callsheet.tools.lessons.decisions",
        "callsheet.tools.lessons.quiz",
    ],
    campaign=["callsheet.tools.campaigns.search", "callsheet.tools.campaigns.answer"],
    video=["callsheet.tools.video.scenes", "callsheet.tools.video.gathering"],
    page=["callsheet.tools.pages.edits", "callsheet.tools.pages.uploads", "callsheet.tools.pages.fetch"],
)
"""Every tool by name, each of one domain; a graph names the domains it allows."""
