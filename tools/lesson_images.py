"""Images for a lesson: looked for, and those that a person chose kept (B40, B62); no model calls these."""

from typing import Any, Final

from pydantic import Field

from providers import images
from state import assets
from state.errors import Invalid
from state.pictures import Picture, on_the_web, picture_id
from tools.call import Call
from tools.lesson_arguments import LessonArguments
from tools.registry import index, tool
from tools.terms import Terms

_SEARCHING: Final = Terms(timeout_s=15.0, tries=2)
_NO_SEARCH: Final = (
    "There is no image search here: set GOOGLE_SEARCH_KEY and GOOGLE_SEARCH_ENGINE, or add images yourself."
)


class Search(LessonArguments):
    """What the images show."""

    words: str = Field(
        "", description="What to look for; what the lesson is about when left out", max_length=300
    )


class Chosen(LessonArguments):
    """An image that a person chose."""

    image: Picture


@tool(
    schema=Search,
    display="Looking for images",
    reads=("narration", "images"),
    writes=("images",),
    terms=_SEARCHING,
)
async def findImagesTool(args: Search, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Look for images that suit the lesson; without a search it says so, and finds none."""
    words = args.words or await _topic(call)
    search = images.search()
    if isinstance(search, images.NoSearch):
        return await _found(call, words, [], _NO_SEARCH)
    found = [one for one in await search.top(words) if on_the_web(one.url)]
    pictures = {picture_id(one.url): _picture(one, number) for number, one in enumerate(found, 1)}
    if not pictures and args.words:
        raise Invalid(f"no images were found for {words[:80]!r}", remedy="say it in other words")
    count = f"{len(pictures)} image{'s' * (len(pictures) != 1)}"
    told = f"I found {count} for {words!r}." if pictures else f"I found no images for {words!r}."
    return await _found(call, words, [*pictures.values()], told)


@tool(schema=Chosen, display="Keeping an image", writes=(assets.ASSETS,))
async def addImageTool(args: Chosen, call: Call) -> dict[str, Any]:  # noqa: N802
    """Keep an image that a person chose beside the lesson, with its source and whose it is."""
    data = assets.of_picture(args.image, f"{args.image.id}-{call.id[-8:]}")
    result = {"success": True, "message": f"Added: {args.image.title}.", "asset": data}
    return await call.write(assets.ASSETS, data, result=result)


TOOLS: Final = index(lesson=(findImagesTool, addImageTool))
"""Beside those that a model may call."""


async def _topic(call: Call) -> str:
    newest = (await call.artefact.tip("narration")).newest
    if newest is None:
        raise Invalid("there is no narration yet to find images for", remedy="write one first")
    return str(newest.data["topic"])


def _picture(one: images.Image, number: int) -> Picture:
    return Picture(
        id=picture_id(one.url),
        title=one.title or one.credit or f"image {number}",
        url=one.url,
        thumbnail=one.thumbnail,
        page=one.page,
        credit=one.credit,
        type=one.type,
    )


async def _found(call: Call, words: str, pictures: list[Picture], told: str) -> dict[str, Any]:
    shown = {"words": words, "images": [one.model_dump() for one in pictures]}
    return await call.write("images", shown, result={"success": True, "message": told, **shown})
