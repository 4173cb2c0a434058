"""Every route there is, asked by whoever must not have what is behind it (X16).

The routes are those of the application's own OpenAPI description, so a new one is in here by itself.
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

from callsheet.server.langgraph.protocol.views import ThreadView
from callsheet.storage import Storage, api_keys
from tests.doubles.auth_cases import create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.served import (
    VOICE,
    app_client,
    generate_ad,
    openapi_document,
    route_permission,
    started_app,
)
from tests.doubles.waiting import eventually
from tests.pages.page_double import PageDouble

SECRET_WORD = "zyxomma"
"""What alice's things say and nobody else's reply may."""
UNKNOWN = "0b7e8a54-7b0c-4d39-9d53-0d6fbb5f2a11"
NOT_404 = {("POST", "/api/ads/{ad_id}/chat"): 400, ("POST", "/api/pages/{page_id}/chat"): 400}
NOT_404[("POST", "/api/projects/{project_id}/executions")] = 400
"""A57: an ad without a conversation is told so, whether there is an ad or not; pages and videos begin so."""
NAMED = (
    "ad_id",
    "page_id",
    "project_id",
    "plan_id",
    "artefact_id",
    "conversation_id",
    "thread_id",
    "assistant_id",
)
"""Ids that are somebody's."""
ENDLESS = ("stream", "stream/events", "{conversation_id}/events", "join")
"""How paths end whose replies go on."""


