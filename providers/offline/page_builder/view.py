"""A page as the model has seen it: read from the tools' answers, looked up by what people call things."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from providers.offline.lexicon import fold
from providers.offline.page_builder.notes import Note, note
from providers.offline.page_builder.words import stems

ROOT: Final = "page"
SECTIONS: Final = frozenset({"section", "header", "footer", "nav"})
HOLDERS: Final = SECTIONS | {"page", "container", "columns", "card", "list", "form"}
TEXTS: Final = frozenset({"heading", "text", "quote", "item", "link"})
"""Kinds whose colour is that of their letters."""
_MEANT: Final[Mapping[str, frozenset[str]]] = {
    "faq": frozenset({"question"}),
    "testimonial": frozenset({"review", "quote", "guest"}),
    "review": frozenset({"testimonial"}),
    "pric": frozenset({"plan"}),
    "logo": frozenset({"brand"}),
    "picture": frozenset({"image"}),
}
"""Stems people use for what is called otherwise."""


@dataclass(frozen=True)
class Node:
    """One element."""

    id: str
    type: str
    label: str = ""
    content: str = ""
    style: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: tuple["Node", ...] = ()
    read: bool = False
    """Whether its style, its attributes and its whole text were read, not only listed."""

    def walk(self) -> Iterator["Node"]:
        """Yield it and all inside it, in the order of reading."""
        yield self
        for child in self.children:
            yield from child.walk()

    @cached_property
    def names(self) -> frozenset[str]:
        """What it may be called by: stems of its id, label, text, and what a holder's heading says."""
        own = [self.id.replace("-", " "), self.label, self.content]
        own += [self.attributes.get(name, "") for name in ("alt", "placeholder", "name", "label", "type")]
        if self.type in HOLDERS - {ROOT}:
            own += [node.content for node in self.walk() if node.type == "heading"][:1]
        found = frozenset().union(*(stems(text) for text in own))
        return found | frozenset().union(*(_MEANT.get(one, frozenset()) for one in found))

    def is_about(self, wanted: frozenset[str]) -> bool:
        """Return whether it may be called by all these stems, or by others that mean the same."""
        return all({one, *_MEANT.get(one, ())} & self.names for one in wanted)

    def called(self) -> Note:
        """Return how the model speaks of it."""
        if self.type == "page":
            return note("thing.page")
        said = self.label or self.content or next((one.content for one in self.walk() if one.content), "")
        said = said or self.attributes.get("alt") or self.attributes.get("placeholder") or ""
        kind = note(f"kind.{self.type}")
        named = note("thing.named", kind=kind, said=_short(said))
        return named if said else note("thing.bare", kind=kind, id=self.id)

    def spoken(self) -> dict[str, Any]:
        """Return what makes the same element anew."""
        fields: dict[str, Any] = {"label": self.label, "content": self.content, "style": dict(self.style)}
        fields |= {"attributes": dict(self.attributes), "children": [one.spoken() for one in self.children]}
        return {"type": self.type, **{name: value for name, value in fields.items() if value}}


@dataclass(frozen=True)
class View:
    """The whole page, and what is said of it beside."""

    root: Node
    theme: Mapping[str, str] = field(default_factory=dict)
    selected: str = ""
    locked: frozenset[str] = frozenset()

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All elements but the page itself, in the order of reading."""
        return tuple(self.root.walk())[1:]

    @cached_property
    def parents(self) -> Mapping[str, Node]:
        """The element each lies in, by its id."""
        return {child.id: node for node in self.root.walk() for child in node.children}

    def get(self, element_id: str) -> Node | None:
        """Return an element by its id."""
        return next((node for node in self.root.walk() if node.id == element_id), None)

    def around(self, node: Node) -> Iterator[Node]:
        """Yield what an element lies in, from the inside out, without the page."""
        while (holder := self.parents.get(node.id)) and holder.id != ROOT:
            yield holder
            node = holder

    def within(self, node: Node, ids: Sequence[str]) -> bool:
        """Return whether an element is one of these, or lies in one."""
        return node.id in ids or any(one.id in ids for one in self.around(node))

    def beside(self, ids: Sequence[str]) -> list[Node]:
        """Return the largest elements that neither are one of these, nor hold one."""
        return list(_beside(self.root, frozenset(ids)))

    def context(self, node: Node) -> frozenset[str]:
        """Return what the things an element lies in may be called by."""
        inner = (one.names | {one.type} for one in self.around(node))
        return frozenset().union(*inner)

    @property
    def title(self) -> Node | None:
        """The main heading: the first of the first level, else the first."""
        headings = [node for node in self.nodes if node.type == "heading"]
        first = [node for node in headings if node.attributes.get("level") == "1"]
        return next(iter(first or headings), None)

    @property
    def hero(self) -> Node | None:
        """The section people call hero: named so, else the first that is not header, navigation or footer."""
        named = (node for node in self.nodes if node.type in HOLDERS and "hero" in node.names)
        sections = (node for node in self.nodes if node.type == "section")
        return next(named, None) or next(sections, None)


def _beside(holder: Node, ids: frozenset[str]) -> Iterator[Node]:
    for child in holder.children:
        if ids.isdisjoint(node.id for node in child.walk()):
            yield child
        elif child.id not in ids:
            yield from _beside(child, ids)


def view_of(listed: Mapping[str, Any], read: Mapping[str, Mapping[str, Any]]) -> View | None:
    """Return the page as `list_elements` listed it, with what `read_element` told, by the elements' ids."""
    lines = [one for one in listed.get("elements") or () if isinstance(one, Mapping)]
    if not lines:
        return None
    root, _ = _built(lines, 0, read)
    locked = frozenset(str(one.get("id")) for one in lines if one.get("locked"))
    return View(root, dict(listed.get("theme") or {}), str(listed.get("selectedElementId") or ""), locked)


def _built(
    lines: Sequence[Mapping[str, Any]], at: int, read: Mapping[str, Mapping[str, Any]]
) -> tuple[Node, int]:
    """Return the element on a line with all inside it, and the line after it."""
    line, children, after = lines[at], [], at + 1
    while after < len(lines) and lines[after].get("depth", 0) > line.get("depth", 0):
        child, after = _built(lines, after, read)
        children.append(child)
    told = read.get(str(line.get("id")))
    data = {**line, **(told or {})}
    node = Node(
        id=str(data.get("id", "")),
        type=str(data.get("type", "")),
        label=str(data.get("label") or ""),
        content=str(data.get("content") or ""),
        style=dict(data.get("style") or {}),
        attributes=dict(data.get("attributes") or {}),
        children=tuple(children),
        read=told is not None,
    )
    return node, after


def same(one: str, other: str) -> bool:
    """Return whether two texts are the same but for case and accents."""
    return fold(" ".join(one.split())) == fold(" ".join(other.split()))


def _short(text: str, most: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
