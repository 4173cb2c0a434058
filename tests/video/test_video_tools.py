"""Steps of videos, gathered context, and the offline model, over REST and the command (D15-D25, D48)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.providers import search_engines
from callsheet.state.errors import Invalid
from callsheet.storage import Storage
from callsheet.storage.video import context
from callsheet.storage.video.context import MAX_BYTES, ContextStore, fit
from callsheet.tools import REGISTRY
from tests.doubles.chat_double import Fail
from tests.doubles.command import Finished, command_in_process
from tests.doubles.waiting import eventually
from tests.video.video_double import SCENES, VideoClient, edit


@pytest.fixture
def callsheet(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Finished]]:
    with command_in_process(valkey_url, tmp_path, monkeypatch, capsys) as command:
        yield command


async def test_every_kind_of_step_changes_the_project(video: VideoClient):
    """D48."""
    video.model.patch = lambda prompt: {"name": prompt}
    name = await video.start(
        "x",
        {"tool": "trimScene", "scenes": ["scene-1"], "seconds": 1},
        {"tool": "addAudio", "scenes": ["scene-2"], "prompt": "soft piano"},
        {"tool": "duplicateScene", "scenes": ["copy"], "source": "scene-3", "prompt": "the copy"},
        {"tool": "duplicateScene", "source": "scene-4", "behind": "start"},
        {"tool": "addScene", "prompt": "A new one", "name": "New", "seconds": 2, "behind": "scene-1"},
        {"tool": "reorderScenes", "scenes": ["scene-1"], "behind": "scene-4"},
    )
    done = await video.wait_for_end(name)
    assert done["counts"] == {"completed": 6}, done
    scenes = await video.contents()
    assert [*scenes] == ["scene-6", "scene-7", "scene-2", "scene-3", "scene-5", "scene-4", "scene-1"]
    assert scenes["scene-1"]["durationInFrames"] == 30
    assert scenes["scene-2"]["audio"] == {
        "description": "soft piano",
        "volume": 0.8,
        "start": 0,
        "spokenLanguage": None,
    }
    assert scenes["scene-5"]["name"] == "the copy"
    assert scenes["scene-6"] == scenes["scene-4"]
    assert (scenes["scene-7"]["name"], scenes["scene-7"]["durationInFrames"]) == ("New", 60)
    restored = await video.start("y", {"tool": "restoreVersion", "scenes": ["scene-1"], "version": "v1"})
    await video.wait_for_end(restored)
    assert (await video.contents())["scene-1"]["durationInFrames"] == 60


async def test_the_description_of_a_sound_replaces_no_words_of_a_narration(video: VideoClient):
    audio = {"description": "Plants make food.", "spokenLanguage": "EN"}
    narrated = VideoClient(video.http, video.model, "narrated")
    await narrated.create([{"name": "x", "audio": audio}])
    step = {"tool": "addAudio", "scenes": ["scene-1"], "prompt": "soft piano"}
    done = await narrated.wait_for_end(await narrated.start("x", step))
    assert "has the words of a narration" in done["plan"]["steps"][0]["error"]
    kept = (await narrated.contents())["scene-1"]["audio"]
    assert (kept["description"], kept["spokenLanguage"]) == ("Plants make food.", "english")


async def test_an_empty_language_means_a_sound_without_words(video: VideoClient):
    audio = {"description": "soft piano", "spokenLanguage": " "}
    described = VideoClient(video.http, video.model, "described")
    await described.create([{"name": "x", "audio": audio}])
    assert (await described.contents())["scene-1"]["audio"]["spokenLanguage"] is None


async def test_trimming_a_scene_keeps_elements_and_scales_animations(video: VideoClient):
    animations = [{"kind": "fade", "start": 30, "duration": 60}]
    await VideoClient(video.http, video.model, "late").create(
        [{"name": "x", "elements": [{"id": "a", "kind": "text", "text": "t", "animations": animations}]}]
    )
    late = VideoClient(video.http, video.model, "late")
    await late.wait_for_end(await late.start("x", {"tool": "trimScene", "scenes": ["scene-1"], "seconds": 1}))
    [element] = (await late.contents())["scene-1"]["elements"]
    assert element["animations"] == [{"kind": "fade", "start": 10, "duration": 20, "easing": "ease-out"}]


async def test_an_invalid_patch_is_requested_again_with_the_reason(video: VideoClient):
    answers = iter(
        [{"change": [{"id": "none", "text": "x"}]}, {"change": [{"id": "title", "text": "Better"}]}]
    )
    video.model.patch = lambda _: next(answers)
    await video.wait_for_end(await video.start("x", edit("scene-1")))
    assert (await video.contents())["scene-1"]["elements"][0]["text"] == "Better"
    sent = [one.messages[1]["content"] for one in video.model.requests]
    sent = [json.loads(text) for text in sent if text.startswith("{")][-1]
    assert "has no element 'none'; its elements are: title" in sent["problem"]
    video.model.patch = lambda _: {"remove": ["none"]}
    done = await video.wait_for_end(await video.start("x", edit("scene-1")))
    assert "has no element 'none'" in done["plan"]["steps"][0]["error"]
    assert (await video.revisions())["scene-1"] == 2


async def test_gathered_context_is_stored_for_later_steps(video: VideoClient):
    """D21, D22, D25, D-R4: without a search service the result names the queries that were not searched."""
    name = await video.start("x", {"tool": "contextGatherer", "queries": ["bakery", "qwertz"]})
    result = (await video.wait_for_end(name))["plan"]["steps"][0]["result"]
    assert result["examples"][0]["name"] == "Market morning"
    assert result["trends"][0]["query"] == "bakery"
    assert "there is no web search" in result["webResults"][0]["problem"]
    assert "the web could not be searched for 'bakery', 'qwertz'" in result["summary"]
    assert result["colorPalettes"][0][0] == "#fff7ed"
    assert "slide-up" in result["animations"]
    entries = (await video.call("GET", "/api/projects/launch/context?contains=gathered"))["entries"]
    assert {*entries} == {"gathered:latest", "gathered:styles", "gathered:colors", "gathered:animations"}
    assert result["generatedContext"] == [*result["generatedContext"]]
    without_results = await video.start(
        "x", {"tool": "contextGatherer", "queries": ["qwertz"], "sources": ["examples"]}
    )
    assert (await video.wait_for_end(without_results))["plan"]["steps"][0]["result"][
        "summary"
    ] == "nothing was there"


DESIGNS = ("Minimal, navy.", "A minimal look: fade in", "Minimal fade", "Neon", "Neon")


async def test_web_search_results_are_cached(
    video: VideoClient, search: "SearchService", monkeypatch: pytest.MonkeyPatch
):
    """D18, D23, D24: the first three results, from the cache the second time."""
    monkeypatch.setenv("CALLSHEET_SEARCH_URL", f"{search.url}?safe=1")
    monkeypatch.setenv("CALLSHEET_SEARCH_KEY", "secret")
    search.body = {
        "web": {"results": [{"title": f"T{n}", "url": "u", "description": d} for n, d in enumerate(DESIGNS)]}
    }
    for _ in range(2):
        name = await video.start(
            "x", {"tool": "contextGatherer", "queries": ["latte art"], "sources": ["web"]}
        )
        result = (await video.wait_for_end(name))["plan"]["steps"][0]["result"]
        assert [one["title"] for one in result["webResults"][0]["results"]] == ["T0", "T1", "T2"]
        assert result["webResults"][0]["extractedPatterns"] == ["minimal", "fade", "navy"]
        pages = (await video.call("GET", "/api/projects/launch/context?contains=web:"))["entries"]
        assert pages["web:u"]["query"] == "latte art"
    assert len(search.paths) == 1
    assert search.paths[0].startswith("/search?safe=1&q=latte+art&format=json")
    assert search.keys == ["secret"]
    search.body = {"results": [{"title": "S", "url": "u", "content": "C"}, "odd"]}
    assert await search_engines.HttpSearch(search.url, "").top("x") == [
        {"title": "S", "url": "u", "summary": "C"}
    ]
    for status, body in ((500, {}), (200, []), (200, "no json")):
        search.status, search.body = status, body
        with pytest.raises(Exception, match="the web search gave no answer"):
            await search_engines.HttpSearch(search.url, "").top("x")


class SearchService:
    """A search service on loopback."""

    def __init__(self) -> None:
        self.body: Any = {}
        self.status = 200
        self.paths: list[str] = []
        self.keys: list[str] = []
        self.url = ""


@pytest.fixture
def search() -> Iterator[SearchService]:
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    service = SearchService()

    class SearchHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            service.paths.append(self.path)
            service.keys += [key] if (key := self.headers.get("X-Subscription-Token")) else []
            raw = (
                service.body.encode() if isinstance(service.body, str) else json.dumps(service.body).encode()
            )
            self.send_response(service.status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), SearchHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}/search"
    yield service
    server.shutdown()
    thread.join()
    server.server_close()


async def test_web_search_without_a_service_raises_an_error():
    with pytest.raises(Invalid, match="no web search"):
        await search_engines.web_search({}).top("x")


async def test_context_is_stored_by_project_within_its_limits(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
):
    """D15, D16, D17, D18, D19, D-R9, D-R10."""
    store = ContextStore(storage, "p", "local")
    assert not await store.set("style:scene-1", {"palette": ["#fff"]})
    assert await store.get("style:scene-1") == {"palette": ["#fff"]}
    assert await store.get_many(["style:scene-1", "none"]) == {
        "style:scene-1": {"palette": ["#fff"]},
        "none": None,
    }
    long_key = "search:" + "x" * 300
    await store.set(long_key, [1], ttl_s=3600)
    assert await store.get(long_key) == [1]
    await store.set(f"{long_key}y", [2])
    assert await store.search("search:") == {long_key: [1], f"{long_key}y": [2]}
    assert await store.search("style") == {"style:scene-1": {"palette": ["#fff"]}}
    assert await store.set("large", {"text": "é" * 200_000, "list": [*range(50_000)]})
    truncated = await store.get("large")
    assert truncated["_truncated"] is True
    assert len(json.dumps(truncated, ensure_ascii=False).encode()) <= MAX_BYTES
    assert fit("x" * 200_000)[0]["_truncated"]
    assert fit({str(n): n for n in range(20_000)}) == ({"_truncated": True}, True)
    assert await store.delete("large")
    assert not await store.delete("large")
    assert await ContextStore(storage, "other", "local").search("") == {}
    await store.set("short", 1, ttl_s=-1)
    assert await store.get("short") is None, "the entry has expired"
    with pytest.raises(Invalid, match="empty"):
        await store.set("", 1)
    monkeypatch.setattr(context, "MAX_ENTRIES", 2)
    with pytest.raises(Invalid, match="2 context entries"):
        await store.set("one more", 1)


async def test_context_that_is_too_large_is_refused_over_rest(video: VideoClient):
    """D-R9: 413."""
    path = "/api/projects/launch/context/brand"
    written = await video.call("PUT", path, json={"value": {"font": "Inter"}})
    assert written["entries"] == {"brand": {"font": "Inter"}}
    assert written["times"]["brand"]["createdAt"]
    assert written["times"]["brand"]["expiresAt"] is None
    await video.call("PUT", path, 413, json={"value": "x" * 200_000})
    assert (await video.call("GET", "/api/projects/launch/context"))["entries"] == written["entries"]
    await video.call("DELETE", path, 204)
    await video.call("DELETE", path, 404)


async def test_projects_can_be_listed_read_exported_and_previewed(video: VideoClient):
    created = await video.call("POST", "/api/projects", 201, json={"starter": "event-invitation"})
    assert (created["name"], created["sceneCount"]) == ("Event invitation", 4)
    listed = await video.call("GET", "/api/projects")
    assert [one["id"] for one in listed["projects"]] == [created["id"], "launch"]
    exported = await video.call("GET", f"/api/projects/{created['id']}/export")
    imported = await video.call("POST", "/api/projects", 201, json={"id": "again", **exported})
    assert [one["name"] for one in imported["scenes"]] == [one["name"] for one in created["scenes"]]
    for path in ("preview", "preview?at=1.5", "scenes/scene-1/preview?version=v1"):
        page = await video.http.get(f"/api/projects/again/{path}")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "sandbox;" in page.headers["content-security-policy"]
        assert "<script" not in page.text
        assert "Summer at the Mill" in page.text
    assert (await video.http.get("/api/projects/again/scenes/scene-1/preview?version=v9")).status_code == 404
    assert (await video.http.get("/api/projects/again/scenes/scene-9/versions")).status_code == 404
    artefact = await video.call("GET", "/api/artefacts/video/again")
    assert [*artefact["streams"]] == ["order", "scene-1", "scene-2", "scene-3", "scene-4"]
    versions = await video.call("GET", "/api/artefacts/video/again/scene-2")
    assert [one["summary"] for one in versions["versions"]] == ["Programme"]
    order = await video.call("GET", "/api/artefacts/video/again/order")
    assert order["versions"][0]["summary"] == "scene-1, scene-2, scene-3, scene-4"
    too_many = await video.http.post("/api/projects", json={"scenes": [SCENES[0]] * 101})
    assert too_many.status_code == 422


async def test_a_failing_model_fails_only_its_step(video: VideoClient):
    video.model.patch = lambda _: Fail(400, "no such thing")
    done = await video.wait_for_end(await video.start("x", edit("scene-1")))
    assert (done["success"], done["counts"]) == (False, {"error": 1})
    assert (await video.revisions())["scene-1"] == 1


def test_the_model_gets_only_the_tool_submit_plan():
    assert [*REGISTRY.of("video")] == ["submit_plan"]
    steps = {*REGISTRY.of("video", internal=True)}
    assert steps >= {"addScene", "editScene", "contextGatherer", "deleteScene", "trimScene", "addAudio"}


OFFLINE = ("--provider", "offline")


async def test_a_step_that_the_offline_model_does_not_understand_fails(api: httpx.AsyncClient):
    """D8: it had been completed as unchanged, and any words became a new scene."""
    await api.post("/api/projects", json={"id": "v", "starter": "product-launch"})
    message = "make scenes 1 and 2 faster, add a scene about our prices and add a scene about our team"
    body = {"message": message, "provider": "offline", "approve": True}
    started = await api.post("/api/projects/v/executions", json=body)
    path = f"/api/executions/{started.json()['executionId']}"

    async def steps() -> list[dict[str, Any]]:
        return list((await api.get(path)).json()["plan"]["steps"])

    async def all_have_ended() -> bool:
        return all(step["status"] not in {"pending", "in-progress"} for step in await steps())

    prompts = {1: "make the title pulse", 2: "a scene with a cat"}
    edits = [{**step["params"], "prompt": prompts.get(at)} for at, step in enumerate(await steps())]
    decisions = [
        {"type": "edit", "edited_action": {"args": args}} if args["prompt"] else {"type": "approve"}
        for args in edits
    ]
    reply = await api.post(f"{path}/decision", json={"decisions": decisions})
    assert reply.status_code < 300, reply.text
    await eventually(all_have_ended, "all steps have ended")
    known, pulse, cat, prices = await steps()
    assert [one["status"] for one in (known, pulse, cat, prices)] == [
        "completed",
        "error",
        "error",
        "completed",
    ]
    assert "not “make the title pulse”" in pulse["error"]
    assert "not “a scene with a cat”" in cat["error"]


def test_the_command_edits_only_the_scenes_that_a_sentence_names(callsheet: Callable[..., Finished]):
    """D8: the offline grammar, sentence by sentence."""
    result = callsheet("scenes", "v", "make all scenes faster", "--starter", "app-promo", *OFFLINE)
    assert result.code == 0, result.err
    assert "Hook" in result.out
    assert result.err.count("✔ Editing scene") == 4
    for sentence, changed in {
        "make scenes 1 and 2 like 3": {"scene-1", "scene-2"},
        "use scene 4's colors in scene 1": {"scene-1"},
        'change "free" to "ready" in scene 4': {"scene-4"},
        "make scene 2 5 seconds long": {"scene-2"},
        "make the last two scenes slower": {"scene-3", "scene-4"},
        "make the first scene navy": {"scene-1"},
        "make it longer": {"scene-1"},
    }.items():
        before = versions(callsheet("scenes", "v", "--json"))
        after = versions(callsheet("scenes", "v", sentence, *OFFLINE, "--json"))
        assert {name for name in after if after[name] != before[name]} == changed, sentence


def test_the_command_adds_moves_deletes_undoes_and_previews_scenes(
    callsheet: Callable[..., Finished], tmp_path: Path
):
    callsheet("scenes", "v", "--starter", "app-promo")
    for sentence, order in {
        "add a scene about prices": "12345",
        "move scene 5 first": "51234",
        "put scene 1 last": "12345",
        "duplicate scene 1": "162345",
        "delete scenes 2 and 6": "1234",
    }.items():
        scenes = versions(callsheet("scenes", "v", sentence, *OFFLINE, "--json"))
        assert [*scenes] == [f"scene-{number}" for number in order], sentence
    undone = callsheet("scenes", "v", "--undo", "--preview", str(tmp_path / "v.html"))
    assert undone.code == 0, undone.err
    assert "scene-6" in undone.out
    assert (tmp_path / "v.html").read_text().count("<section") == 6


def test_the_command_reports_requests_that_it_cannot_fulfil(callsheet: Callable[..., Finished]):
    callsheet("scenes", "v", "--starter", "app-promo")
    for sentence, words in {
        "make scene 9 faster": "there is no scene 9",
        "make it faster": "no scene was changed before",
        "write me a poem": "I am the offline demo model",
    }.items():
        assert words in callsheet("scenes", "v", sentence, *OFFLINE).out.replace("\n  ", " ")
    new = callsheet("videos", "new", "--id", "w", "make a video about a bakery in Lyon", *OFFLINE, "--json")
    assert [*versions(new)] == ["scene-1", "scene-2", "scene-3", "scene-4"]
    assert callsheet("scenes", "v", "x", "--undo").code == 2
    assert "there is no video 'none'" in callsheet("scenes", "none").err
    assert "there is no starter" in callsheet("scenes", "z", "--starter", "x").err


def versions(result: Finished) -> dict[str, str]:
    assert result.code == 0, result.err
    return {one["id"]: one["versionId"] for one in json.loads(result.out)["scenes"]}
