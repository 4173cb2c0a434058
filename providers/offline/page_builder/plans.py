"""A whole message as a plan: edits in order, what was not clear, and what has yet to be read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from providers.offline.page_builder.briefs import drafts, reading
from providers.offline.page_builder.clauses import Clause, clauses, verb_of
from providers.offline.page_builder.conversation import Conversation, Turn
from providers.offline.page_builder.edits import Edit, Scene, Unclear, Unread, edits_of, merged
from providers.offline.page_builder.notes import Note, note
from providers.offline.page_builder.targets import Pointed
from providers.offline.page_builder.view import View
from providers.offline.page_builder.words import Piece, language_of, pieces


@dataclass(frozen=True)
class Plan:
    """What a message comes to."""

    edits: tuple[Edit, ...] = ()
    problems: tuple[Note, ...] = ()
    """What the person is told of what cannot be done."""
    unread: tuple[str, ...] = ()
    """Ids of elements that have to be read before the rest is known."""


def plan(conversation: Conversation, view: View) -> Plan:
    """Return the plan of the newest message, given the page as it was when it came."""
    text = conversation.turn.text
    if (brief := reading.read(text)) or drafts.told(text, view):
        return _drafted(text, brief, _scene(conversation, view, {}))
    language = language_of(text)
    spoken = pieces(text, language)
    found = [one for one in clauses(text, spoken, language) if _says_something(one)]
    orders = [one for one in found if not keeps(one)]
    scene = _scene(conversation, view, _rich(text, language, found))
    try:
        scene = replace(scene, kept=_kept([one for one in found if keeps(one)], scene))
    except Unclear as unclear:
        return Plan(problems=(unclear.note,))
    except Unread as more:
        return Plan(unread=more.ids)
    return _planned(orders, scene) if orders else _nothing_to_do(found, scene)


def _drafted(text: str, brief: reading.Brief | None, scene: Scene) -> Plan:
    if brief is None:
        return _sorted(drafts.told(text, scene.view), [], [], scene)
    edits, told = drafts.drafted(brief, scene)
    return _sorted(edits, told, [], scene)


def keeps(clause: Clause) -> bool:
    """Return whether a clause says what is to be left alone."""
    return clause.has("except.") or clause.verb == "keep"


def _says_something(clause: Clause) -> bool:
    return any(
        one.quoted or not one.means("small.", "join.", "number.") for one in clause.pieces if one.text.strip()
    )


def _rich(text: str, language: str, found: Sequence[Clause]) -> dict[int, Clause]:
    """Return the clauses again, with "contact form" and the like read as one thing, by where they begin."""
    read = pieces(text, language, kits=True)
    return {one.pieces[0].start: replace(one, pieces=_between(read, one)) for one in found}


def _between(read: Sequence[Piece], clause: Clause) -> tuple[Piece, ...]:
    first, last = clause.pieces[0].start, clause.pieces[-1].end
    return tuple(one for one in read if first <= one.start and one.end <= last)


def _scene(conversation: Conversation, view: View, parts: dict[int, Clause]) -> Scene:
    selected = (view.selected,) if view.selected else ()
    return Scene(view, conversation, Pointed(selected, _spoken_of(conversation.before)), parts=parts)


def _spoken_of(before: Turn | None) -> tuple[str, ...]:
    """Return the ids of what the turn before changed or made."""
    ids = (
        [one.args.get("elementId") or (one.result or {}).get("elementId") for one in before.edits]
        if before
        else []
    )
    return tuple(dict.fromkeys(str(one) for one in ids if one))


def _kept(found: Sequence[Clause], scene: Scene) -> tuple[str, ...]:
    """Return the ids of what is to be left alone; raises what `found` does for an exception from an order.

    Without what it excepts, "delete everything except the logo" would be the opposite of what was asked.
    """
    ids: list[str] = []
    for clause in found:
        try:
            ids += [node.id for node in scene.found(clause, whole=True)]
        except (Unclear, Unread):
            if clause.has("except."):
                raise
    return tuple(ids)


def _planned(orders: Sequence[Clause], scene: Scene) -> Plan:
    edits: list[Edit] = []
    problems: list[Note] = []
    asides: list[Note] = []
    unread: list[str] = []
    for clause in orders:
        try:
            made = edits_of(clause, scene)
        except Unclear as unclear:
            named = _named(clause, scene)
            scene = replace(scene, pointed=replace(scene.pointed, last=named)) if named else scene
            (asides if named else problems).append(unclear.note)
        except Unread as more:
            unread += more.ids
        else:
            edits += made
            scene = _after(made, scene)
    return _sorted(edits, problems if edits else [*problems, *asides], unread, scene)


def _named(clause: Clause, scene: Scene) -> tuple[str, ...]:
    """Return the ids of what a clause only speaks of: "I don't like the headline"."""
    if clause.verb or not clause.has("kind."):
        return ()
    try:
        return tuple(node.id for node in scene.found(clause))
    except (Unclear, Unread):
        return ()


def _after(made: Sequence[Edit], scene: Scene) -> Scene:
    about = tuple(one.about for one in made if one.about)
    gone = [
        node for one in made if one.request.name == "delete_element" and (node := scene.view.get(one.about))
    ]
    pointed = replace(scene.pointed, last=about, selected=()) if about else scene.pointed
    return replace(scene, pointed=pointed, gone=(*scene.gone, *gone))


def _sorted(edits: Sequence[Edit], problems: Sequence[Note], unread: Sequence[str], scene: Scene) -> Plan:
    """Put deletions last, so that their place can be referred to; leave out what is locked or said twice."""
    locked = [one for one in edits if one.about and _is_locked(one.about, scene.view)]
    once = {repr(one.request): one for one in edits if one not in locked}
    ordered = sorted(_merged(list(once.values())), key=lambda one: one.request.name == "delete_element")
    told = [note("not.locked", what=node.called()) for one in locked if (node := scene.view.get(one.about))]
    return Plan(tuple(ordered), (*problems, *told), tuple(dict.fromkeys(unread)))


def _merged(edits: Sequence[Edit]) -> list[Edit]:
    """Return the edits with all changes of one element in one call, where the first of them was."""
    found: dict[str, Edit] = {}
    for number, edit in enumerate(edits):
        name = edit.about if edit.request.name == "modify_element" else f"#{number}"
        found[name] = merged(found[name], edit) if name in found else edit
    return list(found.values())


def _is_locked(element_id: str, view: View) -> bool:
    node = view.get(element_id)
    inner = {one.id for one in node.walk()} if node else set()
    return node is not None and (view.within(node, sorted(view.locked)) or bool(inner & view.locked))


def _nothing_to_do(found: Sequence[Clause], scene: Scene) -> Plan:
    if found and scene.kept:
        return Plan(problems=(note("not.alone"),))
    return Plan()


__all__ = ["Plan", "keeps", "plan", "verb_of"]
