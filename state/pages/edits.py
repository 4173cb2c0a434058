"""Edits of a page: each returns a new page.

A locked element and its descendants stay identical to the byte.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal

from callsheet.state.errors import Forbidden, Invalid
from callsheet.state.pages import elements, styles
from callsheet.state.pages.page import ROOT, Element, Page, digest, walk

Position = Literal["before", "after", "inside"]
Replacement = Callable[[Element], tuple[Element, ...]]
"""Function from an element to the elements that replace it: none, one or several."""
_MAX_NEW: Final = 200
"""Maximum elements created by one edit."""


def modify(
    page: Page,
    element_id: str,
    *,
    content: str | None = None,
    label: str | None = None,
    style: Mapping[str, str | None] | None = None,
    attributes: Mapping[str, str | None] | None = None,
) -> Page:
    """Return the page with one element changed; None or "" removes a style or attribute.

    Raises `Missing` for an unknown element, `Invalid` for a value that is not allowed.
    """
    element = page.get(element_id)
    modified = _with_changes(
        element,
        content=element.content if content is None else content,
        label=element.label if label is None else label,
        style=_merge(element.style, style or {}, styles.property_name),
        attributes=_merge(element.attributes, attributes or {}, lambda name: name.strip().lower()),
    )
    return _rebuild(page, _replace(page.root, element_id, lambda _: (modified,)))


def create(
    page: Page, reference: str, new: Mapping[str, Any], position: Position = "inside"
) -> tuple[Page, str]:
    """Return the page with a new element, and its id.

    `new` has `type` and optionally `label`, `content`, `style`, `attributes` and `children` of the same form.
    It becomes the last child of the element `reference`, or its sibling before or after it.
    """
    page.get(reference)
    numbers = dict(page.numbers)
    element = _create_element(new, numbers, [0])
    root = _place(page.root, element, reference, position)
    return _rebuild(page, root, numbers=numbers), element.id


def delete(page: Page, element_id: str) -> Page:
    """Return the page without an element and its descendants; raises `Invalid` for the root."""
    page.get(element_id)
    _refuse_root(element_id, "deleted", "use clear_page to empty the page")
    return _rebuild(page, _replace(page.root, element_id, lambda _: ()))


def move(page: Page, element_id: str, reference: str, position: Position = "inside") -> Page:
    """Return the page with an element moved into, before or after another; ids stay the same."""
    element = page.get(element_id)
    page.get(reference)
    _refuse_root(element_id, "moved", "move what is inside it")
    if any(inner.id == reference for inner, _ in walk(element)):
        raise Invalid(
            f"{element_id!r} cannot be moved to {reference!r}, which is inside it",
            remedy="choose another reference",
        )
    without = _replace(page.root, element_id, lambda _: ())
    return _rebuild(page, _place(without, element, reference, position))


def apply_theme(
    page: Page, name: str | None, tokens: Mapping[str, str], locked: Collection[str] = ()
) -> Page:
    """Return the page with another theme, or with single tokens of its theme changed.

    Elements in `locked` keep their current theme and so their look.
    """
    theme = styles.build_theme(name, tokens, page.theme)
    pinned = {
        locked_id: page.pinned.get(locked_id, page.theme) for locked_id in locked if page.find(locked_id)
    }
    return _rebuild(page, page.root, theme=theme, pinned=pinned)


def clear(page: Page) -> Page:
    """Return the page without elements; theme, title and id counters stay."""
    return _rebuild(page, page.root.model_copy(update={"children": ()}))


def check_locks(before: Page, after: Page, locked: Collection[str], shifted: str | None = None) -> None:
    """Raise `Forbidden` if an edit changes, deletes or moves a locked element or one of its descendants.

    `shifted` is the element that the edit moves, possibly within the same parent.
    """
    parents, now = before.parents(), after.parents()
    for name in sorted(locked):
        element = before.find(name)
        if element is None:
            continue
        same = after.find(name)
        unchanged = (
            same is not None and digest(same) == digest(element) and now.get(name) == parents.get(name)
        )
        if name == ROOT:
            unchanged = unchanged and before.theme == after.theme
        if not unchanged or (shifted and _touches(element, shifted, before)):
            raise Forbidden(
                f"{element.label_text()} is locked and stays as it is, with everything inside it",
                remedy="change something else; only a person can unlock it",
            )


def _touches(locked: Element, shifted: str, page: Page) -> bool:
    inside = {element.id for element, _ in walk(locked)}
    return shifted in inside or any(element.id == locked.id for element, _ in walk(page.get(shifted)))


def _refuse_root(element_id: str, what: str, remedy: str) -> None:
    if element_id == ROOT:
        raise Invalid(f"the page itself cannot be {what}", remedy=remedy)


def _merge(
    before: Mapping[str, str], changes: Mapping[str, str | None], spelt: Callable[[str], str]
) -> dict[str, str]:
    tidy = {spelt(name): text for name, text in changes.items()}
    # A flag such as `required` is set even if its value is empty, as in HTML.
    gone = {
        name for name, text in tidy.items() if text is None or (text == "" and name not in elements.FLAGS)
    }
    kept = {name: text for name, text in before.items() if name not in tidy}
    return kept | {name: str(text) for name, text in tidy.items() if name not in gone}


def _with_changes(element: Element, **changes: Any) -> Element:
    shallow = {name: getattr(element, name) for name in Element.model_fields}
    return Element(**(shallow | changes))


def _create_element(new: Mapping[str, Any], numbers: dict[str, int], count: list[int]) -> Element:
    count[0] += 1
    if count[0] > _MAX_NEW:
        raise Invalid(f"one edit makes at most {_MAX_NEW} elements", remedy="make fewer at once")
    word = str(new.get("type", ""))
    kind = elements.parse_kind(word)
    if kind == "page":
        raise Invalid("a page has only one root", remedy="create a section")
    numbers[kind] = numbers.get(kind, 0) + 1
    return Element(
        id=f"{kind}-{numbers[kind]}",
        type=kind,
        label=str(new.get("label") or ""),
        content=str(new.get("content") or ""),
        style=new.get("style") or {},
        attributes={**elements.implied_attributes(word), **(new.get("attributes") or {})},
        children=tuple(_create_element(inner, numbers, count) for inner in new.get("children") or ()),
    )


def _place(root: Element, element: Element, reference: str, position: Position) -> Element:
    if position == "inside":
        return _replace(root, reference, lambda target: (_append_child(target, element),))
    if reference == ROOT:
        raise Invalid(f"no element can be {position} the page itself", remedy="use position 'inside'")
    return _replace(
        root, reference, lambda target: (element, target) if position == "before" else (target, element)
    )


def _append_child(parent: Element, element: Element) -> Element:
    if not elements.KINDS[parent.type].holds:
        raise Invalid(
            f"{parent.label_text()} is a {parent.type} and cannot hold other elements",
            remedy="use position 'before' or 'after', or another parentId",
        )
    return parent.model_copy(update={"children": (*parent.children, element)})


def _replace(element: Element, target: str, changed: Replacement) -> Element:
    """Return the element with its descendant `target`, or itself, replaced."""
    if element.id == target:
        (only,) = changed(element)
        return only
    return element.model_copy(update={"children": _replace_among(element.children, target, changed)})


def _replace_among(children: Sequence[Element], target: str, changed: Replacement) -> tuple[Element, ...]:
    replaced: list[Element] = []
    for child in children:
        replaced.extend(changed(child) if child.id == target else (_replace(child, target, changed),))
    return tuple(replaced)


def _rebuild(page: Page, root: Element, **changes: Any) -> Page:
    shallow = {"theme": page.theme, "pinned": page.pinned, "numbers": page.numbers} | changes
    there = {element.id for element, _ in walk(root)}
    pinned = {name: theme for name, theme in shallow["pinned"].items() if name in there}
    return Page(root=root, **(shallow | {"pinned": pinned}))
