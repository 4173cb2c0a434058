"""Lifetimes of keys: the table in the documents, and what is left when everything is deleted."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.storage.redis import keys
from callsheet.storage.redis.key_table import KEYS, LASTING, Key
from tests.doubles.key_leaks import declaration_of, leaks
from tests.doubles.served import BRIEF, VOICE, app_client, served_app, started_app
from tests.doubles.waiting import eventually
from tests.lessons.lesson_material import material
from tests.pages.test_uploads import png

OFFLINE = {"provider": "offline"}
CSV = "id,company,channel,capture_date\nc{0},Alder Bank,email,2026-03-01\nd{0},Alder Bank,email,2026-04-01\n"


class CountingClient:
    """A client whose requests must succeed; it counts them."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http, self.count = http, 0

    async def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the body of a reply."""
        self.count += 1
        reply = await self.http.request(method, path, json=body, **options)
        assert reply.is_success, (method, path, reply.text)
        return reply.json() if reply.content else None

    async def delete(self, path: str, rows: list[dict[str, Any]], name: str) -> None:
        """Delete the rows of a list by their ids."""
        for row in rows:
            await self.ok("DELETE", f"{path}/{row[name]}")


async def make_ad(client: CountingClient, name: str) -> None:
    await client.ok("POST", "/api/ai/generate", {"adId": name, "brief": BRIEF, **OFFLINE})
    for message in ("make the music more upbeat", "make the music calmer"):
        await client.ok("POST", f"/api/ads/{name}/chat", {"message": message, **OFFLINE})
    track = {"voiceId": VOICE, "text": "Fresh bread, every morning."}
    await client.ok("POST", f"/api/ads/{name}/voices", {"voiceTracks": [track]})
    await client.ok("POST", f"/api/ads/{name}/voices/v1/activate")
    await client.ok("PATCH", f"/api/ads/{name}/mixer", {"music": {"volumeDb": -9}})
    await client.ok("PUT", f"/api/ads/{name}/locks/music")


async def make_page(client: CountingClient, name: str) -> None:
    for message in ("make the headline teal", "delete the features section"):
        await client.ok("POST", f"/api/pages/{name}/chat", {"message": message, **OFFLINE})
    await client.ok("POST", f"/api/pages/{name}/decisions", {"decisions": [{"type": "approve"}], **OFFLINE})
    await client.ok("PUT", f"/api/pages/{name}/locks/footer-1")
    await client.ok("POST", f"/api/pages/{name}/uploads?fileName=a.png", content=png())
    await client.ok("POST", f"/api/pages/{name}/chat", {"message": "clear the page", **OFFLINE})


async def make_video(client: CountingClient, name: str) -> None:
    project = await client.ok("POST", "/api/projects", {"id": name, "starter": "product-launch"})
    body = {"message": "make all scenes faster", **OFFLINE}
    await client.ok("POST", f"/api/projects/{name}/executions", body)
    await wait_until_idle(client, project["threadId"])
    await client.ok("POST", f"/api/projects/{name}/undo")
    await wait_until_idle(client, project["threadId"])
    await client.ok("PUT", f"/api/projects/{name}/context/note", {"value": {"note": 1}})
    await client.ok("PUT", f"/api/presets/{name}", {"message": "make all scenes faster"})


async def make_lesson(client: CountingClient, name: str) -> None:
    text = f"{material('photosynthesis').text} The lesson is {name}."
    tools = "/api/agent-create/tools"
    turn = await client.ok("POST", tools, {"messages": [{"role": "user", "content": text}], **OFFLINE})
    session = {"X-Session-Id": turn["sessionId"]}
    await client.ok("POST", tools, {"messages": [], "selectedFacts": [1, 2], **OFFLINE}, headers=session)
    await client.ok("PATCH", "/api/agent-create/session", {"childAge": "9"}, headers=session)
    path = "/api/agent-create/session/source/files?fileName=x.txt"
    await client.ok("POST", path, content=text, headers=session)


async def make_campaigns(client: CountingClient, name: str) -> None:
    headers = {"Content-Type": "text/csv"}
    await client.ok("POST", "/api/campaigns/import?fileName=a.csv", content=CSV.format(name), headers=headers)
    body = {"message": "show me email campaigns", **OFFLINE}
    await client.ok("POST", "/api/chat", body)
    await client.ok("PUT", f"/api/searches/{name}", {"message": "show me email campaigns"})


async def use_the_wire(client: CountingClient, name: str) -> None:
    thread = f"wire-{name}"
    await client.ok("POST", "/threads", {"thread_id": thread, "metadata": {"name": name}})
    brief = {"messages": [{"role": "user", "content": "20 seconds for Harbour Bikes, e-bikes in Porto."}]}
    run = {"assistant_id": "ad_creation", "input": brief, "context": OFFLINE}
    await client.ok("POST", f"/threads/{thread}/runs/wait", run)
    await client.ok("POST", f"/threads/{thread}/runs", {**run, "after_seconds": 3600})
    await client.ok("POST", f"/threads/{thread}/copy")
    await client.ok("POST", "/runs/wait", {**run, "on_completion": "delete"})
    lesson = {"messages": [{"role": "user", "content": f"{material('photosynthesis').text} {name}."}]}
    await client.ok("POST", "/runs/wait", {**run, "assistant_id": "fact_narration", "input": lesson})
    await client.ok("POST", "/runs/crons", {**run, "schedule": "0 9 * * *"})
    await client.ok("POST", "/assistants", {"graph_id": "ad_creation", "name": name})
    await client.ok("PUT", "/store/items", {"namespace": ["notes"], "key": name, "value": {"text": "x"}})


WORK: tuple[Callable[[CountingClient, str], Coroutine[Any, Any, None]], ...] = (
    make_ad,
    make_page,
    make_video,
    make_lesson,
    make_campaigns,
    use_the_wire,
)


async def wait_until_idle(client: CountingClient, thread: str) -> None:
    async def is_idle() -> bool:
        return bool((await client.http.get(f"/threads/{thread}")).json()["status"] != "busy")

    await eventually(is_idle, "the end of the run")


async def delete_everything(client: CountingClient) -> None:
    """Delete all that the owner has, by the routes that list it."""
    for kind in ("ad", "page", "video", "lesson"):
        while rows := (await client.ok("GET", f"/api/artefacts/{kind}"))["artefacts"]:
            await client.delete(f"/api/artefacts/{kind}", rows, "id")
    while rows := await client.ok("POST", "/threads/search", {"limit": 100}):
        await client.delete("/threads", rows, "thread_id")
    every = {"limit": 100}
    await client.delete("/runs/crons", await client.ok("POST", "/runs/crons/search", every), "cron_id")
    assistants = await client.ok("POST", "/assistants/search", every)
    own = [one for one in assistants if one["metadata"].get("created_by") != "system"]
    await client.delete("/assistants", own, "assistant_id")
    for item in (await client.ok("POST", "/store/items/search", {"namespace_prefix": [], **every}))["items"]:
        await client.ok("DELETE", "/store/items", {"namespace": item["namespace"], "key": item["key"]})
    for path in ("/api/campaigns", "/api/searches"):
        await client.ok("DELETE", path)


def lifetime(key: Key) -> str:
    """The end of a key, as the documents say it."""
    if key.pattern in LASTING:
        return "stays"
    if isinstance(key.lifetime, float):
        days, seconds = divmod(int(key.lifetime), 86_400)
        return f"{days or seconds} {'day' if days else 'second'}{'' if days == 1 else 's'}"
    if key.lifetime == "chosen":
        return "chosen by its writer"
    if key.pattern.startswith("<kind>"):
        return "with its artefact"
    return "with its thread" if key.pattern.startswith("thread:") else "with its last entry"


def test_the_documents_have_every_key_with_its_lifetime():
    rows = [f"| `{key.pattern}` | {key.type} | {lifetime(key)} | {key.purpose} |" for key in KEYS]
    document = Path("docs/keys.md").read_text(encoding="utf-8")
    table = [line for line in document.splitlines() if line.startswith("| `")]
    assert table == rows, "\n".join(rows)


@pytest.mark.slow
async def test_after_mixed_work_and_its_deletion_only_lasting_keys_are_left(
    valkey_url: str, inspector: Redis, request: pytest.FixtureRequest
) -> None:
    rounds = 12 if request.config.getoption("--long") else 2
    async with started_app(valkey_url) as app, app_client(app) as http:
        client = CountingClient(http)
        for number in range(rounds):
            await asyncio.gather(*(work(client, f"{work.__name__}-{number}") for work in WORK))
        assert leaks(inspector) == []
        await end_stateless_runs(inspector)
        assert len((await client.ok("GET", "/api/artefacts/lesson"))["artefacts"]) == rounds
        assert await client.ok("GET", "/api/recent")
        await delete_everything(client)

        async def are_checked() -> bool:
            return not inspector.exists(keys.open_runs())

        await eventually(are_checked, "the last checks of cancelled runs", patience_s=20)
    assert client.count > 40 * rounds
    assert leaks(inspector) == []
    left = [name.decode() for name in inspector.scan_iter() if inspector.ttl(name) == -1]
    assert [name for name in left if declared_pattern(name) not in LASTING] == []


def declared_pattern(name: str) -> str:
    declared = declaration_of(name)
    return declared.pattern if declared else ""


async def end_stateless_runs(inspector: Any) -> None:
    """Let the runs without a thread of their own end a minute ago, and wait until they are deleted."""

    def members() -> list[bytes]:
        pairs = [(member, *member.split(b"\0")) for member in inspector.zrange(keys.open_runs(), 0, -1)]
        return [member for member, run, thread in pairs if run == thread]

    for member in members():
        run = member.decode().partition("\0")[0]
        inspector.hincrby(keys.run(run, run), "updatedMs", -61_000)
        inspector.zadd(keys.open_runs(), {member: 0})

    async def are_deleted() -> bool:
        return not members()

    await eventually(are_deleted, "the end of the stateless runs", patience_s=20)


async def test_a_deleted_thread_takes_its_lesson_and_the_contents_of_its_tool_records_with_it(
    valkey_url: str, inspector: Redis
) -> None:
    """Nothing that a student wrote is left; tools and times of calls stay for 30 days."""
    async with served_app(valkey_url) as http:
        client = CountingClient(http)
        await make_lesson(client, "stomata")
        [lesson] = (await client.ok("GET", "/api/artefacts/lesson"))["artefacts"]
        assert await client.ok("GET", "/api/recent")
        before = (await client.ok("GET", "/api/tool-executions"))["executions"]
        assert any("stomata" in str(call) for call in before)
        reply = await http.delete(f"/threads/{lesson['id']}")
        assert (reply.status_code, reply.headers.get("X-Kept-Artefacts")) == (204, None)
        assert (await client.ok("GET", "/api/artefacts/lesson"))["artefacts"] == []
        after = (await client.ok("GET", "/api/tool-executions"))["executions"]
    assert [(one["id"], one["toolName"], one["status"]) for one in after] == [
        (one["id"], one["toolName"], one["status"]) for one in before
    ]
    assert all(one["input"] == {} and "output" not in one for one in after)
    assert not inspector.keys("lesson:*")
    assert not inspector.keys("thread:*")


async def test_the_deletion_of_a_thread_names_the_artefacts_that_stay(valkey_url: str) -> None:
    async with served_app(valkey_url) as http:
        client = CountingClient(http)
        await client.ok("POST", "/api/ai/generate", {"adId": "brød 1", "brief": BRIEF, **OFFLINE})
        reply = await http.delete("/threads/brød 1")
        assert (reply.status_code, reply.headers["X-Kept-Artefacts"]) == (204, "ad:br%C3%B8d%201")
        await client.ok("DELETE", "/api/ads/brød 1")
        assert all(
            one["input"] == {} for one in (await client.ok("GET", "/api/tool-executions"))["executions"]
        )
