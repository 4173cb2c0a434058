"""Tools that execute a person's decisions about facts, narration and images."""

import asyncio
from typing import Any, Final

from pydantic import Field

from callsheet.providers import search_engines
from callsheet.state.errors import Conflict, Invalid
from callsheet.state.lessons import images, lesson, narration
from callsheet.state.lessons.facts import Fact, distinct
from callsheet.state.lessons.images import Picture, on_the_web, picture_id
from callsheet.state.lessons.narration import Narration, SegmentEdit
from callsheet.state.lessons.selection import MAX_CHOSEN
from callsheet.tools.call import Call
from callsheet.tools.lessons.arguments import LessonArguments
from callsheet.tools.lessons.choice import confirm
from callsheet.tools.policy import ToolOptions
from callsheet.tools.registry import tool

_ATTEMPTS: Final = 5


class FactList(LessonArguments):
    """Facts that a person decided."""

    facts: list[Fact] = Field(min_length=1, max_length=MAX_CHOSEN)


@tool(schema=FactList, display="Noting the choice", reads=("facts",), writes=("confirmed",), internal=True)
async def confirmFactsTool(args: FactList, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Confirm the facts of the lesson."""
    count = f"{len(args.facts)} fact{'s' * (len(args.facts) != 1)}"
    return await confirm(call, args.facts, f"The lesson tells {count}.")


@tool(schema=FactList, display="Adding to the facts", reads=("facts",), writes=("facts",), internal=True)
async def addFactsTool(args: FactList, call: Call) -> dict[str, Any]:  # noqa: N802
    """Add a person's facts to the proposed ones, which keep their ids."""
    for _ in range(_ATTEMPTS):
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
    """Segments that a person edited."""

    edits: list[SegmentEdit] = Field(min_length=1, max_length=4)


@tool(
    schema=SegmentEdits,
    display="Changing the narration",
    reads=("narration",),
    writes=("narration",),
    internal=True,
)
async def editNarrationTool(args: SegmentEdits, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Replace segments by a person's text; the others stay the same to the byte."""
    tip = await call.artefact.stream_head("narration")
    if tip.newest is None:
        raise Invalid("there is no narration yet to change", remedy="write one first")
    new = await asyncio.to_thread(
        narration.apply_edits, Narration.model_validate(tip.newest.data), args.edits
    )
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
    """Record a person's approval of the narration."""
    del args
    tips = await asyncio.gather(*(call.artefact.stream_head(name) for name in lesson.MADE_BY))
    newest = {name: tip.newest for name, tip in zip(lesson.MADE_BY, tips, strict=True)}
    status = {"status": "narration_verified", "statusOf": lesson.version_ids(newest)}
    await call.artefact.set_facts(status)
    return {"success": True, "message": "The narration is approved.", "status": "narration_verified"}


_SEARCHING: Final = ToolOptions(timeout_s=15.0, tries=2)
_NO_SEARCH: Final = (
    "No image search is configured: set GOOGLE_SEARCH_KEY and GOOGLE_SEARCH_ENGINE, or add images yourself."
)


class ImageSearchRequest(LessonArguments):
    """Arguments of `findImagesTool`."""

    words: str = Field("", description="Search words; the lesson's topic when left out", max_length=300)


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
    """Search for images for the lesson; without a search engine it reports that and finds none."""
    words = args.words or await _topic(call)
    search = search_engines.image_search()
    if isinstance(search, search_engines.NoImageSearch):
        return await _write_search(call, words, [], _NO_SEARCH)
    results = [one for one in await search.top(words) if on_the_web(one.url)]
    pictures = {picture_id(one.url): _picture(one, number) for number, one in enumerate(results, 1)}
    if not pictures and args.words:
        raise Invalid(f"no images were found for {words[:80]!r}", remedy="use other words")
    count = f"{len(pictures) or 'no'} image{'s' * (len(pictures) != 1)}"
    return await _write_search(call, words, [*pictures.values()], f"I found {count} for {words!r}.")


@tool(schema=ChosenImage, display="Keeping an image", writes=(images.ASSETS,), internal=True)
async def addImageTool(args: ChosenImage, call: Call) -> dict[str, Any]:  # noqa: N802
    """Store an image that a person chose with the lesson, with its source and credit."""
    data = images.asset_of_picture(args.image, f"{args.image.id}-{call.id[-8:]}")
    result = {"success": True, "message": f"Added: {args.image.title}.", "asset": data}
    return await call.write(images.ASSETS, data, result=result)


async def _topic(call: Call) -> str:
    newest = (await call.artefact.stream_head("narration")).newest
    if newest is None:
        raise Invalid("there is no narration yet to find images for", remedy="write one first")
    return str(newest.data["topic"])


def _picture(one: search_engines.Image, number: int) -> Picture:
    return Picture(
        id=picture_id(one.url),
        title=one.title or one.credit or f"image {number}",
        url=one.url,
        thumbnail=one.thumbnail,
        page=one.page,
        credit=one.credit,
        type=one.type,
    )


async def _write_search(call: Call, words: str, pictures: list[Picture], message: str) -> dict[str, Any]:
    shown = {"words": words, "images": [one.model_dump() for one in pictures]}
    return await call.write("images", shown, result={"success": True, "message": message, **shown})


TOOLS: Final = (
    confirmFactsTool,
    addFactsTool,
    editNarrationTool,
    verifyNarrationTool,
    findImagesTool,
    addImageTool,
)