@dataclass
class House:
    """A server on which alice has one of everything."""

    app: Any
    client: httpx.AsyncClient
    spec: Mapping[str, Any]
    keys: dict[str, str]
    ids: dict[str, str] = field(default_factory=dict)
    """Alice's ids by the name of the path parameter they fill."""

    def routes(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Method, path and description of every operation that is not open to all."""
        for path, methods in self.spec["paths"].items():
            if path != "/ok":
                for method, operation in methods.items():
                    yield method.upper(), path, operation

    async def ask(
        self, who: str, method: str, path: str, ids: dict[str, str] | None = None
    ) -> httpx.Response:
        """Ask as the holder of a key, with every id in the path, the query and the body filled in."""
        found = self.ids | (ids or {})
        operation = self.spec["paths"][path][method.lower()]
        names = [one["name"] for one in operation.get("parameters", ()) if one.get("required")]
        query = {name: found[name] for name in names if f"{{{name}}}" not in path}
        content = self._body(method, path, operation, found)
        filled = re.sub(r"{(\w+)}", lambda name: quote(found[name[1]], safe=""), path)
        headers = {"X-Api-Key": self.keys[who]} if self.keys[who] else {}
        return await self.client.request(method, filled, headers=headers, params=query, content=content)

    def _body(self, method: str, path: str, operation: Any, ids: Mapping[str, str]) -> str | None:
        if "requestBody" not in operation:
            return None
        (content,) = operation["requestBody"]["content"].values()
        told = bodies(ids).get((method, path))
        return json.dumps(self._least(content["schema"]) if told is None else told)

    def _least(self, schema: Mapping[str, Any]) -> Any:
        """The least that fits a schema."""
        if "$ref" in schema:
            return self._least(self.spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return self._least(schema["anyOf"][0])
        if "enum" in schema:
            return schema["enum"][0]
        simple = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}
        if schema.get("type") in simple:
            return simple[schema["type"]]
        wanted = schema.get("required", ())
        return {name: self._least(schema["properties"][name]) for name in wanted}


def bodies(ids: Mapping[str, str]) -> dict[tuple[str, str], Any]:
    """Bodies that reach for alice's things, where the least that fits the schema would not."""
    namespace = {"namespace": ["notes"], "key": ids["key"]}
    run = {"assistant_id": ids["assistant_id"], "input": {}}
    return runs(ids, run) | {
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


def runs(ids: Mapping[str, str], run: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """The bodies of runs: on alice's thread with a graph that all have, elsewhere with her assistant."""
    ours = {"assistant_id": "ad_creation", "input": {}}
    start = {"id": 1, "method": "run.start", "params": ours}
    told: dict[str, Any] = {
        "/threads/{thread_id}/runs": ours,
        "/threads/{thread_id}/runs/stream": ours,
        "/threads/{thread_id}/runs/wait": ours,
        "/threads/{thread_id}/runs/crons": {**ours, "schedule": "0 0 1 1 *"},
        "/threads/{thread_id}/commands": start,
        "/threads/{thread_id}/stream/events": {"channels": ["values"]},
        "/runs": run,
        "/runs/stream": run,
        "/runs/wait": run,
        "/runs/batch": [run],
        "/runs/cancel": {"thread_id": ids["thread_id"], "run_ids": [ids["run_id"]]},
        "/runs/crons": {**run, "schedule": "0 0 1 1 *"},
    }
    return {("POST", path): body for path, body in told.items()}


async def filmed(client: httpx.AsyncClient) -> dict[str, str]:
    """Make a video, a plan for it, saved messages and a campaign."""
    scenes = [{"name": SECRET_WORD}, {"name": "other"}]
    assert (await client.post("/api/projects", json={"id": "film", "scenes": scenes})).status_code == 201
    faster = {"message": "make all scenes faster", "provider": "offline"}
    film = (await client.post("/api/projects/film/executions", json=faster)).json()
    await client.put("/api/presets/mine", json={"message": SECRET_WORD})
    await client.put("/api/searches/mine", json={"message": SECRET_WORD})
    mine = {"id": "film", "company": SECRET_WORD, "channel": "email", "capture_date": "2026-01-01"}
    assert (await client.post("/api/campaigns/import?fileName=x.json", json=[mine])).json()["new"] == 1
    steps = {"plan_id": film["executionId"], "step_id": "s1.1", "preference_id": UNKNOWN}
    return {"project_id": "film", "campaign_id": "film", "scene_id": "scene-1", "name": "mine", **steps}


async def furnished(client: httpx.AsyncClient, headers: Mapping[str, str]) -> dict[str, str]:
    """Make one of everything, and return the ids by the name of the path parameter."""
    client.headers.update(headers)
    made = await generate_ad(client, brief=f"Miel bakes {SECRET_WORD} every morning.")
    thread_id = made["conversationId"]
    said = {"message": f"change the headline to '{SECRET_WORD}'", "provider": "offline"}
    page = await client.post("/api/pages/home/chat", json=said)
    assert page.json()["drafts"] == {"page": "v1"}, page.text
    assistant = {"graph_id": "ad_creation", "name": SECRET_WORD, "assistant_id": UNKNOWN[:-1] + "9"}
    assert (await client.post("/assistants", json=assistant)).status_code == 200
    state = (await client.get(f"/threads/{thread_id}/state")).json()
    item = {"namespace": ["notes"], "key": "note", "value": {"text": SECRET_WORD}}
    assert (await client.put("/store/items", json=item)).status_code == 204
    runs = (await client.get(f"/threads/{thread_id}/runs")).json()
    calls = await client.get("/api/tool-executions")
    video = await filmed(client)
    client.headers.pop("X-Api-Key")
    return dict.fromkeys(("upload_id", "file_id", "asset_id", "cron_id"), UNKNOWN) | {
        "execution_id": calls.json()["executions"][0]["id"],
        **video,
        "ad_id": "ad-1",
        "page_id": "home",
        "kind": "ad",
        "artefact_id": "ad-1",
        "conversation_id": page.json()["conversationId"],
        "element_id": "heading-1",
        "fileName": "mine.txt",
        "q": "leaves",
        "from": "start",
        "to": "v1",
        "stream": "music",
        "version_id": "v1",
        "thread_id": thread_id,
        "assistant_id": assistant["assistant_id"],
        "checkpoint_id": state["checkpoint"]["checkpoint_id"],
        "namespace": "child",
        "key": "note",
        "run_id": runs[0]["run_id"],
    }


@pytest.fixture
async def house(valkey_url: str, storage: Storage) -> AsyncIterator[House]:
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

        async def expired() -> bool:
            found = await api_keys.find(storage, keys["expired"].split("_")[1])
            return found is not None and found.status == "expired"

        await eventually(expired, "the key to expire")
        ids = await furnished(client, {"X-Api-Key": keys["alice"]})
        page = PageDouble(storage, "home", "alice", ids["conversation_id"])
        asked = await page.result_of("upload_file", fileType="document", fileName=f"{SECRET_WORD}.txt")
        ids["upload_id"] = asked["uploadId"]
        sent = await client.put(asked["url"], content=SECRET_WORD, headers={"X-Api-Key": keys["alice"]})
        assert sent.status_code == 200, sent.text
        yield House(app, client, openapi_document(), keys, ids)


@pytest.mark.slow
async def test_without_a_key_in_force_every_route_is_closed(house: House) -> None:
    for who in ("nobody", "expired", "revoked", "misspelt"):
        for method, path, _ in house.routes():
            reply = await house.ask(who, method, path)
            assert reply.status_code == 401, (who, method, path, reply.text)
            assert reply.headers["www-authenticate"].startswith("Bearer"), (who, method, path)
            assert SECRET_WORD not in reply.text, (who, method, path)


@pytest.mark.slow
async def test_a_key_for_reading_writes_nowhere(house: House) -> None:
    allowed = set()
    for method, path, _ in house.routes():
        permission = route_permission(method, path)
        if permission == "read":
            allowed.add((method, path))
            continue
        reply = await house.ask("alice, reading", method, path)
        assert reply.status_code == 403, (method, path, reply.text)
    changing = {one for one in allowed if one[0] not in {"GET", "POST"}}
    assert not changing
    for method, path in allowed:
        if not path.endswith(ENDLESS):
            reply = await house.ask("alice, reading", method, path)
            assert reply.status_code not in {401, 403}, (method, path, reply.text)


@pytest.mark.slow
async def test_what_is_anothers_looks_like_nothing_at_all(house: House) -> None:
    """404 for every id of alice's, in the words for an id that nobody has; nothing of hers in any list."""
    before = await seen_by_alice(house)
    named = 0
    for method, path, _ in house.routes():
        reply = await house.ask("bob", method, path)
        assert SECRET_WORD not in reply.text, (method, path)
        assert reply.status_code < 500, (method, path, reply.text)
        mine = [name for name in NAMED if f"{{{name}}}" in path]
        if not mine:
            continue
        named += 1
        assert reply.status_code == NOT_404.get((method, path), 404), (method, path, reply.text)
        if path.endswith("/events"):
            # The thread nobody had is bob's since his command, and its stream would not end.
            continue
        unknown = await house.ask("bob", method, path, dict.fromkeys(mine, UNKNOWN))
        if unknown.status_code == reply.status_code:
            told = reply.text
            for name in mine:
                told = told.replace(house.ids[name], UNKNOWN)
            assert told == unknown.text, (method, path)
    assert named > 20
    assert await seen_by_alice(house) == before


async def seen_by_alice(house: House) -> dict[str, Any]:
    """What every route that only reads tells alice."""
    seen = {}
    for method, path, _ in house.routes():
        if route_permission(method, path) == "read" and not path.endswith(ENDLESS) and path != "/health":
            reply = await house.ask("alice", method, path)
            seen[f"{method} {path}"] = (reply.status_code, reply.text)
    assert sum(SECRET_WORD in text for _, text in seen.values()) > 5
    return seen


async def test_the_id_an_ad_is_stored_under_opens_nothing(house: House) -> None:
    theirs = house.ids["thread_id"]
    for who in ("alice", "bob"):
        reply = await house.ask(who, "GET", "/api/ads/{ad_id}/{stream}", {"ad_id": theirs})
        assert (reply.status_code == 200) is (who == "alice"), "her conversation's id finds her ad"
    body = {"voiceTracks": [{"voiceId": VOICE, "text": "Mine now."}]}
    headers = {"X-Api-Key": house.keys["bob"]}
    reply = await house.client.post(f"/api/ads/{theirs}/voices", json=body, headers=headers)
    assert reply.status_code == 404


@pytest.mark.slow
async def test_making_what_another_has_gives_nothing_of_it(house: House) -> None:
    """Whether the server refuses it or makes a second one, alice's stays hers."""
    before = await seen_by_alice(house)
    headers = {"X-Api-Key": house.keys["bob"]}
    owned = (("/threads", "thread_id"), ("/assistants", "assistant_id"))
    for (path, name), if_exists in product(owned, ("raise", "do_nothing")):
        body = {name: house.ids[name], "graph_id": "ad_creation", "if_exists": if_exists}
        reply = await house.client.post(path, json=body, headers=headers)
        assert reply.status_code in {200, 404, 409}, reply.text
        assert SECRET_WORD not in reply.text
        shown = await house.client.get(f"{path}/{house.ids[name]}", headers=headers)
        assert (shown.status_code == 200) is (reply.status_code == 200)
        assert SECRET_WORD not in shown.text
    assert await seen_by_alice(house) == before


@pytest.mark.slow
async def test_the_second_wire_knows_a_thread_for_its_owner_only(house: House) -> None:
    """Its stream, which never ends, tells others nothing: not even that there is something."""
    for owner in ("alice", "bob"):
        view = ThreadView(house.app.state.context, house.ids["thread_id"], owner)
        assert await view.refresh() is (owner == "alice")
