"""What the model says: answers to questions, what it did, and what it did not understand."""

from collections.abc import Sequence
from typing import Final

from providers.offline.exchange import Exchange
from providers.offline.page_builder.briefs import reading
from providers.offline.page_builder.clauses import Clause, clauses
from providers.offline.page_builder.edits import Edit, Scene, Unclear
from providers.offline.page_builder.plans import Plan
from providers.offline.page_builder.targets import found, phrase
from providers.offline.page_builder.view import SECTIONS, Node, View
from providers.offline.page_builder.words import language_of, pieces

_EXAMPLES: Final = (
    "You can say, for example: “make the headline blue”, “the button should say Order now”, “add a contact "
    "form below the hero”, “move the reviews above the prices”, “use a dark theme” or “undo that”."
)
_ABLE: Final = (
    "I edit this page: texts, colours, sizes, fonts and links; I add, move, copy and remove elements and "
    "whole sections, change the theme, and undo. I ask before anything is deleted. " + _EXAMPLES
)
_HELLO: Final = "Hello! What shall I change on the page? " + _EXAMPLES
_UNKNOWN: Final = "I did not understand that, so nothing was changed. " + _EXAMPLES
_NOTHING: Final = "There is nothing to change: it is like that already."
_VERBS: Final = (
    "verb.add", "verb.remove", "verb.move", "verb.swap", "verb.undo", "verb.clear", "verb.copy",
    "verb.change", "verb.replace", "verb.put",
)  # fmt: skip


def at_once(text: str) -> str | None:
    """Return the answer to what needs no look at the page: greetings, and what the model can do."""
    if reading.read(text):
        return None
    spoken = pieces(text, language_of(text))
    heard = [one for one in spoken if not one.means("small.")]
    if any(one.means("ask.able") for one in spoken):
        return _ABLE
    if heard and all(one.means("ask.hello") or not one.text[:1].isalnum() for one in heard):
        return _HELLO
    return None


def asked(text: str) -> Clause | None:
    """Return the question a message is; None for one that wants something done."""
    if reading.read(text):
        return None
    every = clauses(text, pieces(text, language_of(text)))
    first = next((one for one in every if one.has("ask.")), None)
    if first is None or any(one.has(*_VERBS) for one in every):
        return None
    opening = [one for one in first.pieces if not one.means("small.")][:1]
    return first if first.asked or (opening and opening[0].means("ask.")) else None


def answered(question: Clause, scene: Scene) -> str:
    """Return the answer to a question about the page; raises `Unclear` and `Unread`."""
    view, wanted = scene.view, phrase(question)
    if question.has("ask.count"):
        return _counted(question, scene)
    if question.has("theme.theme"):
        return "The theme: " + ", ".join(f"{name} {value}" for name, value in view.theme.items()) + "."
    if wanted.empty or wanted.head == "page":
        return outline(view)
    nodes = scene.found(question)
    if question.has("ask.where"):
        return " ".join(_where(node, view) for node in nodes)
    scene.read(*nodes)
    if question.has("prop.", "ask.what") and not question.has("verb.say") and question.has("prop."):
        return " ".join(_look(node, view) for node in nodes)
    return " ".join(_says(node) for node in nodes)


def _counted(question: Clause, scene: Scene) -> str:
    wanted = phrase(question)
    nodes = found(scene.view, wanted, scene.pointed) if not wanted.empty else list(scene.view.nodes)
    if wanted.head == "section":
        nodes = [node for node in scene.view.nodes if node.type in SECTIONS]
    told = ", ".join(node.called() for node in nodes[:8])
    return f"There are {len(nodes)}: {told}." if nodes else "There is none on the page."


def outline(view: View) -> str:
    """Return what is on the page, a line for each of its parts."""
    lines = [f"- {node.called()} ({node.id}){_inner(node)}" for node in view.root.children]
    return "\n".join(["On the page there are:", *lines]) if lines else "The page is empty."


def _inner(node: Node) -> str:
    inside = [f"{one.type} “{one.content}”" for one in node.walk() if one.id != node.id and one.content]
    return f": {', '.join(inside[:4])}{' …' if len(inside) > 4 else ''}" if inside else ""  # noqa: PLR2004 -- a line's worth


def _where(node: Node, view: View) -> str:
    around = next(view.around(node), None)
    return (
        f"{_first(node.called())} is in {around.called()}."
        if around
        else f"{_first(node.called())} is on the page itself."
    )


def _look(node: Node, view: View) -> str:
    own = ", ".join(f"{name} {value}" for name, value in node.style.items())
    theme = ", ".join(f"{name} {view.theme[name]}" for name in ("text", "primary") if name in view.theme)
    told = f"has {own}" if own else f"has no style of its own; from the theme: {theme}"
    return f"{_first(node.called())} ({node.id}) {told}."


def _says(node: Node) -> str:
    said = node.content or " / ".join(one.content for one in node.walk() if one.content)
    extra = ", ".join(
        f"{name} {value}" for name, value in node.attributes.items() if name in {"href", "src", "alt"}
    )
    return f"{_first(node.called())} says: “{said}”." + (f" ({extra})" if extra else "")


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]


def report(plan: Plan, outcomes: Sequence[tuple[Edit, Exchange]]) -> str:
    """Return the last word of a turn: what was done, what was not, and why."""
    told: list[str] = []
    versions: list[str] = []
    for edit, exchange in outcomes:
        told.append(_outcome(edit, exchange))
        versions += [exchange.version] if exchange.version else []
    told += plan.problems
    if not told:
        return _UNKNOWN
    if versions:
        told.append(f"The page is {versions[-1]} now.")
    elif not outcomes:
        told.append("Nothing was changed.")
    return " ".join(dict.fromkeys(told)) + ("" if versions or outcomes else f" {_EXAMPLES}")


def _outcome(edit: Edit, exchange: Exchange) -> str:
    if not exchange.failed:
        return edit.said
    result = exchange.result or {}
    if (result.get("details") or {}).get("rejected"):
        return f"You said no, so {_leaves(edit)}."
    if "nothing on the page would be different" in str(result.get("error")):
        return _NOTHING
    hint = f" {_first(str(result['suggestion']))}." if result.get("suggestion") else ""
    return f"That could not be done: {result.get('error')}.{hint}"


def announced(asking: Sequence[Edit]) -> str:
    """Return what is said before a person is asked for leave; nothing where nobody is."""
    what = " and ".join(_gone(edit) for edit in asking)
    return f"Before I go on: shall I {what}?" if what else ""


def _gone(edit: Edit) -> str:
    return "clear the page" if not edit.about else f"remove {edit.name}"


def _leaves(edit: Edit) -> str:
    return "the page stays as it is" if not edit.about else f"{edit.name} stays"


def unclear(problem: Unclear) -> str:
    """Return what a person is told whose question could not be answered."""
    return f"{problem} {_EXAMPLES}"
