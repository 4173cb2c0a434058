"""Tasks of landing pages: the elements that change, and how."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

from callsheet.graphs import page_builder
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.owners import LOCAL
from callsheet.state.pages import history, themes
from callsheet.state.pages.page import STREAM, Element, Page, walk
from callsheet.storage.artefacts.artefacts import NewVersion
from evals import turns
from evals.colors import is_darker, is_same
from evals.session import TaskSession
from evals.tasks import CASES
from evals.turns import PlayedTurn, lacks, unless

FIELDS: Final = ("page", "selected", "locked", "answer")


@dataclass(frozen=True)
class PageArtefact:
    """A page and its versions."""

    page: Page
    versions: Sequence[Page]
    """Every version, the oldest first."""


class PageSession(TaskSession[PageArtefact]):
    """A page, and the conversation about it."""

    workflow: ClassVar[WorkflowSpec[Any]] = page_builder.WORKFLOW

    async def prepare(self) -> Mapping[str, Any]:
        """Store the case's page with its locks."""
        await self.artefact.open(owner=LOCAL, thread=self.thread, facts={})
        name = self.task.given.get("page", "starter")
        if name != "starter":
            known = _pages()
            theme = themes.THEMES[known["themes"].get(name, "light")]
            page = Page.model_validate({"root": turns.known(name, known), "theme": theme})
            data = history.edit_version(None, history.page_of(None), page)
            await self.artefact.create_version(NewVersion(STREAM, {**data}, LOCAL, "given"))
        for element in self.task.given.get("locked", ()):
            await self.artefact.lock(element, LOCAL)
        return {"page_id": self.artefact.id, "selected_element_id": self.task.given.get("selected")}

    async def look(self) -> PageArtefact:
        """Return the page as it is now."""
        stream = await self.artefact.stream(STREAM)
        return PageArtefact(
            history.page_of(stream.newest()), [history.page_of(one) for one in stream.versions]
        )


@cache
def _pages() -> Mapping[str, Any]:
    return dict(json.loads((CASES / "page_builder_pages.json").read_text("utf-8")))


PageTurn = PlayedTurn[PageArtefact]


def _elements(page: Page) -> dict[str, Element]:
    return {element.id: element for element, _ in walk(page.root)}


def _own(element: Element) -> dict[str, Any]:
    return element.model_dump(exclude={"children"})


def _new(turn: PageTurn) -> list[Element]:
    """Return the new elements that are in no other new one."""
    before, after = _elements(turn.before.page), turn.after.page
    parents = after.parents()
    return [
        element
        for name, element in _elements(after).items()
        if name not in before and parents.get(name, "") in {"", *before}
    ]


def _gone(turn: PageTurn) -> set[str]:
    """Return the ids of the removed elements that were in no other removed one."""
    after, before = _elements(turn.after.page), turn.before.page
    parents = before.parents()
    return {name for name in _elements(before) if name not in after and parents.get(name, "") in {"", *after}}


def touches(wanted: Sequence[str], turn: PageTurn) -> str:
    """Compare the existing elements that changed; removed and new ones need a check of their own."""
    before, after = _elements(turn.before.page), _elements(turn.after.page)
    changed = {name for name in before if name in after and _own(before[name]) != _own(after[name])}
    problems = [unless(changed == {*wanted}, f"changed {sorted(changed)}")]
    if "removed" not in turn.expect and (gone := _gone(turn)):
        problems.append(f"removed {sorted(gone)}")
    if "added" not in turn.expect and (new := _new(turn)):
        problems.append(f"added {[one.id for one in new]}")
    return "; ".join(filter(None, problems))


def unchanged(wanted: bool, turn: PageTurn) -> str:
    """Count the new versions: there is none."""
    del wanted
    return unless(len(turn.before.versions) == len(turn.after.versions), "a version was made")


def removed(wanted: Sequence[str], turn: PageTurn) -> str:
    """Compare the removed elements."""
    gone = _gone(turn)
    return unless(gone == {*wanted}, f"removed {sorted(gone)}")


def style(wanted: Mapping[str, Mapping[str, Any]], turn: PageTurn) -> str:
    """Compare styles of elements; a list has every value that will do."""
    for name, properties in wanted.items():
        given = turn.after.page.get(name).style
        for key, value in properties.items():
            actual = given.get(key) or given.get(key.removesuffix("-color"), "")
            options = value if isinstance(value, list) else [value]
            if not any(actual == one or is_same(actual, one) for one in options):
                return f"{key} of {name} is {actual!r}"
    return ""


def darker(wanted: Mapping[str, str], turn: PageTurn) -> str:
    """Compare the light of colours."""
    for name, key in wanted.items():
        old, new = (side.page.get(name).style.get(key, "") for side in (turn.before, turn.after))
        if not is_darker(new, old):
            return f"{key} of {name} is {new!r}, and was {old!r}"
    return ""


def larger(wanted: Mapping[str, str], turn: PageTurn) -> str:
    """Compare sizes in pixels."""
    for name, key in wanted.items():
        old, new = (_pixels(side.page.get(name).style.get(key, "")) for side in (turn.before, turn.after))
        if not new > old:
            return f"{key} of {name} is {new:g}, and was {old:g}"
    return ""


def _pixels(text: str) -> float:
    factor = 16.0 if text.endswith(("rem", "em")) else 1.0
    number = text.rstrip("pxrem%")
    return float(number) * factor if number else 0.0


