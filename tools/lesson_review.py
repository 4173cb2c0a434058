"""What a person decides about a lesson's narration, written down; the workflow calls these, never a model."""

import asyncio
from typing import Any, Final

from pydantic import Field

from state import lesson, narration_edits
from state.errors import Invalid
from state.narration import Narration
from state.narration_edits import SegmentEdit
from tools.call import Call
from tools.lesson_arguments import LessonArguments
from tools.registry import index, tool


class Edits(LessonArguments):
    """Segments as a person wants them."""

    edits: list[SegmentEdit] = Field(min_length=1, max_length=4)


@tool(schema=Edits, display="Changing the narration", reads=("narration",), writes=("narration",))
async def editNarrationTool(args: Edits, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
    """Change segments of the narration to a person's words; the others stay the same to the byte."""
    tip = await call.artefact.tip("narration")
    if tip.newest is None:
        raise Invalid("there is no narration yet to change", remedy="write one first")
    new = narration_edits.edited(Narration.model_validate(tip.newest.data), args.edits)
    shown = new.model_dump(mode="json")
    names = ", ".join(one.id for one in args.edits)
    result = {
        "success": True,
        "message": f"Changed by hand: {names}.",
        "narration": shown,
        "status": "script_generated",
    }
    return await call.write("narration", {**tip.newest.data, **shown}, result=result, onto=tip)


@tool(schema=LessonArguments, display="Noting the approval", reads=("narration",))
async def verifyNarrationTool(args: LessonArguments, call: Call) -> dict[str, Any]:  # noqa: N802
    """Note that a person approved the narration (B44, B-R15)."""
    del args
    tips = await asyncio.gather(*(call.artefact.tip(name) for name in lesson.MADE_BY))
    newest = {name: tip.newest for name, tip in zip(lesson.MADE_BY, tips, strict=True)}
    told = {"status": "narration_verified", "statusOf": lesson.standing(newest)}
    await call.artefact.describe(told)
    return {"success": True, "message": "The narration is approved.", "status": "narration_verified"}


TOOLS: Final = index(lesson=(editNarrationTool, verifyNarrationTool))
"""Beside those that a model may call."""
