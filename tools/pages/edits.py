"""The tools of a landing page: each reads, or writes one version of the page.

An edit is computed from the newest version and its locks; if either changes before the write, it is computed
again. So concurrent edits follow each other and none is lost.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from callsheet.state.errors import Busy, Conflict, Gone, Invalid
from callsheet.state.pages import edits, elements, history
from callsheet.state.pages.history import BEGINNING, PageData
from callsheet.state.pages.notices import notices
from callsheet.state.pages.page import MAX_LABEL, MAX_TEXT, ROOT, STREAM, Element, Page, digest, walk
from callsheet.state.versions import Author, Version
from callsheet.storage.artefacts.artefacts import StreamHead
from callsheet.tools.call import Call
from callsheet.tools.guard.arguments import read_arguments
from callsheet.tools.registry import CallCheck, also, tool

_DECLARATION: Final = re.compile(r"\A\s*(-{0,2}[A-Za-z][\w-]{0,60})\s*:\s*(\S.{0,1000})", re.DOTALL)


def _texts(values: Any) -> Any:
    """Return numbers and booleans in the notation of HTML and CSS, and "color: red; width: 50%" as an object.

    Raises `ValueError` for another text.
    """
    if isinstance(values, str):
        values = _declarations(values)
    if not isinstance(values, dict):
        return values
    return {name: _text(value) for name, value in values.items()}


def _declarations(text: str) -> dict[str, str]:
    matches = [_DECLARATION.fullmatch(part) for part in text.split(";") if part.strip()]
    named = {match[1]: match[2].strip() for match in matches if match}
    if len(named) < len(matches) or not named:
        raise ValueError("write an object of names and values, such as {'color': '#1d4ed8'}")
    return named


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else None
    return f"{value:g}" if isinstance(value, int | float) else value


Texts = Annotated[dict[str, str | None], BeforeValidator(_texts), Field(max_length=60)]
"""Texts by name; null removes one."""
_ID_RULE: Final[dict[str, Any]] = {
    "description": "Id of the element, as in <state>; 'this' for the one the person has selected",
    "min_length": 1,
    "max_length": 80,
}
ElementId = Annotated[
    str, Field(**_ID_RULE, json_schema_extra=also("id", "element", "target", "targetId", "selector"))
]
ParentId = Annotated[str, Field(**_ID_RULE, json_schema_extra=also("parent", "parentElement", "container"))]
ElementType = Annotated[
    str, Field(min_length=1, max_length=80, json_schema_extra=also("type", "kind", "tag"))
]
_CONTENT: Final = also("text", "newContent", "newText", "textContent")
Position = Annotated[
    Literal["before", "after", "inside"],
    Field(description="Relative to parentId: inside it (last), before it or after it; inside when left out"),
]


class Arguments(BaseModel):
    """Arguments of a page's tool."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class ElementChanges(Arguments):
    """Changes of an element."""

    style: Texts | None = Field(
        None,
        description="CSS properties to set, such as {'color': '#1d4ed8'}; null removes one",
        json_schema_extra=also("styles", "css"),
    )
    content: str | None = Field(
        None,
        description="The whole new text, plain, no markup",
        max_length=MAX_TEXT,
        json_schema_extra=_CONTENT,
    )
    attributes: Texts | None = Field(
        None,
        description="HTML attributes to set, such as {'href': '#offer'}; null removes one. Of the element "
        "'page': title, description (50 to 160 characters, for search engines and shared links) and lang",
    )
    label: str | None = Field(
        None,
        description="Leave out unless the element gets another name for people, such as Pricing",
        max_length=MAX_LABEL,
    )


class ModifyElement(Arguments):
    """Arguments of `modify_element`."""

    elementId: ElementId
    modifications: ElementChanges = Field(
        json_schema_extra=also("changes", "updates", "properties", "modification")
    )


class NewPageElement(Arguments):
    """Properties of a new element."""

    content: str | None = Field(
        None,
        description="Its text, plain, no markup",
        max_length=MAX_TEXT,
        json_schema_extra=_CONTENT,
    )
    label: str | None = Field(
        None, description="Leave out unless people have a name for it, such as Pricing", max_length=MAX_LABEL
    )
    style: Texts | None = Field(
        None,
        description="CSS properties, such as {'padding': '48px 24px'}",
        json_schema_extra=also("styles", "css"),
    )
    attributes: Texts | None = Field(
        None, description="HTML attributes, such as {'href': '#form-1'}, {'type': 'email'} or {'level': '2'}"
    )
    children: list[dict[str, Any]] | None = Field(
        None,
        description="Elements inside it, in order, each {elementType, properties} like this one",
        max_length=100,
    )


