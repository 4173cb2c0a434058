"""Tools that record a person's decisions about facts, narration and images.

A choice of facts in words is the model's call of `chooseFactsTool`: models read the words, code the ids.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from callsheet.providers import search_engines
from callsheet.state.errors import Conflict, Invalid
from callsheet.state.lessons import images, lesson, narration
from callsheet.state.lessons.facts import Fact, distinct, new_fact
from callsheet.state.lessons.images import Picture, on_the_web, picture_id
from callsheet.state.lessons.narration import Narration, SegmentEdit
from callsheet.state.lessons.selection import MAX_CHOSEN, chosen_facts, fact_offer, narration_arguments
from callsheet.state.versions import Version
from callsheet.tools.call import Call
from callsheet.tools.lessons.arguments import LessonArguments, LessonLanguage, LevelShift
from callsheet.tools.policy import ToolOptions
from callsheet.tools.registry import tool

_Text = Annotated[str, Field(min_length=1, max_length=4000)]


class FactEdit(BaseModel):
    """A chosen fact in other words."""

    model_config = ConfigDict(extra="ignore")

    id: str = Field(description="Id or number of a fact that is in fact_ids", max_length=100)
    concept: str | None = Field(None, min_length=1, max_length=200, description="Leave out unless it changes")
    details: _Text | None = Field(None, description="Leave out unless they change; the full new text")


class AddedFact(BaseModel):
    """A fact that the person has stated."""

    model_config = ConfigDict(extra="ignore")

    concept: str = Field(min_length=1, max_length=200, description="Its subject in two or three words")
    details: _Text = Field(description="The fact in the person's own words")


class FactChoice(LessonArguments):
    """A person's choice, as the model reads it."""

    fact_ids: list[str] = Field(
        max_length=MAX_CHOSEN,
        description="Every fact the lesson shall tell, by id or by its number in the newest list; empty only"
        " with additions, which are then offered and not chosen",
    )
    edits: list[FactEdit] = Field(
        [], max_length=MAX_CHOSEN, description="Leave out unless the person rewords a chosen fact"
    )
    additions: list[AddedFact] = Field(
        [], max_length=MAX_CHOSEN, description="Leave out unless the person states a fact of their own"
    )
    wish: str | None = Field(
        None,
        max_length=1000,
        description="Leave out unless the person says how the narration shall be: make it funnier",
    )
    target_duration: float | None = Field(
        None, description="Leave out unless the person names a length; seconds"
    )
    level_shift: LevelShift = None
    language: LessonLanguage = None


