"""Arguments of the page's tools.

Unknown fields are refused; the guard has dropped a model's before.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from callsheet.state.pages.page import MAX_LABEL, MAX_TEXT


def _texts(values: Any) -> Any:
    """Return numbers and booleans in the notation of HTML and CSS."""
    if not isinstance(values, dict):
        return values
    return {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else None
    return f"{value:g}" if isinstance(value, int | float) else value


Texts = Annotated[dict[str, str | None], BeforeValidator(_texts), Field(max_length=60)]
"""Texts by name; null removes one."""
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
    )
    content: str | None = Field(None, description="The whole new text, plain, no markup", max_length=MAX_TEXT)
    attributes: Texts | None = Field(
        None, description="HTML attributes to set, such as {'href': 'https://…'}; null removes one"
    )
    label: str | None = Field(
        None,
        description="Leave out unless the element gets another name for people, such as Pricing",
        max_length=MAX_LABEL,
    )


class ModifyElement(Arguments):
    """Arguments of `modify_element`."""

    elementId: ElementId
    modifications: ElementChanges


class NewPageElement(Arguments):
    """Properties of a new element."""

    content: str | None = Field(None, description="Its text, plain, no markup", max_length=MAX_TEXT)
    label: str | None = Field(
        None, description="Leave out unless people have a name for it, such as Pricing", max_length=MAX_LABEL
    )
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
    """Arguments of `create_element`."""

    parentId: ElementId
    elementType: str = Field(
        description="section, container, columns, card, nav, header, footer, heading, text, quote, link, "
        "button, list, item, image, video, divider, form, input, textarea, select or option",
        min_length=1,
        max_length=80,
    )
    properties: NewPageElement
    position: Position = "inside"


class DeleteElement(Arguments):
    """Arguments of `delete_element`."""

    elementId: ElementId


class MoveElement(Arguments):
    """Arguments of `move_element`."""

    elementId: ElementId
    parentId: ElementId
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

    parentId: ElementId | None = Field(
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


class UploadFile(Arguments):
    """Arguments of `upload_file`."""

    fileType: Literal["image", "video", "document"]
    fileName: str = Field(description="Name with extension, such as logo.png", min_length=1, max_length=210)
    maxSize: int | None = Field(None, description="Leave out unless the person limits the size, in bytes")
    allowedFormats: list[str] | None = Field(
        None,
        description="Leave out unless the person names formats: extensions such as ['png', 'jpg']",
        min_length=1,
        max_length=10,
    )


class Child(Arguments):
    """An element inside a new one."""

    elementType: str = Field(min_length=1, max_length=80)
    properties: NewPageElement = NewPageElement.model_construct()
