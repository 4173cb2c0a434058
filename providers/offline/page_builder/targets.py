"""What of the page a clause is about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from providers.offline.lexicon import fold
from providers.offline.page_builder.clauses import Clause
from providers.offline.page_builder.view import HOLDERS, SECTIONS, Node, View, same
from providers.offline.page_builder.words import Piece, stems

_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "heading": frozenset({"heading"}),
    "title": frozenset({"heading"}),
    "text": frozenset({"text", "quote", "item"}),
    "button": frozenset({"button"}),
    "link": frozenset({"link"}),
    "image": frozenset({"image"}),
    "section": frozenset(HOLDERS - {"page"}),
    "hero": frozenset(SECTIONS),
    "header": frozenset({"header"}),
    "footer": frozenset({"footer"}),
    "nav": frozenset({"nav"}),
    "form": frozenset({"form"}),
    "input": frozenset({"input", "textarea", "select"}),
    "list": frozenset({"list"}),
    "item": frozenset({"item"}),
    "card": frozenset({"card"}),
    "quote": frozenset({"quote"}),
    "page": frozenset({"page"}),
    "video": frozenset({"video"}),
    "divider": frozenset({"divider"}),
}
"""What a word for a thing may be on a page."""
_WHOLE: Final = frozenset({"section", "form", "list", "nav", "header", "footer"})
_LETTERS: Final = frozenset({"heading", "text", "quote", "item", "link"})
_IGNORED: Final = (
    *("small.", "verb.", "colour.", "degree.", "where.", "link.", "many.", "nth.", "number.", "join."),
    *("pron.", "except.", "ask.", "prop.", "theme.", "wish.", "new."),
)
_LOOSE: Final = frozenset({"about", "section", "main"})
"""Words that may only be in between: "the question about parking"."""
_ADDS_S: Final = frozenset({"english", "spanish", "portuguese"})
"""Languages in which several of a thing end in "s"."""
_INFLECTED: Final = frozenset({"polish", "czech", "romanian"})
"""Languages in which a name has other endings in a sentence than in a heading."""
_ENDING, _STEM = 2, 4
"""Letters of a name that may be another ending, and those that may not, at least."""
_OWN, _AROUND, _SAID = 3, 2, 12
"""What a word counts that is an element's own, that of what it lies in, and wording it has exactly."""


@dataclass(frozen=True)
class Phrase:
    """What a phrase says of the thing it means."""

    kinds: tuple[str, ...]
    """Words for kinds of things, in order; the last is the thing."""
    beside: tuple[tuple[str, frozenset[str]], ...]
    """The kinds before it, each with the stems of how it was called."""
    words: frozenset[str]
    """Stems of the other words."""
    said: tuple[str, ...] = ()
    """Literal wording in it."""
    nth: str = ""
    every: bool = False
    pointing: str = ""
    """`this` or `it` where it has no name."""
    plural: bool = False
    uncounted: bool = False
    """Whether its word does not tell one from several."""
    inflected: bool = False
    """Whether its words may end otherwise where they are read."""
    called: frozenset[str] = frozenset()
    """Stems of the word for the thing."""

    @property
    def empty(self) -> bool:
        """Whether it names nothing."""
        return not (self.kinds or self.words or self.said or self.pointing)

    @property
    def head(self) -> str:
        """The word for the thing itself, empty without one."""
        return self.kinds[-1] if self.kinds else ""


@dataclass(frozen=True)
class Pointed:
    """What "this" and "it" stand for just now."""

    selected: Sequence[str] = ()
    last: Sequence[str] = ()
    """What was spoken of last."""


def phrase(clause: Clause) -> Phrase:
    """Return what the pieces of a clause say of a thing."""
    return _phrase(_turned(clause.pieces), clause.language)


def _turned(pieces: Sequence[Piece]) -> list[Piece]:
    """Put "the text of the button" as "the button text": what is inside comes last."""
    for place, one in enumerate(pieces):
        left, right = pieces[:place], pieces[place + 1 :]
        about = one.means("link.of") and any(piece.means("kind.", "prop.") for piece in left)
        if about and any(_names(piece) for piece in right):
            return [*right, *left]
    return list(pieces)


def _phrase(pieces: Sequence[Piece], language: str) -> Phrase:
    kinds = [kind for one in pieces for kind in one.names("kind")]
    head = max((place for place, one in enumerate(pieces) if one.means("kind.")), default=-1)
    words = [stems(one.text) for one in pieces if _names(one) and not one.means("kind.")]
    many = [name for one in pieces for name in one.names("many")]
    return Phrase(
        kinds=tuple(kinds),
        beside=tuple((kind, stems(one.text)) for one in pieces[: max(head, 0)] for kind in one.names("kind")),
        words=frozenset().union(*words),
        said=tuple(one.text for one in pieces if one.wording),
        nth=next((name for one in pieces for name in one.names("nth")), ""),
        every=bool(set(many) & {"all", "both"}),
        pointing=next((name for one in pieces for name in one.names("pron") if name in {"this", "it"}), ""),
        plural=language in _ADDS_S and head >= 0 and _bare(pieces[head]).endswith("s"),
        uncounted=language not in _ADDS_S,
        inflected=language in _INFLECTED,
        called=stems(_bare(pieces[head])) if head >= 0 else frozenset(),
    )


def _bare(one: Piece) -> str:
    """Return what was written without "'s", which makes no plural."""
    return one.text.lower().removesuffix("'s").removesuffix("’s")


