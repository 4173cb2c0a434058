"""A person's word about a plan is never lost: at the moment of its question, side by side, after a loss."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from tests.doubles.chat_double import ChatDouble
from tests.doubles.holding_proxy import HoldingProxy
from tests.doubles.waiting import eventually
from tests.plans.held_plans import Gates, Plans, served_with_gates
from tests.plans.test_plan_executions import EFFECTS, MUSIC, VOICES, answers

QUESTION = "The plan is paused"


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def proxy(valkey_url: str) -> AsyncIterator[HoldingProxy]:
    target = valkey_url.removeprefix("unix://").split("?")[0]
    path = f"{target}-hold-{os.getpid()}"
    async with HoldingProxy(path, target) as held:
        yield held


@pytest.fixture
async def ad(proxy: HoldingProxy, gates: Gates, model: ChatDouble) -> AsyncIterator[Plans]:
    """An ad on a server whose messages to Redis can be held back."""
    async with served_with_gates(proxy.url, gates) as http:
        yield Plans(http, model, "ad_creation", "ad-1")


@pytest.fixture
async def other(ad: Plans, valkey_url: str, gates: Gates, model: ChatDouble) -> AsyncIterator[Plans]:
    """The same ad on another server."""
    async with served_with_gates(valkey_url, gates) as http:
        yield Plans(http, model, ad.graph, ad.thread)


async def paused_before_its_question(ad: Plans, gates: Gates, proxy: HoldingProxy) -> str:
    """Return a plan that is paused and has ended its step; its question is about to be stored."""
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC, EFFECTS)
    await ad.call("POST", f"/api/executions/{name}/pause")
    proxy.hold(QUESTION)
    gates.open()
    await asyncio.wait_for(proxy.has_held.wait(), 20)
    return name


async def status_of(plans: Plans, name: str) -> str:
    return str((await plans.execution(name))["status"])


async def test_a_plan_that_is_resumed_before_its_question_is_stored_goes_on(
    ad: Plans, other: Plans, gates: Gates, proxy: HoldingProxy
) -> None:
    """D44: the answer waits for the question; it is not acknowledged and lost."""
    name = await paused_before_its_question(ad, gates, proxy)
    resuming = asyncio.create_task(other.call("POST", f"/api/executions/{name}/resume"))

    async def is_resumed() -> bool:
        return await status_of(other, name) == "running"

    await eventually(is_resumed, "the plan is resumed")
    proxy.release()
    await resuming
    done = await other.wait_for_end(name)
    assert done["counts"] == {"completed": 3}
    assert [tool for tool, _ in gates.calls] == [one[1] for one in (VOICES, MUSIC, EFFECTS)]


async def test_a_plan_that_is_cancelled_before_its_question_is_stored_leaves_no_question(
    ad: Plans, other: Plans, gates: Gates, proxy: HoldingProxy
) -> None:
    """D45: the turn ends, and the model gets its answers."""
    name = await paused_before_its_question(ad, gates, proxy)
    cancelling = asyncio.create_task(other.call("POST", f"/api/executions/{name}/cancel"))

    async def is_cancelled() -> bool:
        return await status_of(other, name) == "cancelled"

    await eventually(is_cancelled, "the plan is cancelled")
    proxy.release()
    await cancelling
    values = await other.idle()
    assert (values["plan"], values["drafts"]) == (None, {"voices": "v1"})


@pytest.mark.slow
async def test_a_resumption_whose_question_does_not_come_is_refused_and_can_be_sent_again(
    ad: Plans, other: Plans, gates: Gates, proxy: HoldingProxy
) -> None:
    """D44: 409 with Retry-After, and the same request again continues the plan."""
    name = await paused_before_its_question(ad, gates, proxy)
    path = f"/api/executions/{name}/resume"
    refused = await other.http.post(path)
    assert (refused.status_code, refused.headers["Retry-After"]) == (409, "1")
    assert "send it again" in refused.text
    proxy.release()
    await other.idle("interrupted")
    await other.call("POST", path)
    assert (await other.wait_for_end(name))["counts"] == {"completed": 3}


@pytest.fixture
async def page(valkey_url: str, gates: Gates, model: ChatDouble) -> AsyncIterator[Plans]:
    """A page with two buttons."""
    async with served_with_gates(valkey_url, gates) as http:
        plans = Plans(http, model, "page_builder", "page-1")
        for _ in range(2):
            body = {"message": "Add a button", "provider": "offline"}
            await plans.call("POST", "/api/pages/page-1/chat", json=body)
        yield plans


async def test_two_people_who_insert_a_deletion_at_once_consent_to_each(page: Plans, gates: Gates) -> None:
    """C-R9, D42: neither names the step, and each deletion is carried out."""
    shown = await page.call("GET", "/api/pages/page-1")
    elements = [one["id"] for one in shown["page"]["root"]["children"]][-2:]
    gates.close("apply_theme")
    themes = [(name, "apply_theme", {"theme": name}) for name in ("dark", "ocean")]
    plan = await page.start(*themes)
    path = f"/api/executions/{plan}/steps"
    steps = [{"tool": "delete_element", "params": {"elementId": one}} for one in elements]
    await asyncio.gather(*(page.call("POST", path, json={"step": step}) for step in steps))
    gates.open()
    done = await page.wait_for_end(plan)
    assert done["counts"] == {"completed": 4}, [one.get("error") for one in done["plan"]["steps"]]


async def continue_after_cancellation(ad: Plans, name: str) -> dict[str, Any]:
    """Cancel the run in the middle of a step, then the plan, and continue the thread; return its state."""
    [run] = await ad.call("GET", f"/threads/{ad.thread}/runs")
    await ad.call("POST", f"/threads/{ad.thread}/runs/{run['run_id']}/cancel?wait=true")
    await ad.call("POST", f"/api/executions/{name}/cancel")
    body = {"assistant_id": ad.graph, "input": None, "context": {"provider": "openai"}}
    return dict(await ad.call("POST", f"/threads/{ad.thread}/runs/wait", json=body))


async def test_a_step_that_was_cut_in_the_middle_does_not_say_that_it_never_began(
    ad: Plans, gates: Gates
) -> None:
    """D45: the model reads that the effect is not known; the other step never began."""
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC)
    await continue_after_cancellation(ad, name)
    assert "was begun and then interrupted" in answers(ad.model)["c1"]
    assert "before it began" in answers(ad.model)["c2"]
    assert (await ad.execution(name))["counts"] == {"cancelled": 2}


async def test_a_step_that_was_cut_after_its_effect_is_completed_by_its_receipt(
    ad: Plans, gates: Gates
) -> None:
    """A50, D45: the version exists, so the plan and the model are told of it."""
    gates.closed_after.add("create_voice_draft")
    name = await ad.start(VOICES, MUSIC)
    await asyncio.wait_for(gates.done.wait(), 20)
    await continue_after_cancellation(ad, name)
    assert '"versionId":"v1"' in answers(ad.model)["c1"].replace(": ", ":")
    assert (await ad.execution(name))["counts"] == {"completed": 1, "cancelled": 1}


async def pause_after_first_step(ad: Plans, gates: Gates) -> str:
    """Return a plan that waits with its question after its first step."""
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC, EFFECTS)
    await ad.call("POST", f"/api/executions/{name}/pause")
    gates.open()
    await ad.idle("interrupted")
    return name


@pytest.mark.parametrize("answer", [True, False])
async def test_a_paused_plan_whose_record_redis_has_lost_ends_with_what_it_has_done(
    ad: Plans, gates: Gates, storage: Storage, *, answer: bool
) -> None:
    """D44: what people changed in it is not known, so nothing more is carried out, and everyone reads why."""
    name = await pause_after_first_step(ad, gates)
    await storage.redis.delete(keys.execution_keys("ad", "ad-1", name).record)
    for method, path in (("GET", ""), ("POST", "/resume"), ("POST", "/cancel")):
        lost = await ad.call(method, f"/api/executions/{name}{path}", 404)
        assert "was lost" in json.dumps(lost)
    await ad.answer({"resume": answer})
    values = await ad.idle()
    assert (values["plan"], values["drafts"]) == (None, {"voices": "v1"})
    assert [tool for tool, _ in gates.calls] == ["create_voice_draft"]
    done = await ad.execution(name)
    assert (done["status"], done["counts"]) == ("cancelled", {"completed": 1, "cancelled": 2})
    assert "was lost while the plan was paused" in answers(ad.model)["c2"]


async def test_a_paused_plan_whose_record_is_older_than_its_question_ends_with_what_it_has_done(
    ad: Plans, gates: Gates, storage: Storage
) -> None:
    """D44: the record of a backup from before the pause does not undo what a person decided."""
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC, EFFECTS)
    key = keys.execution_keys("ad", "ad-1", name).record
    backup = await storage.redis.dump(key)
    await ad.call("POST", f"/api/executions/{name}/steps/c2/skip")
    await ad.call("POST", f"/api/executions/{name}/pause")
    gates.open()
    await ad.idle("interrupted")
    await storage.redis.restore(key, 0, backup, replace=True)
    await storage.redis.expire(key, int(keys.EXECUTION_TTL_S))
    await ad.call("POST", f"/api/executions/{name}/resume")
    assert (await ad.idle())["drafts"] == {"voices": "v1"}
    assert [tool for tool, _ in gates.calls] == ["create_voice_draft"]
    assert (await ad.execution(name))["counts"] == {"completed": 1, "skipped": 1, "cancelled": 1}
