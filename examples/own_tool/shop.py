"""Use tools of your own: see the guard accept a call, refuse one, and ask a person before another.

cd examples/own_tool && ../../.venv/bin/callsheet serve         # in another terminal
.venv/bin/python examples/own_tool/shop.py
"""

import asyncio
import os
import sys
from typing import Any

import httpx
from langgraph_sdk import get_client


def message(text: str) -> dict[str, Any]:
    """Return a person's message as input of a run."""
    return {"messages": [{"role": "user", "content": text}]}


async def main(url: str) -> None:
    """Add items, one of them too many, and empty the list after a question."""
    async with get_client(url=url) as client, httpx.AsyncClient(base_url=url) as http:
        thread = (await client.threads.create())["thread_id"]
        state: Any = await client.runs.wait(thread, "shopping", input=message("bread, 2 milk, 200 eggs"))
        for result in state["results"]:
            output = result["output"]
            print(f"{result['tool']}: {result['status']}, {output.get('error') or output['versionId']}")

        state = await client.runs.wait(thread, "shopping", input=message("clear"))
        [question] = state["__interrupt__"]
        print("Question:", question["value"]["action_requests"][0]["description"])
        answer = {"decisions": [{"type": "approve"}]}
        state = await client.runs.wait(thread, "shopping", command={"resume": answer})
        print("Now:", state["drafts"])

        # The thread is the artefact's id unless the workflow says otherwise.
        reply = await http.get(f"/api/artefacts/shopping/{thread}/list")
        print("Versions:", ", ".join(version["id"] for version in reply.json()["versions"]))
        record = await http.get("/api/tool-executions", params={"conversationId": thread})
        print("Recorded calls:", len(record.json()["executions"]))


if __name__ == "__main__":
    try:
        asyncio.run(main(os.environ.get("SERVER_URL", "http://127.0.0.1:2024")))
    except httpx.ConnectError:
        sys.exit("start the server first: cd examples/own_tool && ../../.venv/bin/callsheet serve")
