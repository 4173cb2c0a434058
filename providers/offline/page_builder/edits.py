"""A clause as tool calls: the smallest that do what it asks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from providers.offline.answer import Request
from providers.offline.page_builder import looks, places, wordings
from providers.offline.page_builder.clauses import Clause
from providers.offline.page_builder.conversation import Conversation
from providers.offline.page_builder.notes import Note, Value, note, valued
from providers.offline.page_builder.targets import Phrase, Pointed, found, letters, phrase
from providers.offline.page_builder.view import HOLDERS, TEXTS, Node, View

_READ_FIRST: Final = frozenset({"image", "input", "video"})
"""Kinds that are known by their attributes, which a list does not show."""
_MOST_READ: Final = 24
"""Elements that are read in a turn."""
_VAGUE: Final = frozenset({"", "change", "put", "keep"})
"""Verbs that leave open whether something is to be made."""
_BOXES: Final = HOLDERS - {"page"}


@dataclass(frozen=True)
class Edit:
    """One tool call, and what it does in words."""

    request: Request
    said: Sequence[Note]
    about: str = ""
    """Id of what is changed; empty for what is new or the whole page."""
    name: Note | None = None
    """How what is changed is spoken of."""


class Unclear(Exception):
    """A clause that cannot be carried out; it has what the person is told."""

    def __init__(self, why: str, **values: Value) -> None:
        super().__init__(why)
        self.note = note(f"not.{why}", **values)


class Unread(Exception):
    """A clause that needs more of the page to be read; it has the ids."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(", ".join(ids))
        self.ids = tuple(ids)


@dataclass(frozen=True)
class Scene:
    """What a clause is read against."""

    view: View
    conversation: Conversation
    pointed: Pointed
    kept: tuple[str, ...] = ()
    """Ids of what is to be left alone."""
    parts: Mapping[int, Clause] = field(default_factory=dict)
    """The clauses with the names of ready-made sections read as such, by where they begin."""
    gone: tuple[Node, ...] = ()
    """What clauses before this one delete."""

    def found(self, clause: Clause, *, whole: bool = False, without: Sequence[str] = ()) -> list[Node]:
        """Return what a clause is about; raises `Unclear` where nothing is."""
        wanted = phrase(clause)
        if {wanted.head} & _READ_FIRST and (wanted.words or wanted.said):
            self.read(*(one for one in self.view.nodes if one.type in _READ_FIRST))
        nodes = self._several(clause, whole=whole, without=without) or found(
            self.view, wanted, self.pointed, whole=whole, without=without
        )
        allowed = [node for node in nodes if not self.view.within(node, self.kept)]
        if allowed:
            return allowed
        raise missing(wanted, clause) if not nodes else Unclear("left")

    def unclear(self, why: str, **values: Value) -> Unclear:
        """Return what is raised for a clause that cannot be carried out."""
        return Unclear(why, **values)

    def read(self, *nodes: Node) -> None:
        """Raise `Unread` unless these elements were read, not only listed; the first few are enough."""
        ids = [node.id for node in nodes if not node.read]
        if ids and sum(node.read for node in self.view.nodes) < _MOST_READ:
            raise Unread(ids[:_MOST_READ])

    def _several(self, clause: Clause, *, whole: bool, without: Sequence[str]) -> list[Node]:
        """Return what "the header and the footer" mean; nothing where the parts do not stand alone."""
        cuts = [place for place, one in enumerate(clause.pieces) if one.means("join.") or one.text == ","]
        if not cuts:
            return []
        edges = [-1, *cuts, len(clause.pieces)]
        parts = [clause.part(first + 1, last) for first, last in pairwise(edges)]
        phrases = [one for one in map(phrase, parts) if not one.empty]
        nodes = [found(self.view, one, self.pointed, whole=whole, without=without) for one in phrases]
        if len(phrases) < 2 or not all(nodes):  # noqa: PLR2004 -- one thing is not several
            return []
        return list({node.id: node for some in nodes for node in some}.values())


def missing(wanted: Phrase, clause: Clause) -> Unclear:
    """Return what is raised for a thing that is not there."""
    if wanted.pointing and not (wanted.kinds or wanted.words):
        return Unclear("selected")
    return Unclear("about" if wanted.empty else "found", text=clause.text)


def edits_of(clause: Clause, scene: Scene) -> list[Edit]:
    """Return the edits a clause asks for; none for one that adds nothing. Raises `Unclear`."""
    for fits, made in _WAYS:
        if fits(clause, scene):
            return made(clause, scene)
    raise Unclear("understood", text=clause.text)