@tool(
    schema=FactChoice,
    display="Noting the choice",
    reads=("facts", "confirmed"),
    writes=("confirmed",),
)
async def chooseFactsTool(args: FactChoice, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Record which of the proposed facts the lesson tells, as the person's newest message says in words.

    The narration is then written by itself. Also for a change of an earlier choice: name every fact that the
    lesson shall tell. Never for a question, for small talk, or without the person's word.
    """
    proposed = (await call.artefact.stream_head("facts")).newest
    if not call.scope.has_answer or (proposed and proposed.batch == call.scope.run):
        raise Invalid(
            "no person has written since the facts were proposed",
            remedy="wait for their answer; never choose for them",
        )
    confirmed = (await call.artefact.stream_head("confirmed")).newest
    offered, earlier = _known_facts(proposed, confirmed)
    edits = [edit.model_dump() for edit in args.edits]
    facts = chosen_facts(args.fact_ids, edits, offered, earlier)
    added = [new_fact(one.concept, one.details) for one in args.additions]
    if not facts and added:
        return _offer(added)
    chosen = distinct([*facts, *added])
    if not chosen:
        raise Invalid(
            "a lesson tells at least one fact, and none is chosen",
            remedy=f"ask the person, or choose from {_ids_text(offered)}",
        )
    message = f"The lesson tells: {_names(chosen)}."
    given = args.model_dump(include={"target_duration", "level_shift", "language"}, exclude_none=True)
    choice = {"message": message, "narration": narration_arguments(args.wish or "", given)}
    return await confirm(call, chosen, message, choice=choice)


async def confirm(call: Call, facts: Sequence[Fact], message: str, **more: Any) -> dict[str, Any]:
    """Write the facts that a person has chosen as a new version of the confirmed ones."""
    kept = [fact.model_dump() for fact in facts]
    result = {"success": True, "message": message, "confirmedFacts": kept, "status": "facts_confirmed"} | more
    return await call.write("confirmed", {"facts": kept}, result=result)


def _offer(added: Sequence[Fact]) -> dict[str, Any]:
    """Return the result for facts that are only added; the graph offers them with the others."""
    facts = [fact.model_dump() for fact in added]
    return {"success": True, "message": f"To be offered: {_names(added)}.", "choice": {"additions": facts}}


def _known_facts(proposed: Version | None, confirmed: Version | None) -> tuple[list[Fact], list[Fact]]:
    """Return the offered facts and the earlier ones, each as the person confirmed it."""
    if proposed is None:
        raise Invalid("no facts are proposed yet", remedy="find facts first with extractFactsTool")
    return fact_offer(proposed.data, confirmed.data if confirmed else {}).facts


def _names(facts: Sequence[Fact]) -> str:
    return ", ".join(fact.concept for fact in facts)


def _ids_text(facts: Sequence[Fact]) -> str:
    return ", ".join(fact.id for fact in facts)


_ATTEMPTS: Final = 5


class FactList(LessonArguments):
    """Facts that a person decided."""

    facts: list[Fact] = Field(min_length=1, max_length=MAX_CHOSEN)


@tool(schema=FactList, display="Noting the choice", reads=("facts",), writes=("confirmed",), internal=True)
async def confirmFactsTool(args: FactList, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Confirm the facts of the lesson."""
    count = f"{len(args.facts)} fact{'s' * (len(args.facts) != 1)}"
    return await confirm(call, args.facts, f"The lesson tells {count}.")


@tool(
    schema=FactList,
    display="Adding to the facts",
    reads=("facts", "confirmed"),
    writes=("facts",),
    internal=True,
)
async def addFactsTool(args: FactList, call: Call) -> dict[str, Any]:  # noqa: N802
    """Add a person's facts to the proposed ones, which keep their ids."""
    confirmed = (await call.artefact.stream_head("confirmed")).newest
    for _ in range(_ATTEMPTS):
        tip = await call.artefact.stream_head("facts")
        data = dict(tip.newest.data) if tip.newest else {}
        known = [Fact.model_validate(one) for one in data.get("facts", ())]
        facts = [fact.model_dump() for fact in distinct([*known, *args.facts])]
        names = ", ".join(fact.concept for fact in args.facts)
        shown = {**data, "facts": facts}
        result = {"success": True, "message": f"Added: {names}.", "facts": facts, "status": "facts_extracted"}
        result |= fact_offer(shown, confirmed.data if confirmed else {}).earlier_entry
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
    by_hand = [new.segment(one.id).id for one in args.edits]
    names = ", ".join(map(narration.kind_name, by_hand))
    own = narration.own_segments(tip.newest.data, by_hand)
    shown = new.model_dump(mode="json")
    result = {
        "success": True,
        "message": f"Changed by hand: {names}.",
        "narration": shown,
        "status": "script_generated",
    }
    data = {**tip.newest.data, **shown, **own}
    return await call.write("narration", data, result=result, expected_head=tip)


@tool(schema=LessonArguments, display="Noting the approval", reads=("narration",), internal=True)
async def verifyNarrationTool(args: LessonArguments, call: Call) -> dict[str, Any]:  # noqa: N802
    """Record a person's approval of the narration."""
    del args
    tips = await call.artefact.stream_heads(lesson.STATUS_AFTER)
    newest = {name: tip.newest for name, tip in tips.items()}
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
