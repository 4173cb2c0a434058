"""The keys of a project's langgraph.json beside its graphs are applied, or named (X6)."""

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from callsheet.server.app import create_app
from callsheet.server.operations.doctor import diagnose
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Invalid
from tests.doubles.embeddings_double import EmbeddingsDouble
from tests.doubles.wire_server import running_server

CODE = '''
"""A graph, an application and embeddings, as a project has them."""
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

class Seen(TypedDict):
    seen: dict[str, Any]

async def look(state: Seen, config: RunnableConfig) -> Seen:
    return {"seen": {k: v for k, v in config["configurable"].items() if "-" in k or k == "authorization"}}

builder = StateGraph(Seen)
builder.add_node("look", look)
builder.add_edge(START, "look")
graph = builder.compile()
events = []

@asynccontextmanager
async def lifespan(app):
    events.append("opened")
    yield
    events.append("closed")

app = FastAPI(lifespan=lifespan)

@app.get("/hello/{name}")
async def hello(name: str):
    return {"hello": name, "events": events}

@app.post("/hello/{name}")
async def greet(name: str, request: Request):
    return {"size": len(await request.body())}

@app.get("/info")
async def own_info():
    return {"version": "theirs"}

async def embed(texts):
    """The share of each word in the text: texts about one thing are near."""
    words = ("cat", "kitten", "car", "engine")
    return [[float(text.lower().count(word)) + 0.01 for word in words] for text in texts]
'''


