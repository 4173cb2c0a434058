"""What `page_builder` remembers of a conversation about a page."""

from typing import NotRequired

from callsheet.state.workflow import Workflow


class PageState(Workflow):
    """A conversation about one landing page."""

    page_id: NotRequired[str]
    """The page; the thread's id where none is given (X5)."""
    selected_element_id: NotRequired[str | None]
    """The element the person has selected, which "this" means (C26); stays until another or None is given."""
