"""Where a tool is carried out: in the event loop, or in a thread where it would block it."""

import asyncio
from typing import Any

from pydantic import BaseModel

from tools.call import Call
from tools.registry import Tool


async def carried_out(tool: Tool, args: BaseModel, call: Call) -> dict[str, Any]:
    """Return what the tool returns.

    A thread cannot be stopped: cancelled, it goes on, and what it returns is dropped.
    """
    run: Any = tool.run
    if tool.waits:
        return dict(await run(args, call))
    return dict(await asyncio.to_thread(run, args, call.scope))
