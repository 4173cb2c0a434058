"""Isolation of owners: every route, requested by callers who must not see the data behind it (X16).

The routes are those of the application's own OpenAPI document, so new ones are tested by themselves.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from callsheet.server.langgraph.protocol.events import ThreadView
from callsheet.storage import Storage, api_keys
from tests.doubles.auth_cases import create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.documented import openapi_document
from tests.doubles.served import VOICE, app_client, generate_ad, route_permission, started_app
from tests.doubles.waiting import eventually
from tests.pages.page_double import PageDouble

SECRET_WORD = "zyxomma"
"""Is in all of alice's data, and must be in nobody else's replies."""
UNKNOWN_ID = "0b7e8a54-7b0c-4d39-9d53-0d6fbb5f2a11"
STATUSES_OTHER_THAN_404 = {("POST", "/api/ads/{ad_id}/chat"): 400, ("POST", "/api/pages/{page_id}/chat"): 422}
STATUSES_OTHER_THAN_404[("POST", "/api/projects/{project_id}/executions")] = 422
"""A57: for an ad without a conversation, and for an empty first message about a page or a video."""
OWNED_IDS = (
    "ad_id",
    "page_id",
    "project_id",
    "plan_id",
    "artefact_id",
    "conversation_id",
    "thread_id",
    "assistant_id",
    "question_id",
)
"""Path parameters whose ids belong to an owner."""
PUBLIC_PATHS = ("/ok", "/ready", "/api/session")
CHANGING_PATHS = ("/health", "/api/questions")
"""Paths whose replies have a time in them."""
ENDLESS_PATHS = ("stream", "stream/events", "{conversation_id}/events", "questions/events", "join")
"""Last segments of the paths whose replies never end."""


@dataclass
class TenantServer:
    """A server on which alice owns one of everything."""

    app: Any
    client: httpx.AsyncClient
    spec: Mapping[str, Any]
    keys: dict[str, str]
    ids: dict[str, str] = field(default_factory=dict)
    """Alice's ids, by the name of the path parameter."""

    def routes(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield method, path and documentation of every operation that needs authentication."""
        for path, methods in self.spec["paths"].items():
            if path not in PUBLIC_PATHS:
                for method, operation in methods.items():
                    yield method.upper(), path, operation

    async def request(
        self, key_name: str, method: str, path: str, ids: dict[str, str] | None = None
    ) -> httpx.Response:
        """Send a request with one of the keys, and with all ids in its path, query and body."""
        values = self.ids | (ids or {})
        operation = self.spec["paths"][path][method.lower()]
        names = [
            parameter["name"] for parameter in operation.get("parameters", ()) if parameter.get("required")
        ]
        query = {name: values[name] for name in names if f"{{{name}}}" not in path}
        content = self._body(method, path, operation, values)
        target = re.sub(r"{(\w+)}", lambda name: quote(values[name[1]], safe=""), path)
        headers = {"X-Api-Key": self.keys[key_name]} if self.keys[key_name] else {}
        return await self.client.request(method, target, headers=headers, params=query, content=content)

    def _body(self, method: str, path: str, operation: Any, ids: Mapping[str, str]) -> str | None:
        if "requestBody" not in operation:
            return None
        content, *_ = operation["requestBody"]["content"].values()
        body = bodies(ids).get((method, path))
        return json.dumps(self._minimal_value(content["schema"]) if body is None else body)

    def _minimal_value(self, schema: Mapping[str, Any]) -> Any:
        """Return the smallest value that fits a schema."""
        if "$ref" in schema:
            return self._minimal_value(self.spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return self._minimal_value(schema["anyOf"][0])
        if "enum" in schema:
            return schema["enum"][0]
        simple = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}
        if schema.get("type") in simple:
            return simple[schema["type"]]
        required = schema.get("required", ())
        return {name: self._minimal_value(schema["properties"][name]) for name in required}


def bodies(ids: Mapping[str, str]) -> dict[tuple[str, str], Any]:
    """Return bodies that refer to alice's data, where the smallest valid body would not."""
    namespace = {"namespace": ["notes"], "key": ids["key"]}
    run = {"assistant_id": ids["assistant_id"], "input": {}}
    return run_bodies(ids, run) | {
        ("POST", "/api/ai/generate"): {
            "adId": "mine",
            "brief": "Miel, a bakery in Lyon.",
            "provider": "offline",
        },
        ("POST", "/api/ads/{ad_id}/chat"): {"message": "make the music louder", "provider": "offline"},
        ("POST", "/api/pages/{page_id}/chat"): {"message": " ", "provider": "offline"},
        ("POST", "/api/pages/{page_id}/decisions"): {"decisions": [{"type": "approve"}]},
        ("POST", "/api/projects/{project_id}/executions"): {"message": " "},
        ("PATCH", "/api/executions/{plan_id}/steps/{step_id}"): {"params": {"prompt": "mine"}},
        ("POST", "/api/executions/{plan_id}/steps"): {"step": {"tool": "editScene", "prompt": "mine"}},
        ("PATCH", "/api/ads/{ad_id}/mixer"): {"sfx": {"volumeDb": -9}},
        ("POST", "/api/ads/{ad_id}/{stream}"): {"musicPrompt": "mine now"},
        ("PATCH", "/api/ads/{ad_id}/{stream}/{version_id}"): {"musicPrompt": "mine now"},
        ("POST", "/assistants"): {"graph_id": "ad_creation"},
        ("PATCH", "/assistants/{assistant_id}"): {"name": "mine now"},
        ("POST", "/threads"): {"thread_id": ids["thread_id"], "if_exists": "do_nothing"},
        ("POST", "/threads/search"): {"ids": [ids["thread_id"]]},
        ("POST", "/threads/count"): {"metadata": {"note": SECRET_WORD}},
        ("POST", "/threads/prune"): {"thread_ids": [ids["thread_id"]]},
        ("PATCH", "/threads/{thread_id}"): {"metadata": {"note": "mine now"}},
        ("POST", "/threads/{thread_id}/state"): {"values": {"market": "mine now"}},
        ("POST", "/threads/{thread_id}/state/checkpoint"): {
            "checkpoint": {"thread_id": ids["thread_id"], "checkpoint_id": ids["checkpoint_id"]}
        },
        ("PUT", "/store/items"): {**namespace, "value": {"text": "mine"}},
        ("DELETE", "/store/items"): namespace,
        ("POST", "/store/items/search"): {"namespace_prefix": []},
    }


def run_bodies(ids: Mapping[str, str], run: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Return bodies of runs: on alice's thread with a packaged graph, elsewhere with her assistant."""
    shared_run = {"assistant_id": "ad_creation", "input": {}}
    start = {"id": 1, "method": "run.start", "params": shared_run}
    by_path: dict[str, Any] = {
        "/threads/{thread_id}/runs": shared_run,
        "/threads/{thread_id}/runs/stream": shared_run,
        "/threads/{thread_id}/runs/wait": shared_run,
        "/threads/{thread_id}/runs/crons": {**shared_run, "schedule": "0 0 1 1 *"},
        "/threads/{thread_id}/commands": start,
        "/threads/{thread_id}/stream/events": {"channels": ["values"]},
        "/runs": run,
        "/runs/stream": run,
        "/runs/wait": run,
        "/runs/batch": [run],
        "/runs/cancel": {"thread_id": ids["thread_id"], "run_ids": [ids["run_id"]]},
        "/runs/crons": {**run, "schedule": "0 0 1 1 *"},
    }
    return {("POST", path): body for path, body in by_path.items()}


async def create_video(client: httpx.AsyncClient) -> dict[str, str]:
    """Create a video, a plan for it, saved messages and a campaign; return the ids."""
    scenes = [{"name": SECRET_WORD}, {"name": "other"}]
    assert (await client.post("/api/projects", json={"id": "film", "scenes": scenes})).status_code == 201
    faster = {"message": "make all scenes faster", "provider": "offline"}
    film = (await client.post("/api/projects/film/executions", json=faster)).json()
    await client.put("/api/presets/mine", json={"message": SECRET_WORD})
    await client.put("/api/searches/mine", json={"message": SECRET_WORD})
    mine = {"id": "film", "company": SECRET_WORD, "channel": "email", "capture_date": "2026-01-01"}
    assert (await client.post("/api/campaigns/import?fileName=x.json", json=[mine])).json()["new"] == 1
    steps = {"plan_id": film["executionId"], "step_id": "s1.1", "preference_id": UNKNOWN_ID}
    return {"project_id": "film", "campaign_id": "film", "scene_id": "scene-1", "name": "mine", **steps}


async def create_question(client: httpx.AsyncClient) -> dict[str, str]:
    """Make a page that waits for an approval; return the question's id."""
    clearing = {"message": "clear the page", "provider": "offline"}
    assert (await client.post(f"/api/pages/{SECRET_WORD}/chat", json=clearing)).status_code == 200
    [question] = (await client.get("/api/questions")).json()["questions"]
    return {"question_id": question["id"]}


async def list_ids(client: httpx.AsyncClient, thread: str) -> dict[str, str]:
    """Return the ids of a tool call, and of a checkpoint and a run of this thread."""
    calls = await client.get("/api/tool-executions")
    state = (await client.get(f"/threads/{thread}/state")).json()
    runs = (await client.get(f"/threads/{thread}/runs")).json()
    return {
        "execution_id": calls.json()["executions"][0]["id"],
        "checkpoint_id": state["checkpoint"]["checkpoint_id"],
        "run_id": runs[0]["run_id"],
    }


async def create_one_of_each(client: httpx.AsyncClient, headers: Mapping[str, str]) -> dict[str, str]:
    """Create one of everything; return the ids by the name of the path parameter."""
    client.headers.update(headers)
    ad = await generate_ad(client, brief=f"Miel bakes {SECRET_WORD} every morning.")
    thread_id = ad["conversationId"]
    headline = {"message": f"change the headline to '{SECRET_WORD}'", "provider": "offline"}
    page = await client.post("/api/pages/home/chat", json=headline)
    assert page.json()["drafts"] == {"page": "v1"}, page.text
    assistant = {"graph_id": "ad_creation", "name": SECRET_WORD, "assistant_id": UNKNOWN_ID[:-1] + "9"}
    assert (await client.post("/assistants", json=assistant)).status_code == 200
    item = {"namespace": ["notes"], "key": "note", "value": {"text": SECRET_WORD}}
    assert (await client.put("/store/items", json=item)).status_code == 204
    ids = await list_ids(client, thread_id) | await create_video(client) | await create_question(client)
    client.headers.pop("X-Api-Key")
    ids |= dict.fromkeys(("version_id", "other_id", "to"), "v1")
    ids |= dict.fromkeys(("upload_id", "file_id", "asset_id", "cron_id"), UNKNOWN_ID)
    return ids | {
        "ad_id": "ad-1",
        "page_id": "home",
        "kind": "ad",
        "artefact_id": "ad-1",
        "conversation_id": page.json()["conversationId"],
        "element_id": "heading-1",
        "fileName": "mine.txt",
        "q": "leaves",
        "voice_id": VOICE,
        "from": "start",
        "stream": "music",
        "track_id": "track-0",
        "thread_id": thread_id,
        "assistant_id": assistant["assistant_id"],
        "namespace": "child",
        "key": "note",
    }


@pytest.fixture
async def server(valkey_url: str, storage: Storage) -> AsyncIterator[TenantServer]:
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(started_app(valkey_url, auth=("keys",)))
        client = await stack.enter_async_context(app_client(app))
        keys = {
            "nobody": "",
            "alice": await create_key(storage, "alice"),
            "alice, reading": await create_key(storage, "alice", "read"),
            "bob": await create_key(storage, "bob", "admin"),
            "expired": await create_key(storage, "alice", lifetime_s=0.001),
            "revoked": await create_key(storage, "alice"),
        }
        keys["misspelt"] = keys["alice"][:-1] + ("A" if keys["alice"][-1] != "A" else "B")
        await api_keys.revoke(storage, keys["revoked"].split("_")[1])

        async def is_expired() -> bool:
            key = await api_keys.find(storage, keys["expired"].split("_")[1])
            return key is not None and key.status == "expired"

        await eventually(is_expired, "the key to expire")
        ids = await create_one_of_each(client, {"X-Api-Key": keys["alice"]})
        page = PageDouble(storage, "home", "alice", ids["conversation_id"])
        upload = await page.result_of("upload_file", fileType="document", fileName=f"{SECRET_WORD}.txt")
        ids["upload_id"] = upload["uploadId"]
        reply = await client.put(upload["url"], content=SECRET_WORD, headers={"X-Api-Key": keys["alice"]})
        assert reply.status_code == 200, reply.text
        yield TenantServer(app, client, openapi_document(), keys, ids)


@pytest.mark.slow
async def test_without_a_valid_key_every_route_is_401(server: TenantServer) -> None:
    for key_name in ("nobody", "expired", "revoked", "misspelt"):
        for method, path, _ in server.routes():
            reply = await server.request(key_name, method, path)
            assert reply.status_code == 401, (key_name, method, path, reply.text)
            assert reply.headers["www-authenticate"].startswith("Bearer"), (key_name, method, path)
            assert SECRET_WORD not in reply.text, (key_name, method, path)


@pytest.mark.slow
async def test_a_read_only_key_gets_403_from_every_route_that_writes(server: TenantServer) -> None:
    allowed = set()
    for method, path, _ in server.routes():
        permission = route_permission(method, path)
        if permission == "read":
            allowed.add((method, path))
            continue
        reply = await server.request("alice, reading", method, path)
        assert reply.status_code == 403, (method, path, reply.text)
    changing = {route for route in allowed if route[0] not in {"GET", "POST"}}
    assert not changing
    for method, path in allowed:
        if not path.endswith(ENDLESS_PATHS):
            reply = await server.request("alice, reading", method, path)
            assert reply.status_code not in {401, 403}, (method, path, reply.text)


@pytest.mark.slow
async def test_the_ids_of_another_owner_get_the_same_reply_as_unknown_ids(server: TenantServer) -> None:
    """404 for each of alice's ids, with the text for an unknown id; lists contain nothing of hers."""
    before = await replies_to_alice(server)
    checked = 0
    for method, path, _ in server.routes():
        if path == "/api/questions/events":
            # Bob's own, which does not end; tests/console/test_questions.py has its content.
            continue
        reply = await server.request("bob", method, path)
        assert SECRET_WORD not in reply.text, (method, path)
        assert reply.status_code < 500, (method, path, reply.text)
        parameters = [name for name in OWNED_IDS if f"{{{name}}}" in path]
        if not parameters:
            continue
        checked += 1
        assert reply.status_code == STATUSES_OTHER_THAN_404.get((method, path), 404), (
            method,
            path,
            reply.text,
        )
        if path.endswith("/events"):
            # Bob's command created the unknown thread, so its stream would not end.
            continue
        unknown = await server.request("bob", method, path, dict.fromkeys(parameters, UNKNOWN_ID))
        if unknown.status_code == reply.status_code:
            text = reply.text
            for name in parameters:
                text = text.replace(server.ids[name], UNKNOWN_ID)
            assert text == unknown.text, (method, path)
    assert checked > 20
    assert await replies_to_alice(server) == before


async def replies_to_alice(server: TenantServer) -> dict[str, Any]:
    """Return status and text of alice's reply from every route that only reads."""
    replies = {}
    for method, path, _ in server.routes():
        if (
            route_permission(method, path) == "read"
            and not path.endswith(ENDLESS_PATHS)
            and path not in CHANGING_PATHS
        ):
            reply = await server.request("alice", method, path)
            replies[f"{method} {path}"] = (reply.status_code, reply.text)
    assert sum(SECRET_WORD in text for _, text in replies.values()) > 5
    return replies


async def test_the_storage_id_of_an_ad_is_no_way_in_for_another_owner(server: TenantServer) -> None:
    alices_thread = server.ids["thread_id"]
    for owner in ("alice", "bob"):
        reply = await server.request(owner, "GET", "/api/ads/{ad_id}/{stream}", {"ad_id": alices_thread})
        assert (reply.status_code == 200) is (owner == "alice"), "her conversation's id finds her ad"
    body = {"voiceTracks": [{"voiceId": VOICE, "text": "Mine now."}]}
    headers = {"X-Api-Key": server.keys["bob"]}
    reply = await server.client.post(f"/api/ads/{alices_thread}/voices", json=body, headers=headers)
    assert reply.status_code == 404


@pytest.mark.slow
async def test_creating_something_under_another_owners_id_reveals_nothing(server: TenantServer) -> None:
    """The server may refuse the request or create a second one; alice's stays unchanged."""
    before = await replies_to_alice(server)
    headers = {"X-Api-Key": server.keys["bob"]}
    owned = (("/threads", "thread_id"), ("/assistants", "assistant_id"))
    for (path, name), if_exists in product(owned, ("raise", "do_nothing")):
        body = {name: server.ids[name], "graph_id": "ad_creation", "if_exists": if_exists}
        reply = await server.client.post(path, json=body, headers=headers)
        assert reply.status_code in {200, 404, 409}, reply.text
        assert SECRET_WORD not in reply.text
        read = await server.client.get(f"{path}/{server.ids[name]}", headers=headers)
        assert (read.status_code == 200) is (reply.status_code == 200)
        assert SECRET_WORD not in read.text
    assert await replies_to_alice(server) == before


@pytest.mark.slow
async def test_the_event_stream_protocol_finds_a_thread_for_its_owner_only(server: TenantServer) -> None:
    """The endless stream does not reveal to other owners that the thread exists."""
    for owner in ("alice", "bob"):
        view = ThreadView(server.app.state.context, server.ids["thread_id"], owner)
        assert await view.refresh() is (owner == "alice")
