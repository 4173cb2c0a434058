"""The starter page of a new project."""

from typing import Any, Final

from callsheet.state.pages.edits import create
from callsheet.state.pages.page import ROOT, Element, Page

_CENTERED: Final = {"text-align": "center", "padding": "64px 24px"}


def _card(title: str, text: str) -> dict[str, Any]:
    return {
        "type": "card",
        "children": [
            {"type": "heading", "content": title, "attributes": {"level": "3"}},
            {"type": "text", "content": text},
        ],
    }


_PARTS: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "nav",
        "label": "Navigation",
        "children": [
            {"type": "text", "label": "Brand", "content": "Your brand", "style": {"font-weight": "700"}},
            {"type": "link", "content": "Features", "attributes": {"href": "#section-2"}},
        ],
    },
    {
        "type": "section",
        "label": "Hero",
        "style": _CENTERED | {"background": "var(--surface)"},
        "children": [
            {"type": "heading", "content": "Say what you offer in one line", "attributes": {"level": "1"}},
            {"type": "text", "content": "Then say in a sentence or two why it matters to your visitor."},
            {"type": "button", "content": "Get started", "attributes": {"href": "#section-2"}},
        ],
    },
    {
        "type": "section",
        "label": "Features",
        "style": {"padding": "48px 24px"},
        "children": [
            {"type": "heading", "content": "Why people choose us", "attributes": {"level": "2"}},
            {
                "type": "columns",
                "children": [
                    _card("First reason", "What a visitor gains from it."),
                    _card("Second reason", "What makes it different."),
                    _card("Third reason", "Why they can trust it."),
                ],
            },
        ],
    },
    {"type": "footer", "label": "Footer", "style": _CENTERED | {"padding": "24px"}, "children": [
        {"type": "text", "content": "© Your brand"},
    ]},
)  # fmt: skip


def build_starter() -> Page:
    """Return the starter page, with the same ids each time."""
    page = Page(root=Element(id=ROOT, type="page", attributes={"lang": "en"}))
    for part in _PARTS:
        page, _ = create(page, ROOT, part)
    return page


STARTER: Final = build_starter()
"""The page before the first edit."""
