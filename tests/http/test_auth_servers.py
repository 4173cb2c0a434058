"""X4: API keys and rate limits on a Redis Cluster and on a Redis without modules."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from callsheet.server.http import api_keys
from callsheet.state.errors import Unauthenticated
from callsheet.storage import api_keys as stored_keys
from callsheet.storage import connect, rate_limits
from callsheet.storage.embedded import watchdog
from tests.doubles.auth_cases import create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.needs import need
from tests.doubles.redis_server import one_node_cluster, running_redis


@pytest.fixture(params=[pytest.param("cluster", marks=pytest.mark.slow), "redis-server"])
def redis_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "cluster":
        with one_node_cluster(watchdog.binary(), tmp_path) as server:
            yield server.url.replace("redis://", "redis+cluster://")
    else:
        with running_redis(need("redis-server"), tmp_path) as server:
            yield server.url


async def test_api_keys_and_rate_limits_work_on_a_cluster_and_a_plain_redis(redis_url: str) -> None:
    async with connect(redis_url) as storage:
        created = [await create_key(storage, owner, lifetime_s=600) for owner in ("alice", "bob")]
        assert (await api_keys.authenticate_key(storage, created[0])).owner == "alice"
        assert {each.owner for each in await stored_keys.list_keys(storage)} == {"alice", "bob"}
        await stored_keys.revoke(storage, created[0].split("_")[1])
        with pytest.raises(Unauthenticated):
            await api_keys.authenticate_key(storage, created[0])
        counts = [await rate_limits.count_request(storage, "alice", f"r{i}", 2) for i in range(3)]
        assert [each.allowed for each in counts] == [True, True, False]
        opened = [await rate_limits.open_stream(storage, "alice", f"s{i}", 2, 30) for i in range(3)]
        assert opened == [True, True, False]
        await rate_limits.renew_streams(storage, "alice", ["s0", "s1"], 30)
        await rate_limits.close_stream(storage, "alice", "s0")
        assert await rate_limits.open_stream(storage, "alice", "s2", 2, 30)
