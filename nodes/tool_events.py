"""Calls of tools as LangChain's callbacks tell of them, of which streams of tools and traces are made."""

import json
from collections.abc import Awaitable

from langchain_core.runnables.config import ensure_config, get_async_callback_manager_for_config

from state.plan import Step
from tools.outcome import Outcome, ToolExecutionError, answer


async def told(step: Step, call: Awaitable[Outcome]) -> Outcome:
    """Return what becomes of a step's call; whoever follows the run is told when it begins and ends."""
    name, params = step["tool"], step["params"]
    followers = get_async_callback_manager_for_config(ensure_config())
    started = await followers.on_tool_start(
        {"name": name}, json.dumps(params), inputs=params, tool_call_id=step["id"], name=name
    )
    try:
        outcome = await call
    except BaseException as error:
        await started.on_tool_error(error)
        raise
    if outcome.ok:
        await started.on_tool_end(answer(step["id"], name, outcome.output))
    else:
        await started.on_tool_error(ToolExecutionError(name, step["id"], outcome.output))
    return outcome