@asynccontextmanager
async def serving(folder: Path, redis_url: str, **keys: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server for a project whose langgraph.json has these keys."""
    chosen = {name: keys.pop(name) for name in ("auth",) if name in keys}
    with running_server(redis_url, None, config=write_project(folder, **keys), **chosen) as url:
        async with httpx.AsyncClient(base_url=url, timeout=20) as client:
            yield client


def write_project(folder: Path, **keys: Any) -> Path:
    (folder / "project.py").write_text(CODE)
    file = folder / "langgraph.json"
    graphs = {"look": {"path": "./project.py:graph", "description": "Looks at its config."}}
    file.write_text(json.dumps({"dependencies": ["."], "graphs": graphs} | keys))
    return file


async def test_a_graphs_description_is_its_assistants(tmp_path: Path, valkey_url: str) -> None:
    async with serving(tmp_path, valkey_url) as http, get_client(url=str(http.base_url)) as client:
        assistants: Any = await client.assistants.search()
        assert assistants[0]["description"] == "Looks at its config."


async def test_threads_have_the_lifetime_of_the_file_unless_they_name_another(
    tmp_path: Path, valkey_url: str
) -> None:
    checkpointer = {"ttl": {"strategy": "keep_latest", "default_ttl": 90}}
    async with serving(tmp_path, valkey_url, checkpointer=checkpointer) as http:
        created = (await http.post("/threads", json={})).json()["thread_id"]
        own = (await http.post("/threads", json={"ttl": 5})).json()["thread_id"]
        body = {"assistant_id": "look", "input": {"seen": {}}, "if_not_exists": "create"}
        await http.post("/threads/by-run/runs/wait", json=body)
        lifetimes = {
            one: (await http.get(f"/threads/{one}?include=ttl")).json()["ttl"]
            for one in (created, own, "by-run")
        }
    assert {one: (ttl["strategy"], ttl["ttl_minutes"]) for one, ttl in lifetimes.items()} == {
        created: ("keep_latest", 90),
        own: ("delete", 5),
        "by-run": ("keep_latest", 90),
    }


async def test_pages_of_the_origins_in_the_file_may_call(tmp_path: Path, valkey_url: str) -> None:
    cors = {
        "allow_origins": ["https://app.example", "*"],
        "allow_origin_regex": "https://.*\\.trial\\.example",
    }
    async with serving(tmp_path, valkey_url, http={"cors": cors | {"allow_credentials": True}}) as http:
        for origin in ("https://app.example", "https://a.trial.example"):
            reply = await http.post("/threads", json={}, headers={"Origin": origin})
            assert (reply.status_code, reply.headers["Access-Control-Allow-Origin"]) == (200, origin)
            assert reply.headers["Access-Control-Allow-Credentials"] == "true"
        # Without authentication, not every page may call a server on this machine.
        reply = await http.post("/threads", json={}, headers={"Origin": "https://evil.example"})
        assert reply.status_code == 403


async def test_the_projects_own_routes_are_served_behind_the_servers_middleware(
    tmp_path: Path, valkey_url: str
) -> None:
    async with serving(tmp_path, valkey_url, http={"app": "./project.py:app"}) as http:
        assert (await http.get("/hello/ann")).json() == {"hello": "ann", "events": ["opened"]}
        assert (await http.get("/info")).json() == {"version": "theirs"}
        assert (await http.post("/hello/ann", content=b"12345")).json() == {"size": 5}
        assert (await http.delete("/hello/ann")).status_code == 405
        assert (await http.get("/hello/ann", headers={"Origin": "https://evil.example"})).status_code == 403
        assert "Callsheet" in (await http.get("/docs")).text
        assert (await http.post("/threads", json={})).status_code == 200
    async with serving(tmp_path, valkey_url, http={"app": "./project.py:app"}, auth=("keys",)) as http:
        assert (await http.get("/hello/ann")).status_code == 401


async def test_the_headers_that_the_file_names_are_in_configurable(tmp_path: Path, valkey_url: str) -> None:
    patterns = {
        "includes": ["x-tenant-*", "X-User-Id", "x-api-key", "authorization"],
        "excludes": ["*secret*"],
    }
    headers = {"x-user-id": "ann", "x-tenant-secret": "s", "x-tenant-name": "acme", "x-other-one": "1"}
    headers |= {"x-tenant-id": "7", "authorization": "Basic abc"}
    body = {"assistant_id": "look", "input": {"seen": {}}}
    async with serving(tmp_path, valkey_url, http={"configurable_headers": patterns}) as http:
        reply = await http.post("/runs/wait", json=body, headers=headers)
    assert reply.json()["seen"] == {"x-user-id": "ann", "x-tenant-name": "acme", "authorization": "Basic abc"}


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ("assistants", "POST /assistants/search"),
        ("threads", "POST /threads/search"),
        ("runs", "POST /runs/wait"),
        ("store", "POST /store/items/search"),
        ("meta", "GET /info"),
        ("meta", "GET /metrics"),
        ("meta", "GET /openapi.json"),
    ],
)
async def test_a_disabled_part_is_not_served(tmp_path: Path, valkey_url: str, part: str, path: str) -> None:
    method, address = path.split()
    async with serving(tmp_path, valkey_url, http={f"disable_{part}": True}) as http:
        assert (await http.request(method, address, json={})).status_code in {404, 405}
        assert (await http.get("/ok")).json() == {"ok": True}


async def test_keys_without_effect_and_misspelt_ones_are_named_at_the_start_and_by_the_doctor(
    tmp_path: Path, valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    keys: dict[str, Any] = {
        "python_version": "3.12",
        "webhooks": {"env_prefix": "A_"},
        "chekpointer": {},
        "http": {"mount_prefix": "/api", "disable_asistants": True},
        "store": {"indx": {}},
    }
    expected = [
        "'webhooks' has no effect",
        "'checkpointer'?",
        "'http.mount_prefix' has no effect",
        "'http.disable_assistants'?",
        "'store.index'?",
        "'python_version' have no effect",
    ]
    with caplog.at_level(logging.WARNING):
        async with serving(tmp_path, valkey_url, **keys):
            pass
    assert [sentence for sentence in expected if sentence not in caplog.text] == []
    findings = await diagnose(Settings(redis_url=valkey_url, config=tmp_path / "langgraph.json"), {})
    warned = " ".join(one.message for one in findings if one.status == "warn")
    assert [sentence for sentence in expected if sentence not in warned] == []
    # The project's own graphs choose their models.
    assert not [one.part for one in findings if one.part.startswith(("Model", "Key of"))]
    caplog.clear()
    async with serving(tmp_path, valkey_url):
        pass
    assert "has no effect" not in caplog.text


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"http": {"app": "./project.py:graph"}}, "'http.app' is of type CompiledStateGraph"),
        ({"http": {"cors": {"allow_origins": 5}}}, "has 5 for 'http.cors.allow_origins'"),
        ({"checkpointer": {"ttl": {"strategy": "burn"}}}, "has 'burn' for 'checkpointer.ttl.strategy'"),
    ],
)
async def test_a_value_of_the_wrong_form_is_refused_at_the_start(
    tmp_path: Path, valkey_url: str, keys: Any, message: str
) -> None:
    settings = Settings(redis_url=valkey_url, config=write_project(tmp_path, **keys))

    async def start() -> None:
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            pass

    with pytest.raises(Invalid, match=re.escape(message)):
        await start()


ANIMALS = {"cats": "The cat and the kitten", "cars": "A car with an engine"}


async def put_and_search(http: httpx.AsyncClient, query: str) -> dict[str, float | None]:
    """Put four items, and return the scores of the results, by key and in order."""
    items: list[dict[str, Any]] = [
        {"key": name, "value": {"title": name, "text": text}} for name, text in ANIMALS.items()
    ]
    items.append({"key": "hidden", "value": {"text": "kitten kitten"}, "index": False})
    items.append({"key": "by_note", "value": {"text": "car", "note": "kitten"}, "index": ["note"]})
    for item in items:
        reply = await http.put("/store/items", json={"namespace": ["pets"], **item})
        assert reply.status_code == 204, reply.text
    reply = await http.post("/store/items/search", json={"namespace_prefix": ["pets"], "query": query})
    assert reply.status_code == 200, reply.text
    return {item["key"]: item["score"] for item in reply.json()["items"]}


async def test_the_stores_items_are_reply_by_meaning_with_the_embeddings_of_the_file(
    tmp_path: Path, valkey_url: str
) -> None:
    index = {"embed": "./project.py:embed", "dims": 4, "fields": ["text"]}
    async with serving(tmp_path, valkey_url, store={"index": index}) as http:
        scores = await put_and_search(http, "kitten")
        assert [*scores] == ["by_note", "cats", "cars"]
        assert scores["by_note"] == pytest.approx(1)
        assert scores["cars"] == pytest.approx(0.014, abs=0.01)
        await http.request("DELETE", "/store/items", json={"namespace": ["pets"], "key": "cats"})
        reply = await http.post("/store/items/search", json={"namespace_prefix": ["pets"], "query": "kitten"})
        assert [item["key"] for item in reply.json()["items"]] == ["by_note", "cars"]


async def test_openai_embeddings_come_from_the_endpoint_of_the_environment(
    tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddingsDouble() as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        index = {"embed": "openai:counts", "dims": 7, "fields": ["text"]}
        async with serving(tmp_path, valkey_url, store={"index": index}) as http:
            await put_and_search(http, "travel")
    assert [*double.texts] == [*ANIMALS.values(), "kitten", "travel"]


async def test_the_bundled_embeddings_are_a_named_choice(tmp_path: Path, valkey_url: str) -> None:
    async with serving(
        tmp_path, valkey_url, store={"index": {"embed": "callsheet:bundled", "dims": 256, "fields": ["text"]}}
    ) as http:
        scores = await put_and_search(http, "young feline animals")
        assert [*scores].index("cats") < [*scores].index("cars")
        assert "hidden" not in scores


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"embed": "./project.py:embed", "dims": 3}, "have 4 numbers, and 'store.index.dims' is 3"),
        ({"embed": "./project.py:events", "dims": 3}, "which cannot be used"),
        ({"embed": "nobody:model", "dims": 3}, "which cannot be used"),
        ({"embed": "./project.py:embed"}, "'store.index.dims'"),
    ],
)
async def test_embeddings_that_cannot_be_used_are_refused_with_the_reason(
    tmp_path: Path, valkey_url: str, index: Any, message: str
) -> None:
    async def put() -> None:
        app = create_app(
            Settings(redis_url=valkey_url, config=write_project(tmp_path, store={"index": index}))
        )
        async with app.router.lifespan_context(app):
            await app.state.context.store.aput(("a",), "k", {"text": "cat"})

    with pytest.raises(Invalid, match=re.escape(message)):
        await put()
