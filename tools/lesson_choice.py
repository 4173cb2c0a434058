"""What a person decides about a lesson's facts, written down; the workflow calls these, never a model."""

from typing import Any, Final

from pydantic import Field

from state.errors import Conflict
from state.facts import Fact, distinct
from state.selection import MOST_CHOSEN
from tools.call import Call
from tools.lesson_arguments import LessonArguments
from tools.registry import index, tool

_TRIES: Final = 5


class Facts(LessonArguments):
    """Facts as a person wants them."""

    facts: list[Fact] = Field(min_length=1, max_length=MOST_CHOSEN)


@tool(schema=Facts, display="Noting the choice", reads=("facts",), writes=("confirmed",))
async def confirmFactsTool(args: Facts, call: Call) -> dict[str, Any]:  # noqa: N802 -- named like its like
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


@tool(schema=Facts, display="Adding to the facts", reads=("facts",), writes=("facts",))
async def addFactsTool(args: Facts, call: Call) -> dict[str, Any]:  # noqa: N802
    """Add facts that a person states to those proposed, which keep their ids (B54)."""
    for _ in range(_TRIES):
        tip = await call.artefact.tip("facts")
        data = dict(tip.newest.data) if tip.newest else {}
        known = [Fact.model_validate(one) for one in data.get("facts", ())]
        facts = [fact.model_dump() for fact in distinct([*known, *args.facts])]
        names = ", ".join(fact.concept for fact in args.facts)
        shown = {**data, "facts": facts}
        result = {"success": True, "message": f"Added: {names}.", "facts": facts, "status": "facts_extracted"}
        try:
            return await call.write("facts", shown, result=result, onto=tip)
        except Conflict:
            continue
    raise Conflict("the lesson's facts kept changing", remedy="try again")


TOOLS: Final = index(lesson=(confirmFactsTool, addFactsTool))
"""Beside those that a model may call."""