def text(wanted: Mapping[str, str], turn: PageTurn) -> str:
    """Compare texts of elements."""
    actual = {name: turn.after.page.get(name).content for name in wanted}
    return unless(actual == {**wanted}, f"the texts are {actual}")


def attribute(wanted: Mapping[str, Mapping[str, str]], turn: PageTurn) -> str:
    """Compare attributes of elements."""
    for name, values in wanted.items():
        given = turn.after.page.get(name).attributes
        if wrong := {key: given.get(key) for key, value in values.items() if given.get(key) != value}:
            return f"{name} has {wrong}"
    return ""


def added(wanted: Sequence[Mapping[str, Any]], turn: PageTurn) -> str:
    """Find each new element, and no others."""
    new = _new(turn)
    for one in wanted:
        if not any(_fits(element, one, turn.after.page) for element in new):
            return f"no new element is {one}; new are {[(each.id, each.type) for each in new]}"
    return unless(len(new) == len(wanted), f"{len(new)} elements are new")


def _fits(element: Element, wanted: Mapping[str, Any], page: Page) -> bool:
    inside = [inner for inner, _ in walk(element)]
    kinds = [inner.type for inner in inside]
    said = " ".join(f"{inner.content} {inner.label}" for inner in inside)
    siblings = [one.id for one in page.get(page.parents()[element.id]).children]
    at = siblings.index(element.id)
    return all(
        (
            element.type == wanted.get("type", element.type),
            page.parents()[element.id] == wanted.get("parent", page.parents()[element.id]),
            not wanted.get("after") or siblings[max(0, at - 1)] == wanted["after"],
            not wanted.get("first") or page.root.children[0].id == element.id,
            {*wanted.get("has", ())} <= {*kinds},
            not lacks(said, wanted.get("text", ())),
            kinds.count("input") + kinds.count("textarea") >= wanted.get("inputs_min", 0),
        )
    )


def parent(wanted: Mapping[str, str], turn: PageTurn) -> str:
    """Compare the parents of elements."""
    actual = {name: turn.after.page.parents().get(name) for name in wanted}
    return unless(actual == {**wanted}, f"the parents are {actual}")


def order(wanted: Sequence[str], turn: PageTurn) -> str:
    """Compare the order of elements in the document."""
    actual = [name for name in _elements(turn.after.page) if name in wanted]
    return unless(actual == [*wanted], f"the order is {actual}")


def equals(wanted: int, turn: PageTurn) -> str:
    """Compare the page with that after the n-th message; 0 is the page at the beginning."""
    start = int(turn.task.given.get("page", "starter") != "starter")
    earlier = turn.after.versions[start + wanted - 1] if start + wanted else history.page_of(None)
    same = earlier.root == turn.after.page.root and earlier.theme == turn.after.page.theme
    return unless(same, "the page differs from that version")


def theme(wanted: str, turn: PageTurn) -> str:
    """Compare the theme: a named one, or its main colour."""
    given = turn.after.page.theme
    if wanted.startswith("#"):
        return unless(is_same(given["primary"], wanted), f"the main colour is {given['primary']}")
    dark = is_darker(given["background"], given["text"])
    return unless(dark == (wanted == "dark"), f"the background is {given['background']}")


def title(wanted: str, turn: PageTurn) -> str:
    """Find a text in the heading of level 1."""
    return unless(not lacks(turn.after.page.title(), wanted), f"the title is {turn.after.page.title()!r}")


def sections(wanted: Sequence[str], turn: PageTurn) -> str:
    """Find a section whose label or first heading has each text."""
    inside = [one for one, _ in walk(turn.after.page.root) if one.type in {"section", "header", "footer"}]
    names = [
        " ".join([one.label, *(inner.content for inner, _ in walk(one) if inner.type == "heading")])
        for one in inside
    ]
    missing = [one for one in wanted if not any(not lacks(name, one) for name in names)]
    return unless(not missing, f"no section {missing}; there are {names}")


def forms(wanted: int, turn: PageTurn) -> str:
    """Count the forms."""
    actual = sum(element.type == "form" for element, _ in walk(turn.after.page.root))
    return unless(actual == wanted, f"{actual} forms")


def page_says(wanted: Sequence[str], turn: PageTurn) -> str:
    """Find each text on the page."""
    missing = lacks(_said(turn.after.page), wanted)
    return unless(not missing, f"the page does not say {missing!r}")


def page_says_not(wanted: Sequence[str], turn: PageTurn) -> str:
    """Find none of the texts on the page."""
    return unless(not turns.has_any(_said(turn.after.page), wanted), f"the page says one of {wanted}")


def _said(page: Page) -> str:
    return " ".join(element.content for element, _ in walk(page.root))


def asks_leave(wanted: bool, turn: PageTurn) -> str:
    """Look whether the person was asked to approve."""
    return unless(bool(turn.questions) == wanted, f"{len(turn.questions)} approvals were asked for")


CHECKS: Final = turns.table(
    *(touches, unchanged, removed, style, darker, larger, text, attribute, added, parent, order),
    *(equals, theme, title, sections, forms, page_says, page_says_not, asks_leave),
)


def product(turn: PageTurn) -> str:
    """Return the page's copy, if the turn changed it."""
    return _said(turn.after.page) if _said(turn.after.page) != _said(turn.before.page) else ""
