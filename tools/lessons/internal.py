"""Tools that only the workflow calls: a person's decisions about facts, narration and images."""

import asyncio
from typing import Any, Final

from pydantic import Field

from callsheet.providers import images
from callsheet.state.errors import Conflict, Invalid
from callsheet.state.lessons import assets, lesson, narration_edits
from callsheet.state.lessons.facts import Fact, distinct
from callsheet.state.lessons.images import Picture, on_the_web, picture_id
from callsheet.state.lessons.narration import Narration
from callsheet.state.lessons.narration_edits import SegmentEdit
from callsheet.state.lessons.selection import MOST_CHOSEN
from callsheet.tools.guard.call import Call
from callsheet.tools.guard.policy import ToolOptions
from callsheet.tools.lessons.arguments import LessonArguments
from callsheet.tools.registry import tool

_TRIES: Final = 5


class FactList(LessonArguments):
    """Facts as a person wants them."""

    facts: list[Fact] = Field(min_length=1, max_length=MOST_CHOSEN)


@tool(schema=FactList, display="Noting the choice", reads=("facts",), writes=("confirmed",), internal=True)
async def confirmFactsTool(args: FactList, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Confirm the facts that the lesson tells (B41)."""
    facts = [fact.model_dump() for fact in args.facts]
    count = f"{len(facts)} fact{'s' * (len(facts) != 1)}"
    result = {
        "success": True,
        "message": f"The lesson tells {count}.",
        "confirmedFacts": facts,
        "status": "facts_confirmed",
    }
    return await call.write("confirmed", {"facts": facts}, result=result)


@tool(schema=FactList, display="Adding to the facts", reads=("facts",), writes=("facts",), internal=True)
async def addFactsTool(args: FactList, call: Call) -> dict[str, Any]:  # noqa: N802
    """Add facts that a person states to those proposed, which keep their ids (B54)."""
    for _ in range(_TRIES):
        tip = await call.artefact.stream_head("facts")
        data = dict(tip.newest.data) if tip.newest else {}
        known = [Fact.model_validate(one) for one in data.get("facts", ())]
        facts = [fact.model_dump() for fact in distinct([*known, *args.facts])]
        names = ", ".join(fact.concept for fact in args.facts)
        shown = {**data, "facts": facts}
        result = {"success": True, "message": f"Added: {names}.", "facts": facts, "status": "facts_extracted"}
        try:
            return await call.write("facts", shown, result=result, expected_head=tip)
        except Conflict:
            continue
    raise Conflict("the lesson's facts kept changing", remedy="try again")


class SegmentEdits(LessonArguments):
    """Segments as a person wants them."""

    edits: list[SegmentEdit] = Field(min_length=1, max_length=4)


@tool(
    schema=SegmentEdits,
    display="Changing the narration",
    reads=("narration",),
    writes=("narration",),
    internal=True,
)
async def editNarrationTool(args: SegmentEdits, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Change segments of the narration to a person's words; the others stay the same to the byte."""
    tip = await call.artefact.stream_head("narration")
    if tip.newest is None:
        raise Invalid("there is no narration yet to change", remedy="write one first")
    new = narration_edits.apply_edits(Narration.model_validate(tip.newest.data), args.edits)
    shown = new.model_dump(mode="json")
    names = ", ".join(one.id for one in args.edits)
    result = {
        "success": True,
        "message": f"Changed by hand: {names}.",
        "narration": shown,
        "status": "script_generated",
    }
    return await call.write("narration", {**tip.newest.data, **shown}, result=result, expected_head=tip)


@tool(schema=LessonArguments, display="Noting the approval", reads=("narration",), internal=True)
async def verifyNarrationTool(args: LessonArguments, call: Call) -> dict[str, Any]:  # noqa: N802
    """Note that a person approved the narration (B44, B-R15)."""
    del args
    tips = await asyncio.gather(*(call.artefact.stream_head(name) for name in lesson.MADE_BY))
    newest = {name: tip.newest for name, tip in zip(lesson.MADE_BY, tips, strict=True)}
    told = {"status": "narration_verified", "statusOf": lesson.standing(newest)}
    await call.artefact.describe(told)
    return {"success": True, "message": "The narration is approved.", "status": "narration_verified"}


_SEARCHING: Final = ToolOptions(timeout_s=15.0, tries=2)
_NO_SEARCH: Final = (
    "There is no image search here: set GOOGLE_SEARCH_KEY and GOOGLE_SEARCH_ENGINE, or add images yourself."
)


class ImageSearchRequest(LessonArguments):
    """What the images show."""

    words: str = Field(
        "", description="What to look for; what the lesson is about when left out", max_length=300
    )


class ChosenImage(LessonArguments):
    """An image that a person chose."""

    image: Picture


@tool(
    schema=ImageSearchRequest,
    display="Looking for images",
    reads=("narration", "images"),
    writes=("images",),
    options=_SEARCHING,
    internal=True,
)
async def findImagesTool(args: ImageSearchRequest, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
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


@tool(schema=ChosenImage, display="Keeping an image", writes=(assets.ASSETS,), internal=True)
async def addImageTool(args: ChosenImage, call: Call) -> dict[str, Any]:  # noqa: N802
    """Keep an image that a person chose beside the lesson, with its source and whose it is."""
    data = assets.of_picture(args.image, f"{args.image.id}-{call.id[-8:]}")
    result = {"success": True, "message": f"Added: {args.image.title}.", "asset": data}
    return await call.write(assets.ASSETS, data, result=result)


async def _topic(call: Call) -> str:
    newest = (await call.artefact.stream_head("narration")).newest
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


TOOLS: Final = (
    confirmFactsTool,
    addFactsTool,
    editNarrationTool,
    verifyNarrationTool,
    findImagesTool,
    addImageTool,
)
