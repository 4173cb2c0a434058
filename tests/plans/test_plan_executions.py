"""Plans of ads, pages and lessons through /api/executions: watched, changed, paused, done again (D41-D50)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.served import VOICE
from tests.plans.held_plans import Gates, Plans, served_with_gates

VOICES = ("c1", "create_voice_draft", {"tracks": [{"voiceId": VOICE, "text": "Fresh bread at four."}]})
MUSIC = ("c2", "create_music_draft", {"prompt": "calm piano"})
EFFECTS = ("c3", "create_sfx_draft", {"prompts": [{"description": "rain"}]})


def answers(model: ChatDouble) -> dict[str, str]:
    """The newest answers that the model got, by call."""
    newest = model.requests[-1].messages
    return {one["tool_call_id"]: one["content"] for one in newest if one["role"] == "tool"}


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def http(valkey_url: str, gates: Gates) -> AsyncIterator[httpx.AsyncClient]:
    async with served_with_gates(valkey_url, gates) as client:
        yield client


@pytest.fixture
def ad(http: httpx.AsyncClient, model: ChatDouble) -> Plans:
    return Plans(http, model, "ad_creation", "ad-1")


async def test_a_step_of_an_ad_is_edited_and_another_skipped_while_one_runs(ad: Plans, gates: Gates):
    """D41, D42, D43: the tool gets the person's arguments, the model hears of both."""
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC, EFFECTS)
    assert await ad.statuses(name) == {"c1": "in-progress", "c2": "pending", "c3": "pending"}
    path = f"/api/executions/{name}/steps"
    shown = await ad.call("PATCH", f"{path}/c2", json={"params": {"prompt": "loud drums"}})
    assert shown["plan"]["steps"][1]["params"] == {"prompt": "loud drums"}
    wrong = await ad.call("PATCH", f"{path}/c2", 422, json={"params": {"duration": -1}})
    assert "duration" in json.dumps(wrong)
    await ad.call("POST", f"{path}/c3/skip")
    await ad.call("PATCH", f"{path}/c1", 409, json={"params": {"tracks": []}})
    gates.open()
    done = await ad.wait_for_end(name)
    assert done["counts"] == {"completed": 2, "skipped": 1}
    assert [(one["kind"], one["step"]) for one in done["changes"]] == [("edited", "c2"), ("skipped", "c3")]
    assert [tool for tool, _ in gates.calls] == ["create_voice_draft", "create_music_draft"]
    assert gates.calls[1][1]["prompt"] == "loud drums"
    results = {
        one["tool_call_id"]: one["content"] for one in ad.model.requests[-1].messages if one["role"] == "tool"
    }
    assert json.loads(results["c2"])["editedByPerson"] == {"prompt": "loud drums"}
    assert "A person skipped this step" in results["c3"]
    assert (await ad.idle())["drafts"] == {"voices": "v1", "music": "v1"}


async def test_a_step_is_inserted_into_an_ads_plan(ad: Plans, gates: Gates):
    """D42: it is checked like a call of the model, and waits for what writes the same stream."""
    gates.close("create_music_draft")
    name = await ad.start(VOICES, MUSIC, parallel=3)
    path = f"/api/executions/{name}/steps"
    await ad.call("POST", path, 422, json={"step": {"tool": "none"}})
    await ad.call("POST", path, 422, json={"step": {"tool": "create_music_draft", "params": {}}})
    new = {"tool": "create_music_draft", "params": {"prompt": "a choir"}}
    await ad.call("POST", path, 422, json={"step": {**new, "after": ["c9"]}})
    await ad.call("POST", path, 409, json={"step": {**new, "id": "c1"}})
    shown = await ad.call("POST", path, json={"step": new})
    assert (shown["plan"]["steps"][2]["id"], shown["plan"]["steps"][2]["dependencies"]) == ("i1", ["c2"])
    gates.open()
    done = await ad.wait_for_end(name)
    assert done["counts"] == {"completed": 3}
    assert [given["prompt"] for tool, given in gates.calls if "music" in tool] == ["calm piano", "a choir"]
    results = {
        one["tool_call_id"]: one["content"] for one in ad.model.requests[-1].messages if one["role"] == "tool"
    }
    assert [*results] == ["c1", "c2"], "the model made two calls"
    assert "addedByPerson" in results["c2"]
    assert (await ad.idle())["drafts"]["music"] == "v2"


