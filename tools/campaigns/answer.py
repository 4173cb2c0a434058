"""The tool by which a model answers: statements with the campaigns that prove them."""

from typing import Any, Final

from callsheet.state.campaigns.answers import Answer
from callsheet.state.errors import Broken
from callsheet.tools.call import Call
from callsheet.tools.registry import tool


@tool(schema=Answer, display="Answering")
async def answer(args: Answer, call: Call) -> dict[str, Any]:
    """Answer the person, once you have searched: each statement with the ids of the campaigns that prove it.

    Name every company, offer, figure and date of a statement in its fields. What the campaigns do not support
    is sent back.
    """
    del args, call
    # The planner turns the call into the answer; the guard never gets it.
    raise Broken("answer was called as a tool", remedy="let the planner of campaign_search read it")


TOOLS: Final = (answer,)
