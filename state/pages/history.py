"""A page's versions: what one holds, and the way back from it.

A version holds the page, its differences from the one before, and `back`: where undo leads from here. An
undo is a version too, and goes on where the one it restored had come from, so undo after undo goes further
back, and undo after an edit takes that edit back.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

from callsheet.state.errors import Invalid
from callsheet.state.pages.changes import Change, diff
from callsheet.state.pages.page import Page, canonical
from callsheet.state.pages.starter import STARTER
from callsheet.state.versions import Version

BEGINNING: Final = "start"
"""Stands for the starter page, which is no version."""


class PageData(TypedDict):
    """What a version of a page holds."""

    page: dict[str, Any]
    changes: list[Change]
    """Differences from the version before."""
    back: str | None
    """Id of the version that undo restores; `start` for the starter page; None where there is no way back."""


def page_of(version: Version | None) -> Page:
    """Return the page a version holds; the starter page where there is none."""
    return Page.model_validate(version.data["page"]) if version else STARTER


def edit_version(newest: Version | None, before: Page, after: Page) -> PageData:
    """Return what the version of an edit holds; raises `Invalid` where nothing would be different."""
    changes = diff(before, after)
    if not changes:
        raise Invalid(
            "nothing on the page would be different", remedy="look at it, and say what shall change"
        )
    return PageData(page=after.data(), changes=changes, back=newest.id if newest else BEGINNING)


def undo_target(newest: Version | None) -> str:
    """Return what undo restores; raises `Invalid` where there is nothing to undo."""
    back = newest.data["back"] if newest else None
    if back is None:
        raise Invalid("there is nothing to undo: the page is as it began", remedy="make a change first")
    return str(back)


def undo_version(before: Page, restored: Version | None) -> PageData:
    """Return what the version of an undo holds, given what it restores; None stands for the starter page."""
    after = restore_page(before, page_of(restored))
    back = restored.data["back"] if restored else None
    return PageData(page=after.data(), changes=diff(before, after), back=back)


def restore_page(before: Page, earlier: Page) -> Page:
    """Return an earlier page as it comes back: ids made since are not given to other elements."""
    kinds = before.numbers.keys() | earlier.numbers.keys()
    numbers = {kind: max(before.numbers.get(kind, 0), earlier.numbers.get(kind, 0)) for kind in sorted(kinds)}
    return earlier.model_copy(update={"numbers": numbers})


def summary(data: Mapping[str, Any], most: int = 3) -> str:
    """Return the differences of a version in one line."""
    texts = [change["text"] for change in data["changes"]]
    rest = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + rest


def same(one: Page, other: Page) -> bool:
    """Return whether two pages look the same to the byte, whatever ids were given meanwhile."""
    return _content(one) == _content(other)


def change_lines(changes: Sequence[Change], most: int = 20) -> list[str]:
    """Return differences as lines; of very many the first, and how many there are."""
    rest = [f"and {len(changes) - most} more"] if len(changes) > most else []
    return [change["text"] for change in changes[:most]] + rest


def _content(page: Page) -> bytes:
    return canonical({name: value for name, value in page.data().items() if name != "numbers"})