async def test_pending_steps_are_carried_out_in_the_order_that_a_person_gives_them(ad: Plans, gates: Gates):
    """D42: no step passes one that it waits for, and one that has begun stays where it is."""
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC, EFFECTS)
    path = f"/api/executions/{name}/steps"
    new = {"tool": "create_music_draft", "params": {"prompt": "a choir"}, "id": "choir"}
    await ad.call("POST", path, json={"step": new})
    shown = await ad.call("POST", f"{path}/c3/move", json={"before": "c2"})
    assert [one["id"] for one in shown["plan"]["steps"]] == ["c1", "c3", "c2", "choir"]
    for step, before in (("c1", None), ("c2", "c1"), ("choir", "c2"), ("c2", None)):
        refused = await ad.call("POST", f"{path}/{step}/move", 409, json={"before": before})
        assert refused["remedy"], refused
    unknown = await ad.call("POST", f"{path}/c2/move", 422, json={"before": "c9"})
    assert unknown["error"] == "the execution has no step 'c9'"
    same = await ad.call("POST", f"{path}/c2/move", json={"before": "c2"})
    assert [one["id"] for one in same["plan"]["steps"]] == ["c1", "c3", "c2", "choir"]
    await ad.call("POST", f"{path}/c9/move", 404, json={})
    await ad.call("POST", f"{path}/choir/move", json={})
    gates.open()
    done = await ad.wait_for_end(name)
    assert [tool for tool, _ in gates.calls] == [
        *("create_voice_draft", "create_sfx_draft"),
        *("create_music_draft", "create_music_draft"),
    ]
    assert [(one["kind"], one["after"]) for one in done["changes"][1:]] == [("moved", {"before": "c2"})]
    assert done["counts"] == {"completed": 4}


async def test_a_paused_plan_of_an_ad_waits_in_the_thread_and_goes_on(ad: Plans, gates: Gates):
    """D44: what runs ends, nothing else starts, in any process; a chat client can answer, too."""
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC, EFFECTS)
    await ad.call("POST", f"/api/executions/{name}/pause")
    gates.open()
    await ad.idle("interrupted")
    [task] = (await ad.call("GET", "/threads/ad-1/state"))["tasks"]
    assert [one["value"]["executionId"] for one in task["interrupts"]] == [name]
    assert await ad.statuses(name) == {"c1": "completed", "c2": "pending", "c3": "pending"}
    await ad.call("POST", f"/api/executions/{name}/resume")
    done = await ad.wait_for_end(name)
    assert (done["counts"], [one["kind"] for one in done["changes"]]) == (
        {"completed": 3},
        ["paused", "resumed"],
    )
    values = await ad.idle()
    assert values["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
    assert len(gates.calls) == 3
    receipt = values["messages"][-1]["additional_kwargs"]["receipt"]
    assert "sound effects v1" in receipt["text"], "a stream has a name for people"
    assert "sfx" not in receipt["text"]


async def test_a_paused_plan_is_cancelled(ad: Plans, gates: Gates):
    """D45."""
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC)
    await ad.call("POST", f"/api/executions/{name}/pause")
    gates.open()
    await ad.idle("interrupted")
    shown = await ad.call("POST", f"/api/executions/{name}/cancel")
    assert (shown["status"], shown["counts"]) == ("cancelled", {"completed": 1, "cancelled": 1})
    assert (await ad.idle())["drafts"] == {"voices": "v1"}


