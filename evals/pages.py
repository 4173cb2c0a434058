"""Tasks of landing pages: the changed elements, their styles and texts."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

from callsheet.graphs import page_builder
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.claims import Evidence, share, unproven_claims
from callsheet.state.figures import all_numbers
from callsheet.state.owners import LOCAL
from callsheet.state.pages import edits, history, styles
from callsheet.state.pages.page import STREAM, Element, Page, walk
from callsheet.storage.artefacts.artefacts import NewVersion
from evals import turns
from evals.colors import is_darker, is_same
from evals.session import EvalSession
from evals.tasks import CASES, Task, entry_named
from evals.turns import MORE, EvalTurn, ForJudge, Outcome, lacks, unless
from evals.visibility import looks
from evals.wording import plain

FIELDS: Final = ("page", "selected", "locked", "answer")
_CONTAINERS: Final = frozenset({"container", "columns", "section", "card"})
_TITLES: Final = frozenset({"heading", "button", "link"})
"""Elements whose words may all have capital letters."""
_FULL_HOUR: Final = re.compile(r"(?<=\d)[:.]00(?!\d)")
"""Minutes of a time such as 7:00, which nobody needs to have given."""
_SEEN: Final = frozenset({"input", "textarea", "select", "image", "video"})
"""Elements without a text that people are to see."""
_QUOTED: Final = 0.6
"""Least share of a quote's words that somebody gave."""


@dataclass(frozen=True)
class EvaluatedPage:
    """A page and its versions."""

    page: Page
    versions: Sequence[Page]
    """Every version, the oldest first."""


class PageSession(EvalSession[EvaluatedPage]):
    """A page, and the conversation about it."""

    workflow: ClassVar[WorkflowSpec[Any]] = page_builder.WORKFLOW
    subject: ClassVar[str] = (
        "page element section headline heading button picture form menu footer text colour"
    )

    async def prepare(self) -> Mapping[str, Any]:
        """Store the case's page with its locks."""
        await self.artefact.open(owner=LOCAL, thread=self.thread, facts={})
        name = self.task.setup.get("page", "starter")
        if name != "starter":
            data = history.edit_version(None, history.page_of(None), given_page(name))
            await self.artefact.create_version(NewVersion(STREAM, {**data}, LOCAL, "given"))
        for element in self.task.setup.get("locked", ()):
            await self.artefact.lock(element, LOCAL)
        return {"page_id": self.artefact.id, "selected_element_id": self.task.setup.get("selected")}

    async def read_artefact(self) -> EvaluatedPage:
        """Return the page as it is now."""
        stream = await self.artefact.stream(STREAM)
        return EvaluatedPage(
            history.page_of(stream.newest()), [history.page_of(one) for one in stream.versions]
        )

    async def edit(self, change: Any) -> Mapping[str, Any]:
        """Make the edits of a list as the person's own version."""
        newest = (await self.artefact.stream(STREAM)).newest()
        before = page = history.page_of(newest)
        for step in change:
            page = apply_edit(page, step, ())
        data = history.edit_version(newest, before, page)
        await self.artefact.create_version(NewVersion(STREAM, {**data}, LOCAL, "by hand"))
        return {}

    @classmethod
    def words_of(cls, task: Task, side: EvaluatedPage) -> str:
        """Return the texts and labels of the page."""
        del task
        return "\n".join(f"{one.label} {one.content}" for one, _ in walk(side.page.root))


@cache
def _pages() -> Mapping[str, Any]:
    return dict(json.loads((CASES / "page_builder_pages.json").read_text("utf-8")))


def given_page(name: str) -> Page:
    """Return the page of this name."""
    if name == "starter":
        return history.page_of(None)
    theme = styles.THEMES[_pages()["themes"].get(name, "light")]
    return Page.model_validate({"root": entry_named(name, _pages()), "theme": theme})


_EDITS: Final = ("modify", "create", "delete", "move", "theme", "restore")


