"""A chat with the offline model about a page, with a double of the page's tools at the message level."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from providers.offline.answer import Answer, Calls
from providers.offline.page_builder.answers import answer
from state import page_edits
from state.errors import CallsheetError, Invalid
from state.page import Element, Page, walk

TOOLS = frozenset(
    {
        *("modify_element", "create_element", "delete_element", "move_element", "apply_theme"),
        *("clear_page", "list_elements", "read_element", "find_elements", "undo"),
    }
)
DESTRUCTIVE = {"delete_element", "clear_page"}
Data = dict[str, Any]


class PageChat:
    """One page: its messages and its versions, and what the last turn called."""

    def __init__(self, page: Page, *, selected: str = "", locked: Sequence[str] = ()) -> None:
        self.pages = [page]
        self.selected, self.locked = selected, frozenset(locked)
        self.messages: list[BaseMessage] = [SystemMessage("You edit a landing page.")]
        self.calls: list[Data] = []
        self.asked = False
        """Whether a person was asked for leave in the last turn."""
        self.yes = True
        self.made = 0
        """Versions of the last turn."""
        self.tools = TOOLS

    @property
    def page(self) -> Page:
        """The page as it is."""
        return self.pages[-1]

    def say(self, text: str) -> str:
        """Let the person say something and return the model's last word."""
        self.messages.append(HumanMessage(text))
        self.calls, self.asked, self.made = [], False, 0
        for _ in range(10):
            found = answer(self.messages, self.tools)
            assert found is not None
            if not isinstance(found, Calls):
                self.messages.append(AIMessage(found.text))
                return found.text
            assert found.calls, "an answer that is no text calls something"
            self._carry_out(found)
        raise AssertionError(f"no last word on {text!r} after ten answers")

    def _carry_out(self, found: Answer) -> None:
        assert isinstance(found, Calls)
        calls = [
            {"name": one.name, "args": one.args, "id": f"call-{len(self.messages)}-{i}"}
            for i, one in enumerate(found.calls)
        ]
        self.messages.append(AIMessage(found.text, tool_calls=calls))
        self.calls += calls
        asked = [one["id"] for one in calls if one["name"] in DESTRUCTIVE]
        self.asked = self.asked or bool(asked)
        broken = False
        for call in calls:
            told = self._rejected(call["id"] in asked) if asked and not self.yes else self._one(call, broken)
            broken = broken or ("error" in told and call["name"] not in {"list_elements", "read_element"})
            self.messages.append(ToolMessage(json.dumps(told), tool_call_id=str(call["id"])))

    def _rejected(self, itself: bool) -> Data:  # noqa: FBT001 -- a double
        if itself:
            details = {"rejected": True}
            return {
                "error": "A person rejected this",
                "type": "permission_denied",
                "retryable": False,
                "details": details,
            }
        return {"error": "another step was rejected", "type": "permission_denied", "retryable": True}

    def _one(self, call: Data, broken: bool) -> Data:  # noqa: FBT001 -- a double
        if broken:
            return {"error": "a step it waits for failed", "type": "execution_error", "retryable": True}
        try:
            return self._looks(call) if call["name"] in _LOOKS else self._changes(call)
        except CallsheetError as error:
            return {
                "error": error.message,
                "suggestion": error.remedy,
                "type": "validation_error",
                "retryable": False,
            }

    def _looks(self, call: Data) -> Data:
        if call["name"] == "read_element":
            one = self.page.get(call["args"]["elementId"])
            return one.model_dump(mode="json", exclude={"children"}) | {"versionId": f"v{len(self.pages)}"}
        lines = [_line(one, self.locked) | {"depth": depth} for one, depth in walk(self.page.root)]
        return {
            "versionId": f"v{len(self.pages)}",
            "selectedElementId": self.selected or None,
            "theme": dict(self.page.theme),
            "elements": lines,
        }

    def _changes(self, call: Data) -> Data:
        after, about = _EDITS[call["name"]](self, call["args"])
        if after == self.page:
            raise Invalid("nothing on the page would be different", remedy="say what shall change")
        page_edits.respect(self.page, after, self.locked)
        self.pages.append(after)
        self.made += 1
        return {"elementId": about, "versionId": f"v{len(self.pages)}", "changes": []}

    def undone(self, steps: int) -> Page:
        """The page so many versions ago."""
        if steps >= len(self.pages):
            raise Invalid("there is nothing to undo: the page is as it began", remedy="make a change first")
        return self.pages[-1 - steps]


_LOOKS = {"list_elements", "read_element"}


def _line(one: Element, locked: frozenset[str]) -> Data:
    line: Data = {"id": one.id, "type": one.type}
    shown = {"label": one.label, "content": one.content[:120], "locked": one.id in locked}
    return line | {name: value for name, value in shown.items() if value}


def spec(made: Mapping[str, Any]) -> Data:
    """A new element as `create_element` is told of it, as `state.page_edits` takes it."""
    given = made["properties"]
    kept = {name: given[name] for name in ("content", "label", "style", "attributes") if name in given}
    return {"type": made["elementType"], **kept, "children": [spec(one) for one in given.get("children", ())]}


def _modified(chat: PageChat, args: Data) -> tuple[Page, str]:
    return page_edits.modified(chat.page, args["elementId"], **args["modifications"]), args["elementId"]


_EDITS: dict[str, Callable[[PageChat, Data], tuple[Page, str]]] = {
    "modify_element": _modified,
    "create_element": lambda chat, args: page_edits.created(
        chat.page, args["parentId"], spec(args), args["position"]
    ),
    "delete_element": lambda chat, args: (
        page_edits.deleted(chat.page, args["elementId"]),
        args["elementId"],
    ),
    "move_element": lambda chat, args: (
        page_edits.moved(chat.page, args["elementId"], args["parentId"], args["position"]),
        args["elementId"],
    ),
    "apply_theme": lambda chat, args: (
        page_edits.themed(chat.page, args.get("theme"), args.get("tokens", {})),
        "page",
    ),
    "clear_page": lambda chat, _: (page_edits.cleared(chat.page), "page"),
    "undo": lambda chat, args: (chat.undone(args.get("steps", 1)), "page"),
}
