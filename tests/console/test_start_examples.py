"""The requests that the page offers to begin with work, also with the offline model."""

from typing import Any

import httpx
import pytest

from callsheet.server.engine.workflows import Workflows
from tests.doubles.documented import OURS
from tests.doubles.served import served_app

EXAMPLES = [
    (name, example) for name, spec in Workflows(OURS.graphs).specs.items() for example in spec.examples
]


@pytest.mark.slow
async def test_each_example_makes_something_or_finds_it(valkey_url: str) -> None:
    assert len(EXAMPLES) == 2 * len(OURS.graphs)
    async with served_app(valkey_url) as client:
        for name, example in EXAMPLES:
            reply = await run(client, name, example)
            assert reply.get("created") or "By channel: " in reply["messages"][-1]["content"], (name, example)


async def run(client: httpx.AsyncClient, graph: str, message: str) -> dict[str, Any]:
    thread = (await client.post("/threads", json={})).json()["thread_id"]
    body = {
        "assistant_id": graph,
        "input": {"messages": [{"role": "user", "content": message}]},
        "context": {"provider": "offline"},
    }
    reply = await client.post(f"/threads/{thread}/runs/wait", json=body)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())
