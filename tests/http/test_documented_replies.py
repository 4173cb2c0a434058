"""Every route answers as the OpenAPI document says: one pass through all workflows."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest

from tests.doubles.documented import (
    EVENT_STREAM,
    assert_documented,
    assert_documented_events,
    openapi_document,
    operation_of,
)
from tests.doubles.served import GENERATE, app_client, parse_events, started_app
from tests.doubles.waiting import eventually
from tests.lessons.lesson_material import material

OFFLINE: Final = {"provider": "offline"}
QUESTION: Final = "how many email campaigns are there"
LESSON: Final = "/api/agent-create"
NOT_CALLED: Final = frozenset(
    {
        # A plan must run, fail or wait for them; tests/video and tests/plans validate their replies.
        *("editStep", "insertStep", "skipStep", "moveStep", "retryStep", "rerunStep", "decideExecution"),
        *("pauseExecution", "resumeExecution", "cancelExecution", "restoreSceneVersion"),
        *("startExecution", "undoExecution", "redoExecution", "getExecution"),
        # A question must wait; tests/pages validates its replies.
        "answerPageQuestion",
        # They need a service or a file; tests/lessons and tests/pages validate their replies.
        *("searchLessonImages", "uploadLessonSource", "uploadLessonAsset", "uploadRequestedPageFile"),
        "editLessonNarration",
        "rewriteLessonNarration",
        # Replies of the page and of sound; tests/console, ads, lessons and video validate them.
        *("answerQuestion", "listQuestions", "listRecent", "listRunning", "sendMarkdown", "showSession"),
        *("checkAd", "renderAd", "renderNarration", "renderFilmSound", "reorderScenes"),
        # It needs a server without data; tests/storage/test_owner_data.py validates its reply.
        "importData",
        # The protocol of the web socket; tests/wire has it.
        "runCommand",
    }
)
"""Operations whose replies other tests validate."""


class CheckedClient:
    """A client that fails for a reply that is not as documented, and keeps the operations it called."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.called: set[str] = set()

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the JSON of a reply that must be a success; None for one without."""
        options: dict[str, Any] = {} if body is None else {"json": body}
        reply = await self.http.request(method, path, headers=headers, **options)
        assert reply.is_success, (method, path, reply.text)
        operation = operation_of(reply.request)
        assert operation is not None, path
        self.called.add(operation["operationId"])
        is_json = reply.headers.get("content-type", "").startswith("application/json")
        return reply.json() if is_json else None

    async def stream(self, method: str, path: str, body: Any = None) -> list[tuple[str, Any]]:
        """Return the events of a stream, each as documented, up to its end."""
        options: dict[str, Any] = {} if body is None else {"json": body}
        reply = await self.http.request(method, path, headers={"Accept": EVENT_STREAM}, **options)
        assert reply.is_success, reply.text
        received = parse_events(reply.text.replace("\r\n", "\n"))
        assert_documented_events(reply.request, received)
        return received


@pytest.fixture
async def call(valkey_url: str) -> AsyncIterator[CheckedClient]:
    """Return a caller of an application of its own."""
    async with (
        started_app(valkey_url) as app,
        app_client(app, event_hooks={"response": [assert_documented]}) as http,
    ):
        yield CheckedClient(http)


async def call_ads(call: CheckedClient) -> None:
    await call("POST", "/api/ai/generate", GENERATE)
    await call("POST", "/api/ads/ad-1/chat", {"message": "Make the music more upbeat", **OFFLINE})
    campaigns = {"campaignIds": ["c-0002"], "adId": "ad-3", **OFFLINE}
    await call("POST", "/api/ads", campaigns)
    await call("POST", "/api/pages", {"adId": "ad-1", "pageId": "page-of-ad"})
    for path in (
        "/api/ads",
        "/api/ads/ad-1",
        *(f"/api/ads/ad-1/{one}" for one in ("conversation", "timeline")),
    ):
        await call("GET", path)
    for stream in ("voices", "music", "sfx"):
        await call("GET", f"/api/ads/ad-1/{stream}")
        await call("GET", f"/api/ads/ad-1/{stream}/v1")
    await call("GET", "/api/ads/ad-1/mixer")
    await call("PATCH", "/api/ads/ad-1/mixer", {"music": {"volumeDb": -3}})
    await call("PUT", "/api/ads/ad-1/locks/sfx")
    await call("DELETE", "/api/ads/ad-1/locks/sfx")
    await call("GET", "/api/ads/ad-1/music/v1/diff/v2")
    await call("POST", "/api/ads/ad-1/music", {"musicPrompt": "soft piano"})
    await call("PATCH", "/api/ads/ad-1/music/v1", {"musicPrompt": "soft harp"})
    await call("POST", "/api/ads/ad-1/music/v1/activate")
    clone = await call("POST", "/api/ads/ad-1/music/v1/clone")
    await call("DELETE", f"/api/ads/ad-1/music/{clone['versionId']}")
    await call("PATCH", "/api/ads/ad-1/voices/tracks/track-0", {"speed": 0.9, "version": "v1"})
    names = {"names": {"Miel": "mee-ell"}}
    for path in ("/api/pronunciations", "/api/ads/ad-1/pronunciations"):
        await call("PUT", path, names)
        assert (await call("GET", path))["names"] == names["names"]
    await call("GET", "/api/voices?limit=2")
    await call("GET", f"/api/voices/{'openai/alloy@english'.replace('/', '%2F')}")


async def call_artefacts(call: CheckedClient) -> None:
    place = "/api/artefacts/ad"
    for path in ("", "/ad-1", "/ad-1/music", "/ad-1/music/v1", "/ad-1/music/v1/diff/v2"):
        await call("GET", place + path)
    for path in (
        "/api/tools",
        "/api/tool-executions",
        "/api/usage",
        "/api/admin/runs",
        "/api/admin/usage",
        "/api/admin/audit",
        "/health",
        "/ready",
        "/ok",
        "/metrics",
        "/info",
    ):
        await call("GET", path)
    execution = (await call("GET", "/api/tool-executions"))["executions"][0]
    await call("GET", f"/api/tool-executions/{execution['id']}")
    await call("DELETE", "/api/ads/ad-1/conversation")
    await call("DELETE", "/api/artefacts/ad/ad-1")
    await call("POST", "/api/ai/generate", {**GENERATE, "adId": "ad-2"})
    await call("DELETE", "/api/ads/ad-2")


async def call_lessons(call: CheckedClient) -> None:
    text = f"Here is the material. Find the facts.\n\n{material('photosynthesis').text}"
    turn = await call("POST", LESSON, {"messages": [{"role": "user", "content": text}], **OFFLINE})
    header = {"X-Session-Id": turn["sessionId"]}
    assert turn["facts"]
    chosen = {"messages": [], "selectedFacts": [one["id"] for one in turn["facts"][:3]], **OFFLINE}
    narrated = await call("POST", f"{LESSON}/tools", chosen, **header)
    assert narrated["narration"]
    await call("GET", f"{LESSON}/session", **header)
    await call("PATCH", f"{LESSON}/session", {"childAge": 9}, **header)
    await call("GET", f"{LESSON}/sessions")
    await call("GET", f"{LESSON}/session/narration", **header)
    await call("GET", f"{LESSON}/session/narration/versions", **header)
    await call("GET", f"{LESSON}/session/quiz", **header)
    await call("POST", f"{LESSON}/session/quiz", OFFLINE, **header)
    await call("GET", f"{LESSON}/session/narration/versions/v1/diff/v1", **header)
    await call("POST", f"{LESSON}/session/source", {"text": material("photosynthesis").text}, **header)
    asset = {"assetType": "image", "url": "https://example.org/leaf.png", "metadata": {"alt": "a leaf"}}
    added = await call("POST", f"{LESSON}/session/assets", asset, **header)
    await call("GET", f"{LESSON}/session/assets", **header)
    await call("DELETE", f"{LESSON}/session/assets/{added['id']}", **header)
    await call("GET", f"{LESSON}/session/analytics", **header)
    await call("DELETE", f"{LESSON}/session", **header)


async def call_pages(call: CheckedClient) -> None:
    page = "/api/pages/shop"
    await call("POST", f"{page}/chat", {"message": "Change the headline to “Fresh bread”", **OFFLINE})
    await call("GET", "/api/pages")
    shown = await call("GET", page)
    heading = shown["page"]["root"]["children"][0]["id"]
    edited = await call(
        "PATCH", f"{page}/elements/{heading}", {"label": "Top", "version": shown["versionId"]}
    )
    for path in ("versions", "versions/v1", f"versions/v1/diff/{edited['id']}", "diff?from=v1&to=v1"):
        await call("GET", f"{page}/{path}")
    await call("POST", f"{page}/versions/v1/activate")
    await call("POST", f"{page}/versions/v1/restore")
    await call("PUT", f"{page}/locks/{heading}")
    await call("DELETE", f"{page}/locks/{heading}")
    await call("GET", f"{page}/uploads")
    await call("GET", f"{page}/export")
    await call("GET", f"{page}/check")
    await call("DELETE", page)


async def call_videos(call: CheckedClient) -> None:
    project = "/api/projects/launch"
    await call("POST", "/api/projects", {"id": "launch", "starter": "app-promo"})
    for path in ("", "/scenes", "/scenes/scene-1", "/scenes/scene-1/versions", "/executions", "/context"):
        await call("GET", project + path)
    for path in ("/preview", "/scenes/scene-1/preview", "/scenes/scene-1/versions/v1/diff/v1"):
        await call("GET", project + path)
    exported = await call("GET", f"{project}/export")
    await call("GET", f"{project}/timeline.otio")
    await call("GET", f"{project}/film")
    await call("POST", "/api/projects", {"name": "a copy", "scenes": exported["scenes"]})
    await call("GET", "/api/projects")
    await call("PUT", f"{project}/locks/scene-1")
    await call("DELETE", f"{project}/locks/scene-1")
    await call("PUT", f"{project}/context/brand", {"value": {"colour": "navy"}})
    await call("DELETE", f"{project}/context/brand")
    await call("PUT", "/api/presets/brighter", {"message": "Make all scenes brighter"})
    await call("GET", "/api/presets")
    await call("DELETE", "/api/presets/brighter")
    await call("GET", "/api/preferences")
    await call("DELETE", project)


async def call_campaigns(call: CheckedClient) -> None:
    answer = await call("POST", "/api/chat", {"message": QUESTION, **OFFLINE})
    assert answer["campaigns"]
    listed = await call("GET", "/api/campaigns?limit=2&channel=email")
    await call("GET", f"/api/campaigns/{listed['campaigns'][0]['id']}")
    await call("GET", "/api/campaigns/export")
    search = {"message": QUESTION, "activeFilters": {"channel": ["email"]}}
    await call("PUT", "/api/searches/mails", search)
    await call("GET", "/api/searches")
    await call("POST", "/api/searches/mails/run")
    await call("DELETE", "/api/searches/mails")
    await call("DELETE", "/api/searches")
    row = {"id": "c-1", "company": "Miel", "channel": "email", "capture_date": "2026-03-01"}
    reply = await call.http.post("/api/campaigns/import?fileName=a.jsonl", content=json.dumps(row))
    assert reply.json()["imported"] == 1, reply.text
    await call("DELETE", "/api/campaigns/c-1")
    await call("DELETE", "/api/campaigns")
    call.called |= {"importCampaignFile"}


async def call_assistants_and_threads(call: CheckedClient) -> None:
    new = {"graph_id": "ad_creation", "name": "Ads"}
    assistant = await call("POST", "/assistants", new)
    place = f"/assistants/{assistant['assistant_id']}"
    await call("PATCH", place, {"name": "Audio ads", "config": {"recursion_limit": 30}})
    for path in ("", "/graph", "/schemas", "/subgraphs", "/subgraphs/none"):
        await call("GET", place + path)
    await call("POST", f"{place}/versions", {})
    await call("POST", f"{place}/latest", {"version": 1})
    await call("POST", "/assistants/search", {"select": ["assistant_id"]})
    await call("POST", "/assistants/search", {})
    await call("POST", "/assistants/count", {})
    await call("DELETE", place)
    await call("POST", "/threads", {"thread_id": "t-1", "metadata": {"team": "a"}, "ttl": 60})
    await call("GET", "/threads/t-1?include=ttl")
    await call("PATCH", "/threads/t-1", {"metadata": {"team": "b"}})


async def call_runs(call: CheckedClient) -> None:
    message = {"role": "user", "content": "Make an ad for Miel, a bakery in Lyon."}
    run = {
        "assistant_id": "ad_creation",
        "input": {"messages": [message]},
        "context": {"provider": "offline"},
    }
    started = await call("POST", "/threads/t-1/runs", run)
    place = f"/threads/t-1/runs/{started['run_id']}"
    for path in ("", "/join"):
        await call("GET", place + path)
    await call.stream("GET", f"{place}/stream")
    await call("POST", "/threads/t-1/runs/wait", run)
    assert await call.stream("POST", "/threads/t-1/runs/stream", {**run, "stream_mode": ["values", "custom"]})
    await call("GET", "/threads/t-1/runs?select=run_id")
    await call("GET", "/threads/t-1/runs")
    await call("POST", "/runs/wait", run)
    assert await call.stream("POST", "/runs/stream", run)
    stateless = await call("POST", "/runs", {**run, "on_completion": "keep"})
    for path in ("", "/join"):
        await call("GET", f"/runs/{stateless['run_id']}{path}")
    await call.stream("GET", f"/runs/{stateless['run_id']}/stream")
    await call("POST", "/runs/batch", [run])
    late = await call("POST", "/threads/t-1/runs", {**run, "after_seconds": 300})
    await call("POST", f"/threads/t-1/runs/{late['run_id']}/cancel?wait=true")
    await call("POST", "/runs/cancel", {"status": "all"})
    await call("DELETE", place)


async def call_states(call: CheckedClient) -> None:
    async def is_idle() -> bool:
        return str((await call("GET", "/threads/t-1"))["status"]) == "idle"

    await eventually(is_idle, "the thread is idle")
    state = await call("GET", "/threads/t-1/state?subgraphs=true")
    await call("GET", "/threads/t-1/state?select=next")
    await call("POST", "/threads/t-1/state/checkpoint", {"checkpoint": state["checkpoint"]})
    await call("GET", f"/threads/t-1/state/{state['checkpoint_id']}")
    await call("GET", "/threads/t-1/history?limit=3")
    await call("POST", "/threads/t-1/history", {"limit": 2, "select": ["checkpoint_id"]})
    await call("POST", "/threads/t-1/state", {"values": {"language": "english"}, "as_node": "summarizer"})
    for body in ({}, {"select": ["thread_id"]}, {"extract": {"said": "values.messages[0].content"}}):
        assert await call("POST", "/threads/search", body)
    await call("POST", "/threads/count", {})
    await call("GET", "/threads/t-1/storage")
    await call("GET", "/api/threads/t-1/export")
    await call("POST", "/threads/t-1/copy")
    await call("POST", "/threads/prune", {"thread_ids": ["t-1"], "strategy": "keep_latest"})
    exported = await call.http.get("/api/threads/t-1/export")
    await call("DELETE", "/threads/t-1")
    await call("DELETE", "/api/artefacts/ad/t-1")
    imported = await call.http.post("/api/threads/import", content=exported.content)
    assert imported.status_code == 201, imported.text
    await call("GET", "/api/data/export")
    call.called |= {"importThread"}


async def call_crons_and_store(call: CheckedClient) -> None:
    await call("POST", "/threads", {"thread_id": "t-2"})
    new = {"assistant_id": "ad_creation", "schedule": "@yearly", "input": {"messages": []}}
    cron = await call("POST", "/runs/crons", new)
    await call("POST", "/threads/t-2/runs/crons", new)
    await call("POST", "/runs/crons/search", {})
    await call("POST", "/runs/crons/search", {"select": ["cron_id"]})
    await call("POST", "/runs/crons/count", {})
    await call("GET", f"/runs/crons/{cron['cron_id']}")
    await call("PATCH", f"/runs/crons/{cron['cron_id']}", {"enabled": False})
    await call("DELETE", f"/runs/crons/{cron['cron_id']}")
    item = {"namespace": ["notes"], "key": "one", "value": {"text": "bread"}}
    await call("PUT", "/store/items", item)
    await call("GET", "/store/items?namespace=notes&key=one")
    await call("GET", "/store/items?namespace=notes&key=two")
    await call("POST", "/store/items/search", {"namespace_prefix": ["notes"], "query": "bread"})
    await call("POST", "/store/namespaces", {})
    await call("DELETE", "/store/items", {"namespace": ["notes"], "key": "one"})


@pytest.mark.slow
async def test_every_route_answers_as_its_document_says(call: CheckedClient) -> None:
    for part in (call_ads, call_artefacts, call_lessons, call_pages, call_videos, call_campaigns):
        await part(call)
    for part in (call_assistants_and_threads, call_runs, call_states, call_crons_and_store):
        await part(call)
    documented = {
        operation["operationId"]
        for methods in openapi_document()["paths"].values()
        for operation in methods.values()
        if "application/json" in operation["responses"].get("200", {}).get("content", {})
    }
    assert documented - call.called == documented & NOT_CALLED


async def test_streams_of_turns_have_the_documented_events(call: CheckedClient) -> None:
    assert [name for name, _ in await call.stream("POST", "/api/ai/generate", GENERATE)][-1] == "result"
    question = {"message": QUESTION, **OFFLINE}
    assert await call.stream("POST", "/api/chat", question)
    message = {"message": "Change the headline to “Fresh bread”", **OFFLINE}
    assert await call.stream("POST", "/api/pages/shop/chat", message)


async def test_a_turn_says_whether_something_was_made_or_the_model_declined(call: CheckedClient) -> None:
    """A refusal of the offline model is 200: it answers in words, as a model may."""
    created = await call("POST", "/api/ai/generate", GENERATE)
    assert created["outcome"] == "made"
    declined = await call("POST", "/api/ads/ad-1/chat", {"message": "Recite Hamlet backwards", **OFFLINE})
    assert (declined["outcome"], declined["created"]) == ("refused", [])
    page = await call("POST", "/api/pages/shop/chat", {"message": "Recite Hamlet backwards", **OFFLINE})
    assert page["outcome"] == "refused"
    counted = await call("POST", "/api/chat", {"message": QUESTION, **OFFLINE})
    assert counted["outcome"] == "nothing_made"
    deletion = {"message": "delete the features section", **OFFLINE}
    assert (await call("POST", "/api/pages/shop/chat", deletion))["outcome"] == "waiting"
