"""The overview of an owner's work, and Markdown that becomes harmless HTML."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from callsheet.server.app import create_app
from callsheet.server.console.markdown import render
from callsheet.server.settings.settings import Settings
from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.runs.records import RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from tests.doubles.served import app_client, served_app
from tests.doubles.waiting import eventually
from tests.doubles.wire_graphs import GRAPHS
from tests.lessons.lesson_client import LessonClient


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as client:
        yield client


async def test_runs_in_progress_are_listed_over_all_threads(valkey_url: str) -> None:
    app = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with app.router.lifespan_context(app), app_client(app) as client:
        threads = [(await client.post("/threads", json={})).json()["thread_id"] for _ in range(2)]
        for thread in threads:
            body = {"assistant_id": "slow", "input": {"x": 1_000}}
            assert (await client.post(f"/threads/{thread}/runs", json=body)).status_code == 200
        running = (await client.get("/api/running")).json()
        assert [one["thread"] for one in running] == threads
        for one in running:
            assert one["status"] in {"pending", "running"}
            assert (one["workflow"], one["title"]) == ("slow", "slow")
            assert (one["progress"], one["costUsd"]) == (None, None)
            await client.post(f"/threads/{one['thread']}/runs/{one['run']}/cancel")

        async def is_idle() -> bool:
            return bool((await client.get("/api/running")).json() == [])

        await eventually(is_idle, "the end of the runs")


async def test_runs_in_progress_are_listed_whatever_their_inputs_hold(client: httpx.AsyncClient) -> None:
    thread = (await client.post("/threads", json={})).json()["thread_id"]
    brief = {"clientDescription": "Miel", "duration": 10**400}
    body = {
        "assistant_id": "ad_creation",
        "input": {"messages": ["hi"], "brief": brief},
        "after_seconds": 3600,
    }
    assert (await client.post(f"/threads/{thread}/runs", content=json.dumps(body))).status_code == 200
    listed = await client.get("/api/running")
    assert listed.status_code == 200, listed.text
    [one] = listed.json()
    assert (one["thread"], one["title"]) == (thread, "hi")
    await client.post(f"/threads/{thread}/runs/{one['run']}/cancel")


async def test_runs_in_progress_are_read_from_the_owners_own_list(valkey_url: str, storage: Storage) -> None:
    """Those of others cost nothing; at most 100 are listed, and entries of ended runs are dropped."""
    app = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with app.router.lifespan_context(app), app_client(app) as client:
        runs = Runs(storage)
        for number in range(103):
            await runs.create(RunRequest(f"t{number:03}", f"r{number:03}", "slow", "local", request_fields()))
        for number in range(50):
            await runs.create(RunRequest(f"o{number}", f"o{number}", "slow", "bob", request_fields()))
        await storage.redis.hset(keys.run("t000", "r000"), "status", "success")
        await storage.redis.zadd(keys.owned_runs("local"), {"gone\0gone": 1})
        before = await storage.redis.info("commandstats")
        running = (await client.get("/api/running")).json()
        after = await storage.redis.info("commandstats")
        assert [one["run"] for one in running] == [f"r{number:03}" for number in range(1, 101)]
        read = after["cmdstat_hgetall"]["calls"] - before["cmdstat_hgetall"]["calls"]
        assert read < 103 + 103 + 50, "one for each run and thread of the owner"
        left = [name.decode() for name in await storage.redis.zrange(keys.owned_runs("local"), 0, 1)]
        assert left == ["r001\0t001", "r002\0t002"]


async def test_a_run_that_ended_or_was_refused_leaves_its_owners_list(
    valkey_url: str, storage: Storage
) -> None:
    async def is_empty() -> bool:
        return not await storage.redis.exists(keys.owned_runs("local"))

    app = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with app.router.lifespan_context(app), app_client(app) as client:
        path = f"/threads/{(await client.post('/threads', json={})).json()['thread_id']}/runs"
        body = {"assistant_id": "slow", "input": {"x": 3_000}}
        run = (await client.post(path, json=body)).json()["run_id"]
        refused = await client.post(path, json={**body, "multitask_strategy": "reject"})
        assert refused.status_code in {409, 422}
        queued = (await client.post(path, json=body)).json()["run_id"]
        listed = [name.decode().partition("\0")[0] for name in await list_of_runs(storage)]
        assert sorted(listed) == sorted([run, queued])
        for one in (queued, run):
            await client.post(f"{path}/{one}/cancel")
        await eventually(is_empty, "the end of the list")


async def list_of_runs(storage: Storage) -> list[bytes]:
    return list(await storage.redis.zrange(keys.owned_runs("local"), 0, -1))


async def test_questions_and_runs_of_earlier_versions_are_listed_once(
    valkey_url: str, storage: Storage
) -> None:
    """Their threads wait, and no list of the owner has them."""
    for number in range(3):
        thread = keys.thread_meta(f"old{number}")
        question = {"task": [{"id": "0" * 32, "value": {"message": "Go on?"}}]}
        record = {"owner": "local", "graph": "slow", "status": "interrupted", "stateUpdatedMs": number + 5}
        await storage.redis.hset(thread, mapping={**record, "interrupts": json.dumps(question)})
        await storage.redis.zadd(keys.thread_index().threads, {f"old{number}": "inf"})
    await storage.redis.hset(keys.thread_meta("idle"), mapping={"owner": "local", "status": "idle"})
    await storage.redis.zadd(keys.thread_index().threads, {"idle": "inf", "gone": "inf"})
    await Runs(storage).create(RunRequest("old-run", "run-1", "slow", "local", request_fields()))
    await storage.redis.delete(keys.owned_runs("local"))
    async with served_app(valkey_url) as client:
        waiting = (await client.get("/api/questions")).json()["questions"]
        assert [one["thread"] for one in waiting] == ["old0", "old1", "old2"]
        assert [one["run"] for one in (await client.get("/api/running")).json()] == ["run-1"]
    await storage.redis.delete(keys.waiting_threads("local"))
    async with served_app(valkey_url) as client:
        assert (await client.get("/api/questions")).json()["questions"] == []


async def test_titles_are_read_from_states_once(client: httpx.AsyncClient, storage: Storage) -> None:
    """A search over hundreds of threads reads their records alone, until somebody changes the messages."""
    body = {"message": "make a landing page for Miel, a bakery", "provider": "offline"}
    assert (await client.post("/api/pages/p-1/chat", json=body)).status_code == 200
    await client.post("/threads", json={"metadata": {"graph_id": "page_builder"}})
    index = keys.thread_search("local")

    async def is_entered() -> bool:
        await client.get("/api/recent")
        return not await storage.redis.exists(index.runs, index.changes)

    await eventually(is_entered, "the list has the end of the run")
    [first] = (await client.get("/api/recent", params={"q": "miel"})).json()
    before = await storage.redis.info("commandstats")
    assert (await client.get("/api/recent", params={"q": "miel"})).json() == [first]
    after = await storage.redis.info("commandstats")
    scripts = [sum(one.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))
               for one in (before, after)]  # fmt: skip
    assert scripts[1] - scripts[0] <= 1, "a state is read by a script, beside what changed in the list"
    path = f"/threads/{first['thread']}/state"
    message = (await client.get(path)).json()["values"]["messages"][0]
    changed = {"messages": [{**message, "content": "make a page for Ruche"}]}
    assert (await client.post(path, json={"values": changed})).status_code == 200
    [renamed] = (await client.get("/api/recent", params={"q": "ruche"})).json()
    assert (renamed["title"], renamed["thread"]) == ("Miel", first["thread"])


async def test_the_latest_threads_have_titles_and_are_searched(client: httpx.AsyncClient) -> None:
    for name, message in (("p-1", "make a landing page for Miel, a bakery"), ("p-2", "use the ocean theme")):
        body = {"message": message, "provider": "offline"}
        assert (await client.post(f"/api/pages/{name}/chat", json=body)).status_code == 200
    recent = (await client.get("/api/recent")).json()
    assert [one["title"] for one in recent] == [
        "use the ocean theme",
        "Miel",
    ]
    assert recent[0]["artefact"] == {"kind": "page", "id": "p-2", "title": "p-2"}
    assert (recent[0]["workflow"], recent[0]["status"]) == ("page_builder", "idle")
    assert len((await client.get("/api/recent", params={"limit": 1})).json()) == 1
    for one in recent:
        assert (await client.get("/api/recent", params={"thread": one["thread"]})).json() == [one]
    assert (await client.get("/api/recent", params={"thread": "nowhere"})).json() == []
    for words in ("MIEL", "p-1"):
        [match] = (await client.get("/api/recent", params={"q": words})).json()
        assert match["artefact"]["id"] == "p-1"
    assert (await client.get("/api/recent", params={"q": "nothing like it"})).json() == []


REQUESTS = (
    (
        "POST",
        "/api/ai/generate",
        {"adId": "a-1", "brief": {"client": "Miel", "product": "Sourdough at four"}},
    ),
    ("POST", "/api/pages/p-1/chat", {"message": 'Change the headline to "Bread at four"'}),
    ("POST", "/api/projects", {"id": "v-1", "name": "Autumn film", "starter": "product-launch"}),
    ("POST", "/api/chat", {"message": "how many email campaigns are there"}),
)
TITLES = ["Miel: Sourdough at four", "Bread at four", "Autumn film", "how many email campaigns are there"]


async def test_titles_name_what_was_made_and_a_search_finds_each_kind_by_its_texts(
    client: httpx.AsyncClient,
) -> None:
    """An ad by client and product, a page by its title, a lesson by its topic, a question by its words."""
    for method, path, body in REQUESTS:
        offline = {} if path == "/api/projects" else {"provider": "offline"}
        assert (await client.request(method, path, json={**body, **offline})).status_code < 300
    lesson = LessonClient(client)
    narrated = await lesson.create_narration()
    recent = (await client.get("/api/recent")).json()
    assert [one["title"] for one in reversed(recent)] == [*TITLES, narrated["topic"]]
    segment = narrated["narration"]["segments"][1]["narration"]
    for words, title in (
        (narrated["topic"].upper(), narrated["topic"]),
        (narrated["facts"][0]["details"], narrated["topic"]),
        (segment, narrated["topic"]),
        ("sourdough four", TITLES[0]),
        ("bread headline", TITLES[1]),
        ("autumn film", TITLES[2]),
        ("email campaigns", TITLES[3]),
    ):
        matches = (await client.get("/api/recent", params={"q": words[:200]})).json()
        assert title in [one["title"] for one in matches], words
    [ad] = (await client.get("/api/ads")).json()["ads"]
    assert ad["title"] == TITLES[0]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**bold** and `code`", "<p><strong>bold</strong> and <code>code</code></p>\n"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>\n"),
        ("![x](https://spy.example/p.png)", "<p></p>\n"),
        ("| a |\n|---|\n| b |", "<td>b</td>"),
    ],
)
async def test_markdown_becomes_html_without_scripts_and_images(
    client: httpx.AsyncClient, text: str, html: str
) -> None:
    reply = await client.post("/api/markdown", json={"text": text})
    assert reply.status_code == 200
    assert html in reply.json()["html"]


async def test_links_of_markdown_give_nothing_away(client: httpx.AsyncClient) -> None:
    [reply] = await asyncio.gather(client.post("/api/markdown", json={"text": "[x](https://a.example)"}))
    body: Any = reply.json()
    assert 'rel="noopener noreferrer nofollow"' in body["html"]


async def test_a_text_that_is_too_long_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post("/api/markdown", json={"text": "x" * 20_000})).status_code == 200
    assert (await client.post("/api/markdown", json={"text": "x" * 20_001})).status_code == 422


async def test_a_table_of_short_rows_under_many_columns_stays_text(client: httpx.AsyncClient) -> None:
    """Each short row would get the cells that it lacks: seconds of work for a small text."""
    heading = f"|{'a|' * 500}\n|{'-|' * 500}\n"
    few = (await client.post("/api/markdown", json={"text": heading + "|a\n" * 15})).json()["html"]
    assert few.count("<td>") == 15 * 500
    many = (await client.post("/api/markdown", json={"text": heading + "|a\n" * 5_000})).json()["html"]
    assert ("<table>" in many, many.count("|a")) == (False, 5_000 + 500)


_COSTLY = {
    "brackets": lambda size: "[" * size,
    "images": lambda size: "![" * (size // 2),
    "links": lambda size: "[a](" * (size // 4),
    "emphasis": lambda size: "*a_" * (size // 3),
    "quotations": lambda size: "> " * (size // 2),
    "table": lambda size: "|a|b|\n|-|-|\n" + "|\n" * (size // 2 - 6),
    "tables": lambda size: "a|b\n-|-\nc|d\n\n" * (size // 13),
    "short rows": lambda size: "|" + "a|" * 9 + "\n|" + "-|" * 9 + "\n" + "|a\n" * (size // 3 - 14),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", _COSTLY.values(), ids=_COSTLY)
def test_the_time_to_render_grows_no_faster_than_the_text(make: Callable[[int], str]) -> None:
    """Measured in processor time of this thread, the faster of two tries."""

    def cost_s(size: int) -> float:
        tries = []
        for _ in range(2):
            began_s = time.thread_time()
            render(make(size))
            tries.append(time.thread_time() - began_s)
        return min(tries)

    assert cost_s(20_000) < 12 * cost_s(5_000) + 0.02