class CreateElement(Arguments):
    """Arguments of `create_element`."""

    parentId: ParentId
    elementType: ElementType = Field(
        description="section, container, columns, card, nav, header, footer, heading, text, quote, link, "
        "button, list, item, image, video, divider, form, input, textarea, select or option"
    )
    properties: NewPageElement = Field(json_schema_extra=also("props"))
    position: Position = "inside"


class DeleteElement(Arguments):
    """Arguments of `delete_element`."""

    elementId: ElementId


class MoveElement(Arguments):
    """Arguments of `move_element`."""

    elementId: ElementId
    parentId: ParentId
    position: Position = "inside"


class ApplyTheme(Arguments):
    """Arguments of `apply_theme`."""

    theme: str | None = Field(
        None,
        description="light, dark, ocean, forest, sunset, lavender, rose, mono, elegant, playful, corporate "
        "or high-contrast; when left out, the theme stays and only the tokens change",
        max_length=80,
    )
    tokens: Texts | None = Field(
        None,
        description="Single colours and fonts: primary, on-primary, secondary, background, surface, text, "
        "muted, font, heading-font, radius",
    )


class ClearPage(Arguments):
    """Arguments of `clear_page`: none."""


class ListElements(Arguments):
    """Arguments of `list_elements`."""

    parentId: ParentId | None = Field(
        None, description="Leave out for the whole page; else only what is inside this element"
    )


class ReadElement(Arguments):
    """Arguments of `read_element`."""

    elementId: ElementId


class FindElements(Arguments):
    """Arguments of `find_elements`."""

    query: str | None = Field(
        None,
        description="Words of its text, label, id, attributes or style; leave out to find by type",
        max_length=200,
    )
    elementType: str | None = Field(
        None, description="Leave out unless only elements of this type are wanted", max_length=80
    )


class Undo(Arguments):
    """Arguments of `undo`."""

    steps: int = Field(1, description="Leave out unless several changes are to be undone", ge=1, le=50)


class Child(Arguments):
    """An element inside a new one."""

    elementType: ElementType
    properties: NewPageElement = NewPageElement.model_construct()


IDLE: Final = "idle"
"""Name of the fact that the request before this one changed nothing."""
_EARLIER: Final = {"note": "The last request changed nothing; this took back the change before it. Say so."}
MAX_TRIES: Final = 20
"""Attempts at an edit before it gives up to concurrent ones."""
MAX_RESULTS: Final = 50
"""Elements that a search returns."""
MAX_SHOWN: Final = 120
"""Characters of an element's text in a list."""
_THIS: Final = {"this", "it", "that", "selected", "selection", "this element", "the selected element"}
_WRITTEN_ID: Final = re.compile(r"[#\[]?([A-Za-z][A-Za-z0-9-]{0,79})\]?(?: \(.{0,200}\))?")
"""An id as a model writes it: as a selector, in brackets, or with the words beside it in the state."""
_PAGE: Final = (STREAM,)
Edit = Callable[[Page, StreamHead], tuple[Page, str]]
"""Maps the page and its head to the new page and the id of the edited element."""


def _modification(args: ModifyElement, call: Call) -> Edit:
    name, changes = _resolve(args.elementId, call), args.modifications.model_dump()
    return lambda page, _: (edits.modify(page, name, **changes), name)


def _creation(args: CreateElement, call: Call) -> Edit:
    new = _new_element(args.elementType, args.properties)
    parent = _resolve(args.parentId, call)
    return lambda page, _: edits.create(page, parent, new, args.position)


def _deletion(args: DeleteElement, call: Call) -> Edit:
    name = _resolve(args.elementId, call)
    return lambda page, _: (edits.delete(page, name), name)


def _clearing(args: ClearPage, call: Call) -> Edit:
    del args, call
    return lambda page, _: (edits.clear(page), ROOT)


def _check_of(edit_of: Callable[[Any, Call], Edit]) -> CallCheck[Any]:
    """Return the check that an edit is possible on the page as it is now, with its locks."""

    async def check(args: Any, call: Call) -> None:
        head, before = await _current_page(call)
        after, _ = edit_of(args, call)(before, head)
        edits.check_locks(before, after, head.locked)

    return check


@tool(
    schema=ModifyElement,
    display="Changing the page",
    reads=_PAGE,
    writes=_PAGE,
    check=_check_of(_modification),
)
async def modify_element(args: ModifyElement, call: Call) -> dict[str, Any]:
    """Change the text, style, attributes or label of one element. Everything else stays as it is.

    <state> has the ids; change only the element that the person means.
    """
    return await _apply(call, _modification(args, call))


@tool(
    schema=CreateElement, display="Adding to the page", reads=_PAGE, writes=_PAGE, check=_check_of(_creation)
)
async def create_element(args: CreateElement, call: Call) -> dict[str, Any]:
    """Add an element with everything inside it: a complete form or section in one call.

    parentId is the reference: the element comes last inside it, or before or after it. Returns the new id.
    """
    return await _apply(call, _creation(args, call))


