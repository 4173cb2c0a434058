"""What the model says: answers to questions, what it did, and what it did not understand."""

from collections.abc import Sequence
from typing import Final

from providers.offline.exchange import Exchange
from providers.offline.page_builder.briefs import reading
from providers.offline.page_builder.clauses import Clause, clauses
from providers.offline.page_builder.edits import Edit, Scene, Unclear
from providers.offline.page_builder.notes import Note, note, said, sentence, told, valued
from providers.offline.page_builder.plans import Plan
from providers.offline.page_builder.targets import found, phrase
from providers.offline.page_builder.view import SECTIONS, Node, View
from providers.offline.page_builder.words import language_of, pieces

_VERBS: Final = (
    "verb.add", "verb.remove", "verb.move", "verb.swap", "verb.undo", "verb.clear", "verb.copy",
    "verb.change", "verb.replace", "verb.put",
)  # fmt: skip


def at_once(text: str, language: str) -> str | None:
    """Return the answer to what needs no look at the page: greetings, and what the model can do."""
    if reading.read(text):
        return None
    spoken = pieces(text, language_of(text))
    heard = [one for one in spoken if not one.means("small.")]
    if any(one.means("ask.able") for one in spoken):
        return _with_examples(note("say.able"), language)
    if heard and all(one.means("ask.hello") or not one.text[:1].isalnum() for one in heard):
        return _with_examples(note("say.hello"), language)
    return None


def _with_examples(one: Note, language: str) -> str:
    return said([one, note("say.examples")], language)


def asked(text: str) -> Clause | None:
    """Return the question a message is; None for one that wants something done."""
    if reading.read(text):
        return None
    language = language_of(text)
    every = clauses(text, pieces(text, language), language)
    first = next((one for one in every if one.has("ask.")), None)
    if first is None or any(one.has(*_VERBS) for one in every):
        return None
    heard = [one for one in first.pieces if not one.means("small.")]
    # Thai asks at the end.
    edges = (*heard[:1], *heard[-1:])
    return first if first.asked or any(one.means("ask.") for one in edges) else None


def answered(question: Clause, scene: Scene, language: str) -> str:
    """Return the answer to a question about the page; raises `Unclear` and `Unread`."""
    view, wanted = scene.view, phrase(question)
    if not question.has("ask.count", "theme.theme") and (wanted.empty or wanted.head == "page"):
        return outline(view, language)
    return said(_answers(question, scene), language)


def _answers(question: Clause, scene: Scene) -> Sequence[Note]:
    view = scene.view
    if question.has("ask.count"):
        return [_counted(question, scene)]
    if question.has("theme.theme"):
        return [note("ask.theme", list=[valued(name, value) for name, value in view.theme.items()])]
    nodes = scene.found(question)
    if question.has("ask.where"):
        return [_where(node, view) for node in nodes]
    scene.read(*nodes)
    if question.has("prop.") and not question.has("verb.say"):
        return [_look(node, view) for node in nodes]
    return [_says(node) for node in nodes]


def _counted(question: Clause, scene: Scene) -> Note:
    wanted = phrase(question)
    nodes = found(scene.view, wanted, scene.pointed) if not wanted.empty else list(scene.view.nodes)
    if wanted.head == "section":
        nodes = [node for node in scene.view.nodes if node.type in SECTIONS]
    shown = [node.called() for node in nodes[:8]]
    return note("ask.count", count=str(len(nodes)), list=shown) if nodes else note("ask.none")


def outline(view: View, language: str) -> str:
    """Return what is on the page, a line for each of its parts."""
    lines = [told(_line(node), language) for node in view.root.children]
    if not lines:
        return sentence(note("ask.empty"), language)
    return "\n".join([sentence(note("ask.outline"), language), *lines])


def _line(node: Node) -> Note:
    inside = [one for one in node.walk() if one.id != node.id and one.content]
    listed = [note("thing.inner", kind=note(f"kind.{one.type}"), said=one.content) for one in inside[:4]]
    key = "line" if not inside else "line_with" if len(inside) <= 4 else "line_more"  # noqa: PLR2004 -- a line's worth
    return note(f"thing.{key}", what=node.called(), id=node.id, list=listed)


def _where(node: Node, view: View) -> Note:
    around = next(view.around(node), None)
    if around is None:
        return note("ask.root", what=node.called())
    return note("ask.in", what=node.called(), where=around.called())


def _look(node: Node, view: View) -> Note:
    own = [valued(name, value) for name, value in node.style.items()]
    theme = [valued(name, view.theme[name]) for name in ("text", "primary") if name in view.theme]
    return note("ask.look" if own else "ask.unstyled", what=node.called(), id=node.id, list=own or theme)


def _says(node: Node) -> Note:
    text = node.content or " / ".join(one.content for one in node.walk() if one.content)
    shown = {"href", "src", "alt"}
    extra = [valued(name, value) for name, value in node.attributes.items() if name in shown]
    return note("ask.says_more" if extra else "ask.says", what=node.called(), text=text, list=extra)


def report(plan: Plan, outcomes: Sequence[tuple[Edit, Exchange]], language: str) -> str:
    """Return the last word of a turn: what was done, what was not, and why."""
    notes: list[Note] = []
    versions: list[str] = []
    for edit, exchange in outcomes:
        notes += _outcome(edit, exchange)
        versions += [exchange.version] if exchange.version else []
    notes += plan.problems
    if not notes:
        return _with_examples(note("say.unknown"), language)
    if versions:
        notes.append(note("end.version", version=versions[-1]))
    elif not outcomes:
        notes += [note("end.unchanged"), note("say.examples")]
    return said(notes, language)


def _outcome(edit: Edit, exchange: Exchange) -> Sequence[Note]:
    if not exchange.failed:
        return edit.said
    result = exchange.result or {}
    if (result.get("details") or {}).get("rejected"):
        return [note("end.kept", what=edit.name) if edit.name else note("end.kept_page")]
    if "nothing on the page would be different" in str(result.get("error")):
        return [note("say.nothing")]
    failed = note("end.failed", error=str(result.get("error")))
    hint = str(result.get("suggestion") or "")
    return [failed, *([note("end.hint", text=hint)] if hint else [])]


def announced(asking: Sequence[Edit], language: str) -> str:
    """Return what is said before a person is asked for leave; nothing where nobody is."""
    gone = [note("end.remove", what=edit.name) if edit.name else note("end.clear") for edit in asking]
    return sentence(note("end.leave", list=gone), language) if gone else ""


def unclear(problem: Unclear, language: str) -> str:
    """Return what a person is told whose question could not be answered."""
    return _with_examples(problem.note, language)