def apply_edit(page: Page, step: Mapping[str, Any], versions: Sequence[Page]) -> Page:
    """Return a page after one edit: `modify`, `create`, `delete`, `move`, `theme` or `restore`."""
    fields = {**step}
    kind = next(name for name in _EDITS if name in step)
    target = fields.pop(kind)
    match kind:
        case "modify":
            return edits.modify(page, target, **fields)
        case "create":
            return edits.create(page, target, fields["new"], fields.get("position", "inside"))[0]
        case "delete":
            return edits.delete(page, target)
        case "move":
            return edits.move(page, target, fields["reference"], fields.get("position", "inside"))
        case "theme":
            is_named = isinstance(target, str)
            return edits.apply_theme(page, target if is_named else None, {} if is_named else target)
        case _:
            return page.model_copy(update={"root": versions[target].root, "theme": versions[target].theme})


PageTurn = EvalTurn[EvaluatedPage]


def _elements(page: Page) -> dict[str, Element]:
    return {element.id: element for element, _ in walk(page.root)}


def _own(element: Element) -> dict[str, Any]:
    return element.model_dump(exclude={"children"})


def _new_elements(turn: PageTurn) -> list[Element]:
    """Return the new elements that are not inside another new one."""
    before, after = _elements(turn.before.page), turn.after.page
    parents = after.parents()
    return [
        element
        for name, element in _elements(after).items()
        if name not in before and parents.get(name, "") in {"", *before}
    ]


def _removed_ids(turn: PageTurn) -> set[str]:
    """Return the ids of the removed elements that were not inside another removed one."""
    after, before = _elements(turn.after.page), turn.before.page
    parents = before.parents()
    return {name for name in _elements(before) if name not in after and parents.get(name, "") in {"", *after}}


def touches(expected: Sequence[str], turn: PageTurn) -> str:
    """Check which existing elements changed; removed and new ones have their own checks."""
    before, after = _elements(turn.before.page), _elements(turn.after.page)
    changed = {name for name in before if name in after and _own(before[name]) != _own(after[name])}
    problems = [unless(changed == {*expected}, f"changed {sorted(changed)}")]
    if "removed_elements" not in turn.expect and (removed := _removed_ids(turn)):
        problems.append(f"removed {sorted(removed)}")
    if "added_elements" not in turn.expect and (new := _new_elements(turn)):
        problems.append(f"added {[one.id for one in new]}")
    return "; ".join(filter(None, problems))


def no_new_version(expected: bool, turn: PageTurn) -> str:
    """Check that there is no new version."""
    del expected
    return unless(len(turn.before.versions) == len(turn.after.versions), "a version was made")


def removed_elements(expected: Sequence[str], turn: PageTurn) -> str:
    """Check the removed elements."""
    removed = _removed_ids(turn)
    return unless(removed == {*expected}, f"removed {sorted(removed)}")


def style(expected: Mapping[str, Mapping[str, Any]], turn: PageTurn) -> str:
    """Check styles of elements; a list has alternative values."""
    for name, properties in expected.items():
        styles = turn.after.page.get(name).style
        for key, value in properties.items():
            actual = styles.get(key) or styles.get(key.removesuffix("-color"), "")
            options = value if isinstance(value, list) else [value]
            if not any(actual == one or is_same(actual, one) for one in options):
                return f"{key} of {name} is {actual!r}"
    return ""


def darker(expected: Mapping[str, str], turn: PageTurn) -> str:
    """Check that colours are darker than before."""
    for name, key in expected.items():
        old, new = (side.page.get(name).style.get(key, "") for side in (turn.before, turn.after))
        if not is_darker(new, old):
            return f"{key} of {name} is {new!r}, and was {old!r}"
    return ""


def larger(expected: Mapping[str, str], turn: PageTurn) -> str:
    """Check that sizes are larger than before."""
    for name, key in expected.items():
        old, new = (_pixels(side.page.get(name).style.get(key, "")) for side in (turn.before, turn.after))
        if new < old * MORE:
            return f"{key} of {name} is {new:g}, and was {old:g}"
    return ""


def _pixels(text: str) -> float:
    factor = 16.0 if text.endswith(("rem", "em")) else 1.0
    number = text.rstrip("pxrem%")
    return float(number) * factor if number else 0.0


