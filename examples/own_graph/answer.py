"""Run a graph that asks a person, and answer it, with LangGraph's own client.

cd examples/own_graph && ../../.venv/bin/callsheet serve        # in another terminal
.venv/bin/python examples/own_graph/answer.py yes
"""

import asyncio
import os
import sys
from typing import Any

import httpx
from langgraph_sdk import get_client


async def main(url: str, answer: str) -> None:
    """Start a run, print its question, and resume the thread with the answer."""
    async with get_client(url=url) as client:
        thread = (await client.threads.create())["thread_id"]
        stopped: Any = await client.runs.wait(thread, "trip", input={"city": "Porto"})
        [question] = stopped["__interrupt__"]
        print(question["value"]["offer"])
        print(question["value"]["question"], answer)
        # The thread waits now. Everything below could be another program, days later, on another server.
        state = await client.threads.get_state(thread)
        print("The thread waits at:", ", ".join(state["next"]))
        done: Any = await client.runs.wait(thread, "trip", command={"resume": answer})
        print(done["booking"])


if __name__ == "__main__":
    try:
        asyncio.run(main(os.environ.get("SERVER_URL", "http://127.0.0.1:2024"), (*sys.argv[1:], "yes")[0]))
    except httpx.ConnectError:
        sys.exit("start the server first: cd examples/own_graph && ../../.venv/bin/callsheet serve")