def _names(one: Piece) -> bool:
    """Whether a piece helps to say which thing is meant."""
    if one.quoted:
        return False
    return one.means("kind.") or (not one.means(*_IGNORED) and one.text[:1].isalpha())


def found(
    view: View, wanted: Phrase, pointed: Pointed, *, whole: bool = False, without: Sequence[str] = ()
) -> list[Node]:
    """Return the elements a phrase means, in the order of reading, none of them in `without`.

    `whole` prefers sections to what is in them.
    """
    if not wanted.kinds and not wanted.words and not wanted.said:
        ids = (
            pointed.selected or pointed.last if wanted.pointing != "it" else pointed.last or pointed.selected
        )
        return [node for name in ids if (node := view.get(name))]
    if wanted.head == "page" and not wanted.words - {"page"}:
        return [view.root]
    if whole and wanted.head in {"quote", "item"} and not wanted.nth:
        # "Below the reviews" means where they are.
        several = replace(wanted, kinds=(), words=wanted.words | wanted.called, plural=False)
        if wanted.plural or (wanted.uncounted and _ranked(view, several, whole=whole, without=without)):
            wanted = several
    if special := _special(view, wanted) or _selected(view, wanted, pointed):
        return [special]
    nodes = _ranked(view, wanted, whole=whole, without=without)
    return _chosen(nodes, wanted)


def _special(view: View, wanted: Phrase) -> Node | None:
    """What has a name of its own: the headline, the hero."""
    named = wanted.words or wanted.said or wanted.nth or wanted.every or wanted.plural
    if wanted.head == "title" and not named and len(wanted.kinds) == 1:
        return view.title
    if wanted.head in {"hero", "section"} and "hero" in wanted.kinds:
        return view.hero
    return None


def _selected(view: View, wanted: Phrase, pointed: Pointed) -> Node | None:
    """What is selected, where a phrase says "this heading" and it is one."""
    node = view.get(pointed.selected[0]) if wanted.pointing == "this" and pointed.selected else None
    return node if node and node.type in _TYPES.get(wanted.head, frozenset()) else None


def _ranked(view: View, wanted: Phrase, *, whole: bool, without: Sequence[str]) -> list[Node]:
    types = _TYPES.get(wanted.head, frozenset())
    nodes = [node for node in view.nodes if _fits(node, wanted, types, whole) and node.id not in without]
    scored = [(_score(view, node, wanted, types), node) for node in nodes]
    best = max((score for score, _ in scored), default=0)
    if best <= 0:
        # A kind alone is enough where nothing more was said of it, or where there is one of it only.
        plain = types and not (wanted.words or wanted.said or wanted.beside)
        return nodes if plain or (types and len(nodes) == 1 and not wanted.said) else []
    top = [node for score, node in scored if score == best]
    return [node for node in top if not (whole and any(one in top for one in view.around(node)))]


def _fits(node: Node, wanted: Phrase, types: frozenset[str], whole: bool) -> bool:  # noqa: FBT001 -- handed through
    if types:
        return node.type in types
    return not whole or node.type in HOLDERS or bool(wanted.words & node.names)


def _score(view: View, node: Node, wanted: Phrase, types: frozenset[str]) -> int:
    around = view.context(node)
    total = 0
    for word in wanted.words:
        own = _in(word, node.names, wanted) or (not types and word == node.type)
        total += _OWN if own else _AROUND if _in(word, around, wanted) else 0 if word in _LOOSE else -_OWN
    for kind, called in wanted.beside:
        total += _OWN if called & node.names else _inside(view, node, kind, called & around)
    total += sum(_SAID for said in wanted.said if same(said, node.content))
    total += sum(_OWN for said in wanted.said if fold(said) in fold(node.content))
    if not types and wanted.plural and wanted.head:
        total += 1
    return total + _holding(node, wanted)


def _in(word: str, names: frozenset[str], wanted: Phrase) -> bool:
    """Whether a stem is among names, perhaps with another ending."""
    if word in names or not wanted.inflected:
        return word in names
    return any(_begin_alike(word, name) for name in names)


def _begin_alike(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    same = max(shorter - _ENDING, _STEM)
    return shorter >= _STEM and one[:same] == other[:same]


def _inside(view: View, node: Node, kind: str, called: frozenset[str]) -> int:
    """What it counts that an element lies in such a thing, or in one that is called so."""
    if kind == "hero":
        hero = view.hero
        return _AROUND if hero and view.within(node, [hero.id]) else -_OWN
    types = _TYPES.get(kind, frozenset())
    return _AROUND if called or any(one.type in types for one in view.around(node)) else -_OWN


def _holding(node: Node, wanted: Phrase) -> int:
    """Where no kind is named, a thing with that name is rather the whole than a part."""
    if wanted.head:
        return 0
    return 1 if node.type in SECTIONS else 0


def _chosen(nodes: Sequence[Node], wanted: Phrase) -> list[Node]:
    if wanted.nth and nodes:
        place = len(nodes) - 1 if wanted.nth == "last" else int(wanted.nth) - 1
        return [nodes[place]] if place < len(nodes) else []
    if wanted.every or wanted.plural:
        return list(nodes)
    return list(nodes[:1])


def letters(nodes: Sequence[Node], wanted: Phrase) -> list[Node]:
    """Return what in a section is written: the things a plural means, or all texts."""
    kind = {"quote": "quote", "item": "item"}.get(wanted.head)
    keep: Callable[[Node], bool] = (
        (lambda one: one.type == kind) if kind else (lambda one: one.type in _LETTERS)
    )
    return [one for node in nodes for one in node.walk() if keep(one)]
