"""`Idempotency-Key` on LangGraph's API: repeating a key and body creates nothing new."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from callsheet.storage import Storage
from tests.doubles.auth_cases import bearer, create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.wire_server import running_server

RUN = {"assistant_id": "counter", "input": {"x": 1}}
RUNS = ["/runs", "/runs/wait", "/runs/stream"]
DONE = {"x": 4, "log": ["a", "b", "c"]}


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url, auth=("keys",)) as server_url:
        yield server_url


@pytest.fixture
async def http(url: str, storage: Storage) -> AsyncIterator[httpx.AsyncClient]:
    headers = bearer(await create_key(storage, "alice"))
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=20) as client:
        yield client


async def post(http: httpx.AsyncClient, path: str, body: Any, key: str = "k", status: int = 200) -> Any:
    reply = await http.post(path, json=body, headers={"Idempotency-Key": key})
    assert reply.status_code == status, reply.text
    return reply


async def delete_request_records(storage: Storage) -> None:
    """Delete the records of requests, as if the server had died before it wrote them."""
    for name in [name async for name in storage.redis.scan_iter("owner:{alice}:request:*")]:
        await storage.redis.delete(name)


async def new_thread(http: httpx.AsyncClient) -> str:
    return str((await http.post("/threads", json={})).json()["thread_id"])


@pytest.mark.parametrize("record_lost", [False, True])
@pytest.mark.parametrize("path", RUNS)
async def test_repeating_a_key_and_body_gives_the_same_run(
    http: httpx.AsyncClient, storage: Storage, path: str, *, record_lost: bool
) -> None:
    thread = f"/threads/{await new_thread(http)}"
    first = await post(http, thread + path, RUN)
    if record_lost:
        await delete_request_records(storage)
    repeated = await post(http, thread + path, RUN)
    assert repeated.headers["Content-Location"] == first.headers["Content-Location"]
    if path != "/runs":
        assert repeated.text == first.text
    joined = await post(http, f"{thread}/runs/wait", RUN)
    assert joined.json()["x"] == DONE["x"], "another way of reading joins the same run"
    assert len((await http.get(f"{thread}/runs")).json()) == 1
    await post(http, thread + path, RUN, "k2")
    await post(http, thread + path, RUN, "k3")
    assert len((await http.get(f"{thread}/runs")).json()) == 3, "another key is another run"


@pytest.mark.parametrize("path", RUNS)
async def test_repeating_a_key_and_body_gives_the_same_stateless_run(
    http: httpx.AsyncClient, path: str
) -> None:
    requests = [post(http, path, {**RUN, "on_completion": "keep"}) for _ in range(4)]
    replies = await asyncio.gather(*requests)
    assert len({reply.headers["Content-Location"] for reply in replies}) == 1
    assert len((await http.post("/threads/search", json={})).json()) == 1
    for _ in range(2):
        reply = await post(http, "/runs/wait", RUN, "temporary")
        assert reply.json() == DONE


async def test_a_key_is_bound_to_its_body_path_and_owner(
    url: str, http: httpx.AsyncClient, storage: Storage
) -> None:
    threads = [await new_thread(http) for _ in range(2)]
    await post(http, f"/threads/{threads[0]}/runs/wait", RUN)
    reply = await post(http, f"/threads/{threads[0]}/runs/wait", {**RUN, "input": {"x": 2}}, status=409)
    assert "idempotency key 'k' is already used" in reply.json()["detail"]
    await post(http, f"/threads/{threads[1]}/runs/wait", {**RUN, "input": {"x": 2}})
    await post(http, "/runs/wait", RUN, "x" * 256, status=422)
    async with httpx.AsyncClient(base_url=url, headers=bearer(await create_key(storage, "bob"))) as bob:
        first, bobs = [await post(caller, "/runs", RUN) for caller in (http, bob)]
        assert first.json()["run_id"] != bobs.json()["run_id"]


async def test_a_failed_run_is_not_repeated(http: httpx.AsyncClient) -> None:
    thread = f"/threads/{await new_thread(http)}"
    body = {**RUN, "input": {"x": "not a number"}}
    replies = [(await post(http, f"{thread}/runs/wait", body)).json() for _ in range(2)]
    assert "__error__" in replies[0]
    assert replies[0] == replies[1]
    assert len((await http.get(f"{thread}/runs")).json()) == 1


async def test_repeating_a_resume_with_its_key_gives_the_same_run(http: httpx.AsyncClient) -> None:
    thread = f"/threads/{await new_thread(http)}"
    first = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hello"}]}}
    await post(http, f"{thread}/runs/wait", first, "ask")
    answer = {"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
    replies = [(await post(http, f"{thread}/runs/wait", answer, "answer")).json() for _ in range(2)]
    assert replies[0] == replies[1]
    assert len((await http.get(f"{thread}/runs")).json()) == 2


async def test_a_refused_request_can_be_corrected_with_the_same_key(http: httpx.AsyncClient) -> None:
    await post(http, "/runs/wait", {**RUN, "assistant_id": "nobody"}, status=422)
    assert (await post(http, "/runs/wait", RUN)).json() == DONE


@pytest.mark.parametrize("record_lost", [False, True])
async def test_repeating_a_key_and_body_gives_the_same_batch(
    http: httpx.AsyncClient, storage: Storage, *, record_lost: bool
) -> None:
    thread = await new_thread(http)
    batch = [{**RUN, "thread_id": thread}, {**RUN, "thread_id": thread}, {**RUN, "on_completion": "keep"}]
    first = (await post(http, "/runs/batch", batch)).json()
    if record_lost:
        await delete_request_records(storage)
    repeated = (await post(http, "/runs/batch", batch)).json()
    assert [run["run_id"] for run in repeated] == [run["run_id"] for run in first]
    assert len((await http.get(f"/threads/{thread}/runs")).json()) == 2


@pytest.mark.parametrize("record_lost", [False, True])
@pytest.mark.parametrize("body", [{}, {"thread_id": "mine"}])
async def test_repeating_a_key_and_body_gives_the_same_thread(
    http: httpx.AsyncClient, storage: Storage, body: Any, *, record_lost: bool
) -> None:
    first = (await post(http, "/threads", body)).json()
    if record_lost:
        await delete_request_records(storage)
    assert (await post(http, "/threads", body)).json() == first
    if not record_lost:
        await post(http, "/threads", {**body, "metadata": {"a": 1}}, status=409)
        await http.delete(f"/threads/{first['thread_id']}")
        await post(http, "/threads", body, status=404)
    assert len((await http.post("/threads/search", json={})).json()) == record_lost


async def test_repeating_a_thread_with_supersteps_creates_it_once(
    http: httpx.AsyncClient, storage: Storage
) -> None:
    step = {"updates": [{"values": {"x": 1, "log": ["one"]}, "as_node": "a"}]}
    body = {"metadata": {"graph_id": "counter"}, "supersteps": [step]}
    first = (await post(http, "/threads", body)).json()
    await delete_request_records(storage)
    repeated = (await post(http, "/threads", body)).json()
    assert (repeated["thread_id"], repeated["values"]) == (first["thread_id"], {"x": 1, "log": ["one"]})


@pytest.mark.parametrize("record_lost", [False, True])
async def test_repeating_a_key_and_body_gives_the_same_cron(
    http: httpx.AsyncClient, storage: Storage, *, record_lost: bool
) -> None:
    thread = f"/threads/{await new_thread(http)}"
    body = {**RUN, "schedule": "0 * * * *"}
    for path in ("/runs/crons", f"{thread}/runs/crons"):
        first = (await post(http, path, body)).json()
        if record_lost:
            await delete_request_records(storage)
        await http.patch(f"/runs/crons/{first['cron_id']}", json={"schedule": "5 * * * *"})
        repeated = (await post(http, path, body)).json()
        assert (repeated["cron_id"], repeated["schedule"]) == (first["cron_id"], "5 * * * *")
    assert (await http.post("/runs/crons/count", json={})).json() == 2