def text(expected: Mapping[str, str], turn: PageTurn) -> str:
    """Check texts of elements; case counts, the shape of quotation marks does not."""
    actual = {name: turn.after.page.get(name).content for name in expected}
    wrong = [name for name, one in expected.items() if plain(actual[name]) != plain(one)]
    return unless(not wrong, f"the texts are {actual}")


def texts_kept(expected: bool, turn: PageTurn) -> str:
    """Check whether every remaining element has the text that it had before."""
    before, after = _elements(turn.before.page), _elements(turn.after.page)
    changed = [name for name in before if name in after and before[name].content != after[name].content]
    return unless((not changed) == expected, f"other texts in {', '.join(changed) or 'no element'}")


def attribute(expected: Mapping[str, Mapping[str, str]], turn: PageTurn) -> str:
    """Check attributes of elements."""
    for name, values in expected.items():
        attributes = turn.after.page.get(name).attributes
        if wrong := {
            key: attributes.get(key) for key, value in values.items() if attributes.get(key) != value
        }:
            return f"{name} has {wrong}"
    return ""


def added_elements(expected: Sequence[Mapping[str, Any]], turn: PageTurn) -> str:
    """Check the new elements."""
    new = _new_elements(turn)
    for one in expected:
        if not any(_matches(element, one, turn.after.page) for element in new):
            return f"no new element is {one}; new are {[(each.id, each.type) for each in new]}"
    return unless(len(new) == len(expected), f"{len(new)} elements are new")


def _matches(element: Element, expected: Mapping[str, Any], page: Page) -> bool:
    contained = [inner for inner, _ in walk(element)]
    kinds = [inner.type for inner in contained]
    texts = " ".join(f"{inner.content} {inner.label}" for inner in contained)
    siblings = [one.id for one in page.get(page.parents()[element.id]).children]
    position = siblings.index(element.id)
    return all(
        (
            _is_of_type(element, expected.get("type", element.type)),
            page.parents()[element.id] == expected.get("parent", page.parents()[element.id]),
            not expected.get("after") or siblings[max(0, position - 1)] == expected["after"],
            not expected.get("first") or page.root.children[0].id == element.id,
            {*expected.get("has", ())} <= {*kinds},
            not lacks(texts, expected.get("text", ())),
            plain(expected.get("content", "")) in {"", *(plain(inner.content) for inner in contained)},
            kinds.count("input") + kinds.count("textarea") >= expected.get("inputs_min", 0),
        )
    )


def _is_of_type(element: Element, kind: str) -> bool:
    """Return whether an element is of a type, or a container that has one beside labels."""
    if element.type == kind:
        return True
    inside = [one.type for one, _ in walk(element) if one.id != element.id]
    real = [one for one in inside if one not in {"text", "container"}]
    return element.type in _CONTAINERS and real == [kind]


def parent(expected: Mapping[str, str], turn: PageTurn) -> str:
    """Check the parents of elements."""
    actual = {name: turn.after.page.parents().get(name) for name in expected}
    return unless(actual == {**expected}, f"the parents are {actual}")


def order(expected: Sequence[str], turn: PageTurn) -> str:
    """Check the order of elements in the document."""
    actual = [name for name in _elements(turn.after.page) if name in expected]
    return unless(actual == [*expected], f"the order is {actual}")


def equals(expected: int, turn: PageTurn) -> str:
    """Check that the page equals the one after the n-th message; 0 is the first page."""
    start = int(turn.task.setup.get("page", "starter") != "starter")
    earlier = turn.after.versions[start + expected - 1] if start + expected else history.page_of(None)
    same = earlier.root == turn.after.page.root and earlier.theme == turn.after.page.theme
    return unless(same, "the page differs from that version")


def theme(expected: str, turn: PageTurn) -> str:
    """Check the theme: `dark`, `light` or its main colour."""
    colours = turn.after.page.theme
    if expected.startswith("#"):
        return unless(is_same(colours["primary"], expected), f"the main colour is {colours['primary']}")
    dark = is_darker(colours["background"], colours["text"])
    return unless(dark == (expected == "dark"), f"the background is {colours['background']}")


def title(expected: str, turn: PageTurn) -> str:
    """Check that the heading of level 1 has a text."""
    return unless(not lacks(turn.after.page.title(), expected), f"the title is {turn.after.page.title()!r}")


