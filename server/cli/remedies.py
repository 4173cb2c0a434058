"""Remedies of the server for people in a terminal: commands in place of routes."""

import re
from typing import Final

from callsheet.server.settings.installation import program

_NOUNS: Final = {"ad": "ads", "page": "pages", "lesson": "lessons", "video": "videos"}
_PROGRAM: Final = "\x00"
"""Stands for the program, whose path may have a backslash."""
_PLACE: Final = r"[^/\s,;]{1,300}"
_COMMANDS: Final = tuple(
    (re.compile(route), command)
    for route, command in (
        (r"POST /api/agent-create/session/narration/render\b(?: with the same fields)?", "lessons listen ID"),
        (rf"POST /api/ads/({_PLACE})/render(?: with the same fields)?", r"ads listen \1"),
        (rf"POST /api/executions/{_PLACE}/resume", "questions answer ID yes"),
        (rf"POST /api/executions/{_PLACE}/cancel", "questions answer ID no"),
        (
            r"PATCH /api/pages/\{pageId\}/elements/page, with the page's version and attributes\.(\w{1,40})",
            r"""pages chat ID 'the \1 of the page is "…"'""",
        ),
        (rf"POST /api/pages/({_PLACE})/chat", r"pages new --id \1 TEXT"),
        (r"POST /api/campaigns/import", "campaigns import FILE"),
        (r"POST /api/ai/generate", "ads new TEXT"),
        (r"POST /api/projects\b(?!/)", "videos new TEXT"),
        (r"GET /api/campaigns\b(?!/)", "campaigns list"),
        (r"GET /api/questions\b", "questions list"),
        *((rf"GET /api/artefacts/{kind}\b", f"{noun} list") for kind, noun in _NOUNS.items()),
    )
)
"""Routes as remedies name them, and the commands that do the same."""


def in_terminal(remedy: str) -> str:
    """Return a remedy with commands in place of the routes that have one."""
    for route, command in _COMMANDS:
        remedy = route.sub(rf"{_PROGRAM}{command}", remedy)
    return remedy.replace(_PROGRAM, f"{program()} ")
