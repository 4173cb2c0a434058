"""What models say when they call the tools of a page (C21, C22).

Who asks and about which page is the server's to say: names for that are left out wherever a model gives
them, whatever they hold. Anything else that is not listed is refused.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from callsheet.state.pages.page import MAX_LABEL, MAX_TEXT

_SERVERS: Final = {"userId", "ownerId", "pageId", "conversationId", "threadId", "toolCallId"}
"""What C2 makes the server's."""


def _texts(values: Any) -> Any:
    """Numbers and flags as HTML and CSS write them."""
    if not isinstance(values, dict):
        return values
    return {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else None
    return f"{value:g}" if isinstance(value, int | float) else value


Texts = Annotated[dict[str, str | None], BeforeValidator(_texts), Field(max_length=60)]
"""Texts by name; null takes away what is there."""
ElementId = Annotated[
    str,
    Field(
        description="Id of the element, such as heading-1; 'this' for the one the person has selected",
        min_length=1,
        max_length=80,
    ),
]
Position = Annotated[
    Literal["before", "after", "inside"],
    Field(
        description="Where, seen from parentId: inside it (last), before it or after it; inside when left out"
    ),
]


class Arguments(BaseModel):
    """Arguments of a page's tool."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    @model_validator(mode="before")
    @classmethod
    def _only_ours(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name not in _SERVERS}


class ElementChanges(Arguments):
    """What shall be different about an element."""

    style: Texts | None = Field(
        None,
        description="CSS properties to set, such as {'color': '#1d4ed8'}; null removes one",
    )
    content: str | None = Field(None, description="The whole new text, plain, no markup", max_length=MAX_TEXT)
    attributes: Texts | None = Field(
        None, description="HTML attributes to set, such as {'href': 'https://…'}; null removes one"
    )
    label: str | None = Field(
        None, description="What people call the element, such as Pricing", max_length=MAX_LABEL
    )


class ModifyElement(Arguments):
    """Which element to change, and how."""

    elementId: ElementId
    modifications: ElementChanges


class NewElement(Arguments):
    """What a new element is like."""

    content: str | None = Field(None, description="Its text, plain, no markup", max_length=MAX_TEXT)
    label: str | None = Field(None, description="What people call it, such as Pricing", max_length=MAX_LABEL)
    style: Texts | None = Field(None, description="CSS properties, such as {'padding': '48px 24px'}")
    attributes: Texts | None = Field(
        None, description="HTML attributes, such as {'href': '#form-1'}, {'type': 'email'} or {'level': '2'}"
    )
    children: list[dict[str, Any]] | None = Field(
        None,
        description="Elements inside it, in order, each {elementType, properties} like this one",
        max_length=100,
    )


class CreateElement(Arguments):
    """What to make, and where."""

    parentId: ElementId
    elementType: str = Field(
        description="section, container, columns, card, nav, header, footer, heading, text, quote, link, "
        "button, list, item, image, video, divider, form, input, textarea, select or option",
        min_length=1,
        max_length=80,
    )
    properties: NewElement
    position: Position = "inside"


class DeleteElement(Arguments):
    """Which element to delete."""

    elementId: ElementId


class MoveElement(Arguments):
    """Which element to move, and where to."""

    elementId: ElementId
    parentId: ElementId
    position: Position = "inside"


class ApplyTheme(Arguments):
    """How the whole page shall look."""

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
    """Nothing to say."""


class ListElements(Arguments):
    """What part of the page to list."""

    parentId: ElementId | None = Field(
        None, description="Only what is inside this element; else the whole page"
    )


class ReadElement(Arguments):
    """Which element to read."""

    elementId: ElementId


class FindElements(Arguments):
    """What to look for."""

    query: str | None = Field(
        None, description="Words of its text, label, id, attributes or style", max_length=200
    )
    elementType: str | None = Field(None, description="Only elements of this type", max_length=80)


class Undo(Arguments):
    """How far to go back."""

    steps: int = Field(1, description="How many changes to take back; 1 when left out", ge=1, le=50)


class UploadFile(Arguments):
    """Which file is to come."""

    fileType: Literal["image", "video", "document"]
    fileName: str = Field(description="Name with extension, such as logo.png", min_length=1, max_length=210)
    maxSize: int | None = Field(None, description="Most bytes, if fewer than usual")
    allowedFormats: list[str] | None = Field(
        None, description="Extensions that are taken, such as ['png', 'jpg']", min_length=1, max_length=10
    )


class Child(Arguments):
    """An element inside a new one."""

    elementType: str = Field(min_length=1, max_length=80)
    properties: NewElement = NewElement.model_construct()
