"""Version history of a page, with undo.

A version holds the page, its differences from the previous version, and `back`, the version that undo
restores. An undo is a version too; its `back` is that of the restored version, so that repeated undo goes
further back.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

from callsheet.state.errors import Invalid
from callsheet.state.pages.changes import PageChange, diff
from callsheet.state.pages.page import Page
from callsheet.state.pages.starter import STARTER
from callsheet.state.versions import Version

BEGINNING: Final = "start"
"""Id for the starter page, which is not a version."""


class PageData(TypedDict):
    """Data of a version."""

    page: dict[str, Any]
    changes: list[PageChange]
    """Differences from the previous version."""
    back: str | None
    """Id of the version that undo restores; `start` for the starter page; None if there is none."""


def page_of(version: Version | None) -> Page:
    """Return the page of a version, or the starter page for None."""
    return Page.model_validate(version.data["page"]) if version else STARTER


def edit_version(newest: Version | None, before: Page, after: Page) -> PageData:
    """Return the data of an edit's version; raises `Invalid` if the edit changes nothing."""
    changes = diff(before, after)
    if not changes:
        raise Invalid(
            "nothing on the page would be different", remedy="look at it, and say what shall change"
        )
    return PageData(page=after.data(), changes=changes, back=newest.id if newest else BEGINNING)


def undo_target(newest: Version | None, undone: int = 0) -> str:
    """Return the id of the version that undo restores, after `undone` changes that the same undo takes back.

    Raises `Invalid` if there is nothing more to undo.
    """
    back = newest.data["back"] if newest else None
    if back is None and undone:
        raise Invalid(
            f"only {undone} change{'s' * (undone != 1)} can be undone",
            remedy=f"undo {undone}, or fewer",
        )
    if back is None:
        raise Invalid(
            "there is nothing to undo: the page is in its first state", remedy="make a change first"
        )
    return str(back)


def undo_version(before: Page, restored: Version | None) -> PageData:
    """Return the data of an undo's version; `restored` is None for the starter page."""
    after = restore_page(before, page_of(restored))
    back = restored.data["back"] if restored else None
    return PageData(page=after.data(), changes=diff(before, after), back=back)


def restore_page(before: Page, earlier: Page) -> Page:
    """Return the earlier page with id counters that reuse no id given since."""
    kinds = before.numbers.keys() | earlier.numbers.keys()
    numbers = {kind: max(before.numbers.get(kind, 0), earlier.numbers.get(kind, 0)) for kind in sorted(kinds)}
    return earlier.model_copy(update={"numbers": numbers})


def summary(data: Mapping[str, Any], most: int = 3) -> str:
    """Return a version's differences in one line."""
    texts = [change["text"] for change in data["changes"]]
    rest = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + rest


def change_lines(changes: Sequence[PageChange], most: int = 20) -> list[str]:
    """Return the first `most` differences as lines, and the number of the others."""
    rest = [f"and {len(changes) - most} more"] if len(changes) > most else []
    return [change["text"] for change in changes[:most]] + rest
