"""Markdown as harmless HTML, in a time that grows no faster than the text."""

from typing import Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import table

MAX_CELLS: Final = 10_000
"""Columns of a table times lines of the text: missing cells are added to each row, so short rows grow."""
_TAGS: Final = frozenset({
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "blockquote",
    "ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td",
})  # fmt: skip
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}}


def render(text: str) -> str:
    """Return the text as HTML without scripts, styles and images; too large a table stays text."""
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.block.ruler.at("table", _bounded_table, {"alt": ["paragraph", "reference"]})
    return nh3.clean(
        parser.render(text),
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )


def _bounded_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - a rule's form
    heading = state.src[state.bMarks[start] : state.eMarks[start]]
    if (heading.count("|") + 1) * len(state.bMarks) > MAX_CELLS:
        return False
    return bool(table(state, start, end, silent))