@tool(
    schema=DeleteElement,
    display="Deleting from the page",
    safety="potentially_destructive",
    reads=_PAGE,
    writes=_PAGE,
    check=_check_of(_deletion),
)
async def delete_element(args: DeleteElement, call: Call) -> dict[str, Any]:
    """Delete an element and everything inside it."""
    return await _apply(call, _deletion(args, call))


@tool(schema=MoveElement, display="Moving on the page", reads=_PAGE, writes=_PAGE)
async def move_element(args: MoveElement, call: Call) -> dict[str, Any]:
    """Move an element, with everything inside it, to another place on the page. Its id stays."""
    name, parent = _resolve(args.elementId, call), _resolve(args.parentId, call)
    return await _apply(
        call, lambda page, _: (edits.move(page, name, parent, args.position), name), shifted=name
    )


@tool(schema=ApplyTheme, display="Applying a theme", reads=_PAGE, writes=_PAGE)
async def apply_theme(args: ApplyTheme, call: Call) -> dict[str, Any]:
    """Change the colours and fonts of the whole page: a named theme, single tokens, or both.

    Styles of single elements stay, and locked elements keep the look they have.
    """
    tokens = _without_nulls(args.tokens)
    if args.theme is None and not tokens:
        raise Invalid("neither theme nor tokens are given", remedy="name a theme, or give colours and fonts")
    return await _apply(
        call, lambda page, head: (edits.apply_theme(page, args.theme, tokens, head.locked - {ROOT}), ROOT)
    )


@tool(
    schema=ClearPage,
    display="Emptying the page",
    safety="potentially_destructive",
    reads=_PAGE,
    writes=_PAGE,
    check=_check_of(_clearing),
)
async def clear_page(args: ClearPage, call: Call) -> dict[str, Any]:
    """Delete everything on the page; its theme and title stay. Only if the person asks to start over."""
    return await _apply(call, _clearing(args, call))


@tool(schema=Undo, display="Taking a change back", reads=_PAGE, writes=_PAGE)
async def undo(args: Undo, call: Call) -> dict[str, Any]:
    """Undo the last changes of the page. Called again, it goes further back; earlier versions stay."""
    for _ in range(MAX_TRIES):
        head, before = await _current_page(call)
        restored = head.newest
        for undone in range(args.steps):
            restored = await _previous_version(call, restored, undone)
        data = history.undo_version(before, restored)
        parent = restored.id if restored else None
        edits.check_locks(before, history.page_of(restored), head.locked)
        about = {"restored": parent or BEGINNING, **(_EARLIER if call.scope.facts.get(IDLE) else {})}
        if result := await _try_write(call, data, about, head, parent, "undo"):
            return result
    raise _too_busy(call)


@tool(schema=ListElements, display="Looking at the page", reads=_PAGE)
async def list_elements(args: ListElements, call: Call) -> dict[str, Any]:
    """List the elements of the page in order: id, type, text and depth.

    <state> has them already; call it only where <state> leaves elements out.
    """
    head, page = await _current_page(call)
    top = page.get(_resolve(args.parentId, call)) if args.parentId else page.root
    listed = [_line(element, head) | {"depth": depth} for element, depth in walk(top)]
    return {
        "versionId": head.newest.id if head.newest else None,
        "selectedElementId": call.scope.selected or None,
        "theme": dict(page.theme),
        "count": len(listed),
        "elements": listed,
    }


@tool(schema=ReadElement, display="Reading an element", reads=_PAGE)
async def read_element(args: ReadElement, call: Call) -> dict[str, Any]:
    """Read one element: text, style, attributes, parent and children."""
    head, page = await _current_page(call)
    element = page.get(_resolve(args.elementId, call))
    parent = page.parents().get(element.id)
    return {
        "versionId": head.newest.id if head.newest else None,
        **element.model_dump(mode="json", exclude={"children"}),
        "parentId": parent,
        "children": [_line(one, head) for one in element.children],
        "locked": _is_locked(element.id, page, head),
        "digest": digest(element),
    }


@tool(schema=FindElements, display="Searching the page", reads=_PAGE)
async def find_elements(args: FindElements, call: Call) -> dict[str, Any]:
    """Find elements by words of their text, label, id, attributes or style, and by their type."""
    if not args.query and not args.elementType:
        raise Invalid("neither query nor elementType is given", remedy="give words or a type to search for")
    head, page = await _current_page(call)
    kind = elements.parse_kind(args.elementType) if args.elementType else None
    words = (args.query or "").casefold().split()
    parents = page.parents()
    matches = [
        _line(element, head) | {"parentId": parents.get(element.id)}
        for element, _ in walk(page.root)
        if kind in {None, element.type} and all(word in _searchable_text(element) for word in words)
    ]
    return {"count": len(matches), "elements": matches[:MAX_RESULTS]}


