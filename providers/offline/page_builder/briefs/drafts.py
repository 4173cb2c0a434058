"""A brief as edits: a headline, and a section for each thing the page does not have yet."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from providers.offline.answer import Request
from providers.offline.lexicon import SPOKEN
from providers.offline.page_builder import kits, places
from providers.offline.page_builder.briefs.reading import Brief, Topic
from providers.offline.page_builder.clauses import Clause
from providers.offline.page_builder.edits import Edit, Scene, Unclear, modified
from providers.offline.page_builder.notes import Note, note, quoted, word
from providers.offline.page_builder.view import ROOT, Node, View
from providers.offline.page_builder.words import pieces, stems
from state.page import walk
from state.starter_page import START

_MOST: Final = 12
"""Sections that are made of one message."""
_FORMS: Final = frozenset({"contact", "form", "signup"})
_ENGLISH: Final = frozenset({"quotes", "faq", "gallery", "team", "features"})
"""Ready-made sections that ask for what is to stand there."""
_PARTS: Final = frozenset({"hero", "header", "footer", "nav", "button", "video", "divider"})
"""Kinds of elements that are made as they are, without a section around."""
_THINGS: Final = frozenset(stem for word in ("form", "section", "list") for stem in stems(word))
_HEADLINE, _BELOW = (
    next(one.content for one, _ in walk(START.root) if one.type == kind and one.label != "Brand")
    for kind in ("heading", "text")
)
_IS: Final = ("are", "is", "são", "é", "son", "es", "sunt", "to", "jsou", "je", "là", "adalah")
_TOLD: Final = rf"\s*(?:[:：]|\b(?:{'|'.join(_IS)})\b|คือ|是)\s*(?P<said>\S.*)"
"""What stands between a heading and what is told of it."""


def drafted(brief: Brief, scene: Scene) -> tuple[list[Edit], list[Note]]:
    """Return the edits that make of a page what a brief asks for, and what a person is told beside."""
    if brief == Brief(brief.language):
        return [], [note("draft.asked")]
    edits, told = _opening(brief, scene.view)
    lacking = [one for one in brief.topics if not one.look and not _there(one, brief.language, scene.view)]
    edits += [_added(_section(one, brief.language), scene) for one in lacking[:_MOST]]
    for text in [*(one.heading for one in brief.topics if one.look), *brief.rest]:
        made, why = _look(text, brief.language, scene)
        edits, told = [*edits, *made], [*told, *why]
    return edits, [*told, *_told(brief, lacking)]


def _opening(brief: Brief, view: View) -> tuple[list[Edit], list[Note]]:
    """Return the edits that say whose page it is, where nobody has written there yet."""
    title = view.title
    if not brief.title:
        unnamed = title is None or title.content == _HEADLINE
        return [], [note("draft.whose")] if unnamed else []
    if title is None:
        return [_hero(brief, view)], []
    if title.content == brief.title:
        return [], []
    if title.content != _HEADLINE:
        return [], [note("draft.headline", text=title.content)]
    below = next((one for one in view.nodes if one.content == _BELOW), None)
    edits = [modified(title, {"content": brief.title})]
    return [*edits, *([modified(below, {"content": brief.below})] if below and brief.below else [])], []


def _hero(brief: Brief, view: View) -> Edit:
    text = [kits.Spec(type="text", content=brief.below)] if brief.below else []
    spec = kits.section(brief.title, *text, label="Hero", level="1")
    top = [one for one in view.root.children if one.type in {"header", "nav"}]
    rest = [one for one in view.root.children if one not in top]
    place = (rest[0].id, "before") if rest else (ROOT, "inside")
    return _created(spec, place, [note("draft.headline_added", text=brief.title)])


def _added(spec: kits.Spec, scene: Scene) -> Edit:
    said = [note("draft.added", what=places.named(spec)), *places.lacking(spec)]
    return _created(spec, places.usual_place(spec, scene), said)


def _created(spec: kits.Spec, place: places.Place, said: Sequence[Note]) -> Edit:
    args = {"parentId": place[0], **places.made(spec), "position": place[1]}
    return Edit(Request("create_element", args), said)


def _kind(topic: Topic, language: str) -> str:
    """Return the kind of a topic that is an element by itself: "a footer"; empty for any other."""
    kinds = [name for one in pieces(topic.heading, language) for name in one.names("kind")]
    return kinds[0] if len(kinds) == 1 and kinds[0] in _PARTS and not topic.kind else ""


def _section(topic: Topic, language: str) -> kits.Spec:
    if _kind(topic, language):
        made = kits.wanted(Clause(topic.heading, tuple(pieces(topic.heading, language)), language=language))
        return made or kits.section(topic.heading)
    label = topic.heading[:80]
    if topic.kind in _FORMS and not topic.said:
        return kits.section(topic.heading, _form(topic, language), label=label)
    if _is_ready(topic, language) and not topic.said:
        return kits.ready(topic.kind, topic.heading, language)
    text = topic.said or _todo(topic.heading, language)
    return kits.section(topic.heading, {"type": "text", "content": text}, label=label)


def _is_ready(topic: Topic, language: str) -> bool:
    return topic.kind in _ENGLISH and language == "english"


def _form(topic: Topic, language: str) -> kits.Spec:
    if topic.kind == "signup":
        return kits.form(["email"], "subscribe", language)
    fields = [one for one in topic.fields if one != "message"] or ["name", "email"]
    message = "message" in topic.fields or not topic.fields
    return kits.form(fields, "send", language, message=message)


def _todo(heading: str, language: str) -> str:
    return word(language, "todo", what=heading)


def _there(topic: Topic, language: str, view: View) -> Node | None:
    """Return what of a page is about a topic already."""
    if kind := _kind(topic, language):
        return view.hero if kind == "hero" else next((one for one in view.nodes if one.type == kind), None)
    wanted = stems(topic.heading)
    wanted = (wanted - _THINGS) or wanted
    sections = (one for one in view.nodes if one.type == "section")
    return next((one for one in sections if wanted and one.is_about(wanted)), None)


def _look(text: str, language: str, scene: Scene) -> tuple[list[Edit], list[Note]]:
    """Return the edits of what is said of how the whole page looks, and what is told of anything else."""
    clause = Clause(text, tuple(pieces(text, language)), language=language)
    if not places.is_theme(clause):
        return [], [note("draft.again", text=text)]
    try:
        return places.themed(clause, scene), []
    except Unclear as unclear:
        return [], [unclear.note]


def _told(brief: Brief, lacking: Sequence[Topic]) -> Iterator[Note]:
    """Yield what a person is told of what was made: what is missing still, and what it cannot do."""
    made = [one for one in lacking[:_MOST] if not one.said and not _kind(one, brief.language)]
    ready = [one for one in made if _is_ready(one, brief.language)]
    asked = [one for one in made if one.kind not in _FORMS and one not in ready]
    if there := [one for one in brief.topics if not one.look and one not in lacking]:
        yield note("draft.there", list=_listed(there))
    if asked:
        yield note("draft.missing", list=_listed(asked), first=asked[0].heading)
    if ready:
        yield note("draft.ready", list=_listed(ready))
    if forms := [one for one in made if one.kind in _FORMS]:
        yield note("draft.nowhere", list=_listed(forms))
    if machines := [one for one in asked if one.kind == "machine"]:
        yield note("draft.machines", list=_listed(machines))
    if more := lacking[_MOST:]:
        yield note("draft.more", most=str(_MOST), list=_listed(more))


def _listed(topics: Sequence[Topic]) -> Sequence[Note]:
    return [quoted(one.heading) for one in topics]


def told(message: str, view: View) -> list[Edit]:
    """Return the edits that put in what a draft asked for: "Opening hours: 9 to 5"."""
    edits, asking = [], _asking(view)
    for line in message.splitlines():
        for heading, text in asking.items():
            before = rf"(?:\W*\w{{1,8}}\s+)?{re.escape(heading)}"
            found = re.match(before + _TOLD, line.strip(), re.IGNORECASE)
            if found:
                edits.append(modified(text, {"content": found["said"].rstrip(".。 ")}))
    return edits


def _asking(view: View) -> Mapping[str, Node]:
    """Return the texts of a page that ask for what is to stand there, by the heading above."""
    found = {}
    for holder in view.nodes:
        headings = [one.content for one in holder.children if one.type == "heading"]
        texts = [one for one in holder.children if one.type == "text"]
        if headings and texts and any(texts[0].content == _todo(headings[0], one) for one in SPOKEN):
            found[headings[0]] = texts[0]
    return found
