"""Version history of a page, from its starter page on: differences described for people, and undo.

A version holds the page, its differences from the previous version, and `back`, the version that undo
restores. An undo is a version too; its `back` is that of the restored version, so that repeated undo goes
further back.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from callsheet.state.cards import Card, shorten, texts
from callsheet.state.differences import Difference
from callsheet.state.errors import Invalid
from callsheet.state.pages.edits import create
from callsheet.state.pages.page import ROOT, UNTITLED, Element, Page, walk
from callsheet.state.versions import Version


class PageChange(TypedDict):
    """One difference."""

    kind: Literal["added", "removed", "moved", "changed", "theme"]
    id: str
    """Id of the element; `page` for the theme."""
    text: str
    """Description in one line."""
    field: NotRequired[str]
    """Changed field: `content`, `label`, `style.color`, `attributes.href`, or a theme token."""
    before: NotRequired[str | None]
    """Old value; None if there was none."""
    after: NotRequired[str | None]
    """New value; None if there is none."""


def diff(before: Page, after: Page) -> list[PageChange]:
    """Return the differences from `before` to `after`, in page order; empty for equal pages.

    Of elements added or removed together, only the outermost is listed.
    """
    old, new = _by_id(before), _by_id(after)
    return [
        *_removals(before, new),
        *_additions(after, old),
        *_moves(before, after),
        *(
            change
            for name, element in new.items()
            if name in old
            for change in _field_changes(old[name], element)
        ),
        *_theme_changes(before, after),
    ]


def differences(before: Page, after: Page) -> list[Difference]:
    """Return the differences in the form of all streams; a path is an element's id and the changed field."""
    return [_difference(change) for change in diff(before, after)]


def _difference(change: PageChange) -> Difference:
    kind, field = change["kind"], change.get("field")
    place = f"{change['id']}.{field}" if field else change["id"]
    shown = Difference(kind="changed" if kind == "theme" else kind, path=place, text=change["text"])
    if field:
        shown |= Difference(before=change.get("before"), after=change.get("after"))  # type: ignore[typeddict-item]
    return shown


def _by_id(page: Page) -> dict[str, Element]:
    return {element.id: element for element, _ in walk(page.root)}


def _removals(before: Page, new: Mapping[str, Element]) -> Iterator[PageChange]:
    parents = before.parents()
    for element, _ in walk(before.root):
        if element.id not in new and parents[element.id] in new:
            yield PageChange(kind="removed", id=element.id, text=f"removed {_describe(element)}")


def _additions(after: Page, old: Mapping[str, Element]) -> Iterator[PageChange]:
    parents = after.parents()
    for element, _ in walk(after.root):
        if element.id not in old and parents[element.id] in old:
            parent = parents[element.id]
            text = f"added {_describe(element)} to {'the page' if parent == ROOT else parent}"
            yield PageChange(kind="added", id=element.id, text=text)


def _describe(element: Element) -> str:
    inner = sum(1 for _ in walk(element)) - 1
    contents = f"the {inner} elements" if inner > 1 else "the element"
    return element.label_text() + (f" and {contents} in it" if inner else "")


def _moves(before: Page, after: Page) -> Iterator[PageChange]:
    """Yield elements with another parent, or with another order among the siblings that stayed."""
    old_parents, new_parents = before.parents(), after.parents()
    still = {name for name in new_parents if old_parents.get(name) == new_parents[name]}
    old = _by_id(before)
    stayed: set[str] = set()
    for parent, _ in walk(after.root):
        siblings = [child.id for child in parent.children if child.id in still]
        if parent.id in old:
            places = {child.id: i for i, child in enumerate(old[parent.id].children)}
            stayed |= {siblings[i] for i in _longest_rising_run([places[name] for name in siblings])}
    for element, _ in walk(after.root):
        if element.id in old_parents and element.id not in stayed:
            position = _describe_position(after, element.id, new_parents[element.id])
            text = f"moved {element.label_text()} {position}"
            yield PageChange(kind="moved", id=element.id, text=text)


def _describe_position(page: Page, name: str, parent: str) -> str:
    siblings = [child.id for child in page.get(parent).children]
    i = siblings.index(name)
    return f"to the beginning of {parent}" if i == 0 else f"after {siblings[i - 1]} in {parent}"