def sections(expected: Sequence[str], turn: PageTurn) -> Outcome:
    """Check that for each text the label or a heading of a section has it; a judge reads other words.

    There are at least as many sections with words as texts.
    """
    parts = [one for one, _ in walk(turn.after.page.root) if one.type in {"section", "header", "footer"}]
    names = [
        " ".join([one.label, *(inner.content for inner, _ in walk(one) if inner.type == "heading")])
        for one in parts
    ]
    full = [one for one in parts if any(inner.content.strip() for inner, _ in walk(one))]
    if len(full) < len(expected):
        return f"{len(full)} sections have words"
    missing = [one for one in expected if not any(not lacks(name, one) for name in names)]
    if missing:
        return ForJudge(f"The page has a section about each of these: {', '.join(missing)}.")
    return ""


def forms(expected: int, turn: PageTurn) -> str:
    """Check the number of forms."""
    actual = sum(element.type == "form" for element, _ in walk(turn.after.page.root))
    return unless(actual == expected, f"{actual} forms")


def page_says(expected: Sequence[str], turn: PageTurn) -> str:
    """Check that the page has each text."""
    missing = lacks(_copy_of(turn.after.page), expected)
    return unless(not missing, f"the page does not say {missing!r}")


def page_says_not(expected: Sequence[str], turn: PageTurn) -> str:
    """Check that the page has none of the texts."""
    return unless(not turns.has_any(_copy_of(turn.after.page), expected), f"the page says one of {expected}")


def page_numbers(expected: Sequence[float], turn: PageTurn) -> str:
    """Check that the page has each number, in figures or in words."""
    actual = all_numbers(_copy_of(turn.after.page))
    missing = [one for one in expected if float(one) not in actual]
    return unless(not missing, f"the page has no {missing}")


def claims_from_brief(expected: bool, turn: PageTurn) -> str:
    """Check that messages and earlier page have every figure and name of the new texts, and every quote."""
    del expected
    source = "\n".join([*turn.messages, _copy_of(turn.before.page)])
    evidence = Evidence((source,))
    old = {element.content for element, _ in walk(turn.before.page.root)}
    wrong: list[str] = []
    for element, _ in walk(turn.after.page.root):
        if element.content in old:
            continue
        unproven = unproven_claims(_FULL_HOUR.sub("", element.content), evidence).wrong
        is_title = element.type in _TITLES
        wrong += [one for one in unproven if not is_title or any(map(str.isdigit, one))]
        if (
            element.type == "quote"
            and "[" not in element.content
            and share(element.content, source) < _QUOTED
        ):
            wrong.append(f"“{element.content}”")
    return unless(not wrong, f"nobody gave {', '.join(wrong)}"[:300])


def readable(expected: bool, turn: PageTurn) -> str:
    """Check that new and changed texts are visible: size, contrast, opacity."""
    del expected
    before = _elements(turn.before.page)
    wrong = [
        f"{look.element.id} {problem}"
        for look in looks(turn.after.page)
        if _is_seen(look.element) and look.element != before.get(look.element.id)
        if (problem := look.problem())
    ]
    return unless(not wrong, "; ".join(wrong)[:300])


def _is_seen(element: Element) -> bool:
    return bool(element.content.strip()) or element.type in _SEEN


def _copy_of(page: Page) -> str:
    return " ".join(element.content for element, _ in walk(page.root))


def asks_leave(expected: bool, turn: PageTurn) -> str:
    """Check whether the person was asked for approval."""
    return unless(bool(turn.questions) == expected, f"{len(turn.questions)} approvals were asked for")


CHECKS: Final = turns.table(
    *(
        touches,
        no_new_version,
        removed_elements,
        style,
        darker,
        larger,
        text,
        texts_kept,
        attribute,
        added_elements,
        parent,
        order,
    ),
    *(equals, theme, title, sections, forms, page_says, page_says_not, page_numbers),
    *(claims_from_brief, readable, asks_leave),
)


def product(turn: PageTurn) -> str:
    """Return the texts of the page, if the turn changed them."""
    return _copy_of(turn.after.page) if _copy_of(turn.after.page) != _copy_of(turn.before.page) else ""
