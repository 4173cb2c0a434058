"""No element of a page is deleted without a person's consent, whatever a client sends."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.wire_server import running_server

APPROVED = {"decisions": [{"type": "approve"}]}
DELETED_ID = "section-2"
REFUSED = "No person has approved this call"


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url, None) as server_url:
        yield server_url


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=20) as client:
        yield client


async def ask_for_deletion(http: httpx.AsyncClient) -> dict[str, Any]:
    """Create a page on thread `page`, ask to delete its second section, and return the plan."""
    body = {"message": "delete the features section", "provider": "offline"}
    reply = await http.post("/api/pages/page/chat", json=body)
    assert reply.status_code == 200, reply.text
    values = (await http.get("/threads/page/state")).json()["values"]
    assert values["plan"]["steps"][0]["params"] == {"elementId": DELETED_ID}
    return dict(values["plan"])


async def run_page_builder(http: httpx.AsyncClient, **more: Any) -> Any:
    body = {"assistant_id": "page_builder", "config": {"configurable": {"provider": "offline"}}, **more}
    reply = await http.post("/threads/page/runs/wait", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def update_state(http: httpx.AsyncClient, as_node: str, **values: Any) -> None:
    reply = await http.post("/threads/page/state", json={"values": values, "as_node": as_node})
    assert reply.status_code == 200, reply.text


async def page_text(http: httpx.AsyncClient) -> str:
    return (await http.get("/api/pages/page")).text


def with_changed_step(plan: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**plan, "steps": [{**plan["steps"][0], **more}]}


async def test_an_approved_deletion_is_executed(http: httpx.AsyncClient) -> None:
    await ask_for_deletion(http)
    assert DELETED_ID in await page_text(http)
    await run_page_builder(http, command={"resume": APPROVED})
    assert f'"{DELETED_ID}"' not in await page_text(http)


async def test_a_goto_command_cannot_bypass_the_question(http: httpx.AsyncClient) -> None:
    await ask_for_deletion(http)
    assert REFUSED in json.dumps(await run_page_builder(http, command={"goto": "tool_executor"}))
    assert f'"{DELETED_ID}"' in await page_text(http)


async def test_a_state_update_cannot_bypass_the_question(http: httpx.AsyncClient) -> None:
    await ask_for_deletion(http)
    await update_state(http, "approval")
    assert REFUSED in json.dumps(await run_page_builder(http))
    assert f'"{DELETED_ID}"' in await page_text(http)


async def test_a_plan_written_by_a_client_needs_approval_too(http: httpx.AsyncClient) -> None:
    plan = await ask_for_deletion(http)
    await run_page_builder(http, command={"resume": {"decisions": [{"type": "reject"}]}})
    await update_state(http, "planner", plan=with_changed_step(plan, id="other"))
    assert "__interrupt__" in await run_page_builder(http)
    assert f'"{DELETED_ID}"' in await page_text(http)


@pytest.mark.parametrize(
    "more", [{"tool": "clear_page", "params": {}}, {"params": {"elementId": "section-1"}}]
)
async def test_consent_does_not_cover_a_plan_that_changed_with_the_resume(
    http: httpx.AsyncClient, more: Any
) -> None:
    plan = await ask_for_deletion(http)
    before = await page_text(http)
    state = await run_page_builder(
        http, command={"resume": APPROVED, "update": {"plan": with_changed_step(plan, **more)}}
    )
    assert "the plan has changed" in json.dumps(state)
    assert await page_text(http) == before


async def test_consent_does_not_cover_arguments_changed_after_the_approval(http: httpx.AsyncClient) -> None:
    plan = await ask_for_deletion(http)
    before = await page_text(http)
    await run_page_builder(http, command={"resume": APPROVED}, interrupt_after=["approval"])
    await update_state(http, "approval", plan=with_changed_step(plan, params={"elementId": "section-1"}))
    assert REFUSED in json.dumps(await run_page_builder(http))
    assert await page_text(http) == before


async def test_consent_is_used_only_once(http: httpx.AsyncClient) -> None:
    plan = await ask_for_deletion(http)
    await run_page_builder(http, command={"resume": APPROVED})
    reply = await http.post("/api/pages/page/chat", json={"message": "undo", "provider": "offline"})
    assert reply.status_code == 200, reply.text
    assert f'"{DELETED_ID}"' in await page_text(http)
    await update_state(http, "approval", plan=plan)
    assert REFUSED in json.dumps(await run_page_builder(http))
    assert f'"{DELETED_ID}"' in await page_text(http)