async def test_a_failed_step_of_an_ad_is_retried_and_a_completed_one_repeated(ad: Plans, gates: Gates):
    """D50, D-R5: after the end, in a run without a model; the other steps are not done again."""
    gates.close("create_voice_draft")
    gates.failing.add("create_music_draft")
    name = await ad.start(VOICES, MUSIC)
    gates.open()
    done = await ad.wait_for_end(name)
    assert (done["status"], done["counts"]) == ("failed", {"completed": 1, "error": 1})
    await ad.call("POST", f"/api/executions/{name}/steps/c1/retry", 409)
    requests, gates.failing = len(ad.model.requests), set()
    await ad.call("POST", f"/api/executions/{name}/steps/c2/retry")
    await ad.until(name, lambda one: one["status"] == "completed")
    values = await ad.idle()
    assert (values["drafts"], len(ad.model.requests)) == ({"music": "v1"}, requests)
    assert [one["content"] for one in values["messages"][-2:]] == [
        "Retry: Describing the music",
        "Made music v1.",
    ]
    await ad.call("POST", f"/api/executions/{name}/steps/c1/rerun")
    await ad.until(name, lambda one: [each["kind"] for each in one["changes"]] == ["retried", "repeated"])
    done = await ad.until(name, lambda one: one["status"] == "completed")
    assert (await ad.idle())["drafts"] == {"voices": "v2"}
    assert [tool for tool, _ in gates.calls].count("create_voice_draft") == 2


async def test_a_new_message_ends_a_paused_plan(ad: Plans, gates: Gates):
    gates.close("create_voice_draft")
    first = await ad.start(VOICES, MUSIC, closes=False)
    await ad.call("POST", f"/api/executions/{first}/pause")
    gates.open()
    await ad.idle("interrupted")
    gates.close("create_music_draft")
    second = await ad.start(("d1", *MUSIC[1:]), ("d2", *EFFECTS[1:]))
    gates.open()
    assert (await ad.wait_for_end(second))["counts"] == {"completed": 2}
    assert (await ad.execution(first))["counts"] == {"completed": 1, "cancelled": 1}


async def test_a_message_to_a_paused_plan_of_an_ad_is_refused_with_the_ways_out(ad: Plans, gates: Gates):
    """D-R8: over REST; a LangGraph client's message ends the plan."""
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC)
    await ad.call("POST", f"/api/executions/{name}/pause")
    gates.open()
    await ad.idle("interrupted")
    refused = await ad.call(
        "POST", "/api/ads/ad-1/chat", 409, json={"message": "louder", "provider": "openai"}
    )
    assert f"/api/executions/{name}/resume" in refused["remedy"]
    assert (await ad.execution(name))["counts"] == {"completed": 1, "pending": 1}
    await ad.call("POST", f"/api/executions/{name}/resume")
    assert (await ad.wait_for_end(name))["counts"] == {"completed": 2}


async def test_a_plan_of_one_step_has_no_record(ad: Plans, gates: Gates):
    body = {
        "assistant_id": "ad_creation",
        "input": {"messages": [{"role": "user", "content": "Music"}]},
        "context": {"provider": "openai"},
        "if_not_exists": "create",
    }
    ad.model.script(Say(calls=[(MUSIC[0], MUSIC[1], json.dumps(MUSIC[2]))]), Say("Done."))
    values = await ad.call("POST", "/threads/ad-1/runs/wait", json=body)
    plan = values["results"][0]["plan"]
    reply = await ad.call("GET", f"/api/executions/{plan}", 404)
    assert "several steps" in json.dumps(reply)


@pytest.mark.parametrize(
    ("graph", "calls"),
    [
        (
            "page_builder",
            [
                ("p1", "apply_theme", {"theme": "dark"}),
                ("p2", "apply_theme", {"theme": "ocean"}),
            ],
        ),
        (
            "fact_narration",
            [
                ("l1", "saveStudentInfoTool", {"child_age": "9"}),
                ("l2", "saveStudentInfoTool", {"child_age": "12"}),
            ],
        ),
    ],
)
async def test_a_plan_of_a_page_and_of_a_lesson_is_watched_and_cancelled(
    http: httpx.AsyncClient, model: ChatDouble, gates: Gates, storage: Storage, graph: str, calls: Any
):
    """D38, D45: what runs ends, the next step never starts; the progress has every change."""
    plans = Plans(http, model, graph, "thread-1")
    gates.close(calls[0][1])
    name = await plans.start(*calls, parallel=3)
    assert await plans.statuses(name) == {calls[0][0]: "in-progress", calls[1][0]: "pending"}
    shown = await plans.call("POST", f"/api/executions/{name}/cancel")
    assert (shown["status"], shown["counts"]) == ("cancelled", {"in-progress": 1, "cancelled": 1})
    gates.open()
    await plans.idle()
    assert (await plans.execution(name))["counts"] == {"completed": 1, "cancelled": 1}
    assert len(gates.calls) == 1
    lines = (await http.get(f"/api/execution-progress/{name}")).text.splitlines()
    events = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert events[0] == "execution-plan"
    assert events[-1] == "execution-complete"
    assert "version-update" in events
    assert "A person cancelled this step" in answers(model)[calls[1][0]]
    kind = "page" if graph == "page_builder" else "lesson"
    stored = keys.execution_keys(kind, "thread-1", name)
    assert 0 < await storage.redis.ttl(stored.record) <= keys.EXECUTION_TTL_S


