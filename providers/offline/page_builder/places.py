"""Where things are to be: what is added, moved, copied or swapped; and the theme, which is everywhere."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from providers.offline.answer import Request
from providers.offline.page_builder import kits, looks
from providers.offline.page_builder.clauses import Clause
from providers.offline.page_builder.notes import Note, note, plain, valued
from providers.offline.page_builder.targets import phrase
from providers.offline.page_builder.view import HOLDERS, ROOT, SECTIONS, Node
from state.themes import THEMES

if TYPE_CHECKING:
    from providers.offline.page_builder.edits import Edit, Scene

Place = tuple[str, str]
"""Id of the element beside or inside which something goes, and `before`, `after` or `inside`."""
_SIDES: Final = ("where.before", "where.after", "where.first", "where.last")
_NAMED: Final = {"dark": "dark", "light": "light", "high-contrast": "high-contrast"}


def _edit(name: str, args: dict[str, Any], said: Sequence[Note], about: str = "") -> "Edit":
    # Edits are made of clauses there, and some of them here.
    from providers.offline.page_builder.edits import Edit  # noqa: PLC0415

    return Edit(Request(name, args), said, about)


def added(rich: Clause, clause: Clause, scene: "Scene") -> "Edit":
    """Return the edit that makes something new; `rich` is the clause with sections read by name."""
    rich = _ahead(rich)
    spec = kits.wanted(rich)
    if spec is None:
        raise scene.unclear("add", text=clause.text)
    reference, position = _place_of_new(spec, rich, scene)
    args = {"parentId": reference, **made(spec), "position": position}
    where = scene.view.get(reference)
    beside = where.called() if where else plain(reference)
    added = note("edit.added", what=named(spec), where=note(f"side.{position}", what=beside))
    return _edit("create_element", args, [added, *lacking(spec)])


def lacking(spec: kits.Spec) -> Sequence[Note]:
    """Return what a person is told of an image that only holds a place."""
    made = [*kits.walked(spec)]
    bare = any(one["type"] == "image" and "src" not in one["attributes"] for one in made)
    return [note("edit.no_picture")] if bare else []


def made(spec: kits.Spec) -> dict[str, Any]:
    """Return what is new as `create_element` wants it."""
    properties = {name: value for name, value in spec.items() if name not in {"type", "children"}}
    if spec.get("children"):
        properties["children"] = [made(one) for one in spec["children"]]
    return {"elementType": spec["type"], "properties": properties}


def named(spec: kits.Spec) -> Note:
    """Return how what is new is spoken of."""
    said = spec.get("label") or spec.get("content") or spec.get("attributes", {}).get("alt") or ""
    inner = next((one["content"] for one in spec.get("children", ()) if one.get("content")), "")
    said = said or inner
    kind = note(f"new.{spec['type']}")
    return note("thing.new", kind=kind, said=said) if said else note("thing.new_bare", kind=kind)


def _place_of_new(spec: kits.Spec, clause: Clause, scene: "Scene") -> Place:
    place = _where(clause, new=True)
    if place is not None:
        side, reference = _reference(clause, place)
        return _beside(side, reference, scene, spec["type"])
    if clause.has("pron.instead") and scene.gone:
        return scene.gone[-1].id, "before"
    return usual_place(spec, scene)


def _where(clause: Clause, *, new: bool) -> int | None:
    """Return the place of the word that says where; for what is new, after what it is."""
    start = (clause.place("kind.", "kit.") or 0) if new else 0
    tail = clause.part(start)
    found = tail.place(*_SIDES)
    found = tail.place("where.in") if found is None else found
    return None if found is None else start + found


def _reference(clause: Clause, place: int) -> tuple[str, Clause]:
    """Return the side, and what says of what; "with …" after it belongs to what is new."""
    side = next(one for one in clause.pieces[place].names("where"))
    sides = clause.pieces[place].names("where")
    side = next((one for one in ("before", "after", "first", "last") if one in sides), side)
    rest = clause.part(place + 1)
    cut = rest.place("link.to") if not rest.has("link.of") else None
    cut = next((at for at, one in enumerate(rest.pieces) if one.wording and rest.pieces[:at]), cut)
    return side, rest.part(0, cut)


def _beside(side: str, reference: Clause, scene: "Scene", kind: str, moving: str = "") -> Place:
    if phrase(reference).empty:
        return _edge(side, scene.view.root, moving)
    around = [one.id for one in scene.view.around(node)] if (node := scene.view.get(moving)) else []
    without = [moving, *(around if side in {"before", "after"} else ())]
    whole = kind in SECTIONS or side in {"in", "first", "last"}
    found = scene.found(reference, whole=whole, without=without)[0]
    if side in {"before", "after"}:
        return found.id, side
    return _edge(side, found, moving)


def _edge(side: str, holder: Node, moving: str = "") -> Place:
    """Return the beginning or the end of an element; one that holds nothing has it beside."""
    if holder.type not in HOLDERS:
        return holder.id, "before" if side in {"first", "before"} else "after"
    inner = [one for one in holder.children if one.id != moving]
    return (inner[0].id, "before") if side in {"first", "before"} and inner else (holder.id, "inside")


def usual_place(spec: kits.Spec, scene: "Scene") -> Place:
    """Return where what nobody says a place for goes: a section before the footer, the rest in one."""
    footer = next((one for one in scene.view.root.children if one.type == "footer"), None)
    if spec["type"] in {"header", "nav"}:
        return _edge("first", scene.view.root)
    if spec["type"] in SECTIONS:
        return (footer.id, "before") if footer and spec["type"] != "footer" else (ROOT, "inside")
    if spec["type"] in {"input", "item", "card"}:
        return _home(spec["type"], scene)
    selected = scene.view.get(scene.pointed.selected[0]) if scene.pointed.selected else None
    if selected:
        return selected.id, "inside" if selected.type in HOLDERS else "after"
    sections = [one for one in scene.view.root.children if one.type == "section"]
    return (sections[0].id, "inside") if sections else _edge("last", scene.view.root)


def _home(kind: str, scene: "Scene") -> Place:
    """Where things of a kind are already."""
    holder = {"input": "form", "item": "list"}.get(kind)
    likes = [one for one in scene.view.nodes if one.type == kind]
    if likes and kind != "input":
        return likes[-1].id, "after"
    holders = [one for one in scene.view.nodes if one.type == holder]
    if holders:
        return _before_the_button(holders[0])
    return ROOT, "inside"


def _before_the_button(form: Node) -> Place:
    button = next((one for one in form.children if one.type == "button"), None)
    return (button.id, "before") if button else (form.id, "inside")


def moves(clause: Clause) -> bool:
    """Return whether a clause says where something that is there is to go."""
    if clause.verb == "move":
        return True
    if not looks.look(clause).empty:
        return False
    if clause.verb == "put" and clause.has("where.in"):
        return True
    return clause.verb in {"", "put", "change"} and is_placed(clause)


def _ahead(clause: Clause) -> Clause:
    """Return a clause with the side before what it is beside, where it was said after: "在标题下面"."""
    side, at = clause.place(*_SIDES), clause.place("where.at")
    if side is None or at is None or at >= side - 1:
        return clause
    head, beside, tail = clause.pieces[:at], clause.pieces[at + 1 : side], clause.pieces[side + 1 :]
    kept = [one for one in (clause.pieces[at],) if one.means("verb.")]
    return replace(clause, pieces=(*head, *kept, *tail, clause.pieces[side], *beside))


def is_placed(clause: Clause) -> bool:
    """Return whether a clause says beside what something is, or that it is higher or lower."""
    clause = _ahead(clause)
    subject, place = clause.part(0, clause.place(*_SIDES)), clause.place(*_SIDES)
    if place is None:
        return clause.has("where.up", "where.down") and not phrase(clause).empty
    if clause.pieces[place].means("where.first", "where.last"):
        return bool(clause.verb) and not phrase(subject).empty
    return not (phrase(subject).empty or phrase(clause.part(place + 1)).empty)


def moved(clause: Clause, scene: "Scene") -> list["Edit"]:
    """Return the edits that move what a clause names."""
    clause = _ahead(clause)
    place = _where(clause, new=False)
    if place is None and clause.has("where.up", "where.down"):
        return _shifted(clause, scene)
    if place is None:
        raise scene.unclear("move", text=clause.text)
    verb = clause.place("verb.move")
    subject = clause.part(0, place if verb is None or verb < place else verb)
    side, reference = _reference(clause, place)
    if side == "first" and (inside := reference.place("link.of")) is not None:
        reference = reference.part(inside + 1)
    found = []
    for node in scene.found(subject, whole=True):
        where, position = _beside(side, reference, scene, node.type, node.id)
        found.append(_move(node, where, position, scene))
    return found


def _shifted(clause: Clause, scene: "Scene") -> list["Edit"]:
    """Move something by one place up or down."""
    step = -1 if clause.has("where.up") else 1
    found = []
    for node in scene.found(clause, whole=True):
        beside = _neighbour(node, scene, step)
        if not beside:
            raise scene.unclear("above" if step < 0 else "below", what=node.called())
        found.append(_move(node, beside, "before" if step < 0 else "after", scene))
    return found


def _move(node: Node, where: str, position: str, scene: "Scene") -> "Edit":
    beside = scene.view.get(where)
    args = {"elementId": node.id, "parentId": where, "position": position}
    place = note(f"side.{position}", what=beside.called() if beside else plain(where))
    return _edit("move_element", args, [note("edit.moved", what=node.called(), where=place)], node.id)


def swapped(clause: Clause, scene: "Scene") -> list["Edit"]:
    """Return the edits that exchange two elements."""
    nodes = scene.found(clause, whole=True)
    if len(nodes) != 2:  # noqa: PLR2004 -- a swap is of two
        raise scene.unclear("swap", text=clause.text)
    order = [one.id for one in scene.view.nodes]
    first, second = sorted(nodes, key=lambda node: order.index(node.id))
    before = _neighbour(second, scene, -1)
    after = _neighbour(second, scene, 1)
    edits = [_move(second, first.id, "before", scene)]
    if before == first.id:
        return edits
    if before:
        return [*edits, _move(first, before, "after", scene)]
    holder = scene.view.parents[second.id].id
    return [*edits, _move(first, after, "before", scene) if after else _move(first, holder, "inside", scene)]


def _neighbour(node: Node, scene: "Scene", step: int) -> str:
    siblings = [one.id for one in scene.view.parents[node.id].children]
    place = siblings.index(node.id) + step
    return siblings[place] if 0 <= place < len(siblings) else ""


def copied(clause: Clause, scene: "Scene") -> list["Edit"]:
    """Return the edits that put the same once more after what a clause names."""
    found = []
    for node in scene.found(clause, whole=True):
        scene.read(*node.walk())
        args = {"parentId": node.id, **made(node.spoken()), "position": "after"}
        found.append(_edit("create_element", args, [note("edit.copied", what=node.called())]))
    return found


def is_theme(clause: Clause) -> bool:
    """Return whether a clause is about how the whole page looks."""
    named = clause.has("theme.theme", "theme.main")
    whole = clause.has("kind.page") and clause.names("kind")[-1] == "page"
    look = looks.look(clause)
    return named or (whole and (bool(look.colour or look.family) or clause.has("theme.dark", "theme.light")))


def themed(clause: Clause, scene: "Scene") -> list["Edit"]:
    """Return the edit that gives the page another theme, or single colours and fonts of it."""
    look = looks.look(clause)
    name = next((_theme(one) for one in clause.names("theme") if _theme(one)), "")
    tokens: dict[str, str] = {}
    if look.colour:
        main = clause.has("theme.main") or not clause.has("prop.background", "kind.page")
        tokens["primary" if main else "background"] = look.colour
    if look.family:
        tokens |= {"font": look.family, "heading-font": look.family}
    if not name and not tokens:
        raise scene.unclear("theme", list=[plain(one) for one in THEMES])
    args: dict[str, Any] = ({"theme": name} if name else {}) | ({"tokens": tokens} if tokens else {})
    told = [note("edit.theme_is", name=name)] if name else []
    told += [valued(key, one) for key, one in tokens.items()]
    return [_edit("apply_theme", args, [note("edit.theme", list=told)])]


def _theme(word: str) -> str:
    return word if word in THEMES else ""