TOOLS: Final = (
    modify_element,
    create_element,
    delete_element,
    move_element,
    apply_theme,
    clear_page,
    list_elements,
    read_element,
    find_elements,
    undo,
)


async def _current_page(call: Call) -> tuple[StreamHead, Page]:
    head = await call.artefact.stream_head(STREAM)
    return head, history.page_of(head.newest)


def resolve_element_id(name: str, selected: str) -> str:
    """Return the id of an argument: "this" is the selected element; empty if none is selected.

    "#heading-1", "[Heading-1]" and "heading-1 (Fresh bread)" name heading-1.
    """
    if name.casefold() in _THIS:
        return selected
    match = _WRITTEN_ID.fullmatch(name)
    return match[1].lower() if match else name


def _resolve(name: str, call: Call) -> str:
    element_id = resolve_element_id(name, call.scope.selected)
    if not element_id:
        raise Invalid(
            f"no element is selected, so {name!r} names none",
            remedy="search with find_elements, or ask the person",
        )
    return element_id


async def _apply(call: Call, edit: Edit, *, shifted: str | None = None) -> dict[str, Any]:
    for _ in range(MAX_TRIES):
        head, before = await _current_page(call)
        after, about = edit(before, head)
        edits.check_locks(before, after, head.locked, shifted)
        data = history.edit_version(head.newest, before, after)
        seen = notices(before, after)
        if result := await _try_write(
            call, data, {"elementId": about, **({"notices": seen} if seen else {})}, head
        ):
            return result
    raise _too_busy(call)


async def _try_write(
    call: Call,
    data: PageData,
    result: Mapping[str, Any],
    head: StreamHead,
    parent: str | None = None,
    by: Author = "model",
) -> dict[str, Any] | None:
    """Return the version's result; None if another version or a lock came first."""
    changes = {"pageId": call.scope.artefact, "changes": history.change_lines(data["changes"])}
    try:
        return await call.write(
            STREAM, data, parent=parent, result={**result, **changes}, expected_head=head, by=by
        )
    except Conflict:
        return None


def _too_busy(call: Call) -> Busy:
    return Busy(
        f"concurrent edits changed the page {call.scope.artefact!r} each time", remedy="try again in a moment"
    )


async def _previous_version(call: Call, version: Version | None, undone: int) -> Version | None:
    back = history.undo_target(version, undone)
    try:
        return None if back == BEGINNING else await call.artefact.version(STREAM, back)
    except Gone as gone:
        place = f"after {undone} change{'s' * (undone != 1)}" if undone else "here"
        raise Gone(
            f"undo ends {place}: the version before is not kept any more",
            remedy=f"undo {undone}, or fewer" if undone else "say what shall change",
        ) from gone


def _new_element(kind: str, properties: NewPageElement) -> dict[str, Any]:
    try:
        children = [_child(one) for one in properties.children or ()]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Invalid(
            f"an element inside the {kind} is invalid: {where}: {first['msg']}",
            remedy="give each as {elementType, properties}",
        ) from error
    return {
        "type": kind,
        "content": properties.content,
        "label": properties.label,
        "style": _without_nulls(properties.style),
        "attributes": _without_nulls(properties.attributes),
        "children": [_new_element(one.elementType, one.properties) for one in children],
    }


def _child(given: Mapping[str, Any]) -> Child:
    """Return an element inside a new one, read as generously as the arguments around it."""
    read, ignored = read_arguments(Child, given)
    if ignored:
        raise Invalid(
            f"an element inside has unknown properties: {', '.join(ignored)[:200]}",
            remedy="properties has content, label, style, attributes and children",
        )
    return Child.model_validate(read)


def _without_nulls(texts: Mapping[str, str | None] | None) -> dict[str, str]:
    return {name: text for name, text in (texts or {}).items() if text is not None}


def _line(element: Element, head: StreamHead) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": element.id, "type": element.type}
    if element.label:
        shown["label"] = element.label
    if element.content:
        shown["content"] = _short(element.content)
    return shown | ({"locked": True} if element.id in head.locked else {})


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def _is_locked(name: str, page: Page, head: StreamHead) -> bool:
    parents, at = page.parents(), name
    while at not in head.locked and at in parents:
        at = parents[at]
    return at in head.locked


def _searchable_text(element: Element) -> str:
    parts = [element.id, element.type, element.label, element.content]
    for named in (element.attributes, element.style):
        parts.extend(f"{name}:{value}" for name, value in named.items())
    return " ".join(parts).casefold()
