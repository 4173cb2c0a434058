"""What is different between two pages, in the words of a person."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from callsheet.state.pages.page import ROOT, Element, Page, walk


class Change(TypedDict):
    """One difference."""

    kind: Literal["added", "removed", "moved", "changed", "theme"]
    id: str
    """The element; `page` for the theme."""
    text: str
    """The whole difference in one line."""
    field: NotRequired[str]
    """What is different: `content`, `label`, `style.color`, `attributes.href`, or a word of the theme."""
    before: NotRequired[str | None]
    """None where there was nothing."""
    after: NotRequired[str | None]
    """None where there is nothing any more."""


def diff(before: Page, after: Page) -> list[Change]:
    """Return what makes `after` of `before`; empty for equal pages.

    Elements come in the order of the page; of one that was added or removed, only the outermost is told.
    """
    old, new = _by_id(before), _by_id(after)
    return [
        *_removed(before, new),
        *_added(after, old),
        *_shifted(before, after),
        *(change for name, one in new.items() if name in old for change in _differing(old[name], one)),
        *_themes(before, after),
    ]


def _by_id(page: Page) -> dict[str, Element]:
    return {element.id: element for element, _ in walk(page.root)}


def _removed(before: Page, new: Mapping[str, Element]) -> Iterator[Change]:
    parents = before.parents()
    for element, _ in walk(before.root):
        if element.id not in new and parents[element.id] in new:
            yield Change(kind="removed", id=element.id, text=f"removed {_whole(element)}")


def _added(after: Page, old: Mapping[str, Element]) -> Iterator[Change]:
    parents = after.parents()
    for element, _ in walk(after.root):
        if element.id not in old and parents[element.id] in old:
            text = f"added {_whole(element)} in {parents[element.id]}"
            yield Change(kind="added", id=element.id, text=text)


def _whole(element: Element) -> str:
    inner = sum(1 for _ in walk(element)) - 1
    return element.label_text() + (f" with {inner} element{'s' * (inner > 1)} inside" if inner else "")


def _shifted(before: Page, after: Page) -> Iterator[Change]:
    """Elements in another parent, or in another order among those that stayed."""
    was, now = before.parents(), after.parents()
    still = {name for name in now if was.get(name) == now[name]}
    old = _by_id(before)
    stayed: set[str] = set()
    for parent, _ in walk(after.root):
        siblings = [one.id for one in parent.children if one.id in still]
        if parent.id in old:
            places = {one.id: i for i, one in enumerate(old[parent.id].children)}
            stayed |= {siblings[i] for i in _rising([places[name] for name in siblings])}
    for element, _ in walk(after.root):
        if element.id in was and element.id not in stayed:
            text = f"moved {element.label_text()} {_place(after, element.id, now[element.id])}"
            yield Change(kind="moved", id=element.id, text=text)


def _place(page: Page, name: str, parent: str) -> str:
    siblings = [one.id for one in page.get(parent).children]
    i = siblings.index(name)
    return f"to the beginning of {parent}" if i == 0 else f"after {siblings[i - 1]} in {parent}"


def _rising(places: Sequence[int]) -> set[int]:
    """Return the indices of a longest rising run of `places`: what can be said to have stayed."""
    best: list[list[int]] = [[]]
    for i, place in enumerate(places):
        shorter = [run for run in best if not run or places[run[-1]] < place]
        best.append([*_longest(shorter), i])
    return set(_longest(best))


def _longest(runs: Sequence[list[int]]) -> list[int]:
    return max(runs, key=len)


def _differing(old: Element, new: Element) -> Iterator[Change]:
    was, now = _fields(old), _fields(new)
    for field in sorted(was.keys() | now.keys(), key=lambda field: ("." in field, field)):
        if (one := was.get(field)) != (other := now.get(field)):
            text = f"{new.label_text() if field != 'content' else new.id}: {_change(field, one, other)}"
            yield Change(kind="changed", id=new.id, text=text, field=field, before=one, after=other)


def _fields(element: Element) -> dict[str, str]:
    plain = {"type": element.type, "label": element.label, "content": element.content}
    return (
        {field: text for field, text in plain.items() if text}
        | {f"style.{name}": text for name, text in element.style.items()}
        | {f"attributes.{name}": text for name, text in element.attributes.items()}
    )


def _themes(before: Page, after: Page) -> Iterator[Change]:
    for name, other in after.theme.items():
        if (one := before.theme.get(name)) != other:
            text = f"theme: {_change(name, one, other)}"
            yield Change(kind="theme", id=ROOT, text=text, field=name, before=one, after=other)


def _change(field: str, before: str | None, after: str | None) -> str:
    name = field.partition(".")[2] or field
    if before is None:
        return f"{name} set to {_quoted(after)}"
    if after is None:
        return f"{name} {_quoted(before)} taken away"
    return f"{name} {_quoted(before)} → {_quoted(after)}"


def _quoted(text: str | None, most: int = 80) -> str:
    shown = " ".join((text or "").split())
    return f'"{shown}"' if len(shown) <= most else f'"{shown[: most - 1].rstrip()}…"'