async def test_a_person_who_edits_an_approved_deletion_consents_to_the_edited_one(
    http: httpx.AsyncClient, model: ChatDouble, gates: Gates
):
    """C-R9, D42: the approval was of another call, and the edit is a person's word, too."""
    plans = Plans(http, model, "page_builder", "page-1")
    for text in ("Add a button", "Add a button"):
        await plans.call("POST", "/api/pages/page-1/chat", json={"message": text, "provider": "offline"})
    page = await plans.call("GET", "/api/pages/page-1")
    first, second = [one["id"] for one in page["page"]["root"]["children"]][-2:]
    gates.close("apply_theme")
    calls = [("p1", "apply_theme", {"theme": "dark"}), ("p2", "delete_element", {"elementId": first})]
    await plans.ask(*calls, parallel=1)
    await plans.idle("interrupted")
    await plans.answer({"decisions": [{"type": "approve"}]})
    name = await plans.next_plan()
    await plans.call("PATCH", f"/api/executions/{name}/steps/p2", json={"params": {"elementId": second}})
    gates.open()
    done = await plans.wait_for_end(name)
    assert done["counts"] == {"completed": 2}, done["plan"]["steps"][1]["error"]
    assert gates.calls[-1][1]["elementId"] == second


async def test_a_record_that_redis_has_lost_is_stored_again(ad: Plans, gates: Gates, storage: Storage):
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC)
    await storage.redis.delete(keys.execution_keys("ad", "ad-1", name).record)
    await ad.until_step(name, "c1", "in-progress")
    await storage.redis.delete(keys.execution_keys("ad", "ad-1", name).record)
    gates.open()
    assert (await ad.wait_for_end(name))["counts"] == {"completed": 2}


async def test_a_deleted_thread_ends_the_access_to_its_plans(ad: Plans, gates: Gates):
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC)
    gates.open()
    await ad.wait_for_end(name)
    await ad.call("DELETE", "/threads/ad-1", 204)
    await ad.call("GET", f"/api/executions/{name}", 404)


async def test_a_cancellation_or_decision_does_not_answer_a_question_about_something_else(
    ad: Plans, gates: Gates
):
    """D-R3."""
    gates.close("create_voice_draft")
    first = await ad.start(VOICES, MUSIC)
    await ad.call("POST", f"/api/executions/{first}/cancel")
    gates.open()
    await ad.wait_for_end(first)
    gates.close("create_music_draft")
    second = await ad.start(("d1", *MUSIC[1:]), ("d2", *EFFECTS[1:]), closes=False)
    await ad.call("POST", f"/api/executions/{second}/pause")
    gates.open()
    await ad.idle("interrupted")
    await ad.call("POST", f"/api/executions/{first}/cancel")
    decision = {"decisions": [{"type": "approve"}]}
    await ad.call("POST", f"/api/executions/{first}/decision", 409, json=decision)
    assert (await ad.execution(second))["status"] == "paused"


async def test_a_paused_plan_does_not_expire_and_the_place_of_a_plan_lives_as_long_as_its_record(
    ad: Plans, gates: Gates, storage: Storage
):
    gates.close("create_voice_draft")
    name = await ad.start(VOICES, MUSIC)
    record, place = keys.execution_keys("ad", "ad-1", name).record, keys.execution_place("local", name)
    await storage.redis.expire(place, 60)
    for change, lifetime in (("pause", keys.PAUSED_TTL_S), ("resume", keys.EXECUTION_TTL_S)):
        await ad.call("POST", f"/api/executions/{name}/{change}")
        for key in (record, place):
            assert lifetime - 60 <= await storage.redis.ttl(key) <= lifetime
    gates.open()
    await ad.wait_for_end(name)
