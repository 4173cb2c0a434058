"""Landing pages, edited by chat; each edit is a version that can be undone.

START → planner → approval → tool_executor → planner … → summarizer → END

The model reads the page with its tools, then edits it. A person approves deletions. Locked elements stay
unchanged, whoever asks.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from langchain_core.messages import AnyMessage, ToolMessage

from callsheet import storage
from callsheet.graphs.loop import LoopWorkflow
from callsheet.nodes.flat_calls import example_turn
from callsheet.nodes.lean import LeanTool, choice, text
from callsheet.nodes.workflow import ArtefactSpec, LeanProfile, ModelView, TurnRules
from callsheet.state.cards import Card
from callsheet.state.conversation import calls_of, turn_before
from callsheet.state.differences import Difference
from callsheet.state.pages import history, page
from callsheet.state.pages.elements import KINDS
from callsheet.state.pages.page import Element, PageState, outline
from callsheet.state.plan import Step
from callsheet.state.state_block import StateLine, fit
from callsheet.state.versions import Version, created_by_model
from callsheet.storage.artefacts.artefacts import Artefact, StreamHead
from callsheet.tools import REGISTRY
from callsheet.tools.call import Scope
from callsheet.tools.pages import edits
from callsheet.tools.pages.uploads import check_ticket


class PageArtefact(ArtefactSpec[PageState]):
    """A landing page, and the files that belong to it."""

    def id_of(self, state: PageState, thread_id: str) -> str:
        """Return the page's id; the thread's where the state has none."""
        return state.get("page_id") or thread_id

    def summary(self, stream: str, data: Mapping[str, Any]) -> str:
        """Return the differences of a version in one line, or the file of an upload ticket."""
        if stream == page.UPLOADS:
            return str(data["fileName"])
        return history.summary(data)

    def named_by(self, stream: str, data: Mapping[str, Any]) -> Collection[str]:
        """Return the version that undo restores."""
        del stream
        back = data.get("back")
        return [str(back)] if back else ()

    def card(self, state: PageState, newest: Mapping[str, Mapping[str, Any]]) -> Card:
        """Return the page's title, and the texts on it."""
        del state
        data = newest.get(page.STREAM)
        return history.card(page.Page.model_validate(data["page"])) if data else Card()

    def differences(
        self, stream: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> list[Difference]:
        """Return the differences between two pages in page order, or between two upload tickets."""
        if stream == page.UPLOADS:
            return super().differences(stream, before, after)
        pages = [page.Page.model_validate(data["page"]) for data in (before, after)]
        return history.differences(*pages)

    def change_lines(self, parent: Version, version: Version) -> list[str]:
        """Return the differences as the version holds them, unless it has another parent than was edited."""
        if version.data.get("back") == parent.id:
            return [change["text"] for change in version.data["changes"]]
        return super().change_lines(parent, version)

    def check_version(self, stream: str, data: Mapping[str, Any]) -> None:
        """Raise for a page or an upload ticket that no tool could have written."""
        if stream == page.UPLOADS:
            check_ticket(data)
        else:
            page.Page.model_validate(data.get("page"))


class PageModelView(ModelView[PageState]):
    """The page's outline, and the element that is selected."""

    def state_block(self, state: PageState, scope: Scope, heads: Mapping[str, StreamHead]) -> str:
        """Return the page's outline with the version, the theme and what is selected or locked."""
        del state
        head = heads[page.STREAM]
        shown = history.page_of(head.newest)
        by = "" if head.newest is None or created_by_model(head.newest) else ", made by the person"
        version = f"version {head.newest.id}{by}" if head.newest else "not changed yet"
        theme = ", ".join(f"{name} {value}" for name, value in shown.theme.items())
        changed = [StateLine("Changed last: ", history.summary(head.newest.data))] if head.newest else []
        lines = outline(shown, selected=scope.selected, locked=head.locked)
        return fit([StateLine(f"The page, {version}. Theme: {theme}."), *changed, *lines])

    def facts(self, state: PageState) -> Mapping[str, str]:
        """Return whether the request before this one changed nothing, which an undo says.

        After another undo it is clear.
        """
        before = turn_before(state.get("messages", ()))
        calls = [call["name"] for message in before for call in calls_of(message)]
        changed = any(isinstance(one, ToolMessage) and '"changes"' in one.text for one in before)
        is_idle = bool(before) and not changed and "undo" not in calls
        return {edits.IDLE: "true"} if is_idle else {}

    def selection(self, state: PageState) -> str:
        """Return the id of the selected element; empty for none."""
        return state.get("selected_element_id") or ""


class PageTurnRules(TurnRules[PageState]):
    """Edits name the element that they change."""

    def describe_step(self, state: PageState, step: Step, newest: Mapping[str, Version | None]) -> str:
        """Return a description of the element that a step edits; its id if there is none."""
        named = step["params"].get("elementId")
        if not isinstance(named, str):
            return ""
        element_id = edits.resolve_element_id(named, state.get("selected_element_id") or "")
        element = history.page_of(newest[page.STREAM]).find(element_id)
        return element.description() if element else element_id or named

    def change_name(self, stream: str, output: Mapping[str, Any], newest: Version | None) -> str:
        """Return the changed element; where it is gone, or the whole page is meant, the change itself."""
        element = history.page_of(newest).find(str(output.get("elementId", "")))
        if element and element.id != page.ROOT:
            return element.description().removeprefix("the ")
        first, *others = output.get("changes") or (stream,)
        return f"{first} and {len(others)} more" if others else str(first)


_CHANGES: Final = ("text", "color", "background-color", "font-size", "text-align", "padding", "link")
"""Changes of an element in the lean profile: its text, a property of its style, or its address."""
_NEW_KINDS: Final = ("heading", "text", "button", "link")


class LeanPage(LeanProfile):
    """One change of an element, or one new element behind another."""

    async def tools(self, state: PageState, scope: Scope) -> list[LeanTool]:
        """Return the tools, with the ids of the page's elements."""
        del state
        elements, _ = await _elements(scope)
        ids = choice([one.id for one in elements])
        holders = {one.id for one in elements if KINDS[one.type].holds}
        change = {
            "element": ids,
            "what": choice(_CHANGES),
            "value": text("The new text, colour, size or address"),
        }
        behind = "The element under which it comes, or the section whose last it is"
        new = {
            "kind": choice(_NEW_KINDS),
            "text": text("Its words"),
            "behind": {**ids, "description": behind},
        }
        return [
            LeanTool("change", "Change one thing about one element.", change, "modify_element", _change),
            LeanTool("add", "Add one element.", new, "create_element", partial(_addition, holders)),
        ]

    async def state_block(self, state: PageState, scope: Scope) -> str:
        """Return a line for each element: its id, its type, its text."""
        del state
        elements, locked = await _elements(scope)
        lines = [
            StateLine(
                f"{one.id}: {one.type} ",
                json.dumps(one.content, ensure_ascii=False) if one.content else "",
                f"{_size(one)}{' (locked)' if one.id in locked else ''}",
            )
            for one in elements
        ]
        if scope.selected:
            lines.append(StateLine(f'The person has selected {scope.selected}: "this" and "it" mean it.'))
        return fit(lines)

    def examples(self, state: PageState, text: str) -> Sequence[AnyMessage]:
        """Return changes of another page."""
        del state
        known = json.loads(text)
        page_lines, selected = known["page"], 'The person has selected {}: "this" and "it" mean it.'
        turns: list[AnyMessage] = []
        for one in known["turns"]:
            lines = [*page_lines, *([selected.format(one["selected"])] if "selected" in one else ())]
            turns += example_turn("\n".join(lines), one["person"], "change", **one["change"])
        return turns


def _size(element: Element) -> str:
    size = element.style.get("font-size")
    return f", font-size {size}" if size else ""


async def _elements(scope: Scope) -> tuple[list[Element], Collection[str]]:
    """Return the elements of the page as it is now, the whole page last, and the ids of the locked ones."""
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    head = await artefact.stream_head(page.STREAM)
    root, *inside = [one for one, _ in page.walk(history.page_of(head.newest).root)]
    # A small model takes what comes first where it is in doubt.
    return [*inside, root], head.locked


def _change(given: Mapping[str, Any]) -> dict[str, Any]:
    what, value = str(given.get("what")), given.get("value")
    changes: dict[str, Any] = {"style": {what: value}}
    if what == "text":
        changes = {"content": value}
    elif what == "link":
        changes = {"attributes": {"href": value}}
    return {"elementId": given.get("element"), "modifications": changes}


def _addition(holders: Collection[str], given: Mapping[str, Any]) -> dict[str, Any]:
    behind = given.get("behind")
    return {
        "parentId": behind,
        "position": "inside" if behind in holders else "after",
        "elementType": given.get("kind"),
        "properties": {"content": given.get("text")},
    }


class PageBuilder(LoopWorkflow[PageState]):
    """Edits of a landing page."""

    name = "page_builder"
    title = "landing pages"
    about = "A chat edits a page; every edit is a version that can be undone."
    examples = (
        "make a landing page for Miel, a bakery in Lyon",
        'change the headline to "Bread at four"',
    )
    state = PageState
    artefact = PageArtefact("page", (page.STREAM,), (page.UPLOADS,), (page.UPLOADS,))
    view = PageModelView()
    turn = PageTurnRules()
    lean = LeanPage()


WORKFLOW: Final = PageBuilder(REGISTRY.of("page"))
graph = WORKFLOW.graph
