"""Deletion of ads, pages, videos, lessons and campaigns over REST, with everything that belongs to them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from redis import Redis

from callsheet.state.owners import storage_id
from callsheet.storage import Storage, use
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis import key_table, keys
from callsheet.storage.redis.scripts import execute_all
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from tests.doubles.auth_cases import create_key
from tests.doubles.key_leaks import declaration_of
from tests.doubles.killing import Kill, KillableServer, sample_points
from tests.doubles.served import VOICE, app_client, generate_ad, started_app
from tests.doubles.waiting import eventually
from tests.lessons.lesson_client import user
from tests.lessons.lesson_material import material
from tests.pages.page_double import PageDouble
from tests.pages.test_uploads import png

pytestmark = pytest.mark.timeout(120)

OFFLINE = {"provider": "offline"}


@dataclass
class Owned:
    """A client whose requests are one owner's."""

    http: httpx.AsyncClient
    owner: str
    redis: Redis

    async def ok(self, method: str, path: str, **options: Any) -> Any:
        """Return the body of a reply, which must be a success."""
        reply = await self.http.request(method, path, **options)
        assert reply.is_success, (method, path, reply.text)
        return reply.json()

    async def status(self, method: str, path: str, **options: Any) -> int:
        """Return the status of a reply."""
        return (await self.http.request(method, path, **options)).status_code

    def remains(self, *ids: str) -> list[str]:
        """Return the keys that name one of these ids, or whose value does, in no order."""
        return [
            name for name in _names(self.redis) if any(each in _content(self.redis, name) for each in ids)
        ]


def _names(redis: Redis) -> Iterator[str]:
    for name in redis.scan_iter(count=1000):
        declared = declaration_of(name.decode())
        if declared is None or declared.pattern not in key_table.KEPT_AFTER_DELETION:
            yield name.decode()


_READERS: dict[str, Callable[[Redis, str], Any]] = {
    "string": lambda redis, name: redis.get(name),
    "hash": lambda redis, name: redis.hgetall(name),
    "list": lambda redis, name: redis.lrange(name, 0, -1),
    "set": lambda redis, name: redis.smembers(name),
    "zset": lambda redis, name: redis.zrange(name, 0, -1),
    "stream": lambda redis, name: redis.xrange(name),
}


def _content(redis: Redis, name: str) -> str:
    return f"{name} {_READERS[cast('bytes', redis.type(name)).decode()](redis, name)}"


@pytest.fixture(params=["local", "alice"])
async def owned(
    request: pytest.FixtureRequest, valkey_url: str, storage: Storage, inspector: Redis
) -> AsyncIterator[Owned]:
    """A client of a server, without authentication, or with the key of alice."""
    chosen = {} if request.param == "local" else {"auth": ("keys",)}
    async with started_app(valkey_url, **chosen) as app, app_client(app) as http:
        if chosen:
            http.headers["X-Api-Key"] = await create_key(storage, request.param)
        yield Owned(http, request.param, inspector)


async def create_ad(owned: Owned) -> list[str]:
    """Make an ad with all that it can have; return its ids."""
    http = owned.http
    http.headers["Idempotency-Key"] = "ad-request-1"
    ad = await generate_ad(http, adId="zyx-ad")
    http.headers["Idempotency-Key"] = "ad-request-2"
    await owned.ok("POST", "/api/ads/zyx-ad/chat", json={"message": "make the music louder", **OFFLINE})
    del http.headers["Idempotency-Key"]
    track = {"voiceId": VOICE, "text": "Fresh bread, every morning."}
    await owned.ok("POST", "/api/ads/zyx-ad/voices", json={"voiceTracks": [track]})
    await owned.ok("POST", "/api/ads/zyx-ad/voices/v1/activate")
    await owned.ok("PATCH", "/api/ads/zyx-ad/mixer", json={"music": {"volumeDb": -9}})
    await owned.ok("PUT", "/api/ads/zyx-ad/locks/music")
    return ["zyx-ad", ad["conversationId"]]


async def create_page(owned: Owned) -> list[str]:
    """Make a page with uploads, a lock, and a deletion that a person has approved; return its ids."""
    await owned.ok("POST", "/api/pages/zyx-page/chat", json={"message": "make the headline teal", **OFFLINE})
    uploaded = await owned.ok("POST", "/api/pages/zyx-page/uploads?fileName=a.png", content=png())
    message = {"message": "delete the features section", **OFFLINE}
    answer = await owned.ok("POST", "/api/pages/zyx-page/chat", json=message)
    assert answer["question"], answer
    await owned.ok("POST", "/api/pages/zyx-page/decisions", json={"decisions": [{"type": "approve"}]})
    await owned.ok("PUT", "/api/pages/zyx-page/locks/footer-1")
    await owned.ok("POST", "/api/pages/zyx-page/versions/v1/activate")
    return ["zyx-page", answer["conversationId"], uploaded["uploadId"]]