def _longest_rising_run(places: Sequence[int]) -> set[int]:
    """Return the indices of a longest increasing subsequence: the siblings that kept their order."""
    best: list[list[int]] = [[]]
    for i, place in enumerate(places):
        shorter = [run for run in best if not run or places[run[-1]] < place]
        best.append([*max(shorter, key=len), i])
    longest: list[int] = max(best, key=len)
    return set(longest)


def _field_changes(old: Element, new: Element) -> Iterator[PageChange]:
    old_fields, new_fields = _fields(old), _fields(new)
    for field in sorted(old_fields.keys() | new_fields.keys(), key=lambda field: ("." in field, field)):
        before, after = old_fields.get(field), new_fields.get(field)
        if before != after:
            subject = new.id if field == "content" else new.label_text()
            text = f"{subject}: {_describe_change(field, before, after)}"
            yield PageChange(kind="changed", id=new.id, text=text, field=field, before=before, after=after)


def _fields(element: Element) -> dict[str, str]:
    plain = {"type": element.type, "label": element.label, "content": element.content}
    return (
        {field: text for field, text in plain.items() if text}
        | {f"style.{name}": text for name, text in element.style.items()}
        | {f"attributes.{name}": text for name, text in element.attributes.items()}
    )


def _theme_changes(before: Page, after: Page) -> Iterator[PageChange]:
    for token, new in after.theme.items():
        old = before.theme.get(token)
        if old != new:
            text = f"theme: {_describe_change(token, old, new)}"
            yield PageChange(kind="theme", id=ROOT, text=text, field=token, before=old, after=new)


def _describe_change(field: str, before: str | None, after: str | None) -> str:
    name = field.partition(".")[2] or field
    if before is None:
        return f"{name} set to {_quote(after)}"
    if after is None:
        return f"{name} {_quote(before)} removed"
    return f"{name} {_quote(before)} → {_quote(after)}"


def _quote(text: str | None, most: int = 80) -> str:
    shown = " ".join((text or "").split())
    return f'"{shown}"' if len(shown) <= most else f'"{shown[: most - 1].rstrip()}…"'


_CENTERED: Final = {"text-align": "center", "padding": "64px 24px"}


def _card(title: str, text: str) -> dict[str, Any]:
    return {
        "type": "card",
        "children": [
            {"type": "heading", "content": title, "attributes": {"level": "3"}},
            {"type": "text", "content": text},
        ],
    }


BRAND: Final = "Your brand"
"""Place of the name in the starter page."""
_PARTS: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "nav",
        "label": "Navigation",
        "children": [
            {"type": "text", "label": "Brand", "content": BRAND, "style": {"font-weight": "700"}},
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
        {"type": "text", "content": f"© {BRAND}"},
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


_LASTING: Final = frozenset({"Why people choose us"})
"""Texts of the starter page that a published page may have."""
PLANS: Final = ("Plan one", "Plan two", "Plan three")
"""Headings of the section of prices that the offline model adds."""
PRICE: Final = "What it costs."
"""Text of each of them."""
PLACEHOLDERS: Final = frozenset(
    {element.content for element, _ in walk(STARTER.root) if element.type in {"heading", "text"}}
    | {*PLANS, PRICE}
) - (_LASTING | {""})
"""Texts of the starter page and of added sections that only say what belongs in their place."""


def left_placeholders(page: Page) -> dict[str, str]:
    """Return the placeholders of the starter page that are still on a page, by element."""
    return {element.id: element.content for element, _ in walk(page.root) if element.content in PLACEHOLDERS}


def card(page: Page) -> Card:
    """Return the page's title, unless it is a placeholder, and the texts on the page."""
    title, elements = page.title(), [element for element, _ in walk(page.root)]
    return Card(
        "" if title in PLACEHOLDERS | {UNTITLED} else shorten(title),
        texts(
            page.root.attributes.get("description"),
            [one.content for one in elements if one.content not in PLACEHOLDERS],
            [one.label for one in elements],
            [one.attributes.get("alt") for one in elements],
        ),
    )


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
