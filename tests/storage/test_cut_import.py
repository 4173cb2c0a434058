"""The import of an owner's data when Redis is lost in the middle: the same file completes it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis import Redis

from callsheet.storage.redis import caller_keys
from tests.doubles.key_leaks import leaks
from tests.doubles.served import served_app
from tests.doubles.waiting import eventually
from tests.storage.saver_proxy import CountingProxy
from tests.storage.test_lifetimes import CountingClient, make_ad, make_campaigns, make_page, make_video
from tests.storage.test_owner_data import export_data, make_settings, read_everything

PATH = "/api/data/import"
# A connection of redis-py that is cut while it connects is left to be collected.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class CutProxy(CountingProxy):
    """Loses every reply from a chosen one on, or just that one; requests arrive all the same."""

    def cut_at(self, first: int, *, once: bool = False) -> None:
        self.replies = 0

        def loses(_: bytes) -> bool:
            self.replies += 1
            return self.replies == first if once else self.replies >= first

        self.loses_reply = loses

    def heal(self) -> None:
        self.loses_reply = None


@pytest.fixture
async def proxy(tmp_path: Path, valkey_url: str) -> AsyncIterator[CutProxy]:
    async with CutProxy(tmp_path, valkey_url) as running:
        yield running


@pytest.fixture
async def client(proxy: CutProxy) -> AsyncIterator[CountingClient]:
    url = f"unix://{proxy.socket}"
    async with served_app(url, storage_patience_s=0.2, carry_runs=False) as http:
        yield CountingClient(http)


async def make_data(valkey_url: str) -> bytes:
    """Return the file of an owner who has a little of everything."""
    # A busy machine may answer late, which is not what is tested.
    async with served_app(valkey_url, storage_patience_s=20.0) as http:
        client = CountingClient(http)
        await make_settings(client)
        for make in (make_ad, make_page, make_video, make_campaigns):
            await make(client, make.__name__)
        await client.ok("POST", "/threads", {"thread_id": "lasting", "ttl": {"ttl": 600}})
        # The ad stays when its conversation is deleted.
        await make_ad(client, "alone")
        await client.ok("DELETE", "/threads/alone")
        return await export_data(client)


@pytest.mark.parametrize(
    "shares",
    [
        # Among the records.
        [0.16],
        # A thread that is being written is free again after 15 seconds.
        pytest.param([number / 36 for number in range(36)], marks=pytest.mark.long),
    ],
    ids=["one", "many"],
)
async def test_a_cut_import_is_completed_by_the_same_file(
    valkey_url: str, client: CountingClient, proxy: CutProxy, inspector: Redis, shares: list[float]
) -> None:
    content = await make_data(valkey_url)
    inspector.flushdb()
    proxy.cut_at(1_000_000)
    await client.ok("POST", PATH, content=content)
    count = proxy.replies
    proxy.heal()
    before = await read_everything(client)
    for first in (1 + int(share * count) for share in shares):
        inspector.flushdb()
        proxy.cut_at(first)
        reply = await client.http.post(PATH, content=content)
        proxy.heal()
        if reply.status_code != 201:
            assert reply.status_code in {503, 504}, (first, reply.text)

            # As after its 15 seconds.
            inspector.delete(caller_keys.import_lease("local"))

            async def is_complete() -> bool:
                repeated = await client.http.post(PATH, content=content)
                assert repeated.status_code in {201, 409, 503}, repeated.text
                return repeated.status_code == 201

            await eventually(
                is_complete, f"the import that was cut at reply {first} is complete", patience_s=60
            )
        after = await read_everything(client)
        assert {name for name in before if before[name] != after.get(name)} == set(), first
        assert before.keys() == after.keys(), first
        assert leaks(inspector) == []
        assert not [*inspector.scan_iter(caller_keys.unfinished_import("local", "*"))]
        assert (await client.http.post(PATH, content=content)).status_code == 409


@pytest.mark.long
async def test_an_import_completes_although_a_reply_is_lost(
    valkey_url: str, client: CountingClient, proxy: CutProxy, inspector: Redis
) -> None:
    content = await make_data(valkey_url)
    inspector.flushdb()
    await client.ok("POST", PATH, content=content)
    before = await read_everything(client)
    for first in (3, 21):
        inspector.flushdb()
        proxy.cut_at(first, once=True)
        reply = await client.http.post(PATH, content=content)
        proxy.heal()
        assert reply.status_code == 201, (first, reply.text)
        assert await read_everything(client) == before
