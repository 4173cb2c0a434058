"""At most four round trips to Redis lie between a request and its run."""

from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import httpx
import pytest

from callsheet.storage.runs import scripts
from tests.doubles.served import BRIEF, served_app
from tests.doubles.trips import SlowProxy
from tests.doubles.waiting import eventually

pytestmark = pytest.mark.slow

MAX_TRIPS = 4
MAX_TRIPS_OF_MESSAGE = 32
OFFLINE = {"provider": "offline"}


@pytest.fixture
async def proxy(valkey_url: str) -> SlowProxy:
    return SlowProxy(urlsplit(valkey_url).path)


@pytest.fixture
async def http(proxy: SlowProxy) -> AsyncIterator[httpx.AsyncClient]:
    async with proxy.open() as url, served_app(url) as client:
        yield client


async def generate(http: httpx.AsyncClient, name: str) -> httpx.Response:
    return await http.post("/api/ai/generate", json={"adId": name, "brief": BRIEF, **OFFLINE})


async def chat_about_ad(http: httpx.AsyncClient, name: str) -> httpx.Response:
    return await http.post(f"/api/ads/{name}/chat", json={"message": "make the music calmer", **OFFLINE})


async def chat_about_page(http: httpx.AsyncClient, name: str) -> httpx.Response:
    return await http.post(f"/api/pages/{name}/chat", json={"message": "make the headline teal", **OFFLINE})


async def edit_video(http: httpx.AsyncClient, name: str) -> httpx.Response:
    return await http.post(f"/api/projects/{name}/executions", json={"message": "Make it blue", **OFFLINE})


async def teach(http: httpx.AsyncClient, name: str) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "Hello"}], **OFFLINE}
    return await http.post("/api/agent-create", json=body, params={"sessionId": name})


async def ask_about_campaigns(http: httpx.AsyncClient, name: str) -> httpx.Response:
    return await http.post("/api/chat", json={"message": "Which campaigns have an offer?", **OFFLINE})


async def stream_run(http: httpx.AsyncClient, name: str) -> httpx.Response:
    body = {"assistant_id": "page_builder", "input": {"messages": []}, "if_not_exists": "create"}
    return await http.post(f"/threads/{name}/runs/stream", json=body)


SendRequest = Callable[[httpx.AsyncClient, str], Awaitable[httpx.Response]]


async def count_trips(http: httpx.AsyncClient, proxy: SlowProxy, send: SendRequest, name: str) -> int:
    await eventually(proxy.is_quiet, "the end of the runs before")
    proxy.count()
    reply = await send(http, name)
    assert reply.status_code == 200, reply.text
    return proxy.trips_to_run


@pytest.mark.parametrize(
    ("first_request", "next_request"),
    [
        (generate, chat_about_ad),
        (chat_about_page, chat_about_page),
        (edit_video, edit_video),
        (teach, teach),
        (ask_about_campaigns, ask_about_campaigns),
        (stream_run, stream_run),
    ],
)
async def test_a_run_exists_after_four_round_trips(
    http: httpx.AsyncClient, proxy: SlowProxy, first_request: SendRequest, next_request: SendRequest
) -> None:
    """X5: for a new artefact and for a known one. The first requests load the scripts.

    Two commands that are sent at once count as two trips if the machine stands still in between: of three
    tries one is as it should be.
    """
    await first_request(http, "warm")
    await next_request(http, "warm")
    for attempt in range(3):
        names = (first_request, f"new-{attempt}"), (next_request, f"new-{attempt}")
        trips = [await count_trips(http, proxy, send, name) for send, name in names]
        if max(trips) <= MAX_TRIPS:
            return
    pytest.fail(f"{trips} round trips")


async def test_the_trip_that_records_a_run_also_starts_its_attempt(
    http: httpx.AsyncClient, proxy: SlowProxy
) -> None:
    """X5: so a stream has its first event one trip later."""
    await stream_run(http, "warm")
    for name in ("new", "new"):
        await count_trips(http, proxy, stream_run, name)
        assert scripts.CLAIM.sha.encode() in proxy.request_of_run


async def test_a_message_about_an_ad_takes_a_bounded_number_of_sequential_round_trips(
    http: httpx.AsyncClient, proxy: SlowProxy
) -> None:
    """A55: each step is stored before the next one begins, and each effect before its result is used."""
    await generate(http, "ad-1")
    await chat_about_ad(http, "ad-1")
    await eventually(proxy.is_quiet, "the end of the runs before")
    proxy.count(to_run=False)
    assert (await chat_about_ad(http, "ad-1")).json()["drafts"]
    proxy.stop()
    assert proxy.trips <= MAX_TRIPS_OF_MESSAGE


async def test_a_message_about_a_known_ad_takes_three_round_trips(
    http: httpx.AsyncClient, proxy: SlowProxy
) -> None:
    """A55, X5: the ad and its thread, the state, the run."""
    await generate(http, "ad-1")
    await chat_about_ad(http, "ad-1")
    assert await count_trips(http, proxy, chat_about_ad, "ad-1") == 3
