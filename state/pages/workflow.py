"""State of the `page_builder` workflow."""

from typing import NotRequired

from callsheet.state.workflow import Workflow


class PageState(Workflow):
    """State of a conversation about one landing page."""

    page_id: NotRequired[str]
    """Id of the page; the thread's id by default."""
    selected_element_id: NotRequired[str | None]
    """Id of the element that "this" refers to; stays until another or None is given."""