def _is(*verbs: str) -> Callable[[Clause, Scene], bool]:
    return lambda clause, scene: clause.verb in verbs  # noqa: ARG005 -- the shape of all


def _undo(clause: Clause, scene: Scene) -> list[Edit]:
    steps = max(1, max((int(one) for one in clause.names("number")), default=1))
    if clause.has("many.all", "kind.page"):
        steps = scene.conversation.edited
    figure = next((int(one.text) for one in clause.pieces if one.text.isdigit()), steps)
    steps = scene.conversation.versions(figure)
    return [Edit(Request("undo", {"steps": steps}), [note("edit.undone")])]


def _clear(clause: Clause, scene: Scene) -> list[Edit]:
    del clause
    if scene.kept:
        return [_deletion(node) for node in scene.view.beside(scene.kept)]
    return [Edit(Request("clear_page", {}), [note("edit.cleared")])]


def _remove(clause: Clause, scene: Scene) -> list[Edit]:
    if clause.has("kind.page") and clause.has("many.all"):
        return _clear(clause, scene)
    nodes = scene.found(clause)
    return _clear(clause, scene) if scene.view.root in nodes else [_deletion(node) for node in nodes]


def _hide(clause: Clause, scene: Scene) -> list[Edit]:
    return [modified(node, {"style": {"display": "none"}}) for node in scene.found(clause)]


def _deletion(node: Node) -> Edit:
    name = node.called()
    said = [note("edit.removed", what=name)]
    return Edit(Request("delete_element", {"elementId": node.id}), said, node.id, name)


def _add(clause: Clause, scene: Scene) -> list[Edit]:
    rich = scene.parts.get(clause.pieces[0].start, clause)
    if clause.has("cannot.script"):
        raise Unclear("scripts")
    return [places.added(rich, clause, scene)]


def _is_new(clause: Clause, scene: Scene) -> bool:
    del scene
    if clause.verb == "add":
        return True
    articles = {one.text.lower() for one in clause.pieces[:3]} & {"a", "an", "another", "new"}
    return clause.verb == "put" and bool(articles) and clause.has("kind.", "kit.")


def _is_wished(clause: Clause, scene: Scene) -> bool:
    """Whether something new is asked for by no verb of making: "the page should have a contact form"."""
    rich = scene.parts.get(clause.pieces[0].start, clause)
    kinds = [one for one in clause.names("kind") if one != "page"]
    if clause.verb not in _VAGUE or not looks.look(clause).empty or not (kinds or rich.has("kit.")):
        return False
    article = clause.place("new.one")
    if article is not None:
        # "Turn the button into a link" is about the button.
        before = {*clause.part(0, article).names("kind")} - {"page"}
        return (
            not before
            and clause.part(article).has("kind.")
            and clause.part(article).names("kind") != ["page"]
        )
    return rich.has("kit.") and (not clause.verb or clause.has("wish.wish"))


def _goes(clause: Clause, scene: Scene) -> list[Edit]:
    """Move what has to go somewhere; what has to go nowhere is removed."""
    return places.moved(clause, scene) if places.is_placed(clause) else _remove(clause, scene)


def _style(clause: Clause, scene: Scene) -> list[Edit]:
    # "Larger than the other" is about the first; what it is compared with stays.
    clause = clause.part(0, clause.place("than.than"))
    if both := looks.lettering(clause):
        return _on_both(clause, both, scene)
    wanted = looks.look(clause)
    nodes, wanted = _looking(clause, wanted, scene)
    if wanted.relative or wanted.colour:
        scene.read(*nodes)
    edits = []
    for node in nodes:
        made = looks.styles(wanted, node, scene.view)
        if made:
            edits.append(modified(node, {"style": made}))
    return edits


def _on_both(clause: Clause, both: tuple[int, str, str], scene: Scene) -> list[Edit]:
    """Colour something and what is written in it: "dark green with white text"."""
    cut, behind, letter = both
    nodes = scene.found(clause.part(0, cut))
    return [modified(node, {"style": {"background-color": behind, "color": letter}}) for node in nodes]


