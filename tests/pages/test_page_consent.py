"""Nothing is deleted from a page without a yes to the question, whatever a client sends instead."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.wire_server import running_server

APPROVED = {"decisions": [{"type": "approve"}]}
GONE = "section-2"
REFUSED = "No person has approved this call"


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url, None) as found:
        yield found


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=20) as client:
        yield client


async def ask(http: httpx.AsyncClient) -> dict[str, Any]:
    """Have a page on thread `page` and a question whether its second section is deleted; return the plan."""
    said = {"message": "delete the features section", "provider": "offline"}
    reply = await http.post("/api/pages/page/chat", json=said)
    assert reply.status_code == 200, reply.text
    values = (await http.get("/threads/page/state")).json()["values"]
    assert values["plan"]["steps"][0]["params"] == {"elementId": GONE}
    return dict(values["plan"])


async def run(http: httpx.AsyncClient, **more: Any) -> Any:
    body = {"assistant_id": "page_builder", "config": {"configurable": {"provider": "offline"}}, **more}
    reply = await http.post("/threads/page/runs/wait", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def write(http: httpx.AsyncClient, as_node: str, **values: Any) -> None:
    reply = await http.post("/threads/page/state", json={"values": values, "as_node": as_node})
    assert reply.status_code == 200, reply.text


async def page(http: httpx.AsyncClient) -> str:
    return (await http.get("/api/pages/page")).text


def changed(plan: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**plan, "steps": [{**plan["steps"][0], **more}]}


async def test_an_approved_deletion_is_carried_out(http: httpx.AsyncClient) -> None:
    await ask(http)
    assert GONE in await page(http)
    await run(http, command={"resume": APPROVED})
    assert f'"{GONE}"' not in await page(http)


async def test_the_next_node_cannot_be_chosen_past_the_question(http: httpx.AsyncClient) -> None:
    await ask(http)
    assert REFUSED in json.dumps(await run(http, command={"goto": "tool_executor"}))
    assert f'"{GONE}"' in await page(http)


async def test_the_state_cannot_be_written_past_the_question(http: httpx.AsyncClient) -> None:
    await ask(http)
    await write(http, "approval")
    assert REFUSED in json.dumps(await run(http))
    assert f'"{GONE}"' in await page(http)


async def test_a_plan_that_a_client_writes_is_asked_about(http: httpx.AsyncClient) -> None:
    plan = await ask(http)
    await run(http, command={"resume": {"decisions": [{"type": "reject"}]}})
    await write(http, "planner", plan=changed(plan, id="other"))
    assert "__interrupt__" in await run(http)
    assert f'"{GONE}"' in await page(http)


@pytest.mark.parametrize(
    "more", [{"tool": "clear_page", "params": {}}, {"params": {"elementId": "section-1"}}]
)
async def test_consent_is_to_the_calls_that_were_shown(http: httpx.AsyncClient, more: Any) -> None:
    plan = await ask(http)
    before = await page(http)
    answered = await run(http, command={"resume": APPROVED, "update": {"plan": changed(plan, **more)}})
    assert "the plan has changed" in json.dumps(answered)
    assert await page(http) == before


async def test_consent_is_to_the_approved_arguments(http: httpx.AsyncClient) -> None:
    plan = await ask(http)
    before = await page(http)
    await run(http, command={"resume": APPROVED}, interrupt_after=["approval"])
    await write(http, "approval", plan=changed(plan, params={"elementId": "section-1"}))
    assert REFUSED in json.dumps(await run(http))
    assert await page(http) == before


async def test_consent_serves_once(http: httpx.AsyncClient) -> None:
    plan = await ask(http)
    await run(http, command={"resume": APPROVED})
    undone = await http.post("/api/pages/page/chat", json={"message": "undo", "provider": "offline"})
    assert undone.status_code == 200, undone.text
    assert f'"{GONE}"' in await page(http)
    await write(http, "approval", plan=plan)
    assert REFUSED in json.dumps(await run(http))
    assert f'"{GONE}"' in await page(http)
