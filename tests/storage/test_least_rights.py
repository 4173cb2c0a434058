"""A user of Redis with the rights that docs/operations.md lists, and no more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.state.errors import StorageRefused
from callsheet.storage import connect
from callsheet.storage.redis.address import parse
from tests.doubles.documented import OURS
from tests.doubles.needs import need
from tests.doubles.redis_server import RedisServer, running_redis
from tests.doubles.served import generate_ad, served_app
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_server import running_server

_DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
COUNTER = {"assistant_id": "counter", "input": {"x": 1}}


def documented_rules() -> list[str]:
    """The rules of Redis's ACL in the documentation."""
    [block] = [part for part in _DOCUMENT.read_text().split("```") if "ACL SETUSER callsheet" in part]
    return block.replace("\\\n", " ").partition(">SECRET")[2].split()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(need("redis-server"), tmp_path) as started:
        yield started


def url_of_user(server: RedisServer, *rules: str) -> str:
    """The URL of a user with these rules."""
    with Redis(port=server.port) as redis:
        redis.execute_command("ACL", "SETUSER", "app", "reset", "on", ">pw", *rules)
    return f"redis://app:pw@{server.address}"


def refusals(server: RedisServer) -> set[str]:
    """The refusals in the log of Redis."""
    with Redis(port=server.port, decode_responses=True) as redis:
        entries: Any = redis.execute_command("ACL", "LOG")
    return {str(entry["object"] if isinstance(entry, dict) else entry) for entry in entries}


@pytest.mark.slow
async def test_a_server_works_with_the_documented_rights_alone(server: RedisServer) -> None:
    """X4: ads, runs, streams, schedules, the store, deletion; nothing that Redis would refuse is tried."""
    redis_url = url_of_user(server, *documented_rules())
    with running_server(redis_url, {**GRAPHS, **OURS.graphs}) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            await generate_ad(http)
            thread = (await http.post("/threads", json={})).json()["thread_id"]
            for path in (f"/threads/{thread}/runs/wait", f"/threads/{thread}/runs/stream", "/runs/wait"):
                assert (await http.post(path, json=COUNTER)).status_code == 200
            cron = {"assistant_id": "counter", "schedule": "0 0 1 1 *"}
            item = {"namespace": ["a"], "key": "k", "value": {"a": 1}}
            for method, path, body in (
                ("POST", "/runs/crons", cron),
                ("POST", "/threads/search", {}),
                ("PUT", "/store/items", item),
                ("POST", "/store/items/search", {"namespace_prefix": ["a"]}),
                ("GET", f"/threads/{thread}/history", None),
                ("GET", "/api/tools", None),
                ("GET", "/api/ads", None),
                ("POST", f"/threads/{thread}/copy", {}),
                ("DELETE", f"/threads/{thread}", None),
                ("DELETE", "/threads/ad-1", None),
            ):
                reply = await http.request(method, path, json=body)
                assert reply.is_success, (path, reply.text)
            health = (await http.get("/health")).json()
    assert health["status"] == "ok", health
    assert "may not run INFO" in health["warnings"][0]
    assert refusals(server) == {"info"}


async def test_info_is_optional_and_a_missing_right_is_named(server: RedisServer) -> None:
    async with connect(url_of_user(server, "~*", "&*", "+@all", "-info")) as opened:
        assert await opened.redis.ping()
    async with connect(url_of_user(server, "~*", "&*", "+@all", "-hset")) as opened:
        with pytest.raises(StorageRefused, match="hset") as refused:
            await opened.redis.hset("a", "b", "c")
        assert "+hset" in refused.value.remedy
    async with connect(url_of_user(server, "~a*", "&*", "+@all")) as opened:
        with pytest.raises(StorageRefused) as refused:
            await opened.redis.get("b")
        assert "~*" in refused.value.remedy
    async with connect(url_of_user(server, "~*", "&*", "+@all", "-time")) as opened:
        with pytest.raises(StorageRefused) as refused:
            await opened.redis.eval("return redis.call('TIME')", 0)
        assert "ACL SETUSER" in refused.value.remedy


async def test_health_says_that_memory_is_not_watched_without_info(server: RedisServer) -> None:
    async with served_app(url_of_user(server, "~*", "&*", "+@all", "-info")) as http:
        health = (await http.get("/health")).json()
    assert health["status"] == "ok"
    assert "may not run INFO" in health["warnings"][0]


async def test_options_of_redis_py_pass_in_the_url(server: RedisServer) -> None:
    options = "socket_timeout=5&socket_connect_timeout=2.5&health_check_interval=10&client_name=mine"
    url = f"{server.url}/0?{options}&socket_keepalive=true"
    async with connect(url) as opened:
        assert await opened.redis.client_getname() in {b"mine", "mine"}
        assert opened.redis.connection_pool.connection_kwargs["socket_timeout"] == 5
    assert "socket_timeout" not in parse(url).docket_url({"max_connections": 3})
