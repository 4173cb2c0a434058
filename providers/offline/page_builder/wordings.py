"""What is to be said where: texts, addresses and descriptions out of a clause."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from providers.offline.lexicon import fold
from providers.offline.page_builder import looks
from providers.offline.page_builder.clauses import Clause
from providers.offline.page_builder.view import Node, same
from providers.offline.page_builder.words import tidy

if TYPE_CHECKING:
    from providers.offline.page_builder.edits import Scene

Change = tuple[Node, Mapping[str, Any]]
_MONEY: Final = re.compile(
    r"(?:[$€£¥฿₫]\s?\d[\d.,]*|\d[\d.,]*\s?(?:€|zł|Kč|lei|₫|baht|USD|EUR|dollars?|euros?))"
)
_NOW: Final = re.compile(r"\s+(?:now|from now on|already)$", re.IGNORECASE)
_PLEASE: Final = re.compile(r"[,\s]+(?:please|pls)$", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"https?://|/|#|mailto:|tel:|[\w-]+(?:\.[\w-]+)+(?:/|$)", re.IGNORECASE)
_ATTRIBUTES: Final = ("alt", "placeholder", "href")
_WORDED: Final = ("kind.button", "kind.link", "kind.heading", "kind.title")
"""Things that are nothing but their text."""
_BETWEEN: Final = ("small.", "link.", "where.in", "new.")
"""What stands between a verb, words and a thing."""
_WORDS: Final = ("say", "replace", "link", "cost")


def fits(clause: Clause, scene: "Scene") -> bool:
    """Return whether a clause gives words, an address or a description."""
    texts = _texts(clause)
    if len(texts) == 1 and not looks.look(clause).empty and _is_there(texts[0], scene):
        return False
    return (
        bool(texts)
        or bool(_verbatim(clause, scene) or _placed_words(clause))
        or clause.verb in _WORDS
        or bool(set(clause.names("prop")) & {*_ATTRIBUTES})
    )


def _is_there(text: str, scene: "Scene") -> bool:
    """Whether something on the page says just that already: then it is a name."""
    return any(same(text, node.content) for node in scene.view.nodes)


def changes(clause: Clause, scene: "Scene") -> Iterator[Change]:
    """Yield what changes of which element; raises `Unclear` where that is not there."""
    attribute = next((one for one in clause.names("prop") if one in _ATTRIBUTES), "")
    if attribute or clause.verb == "link":
        yield from _attribute(attribute or "href", clause, scene)
    elif clause.verb == "cost":
        yield from _price(clause, scene)
    elif _old(clause) or _verbatim(clause, scene):
        yield from _replaced(clause, scene)
    else:
        yield from _said(clause, scene)


def _texts(clause: Clause) -> list[str]:
    """Literal wordings that are no colours."""
    return [one for one in clause.quotes() if not looks.colour(_only(clause, one))]


def _only(clause: Clause, text: str) -> Clause:
    place = next(place for place, one in enumerate(clause.pieces) if one.quoted and one.text == text)
    return clause.part(place, place + 1)


def loose(clause: Clause) -> str:
    """Return the wording after "to" that is not in quotation marks; empty without any."""
    place = clause.place("link.to", "verb.say") if clause.verb != "say" else clause.place("verb.say")
    if place is None:
        return ""
    rest = clause.part(place + 1)
    to = rest.place("link.to") if clause.verb == "say" and _renames(clause) else None
    text = rest.after(to) if to is not None else clause.after(place)
    return _PLEASE.sub("", text)


def _renames(clause: Clause) -> bool:
    place = clause.place("verb.say")
    return place is not None and clause.pieces[place].text.lower().startswith(("re", "call", "write"))


def _attribute(name: str, clause: Clause, scene: "Scene") -> Iterator[Change]:
    texts = _texts(clause)
    value = texts[-1] if texts else loose(clause)
    if name == "href" and not _ADDRESS.match(value):
        raise scene.unclear("link", text=clause.text)
    subject = _without_the_value(clause, value)
    for node in scene.found(subject):
        yield node, {"attributes": {name: value}}


def _without_the_value(clause: Clause, value: str) -> Clause:
    """Return the pieces that say where: all before the value."""
    kept = [one for one in clause.pieces if not (one.quoted and one.text == value)]
    if len(kept) == len(clause.pieces):
        place = clause.place("link.to")
        kept = list(clause.pieces[:place])
    kept = [one for one in kept if not one.means("prop.", "verb.link")]
    return replace(clause, pieces=tuple(kept))


def _verbatim(clause: Clause, scene: "Scene") -> str:
    """Return what stands on the page just as it is said before "to": "change $19 to $21"."""
    place, verb = clause.place("link.to"), clause.place("verb.change")
    if place is None or verb is None or clause.quotes():
        return ""
    old = clause.part(verb + 1, place)
    known = old.has("kind.", "pron.", "prop.", "colour.", "degree.")
    there = old.text and any(fold(old.text) in fold(node.content) for node in scene.view.nodes)
    return old.text if there and not known and looks.look(clause).empty else ""


def _old(clause: Clause) -> bool:
    """Whether a clause says what to put in place of what."""
    return clause.verb == "replace" or len(_texts(clause)) > 1


def _replaced(clause: Clause, scene: "Scene") -> Iterator[Change]:
    texts = _texts(clause)
    place = clause.place("link.to")
    new = texts[-1] if texts else tidy(clause.after(place)) if place is not None else ""
    verb = clause.place("verb.") or 0
    before = clause.part(0 if texts[1:] else verb + 1, place if place is not None else None)
    old = texts[0] if texts[1:] else before.text
    nodes = [node for node in scene.view.nodes if old and fold(old) in fold(node.content)]
    if not nodes or not new:
        for node in scene.found(_without_its_text(before)):
            yield node, {"content": new}
        return
    for node in nodes:
        if not scene.view.within(node, scene.kept):
            if node.content.endswith("…"):
                scene.read(node)
            yield node, {"content": re.sub(re.escape(old), lambda _: new, node.content, flags=re.IGNORECASE)}


def _placed_words(clause: Clause) -> tuple[Clause, str] | None:
    """Return on what, and which words, where both follow the verb: "write Hello on the button"."""
    verb = clause.place("verb.say", "verb.put")
    if verb is None or clause.quotes() or not looks.look(clause).empty:
        return None
    rest = clause.part(verb + 1)
    told = [at for at, one in enumerate(rest.pieces) if not one.means(*_BETWEEN)]
    if len(told) < 2:  # noqa: PLR2004 -- a thing and words
        return None
    first, last = told[0], told[-1]
    if rest.pieces[first].means(*_WORDED) and clause.verb == "say":
        renamed = rest.part(first + 1).has("link.to", "verb.")
        return None if renamed else (rest.part(first, first + 1), rest.after(first))
    between = range(told[-2] + 1, last)
    on = [at for at in between if rest.pieces[at].means("link.", "where.in")] or [*between][:1]
    if not on or rest.pieces[last:] != rest.pieces[-1:] or not rest.pieces[last].means(*_WORDED):
        return None
    text = rest.part(0, on[-1]).text
    return (rest.part(last), text) if clause.verb == "say" or not text[:1].islower() else None


def _said(clause: Clause, scene: "Scene") -> Iterator[Change]:
    if placed := _placed_words(clause):
        for node in scene.found(placed[0]):
            yield node, {"content": placed[1]}
        return
    texts = _texts(clause)
    new = texts[-1] if texts else loose(clause)
    kept = [one for one in clause.pieces if not (one.quoted and one.text == new)]
    if not texts:
        verb = clause.place("verb.say") if clause.verb == "say" else None
        to = clause.place("link.to")
        cut = to if (verb is None or (_renames(clause) and to is not None)) else verb
        kept = list(clause.pieces[: cut if cut is not None else None])
    for node in scene.found(_without_its_text(replace(clause, pieces=tuple(kept)))):
        yield _writable(node), _worded(node, new) | _look(clause, node, scene, new)


def _without_its_text(clause: Clause) -> Clause:
    """Return a clause in which "the text of the button" is the button, which has no other text."""
    worded = clause.has(*_WORDED) and not clause.has("where.before", "where.after")
    kept = [one for one in clause.pieces if not (worded and one.means("kind.text", "prop.label"))]
    return replace(clause, pieces=tuple(kept))


def _worded(node: Node, new: str) -> dict[str, Any]:
    """Return what makes an element say something; of what is shown, the address is where it is got from."""
    shown = node.type in {"image", "video"} and new.startswith(("http://", "https://", "/"))
    return {"attributes": {"src": new}} if shown else {"content": new}


def _look(clause: Clause, node: Node, scene: "Scene", new: str) -> dict[str, Any]:
    wanted = looks.look(clause)
    style = looks.styles(wanted, node, scene.view)
    if new.isupper():
        style.pop("text-transform", None)
    return {"style": style} if style else {}


def _writable(node: Node) -> Node:
    """Return what of an element has the words: of a section its heading, of others themselves."""
    if node.type in {"section", "card", "header", "footer", "form", "container"}:
        return next((one for one in node.walk() if one.type == "heading"), None) or next(
            (one for one in node.walk() if one.content), node
        )
    return node


def _price(clause: Clause, scene: "Scene") -> Iterator[Change]:
    cut = clause.place("verb.cost")
    new = _NOW.sub("", _PLEASE.sub("", clause.after(cut or 0)))
    for node in scene.found(clause.part(0, cut)):
        priced = next((one for one in node.walk() if _MONEY.search(one.content)), None)
        if priced is None:
            yield _writable(node), {"content": new}
        elif match := _MONEY.search(priced.content):
            whole = priced.content[match.start() :]
            told = new if " " in new.strip() else whole.replace(match[0], new)
            yield priced, {"content": priced.content[: match.start()] + told}