async def create_video(owned: Owned) -> list[str]:
    """Make a video with an execution, gathered context and a lock; return its ids."""
    scenes = [{"name": "One"}, {"name": "Two"}]
    project = await owned.ok("POST", "/api/projects", json={"id": "zyx-video", "scenes": scenes})
    faster = {"message": "make all scenes faster", **OFFLINE}
    started = await owned.ok("POST", "/api/projects/zyx-video/executions", json=faster)
    async with owned.http.stream("GET", f"/api/execution-progress/{started['executionId']}") as reply:
        assert "event: execution-complete" in (await reply.aread()).decode()

    async def has_ended() -> bool:
        status = await owned.ok("GET", f"/threads/{project['threadId']}")
        return bool(status["status"] != "busy")

    await eventually(has_ended, "the run of the plan to end")
    await owned.ok("PUT", "/api/projects/zyx-video/locks/scene-1")
    context = {"value": {"note": 1}}
    await owned.http.put("/api/projects/zyx-video/context/note", json=context)
    return ["zyx-video", project["threadId"], started["executionId"]]


async def create_lesson(owned: Owned) -> list[str]:
    """Make a lesson with material, facts, a narration and an asset; return its ids."""
    text = material("photosynthesis").text
    reply = await owned.http.post("/api/agent-create/session/source/files?fileName=zyx.txt", content=text)
    assert reply.status_code == 201, reply.text
    session = reply.headers["X-Session-Id"]
    owned.http.headers["X-Session-Id"] = session
    tools = "/api/agent-create/tools"
    turn = await owned.ok("POST", tools, json={"messages": user(text), **OFFLINE})
    await owned.ok("POST", tools, json={"messages": [], "selectedFacts": turn["facts"][:3], **OFFLINE})
    await owned.ok("POST", "/api/agent-create/session/assets/files?fileName=leaf.png", content=png())
    await owned.ok("PATCH", "/api/agent-create/session", json={"childAge": "9"})
    return [session]


KINDS: dict[str, tuple[Callable[[Owned], Awaitable[list[str]]], str, str]] = {
    "ad": (create_ad, "/api/ads/zyx-ad", "zyx-ad"),
    "page": (create_page, "/api/pages/zyx-page", "zyx-page"),
    "video": (create_video, "/api/projects/zyx-video", "zyx-video"),
    "lesson": (create_lesson, "/api/agent-create/session", ""),
}
"""By kind: the function that makes one with everything, the path of its deletion, and the id if chosen."""


def test_the_keys_that_outlive_a_deletion_expire_and_are_documented():
    text = Path("docs/operations.md").read_text(encoding="utf-8")
    lifetimes = {key.pattern: key.lifetime for key in key_table.KEYS}
    for pattern in key_table.KEPT_AFTER_DELETION:
        assert f"`{pattern}`" in text
        assert lifetimes[pattern] != "forever"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_deleted_artefact_leaves_nothing_in_redis_but_what_is_declared(owned: Owned, kind: str):
    create, path, name = KINDS[kind]
    ids = await create(owned)
    stored = [storage_id(owned.owner, kind, name or ids[0])]
    assert owned.remains(*ids, *stored), "the search finds what there is"
    assert await owned.ok("DELETE", path) == {"deleted": name or ids[0]}
    assert owned.remains(*ids, *stored) == []
    assert await owned.status("GET", path) == 404
    assert await owned.status("DELETE", path) == 404