def _looking(clause: Clause, wanted: looks.Look, scene: Scene) -> tuple[list[Node], looks.Look]:
    """Return what is to look otherwise; letters of a section are those of what is written in it."""
    about = phrase(clause)
    if about.head == "text" and {"button", "link", "heading", "title"} & set(about.kinds[:-1]):
        inner = replace(clause, pieces=tuple(one for one in clause.pieces if not one.means("kind.text")))
        return scene.found(inner), replace(wanted, part="letters")
    nodes = scene.found(clause)
    plain = set(wanted.flags) <= {"bold", "italic", "underline", "uppercase", "lowercase"} and wanted.flags
    lettered = bool(plain) or wanted.part == "font-size"
    if lettered and all(node.type in _BOXES for node in nodes):
        inside = letters(nodes, about)
        return [node for node in inside if not scene.view.within(node, scene.kept)] or nodes, wanted
    return nodes, wanted


def modified(node: Node, modifications: Mapping[str, Any]) -> Edit:
    """Return the edit that changes an element."""
    name = node.called()
    args = {"elementId": node.id, "modifications": dict(modifications)}
    return Edit(Request("modify_element", args), _changed(name, modifications), node.id, name)


def merged(one: Edit, other: Edit) -> Edit:
    """Return two changes of one element as one."""
    first, second = (edit.request.args["modifications"] for edit in (one, other))
    both = {**first, **second}
    for part in ("style", "attributes"):
        if part in first and part in second:
            both[part] = {**first[part], **second[part]}
    args = {"elementId": one.about, "modifications": both}
    return Edit(Request("modify_element", args), _changed(one.name, both), one.about, one.name)


def _changed(name: Note | None, modifications: Mapping[str, Any]) -> Sequence[Note]:
    style = {
        name: value for part in ("style", "attributes") for name, value in modifications.get(part, {}).items()
    }
    parts = [valued(name, str(value)) for name, value in style.items()]
    if "content" in modifications:
        parts.insert(0, note("edit.says", text=modifications["content"]))
    return [note("edit.changed", what=name or note("thing.page"), list=parts)]


def _words(clause: Clause, scene: Scene) -> list[Edit]:
    return [modified(node, changed) for node, changed in wordings.changes(clause, scene)]


def _says(clause: Clause, scene: Scene) -> bool:
    return wordings.fits(clause, scene)


def _again(clause: Clause, scene: Scene) -> list[Edit]:
    """Do to another thing what the turn before did."""
    before = scene.conversation.before
    changes = (
        [one.args.get("modifications", {}) for one in before.edits if one.name == "modify_element"]
        if before
        else []
    )
    if not changes:
        raise Unclear("again")
    new = scene.found(clause)
    undone = clause.verb == "meant"
    steps = scene.conversation.versions(1)
    first = [Edit(Request("undo", {"steps": steps}), [note("edit.took_back")])]
    edits = [modified(node, _fitting(changes[0], node)) for node in new]
    return [*(first if undone else []), *edits]


def _fitting(modifications: Mapping[str, Any], node: Node) -> dict[str, Any]:
    """Return modifications as another kind of element needs them: its colour may be that behind it."""
    style = dict(modifications.get("style", {}))
    if node.type in TEXTS and "background-color" in style and "color" not in style:
        style["color"] = style.pop("background-color")
    elif node.type not in TEXTS and "color" in style and "background-color" not in style:
        style["background-color"] = style.pop("color")
    return {**modifications, "style": style} if style else dict(modifications)


def _looks(clause: Clause, scene: Scene) -> bool:
    del scene
    return not looks.look(clause).empty


def _nothing(clause: Clause, scene: Scene) -> list[Edit]:
    del clause, scene
    return []


def _echo(clause: Clause, scene: Scene) -> bool:
    """Whether a clause only asks once more for what the one before said: "please update it"."""
    bare = not clause.has("kind.", "colour.", "degree.", "prop.") and clause.verb in {"change", "keep", "put"}
    return (
        bare and clause.has("pron.it", "pron.this") and bool(scene.pointed.last) and not phrase(clause).words
    )


_WAYS: Final[Sequence[tuple[Callable[[Clause, Scene], bool], Callable[[Clause, Scene], list[Edit]]]]] = (
    (_is("undo"), _undo),
    (_is("clear"), _clear),
    (lambda clause, _: clause.verb == "meant" or clause.has("pron.same"), _again),
    (_is("remove"), _remove),
    (_is("hide"), _hide),
    (_is("go"), _goes),
    (_is_new, _add),
    (_is_wished, _add),
    (_is("copy"), places.copied),
    (_is("swap"), places.swapped),
    (lambda clause, _: places.is_theme(clause), places.themed),
    (_says, _words),
    (lambda clause, _: places.moves(clause), places.moved),
    (_looks, _style),
    (lambda clause, _: wordings.loose(clause) != "", _words),
    (_echo, _nothing),
)
"""Ways to read a clause, the surest first."""