@pytest.mark.slow
async def test_the_id_of_a_deleted_ad_begins_a_new_one_with_the_same_idempotency_key(owned: Owned):
    await create_ad(owned)
    await owned.ok("DELETE", "/api/ads/zyx-ad")
    owned.http.headers["Idempotency-Key"] = "ad-request-1"
    again = await generate_ad(owned.http, adId="zyx-ad")
    assert again["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
    shown = await owned.ok("GET", "/api/ads/zyx-ad")
    assert (shown["streams"]["voices"]["count"], shown["locks"], shown["streams"]["voices"]["active"]) == (
        1,
        [],
        None,
    )
    assert shown["mixer"]["music"]["volumeDb"] != -9
    assert len(await owned.ok("GET", f"/threads/{again['conversationId']}/runs")) == 1


Edit = tuple[str, str, dict[str, Any]]
"""Method, path and options of a request that changes an artefact."""


def edits_of(kind: str, ids: list[str]) -> list[Edit]:
    """Return edits of the artefact that `KINDS` creates, and of its thread."""
    base, thread = KINDS[kind][1], f"/threads/{ids[min(1, len(ids) - 1)]}"
    edits: dict[str, list[Edit]] = {
        "ad": [
            ("PATCH", f"{base}/mixer", {"json": {"music": {"volumeDb": -3}}}),
            ("PUT", f"{base}/locks/sfx", {}),
            ("DELETE", f"{base}/locks/sfx", {}),
            ("POST", f"{base}/voices", {"json": {"voiceTracks": [{"voiceId": VOICE, "text": "Bread."}]}}),
            ("POST", f"{base}/voices/v1/activate", {}),
        ],
        "page": [
            ("PUT", f"{base}/locks/heading-1", {}),
            ("DELETE", f"{base}/locks/heading-1", {}),
            ("POST", f"{base}/versions/v1/activate", {}),
            ("POST", f"{base}/versions/start/restore", {}),
            ("POST", f"{base}/uploads?fileName=b.png", {"content": png()}),
        ],
        "video": [
            ("PUT", f"{base}/locks/scene-2", {}),
            ("DELETE", f"{base}/locks/scene-2", {}),
            ("PUT", f"{base}/context/zyx", {"json": {"value": {"note": 2}}}),
        ],
        "lesson": [
            ("PATCH", base, {"json": {"childAge": "8"}}),
            ("PATCH", base, {"json": {"status": "completed"}}),
        ],
    }
    wire: list[Edit] = [
        ("PATCH", thread, {"json": {"metadata": {"note": "zyx"}}}),
        ("POST", f"{thread}/state", {"json": {"values": {}}}),
    ]
    return [*edits[kind], *wire]


@dataclass
class EditReply:
    """Status of an edit, with the times of its request and its reply."""

    edit: str
    sent_s: float
    received_s: float
    status: int

    @property
    def is_success(self) -> bool:
        """True if the edit was acknowledged."""
        return 200 <= self.status < 300


async def edit_until(ended: asyncio.Event, owned: Owned, edit: Edit) -> list[EditReply]:
    """Send an edit again and again until `ended`, and twice more."""
    answers, after = [], 0
    while after < 2:
        after += ended.is_set()
        sent_s = time.monotonic()
        status = await owned.status(edit[0], edit[1], **edit[2])
        answers.append(EditReply(f"{edit[0]} {edit[1]}", sent_s, time.monotonic(), status))
    return answers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owned", "kind"),
    [
        *(("alice", kind) for kind in KINDS),
        ("local", "ad"),
        *(pytest.param("local", kind, marks=pytest.mark.long) for kind in KINDS if kind != "ad"),
    ],
    indirect=["owned"],
)
async def test_edits_during_a_deletion_come_before_it_or_are_refused(owned: Owned, kind: str):
    """Every edit that was acknowledged precedes all that found nothing, and no key is left."""
    create, path, name = KINDS[kind]
    ids = await create(owned)
    # A deletion reads the names of all keys: so it takes longer than several edits.
    for start in range(0, 60_000, 10_000):
        owned.redis.mset({f"callsheet:filler-{number}": "" for number in range(start, start + 10_000)})
    ended = asyncio.Event()
    edits = edits_of(kind, ids)
    async with asyncio.TaskGroup() as group:
        editors = [group.create_task(edit_until(ended, owned, edit)) for edit in edits for _ in range(2)]
        try:
            # An update of the thread's state holds the thread for a moment.
            while (status := await owned.status("DELETE", path)) == 409:
                pass
        finally:
            ended.set()
    assert status == 200
    answers = [answer for editor in editors for answer in editor.result()]
    assert {answer.status // 100 for answer in answers} <= {2, 4}, answers
    deleted_s = min(answer.received_s for answer in answers if answer.status == 404)
    late = [answer.edit for answer in answers if answer.is_success and answer.sent_s > deleted_s]
    assert late == []
    assert owned.remains(*ids, storage_id(owned.owner, kind, name or ids[0])) == []


@pytest.mark.parametrize("kind", ["ad", "page"])
async def test_while_a_deletion_is_at_work_every_edit_is_refused(owned: Owned, storage: Storage, kind: str):
    """As a deletion leaves it whose server dies before it has deleted anything; sent again, it finishes."""
    create = generate_zyx_ad if kind == "ad" else create_zyx_page
    path, ids = KINDS[kind][1], await create(owned)
    name, thread = ids
    artefact = Artefact(storage, kind, name, owned.owner)
    graph = {"ad": "ad_creation", "page": "page_builder"}[kind]
    talk: list[Edit] = [
        ("POST", f"{path}/chat", {"json": {"message": "make it louder", **OFFLINE}}),
        ("POST", f"/threads/{thread}/runs", {"json": {"assistant_id": graph, "input": {}}}),
    ]
    # What is sent in the middle of it arrives while the thread is held.
    async with threads.hold(storage, thread, owned.owner, deletes=True):
        await artefact.begin_deletion(owned.owner, thread)
        reply = await owned.http.delete(path)
        assert (reply.status_code, reply.json()["type"]) == (409, "busy")
        assert "is being deleted" in reply.text
        for method, address, options in [*edits_of(kind, ids), *talk]:
            status = await owned.status(method, address, **options)
            assert status == (409 if address.endswith("/state") else 404), address
    await artefact.erase(owned.owner)
    for method, address, options in [*edits_of(kind, ids), *talk]:
        # A state may be written again, and an erased page looks like its start.
        if not address.endswith(("/state", "/restore")):
            reply = await owned.http.request(method, address, **options)
            assert reply.status_code == 404, address
            assert "remedy" in reply.text or address.startswith("/threads"), address
    assert await owned.ok("DELETE", path) == {"deleted": name}
    assert owned.remains(*ids, storage_id(owned.owner, kind, name)) == []


async def generate_zyx_ad(owned: Owned) -> list[str]:
    """Make an ad; return its id and its conversation's."""
    return ["zyx-ad", (await generate_ad(owned.http, adId="zyx-ad"))["conversationId"]]


async def create_zyx_page(owned: Owned) -> list[str]:
    """Make a page; return its id and its conversation's."""
    message = {"message": "make the headline teal", **OFFLINE}
    answer = await owned.ok("POST", "/api/pages/zyx-page/chat", json=message)
    return ["zyx-page", answer["conversationId"]]


async def test_a_conversation_that_begins_in_an_unfinished_deletion_leaves_no_thread(
    owned: Owned, storage: Storage
):
    """The deletion has erased the thread, and died before the artefact's record."""
    [name, thread] = await create_zyx_page(owned)
    artefact = Artefact(storage, "page", name, owned.owner)
    await artefact.begin_deletion(owned.owner, thread)
    assert await owned.status("DELETE", f"/threads/{thread}") == 204
    message = {"message": "make the headline teal", **OFFLINE}
    assert await owned.status("POST", "/api/pages/zyx-page/chat", json=message) == 404
    assert await owned.ok("DELETE", "/api/pages/zyx-page") == {"deleted": name}
    assert owned.remains(name, thread, storage_id(owned.owner, "page", name)) == []


@pytest.mark.slow
async def test_a_deletion_keeps_its_hold_for_as_long_as_it_takes(owned: Owned, storage: Storage):
    [_, thread] = await create_zyx_page(owned)
    lease = keys.run_keys(thread).lease
    async with threads.hold(storage, thread, owned.owner, deletes=True):
        owned.redis.pexpire(lease, 7_000)

        async def is_renewed() -> bool:
            return owned.redis.pttl(lease) > 7_000

        await eventually(is_renewed, "the hold to be renewed")


async def test_an_ad_is_not_deleted_while_a_run_has_it(owned: Owned, storage: Storage):
    """The deletion takes part in the same hold as a run: it is refused and changes nothing."""
    ad = await generate_ad(owned.http, adId="zyx-ad")
    async with threads.hold(storage, ad["conversationId"], owned.owner):
        reply = await owned.http.delete("/api/ads/zyx-ad")
        assert (reply.status_code, reply.json()["type"]) == (409, "busy")
    assert (await owned.ok("GET", "/api/ads/zyx-ad"))["streams"]["voices"]["count"] == 1
    await owned.ok("DELETE", "/api/artefacts/ad/zyx-ad")


async def test_a_conversation_stays_that_is_about_another_artefact(owned: Owned, storage: Storage):
    """Of two ads of one thread, the second is deleted alone."""
    ad = await generate_ad(owned.http, adId="zyx-ad")
    thread = Thread(ad["conversationId"], owned.owner)
    other = Artefact(storage, "ad", "zyx-other", owned.owner)
    await other.open(owner=owned.owner, thread=thread.id, facts={})
    await execute_all(storage.redis, other.index_calls(owned.owner, thread.id))
    assert await threads.artefacts_of(storage, thread.id) == ["ad:zyx-ad", "ad:zyx-other"]
    await owned.ok("DELETE", "/api/ads/zyx-other")
    assert await threads.artefacts_of(storage, thread.id) == ["ad:zyx-ad"]
    assert owned.remains("zyx-other") == []
    assert (await owned.ok("GET", "/api/ads"))["ads"][0]["adId"] == "zyx-ad"


async def test_nobody_deletes_what_belongs_to_another_owner(valkey_url: str, storage: Storage):
    async with started_app(valkey_url, auth=("keys",)) as app, app_client(app) as http:
        alice, bob = [{"X-Api-Key": await create_key(storage, name)} for name in ("alice", "bob")]
        http.headers.update(alice)
        ad = await generate_ad(http, adId="zyx-ad")
        for path in ("/api/ads/zyx-ad", f"/api/ads/{ad['conversationId']}", "/api/artefacts/ad/zyx-ad"):
            assert (await http.delete(path, headers=bob)).status_code == 404
        session = bob | {"X-Session-Id": ad["conversationId"]}
        assert (await http.delete("/api/agent-create/session", headers=session)).status_code == 404
        wrong_kind = {"X-Session-Id": ad["conversationId"]}
        assert (await http.delete("/api/agent-create/session", headers=wrong_kind)).status_code == 404
        assert (await http.get("/api/ads/zyx-ad")).status_code == 200


async def test_a_deleted_campaign_library_and_its_searches_leave_nothing_in_redis(owned: Owned):
    """The results of changes expire within ten minutes."""
    mine = {"id": "zyx-1", "company": "zyxomma", "channel": "email", "capture_date": "2026-01-01"}
    await owned.ok("POST", "/api/campaigns/import?fileName=x.json", json=[mine])
    await owned.ok("DELETE", "/api/campaigns/zyx-1")
    await owned.ok("POST", "/api/campaigns/import?fileName=x.json", json=[mine])
    await owned.ok("PUT", "/api/searches/zyx-search", json={"message": "zyxomma"})
    assert owned.remains("zyx")
    assert await owned.ok("DELETE", "/api/campaigns") == {"deleted": 1}
    assert await owned.ok("DELETE", "/api/searches") == {"searches": {}}
    assert owned.remains("zyx") == []


@pytest.mark.parametrize(
    "path", ["/api/campaigns/", "/api/searches/", "/api/campaigns/%2E", "/api/campaigns/%2E%2E"]
)
async def test_a_deletion_without_an_id_does_not_delete_the_list(owned: Owned, path: str):
    mine = {"id": "zyx-1", "company": "zyxomma", "channel": "email", "capture_date": "2026-01-01"}
    await owned.ok("POST", "/api/campaigns/import?fileName=x.json", json=[mine])
    await owned.ok("PUT", "/api/searches/zyx-search", json={"message": "zyxomma"})
    reply = await owned.http.delete(path, follow_redirects=True)
    assert reply.status_code in {400, 404, 405, 422}, reply.text
    assert (await owned.ok("GET", "/api/campaigns"))["total"] == 1
    assert "zyx-search" in (await owned.ok("GET", "/api/searches"))["searches"]


async def erase_page(base: str, page: str) -> int:
    """Return the status of the deletion of a page."""
    async with httpx.AsyncClient(base_url=base, timeout=30) as http:
        return (await http.delete(f"/api/pages/{page}")).status_code


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.timeout(600)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_deletion_that_a_kill_cut_short_is_repeated_and_leaves_nothing(
    killable_server: KillableServer,
    inspector: Redis,
    storage: Storage,
    when: Any,
    request: pytest.FixtureRequest,
):
    use(storage)

    async def create(page: str) -> None:
        double = PageDouble(storage, page, thread=page)
        await threads.bind(storage, Thread(page, "local", "page_builder", f"page:{page}"))
        await double.result_of("modify_element", elementId="heading-1", modifications={"content": "Bread"})
        await double.artefact.lock("footer-1", "local")

    async def erase_next(base: str, turn: Any) -> int:
        await create(f"zyx-dry-{turn}")
        return await erase_page(base, f"zyx-dry-{turn}")

    count = await killable_server.count_messages(erase_next)
    for at in sample_points(count, 2, seed=3, all_points=request.config.getoption("--long")):
        page = f"zyx-{when}-{at}-end"
        await create(page)
        await killable_server.run_until_killed(Kill(at=at, when=when), partial(erase_page, page=page))
        # As if the time of the hold, 15 seconds, had passed.
        inspector.delete(keys.run_keys(page).lease)
        async with killable_server.serve() as base:
            assert await erase_page(base, page) in {200, 404}
        assert Owned(httpx.AsyncClient(), "local", inspector).remains(page) == []
    use(None)
