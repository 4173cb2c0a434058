"""A task queue that cannot start, in `/health`, `callsheet worker` and `callsheet doctor` (X13)."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from redis import Redis

from callsheet.storage.embedded import watchdog
from tests.cli.conftest import RunCommand
from tests.cli.test_doctor import diagnose
from tests.doubles.command import ForkedCommand
from tests.doubles.killing import WarmParent
from tests.doubles.redis_server import RedisServer, one_node_cluster, running_redis
from tests.doubles.waiting import until
from tests.doubles.wire_server import running_server

REFUSED = pytest.mark.parametrize(
    ("rules", "reason"),
    [(("+@all", "-xreadgroup", "allchannels"), "xreadgroup"), (("+@all", "resetchannels"), "channel")],
)
"""Users of Redis that lack what the queue needs."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(watchdog.binary(), tmp_path) as started:
        yield started


def url_of_user(server: RedisServer, *rules: str) -> str:
    """The URL of a user with these rules of Redis's ACL."""
    with Redis(port=server.port) as redis:
        redis.execute_command("ACL", "SETUSER", "app", "on", ">pw", "~*", *rules)
    return f"redis://app:pw@{server.address}"


@REFUSED
def test_health_is_503_with_the_reason(server: RedisServer, rules: tuple[str, ...], reason: str) -> None:
    """Once the user has the missing permission, the server is well again without a restart."""
    with running_server(url_of_user(server, *rules)) as url:

        def status() -> int:
            return httpx.get(f"{url}/health", timeout=20).status_code

        until(lambda: status() == 503, "the queue is reported", patience_s=30)
        health = httpx.get(f"{url}/health", timeout=20).json()
        assert (health["status"], health["degraded"]) == ("degraded", ["queue"])
        assert health["storage"]["ok"], "Redis itself is well"
        assert reason in health["error"]
        assert "docs/operations.md" in health["remedy"]
        url_of_user(server, "+@all", "allchannels")
        until(lambda: status() == 200, "the queue works", patience_s=30)


def test_a_worker_whose_queue_cannot_start_exits_with_an_error_and_a_remedy(
    warm_parent: WarmParent, server: RedisServer, tmp_path: Path
) -> None:
    url = url_of_user(server, "+@all", "-xreadgroup", "allchannels")
    environ = {"REDIS_URL": url, "CALLSHEET_LOG_LEVEL": "error"}
    done = ForkedCommand.of(warm_parent, tmp_path, "worker", **environ).result()
    assert done.code == 1
    lines = done.err.splitlines()[-2:]
    assert [line.partition(":")[0] for line in lines] == ["error", "remedy"], done.err
    assert "xreadgroup" in lines[0]


@REFUSED
def test_doctor_fails_with_the_reason(
    run_command: RunCommand,
    server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    rules: tuple[str, ...],
    reason: str,
) -> None:
    monkeypatch.setenv("REDIS_URL", url_of_user(server, *rules))
    code, parts = diagnose(run_command)
    assert (code, parts["Task queue"]["status"]) == (1, "fail")
    assert reason in parts["Task queue"]["message"]
    assert "docs/operations.md" in parts["Task queue"]["remedy"]


def test_doctor_checks_the_queue_of_a_cluster_with_any_password(
    run_command: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X4: Docket takes the login of a cluster without decoding it from the URL."""
    with one_node_cluster(watchdog.binary(), tmp_path) as node:
        with Redis(port=node.port) as redis:
            redis.execute_command("ACL", "SETUSER", "app", "on", ">p@ss/word%", "~*", "&*", "+@all")
        monkeypatch.setenv("REDIS_URL", f"redis://app:p%40ss%2Fword%25@{node.address}?cluster=true")
        code, parts = diagnose(run_command)
    assert (code, parts["Task queue"]["status"]) == (0, "ok"), parts["Task queue"]


def test_doctor_sends_a_delivery_whose_keys_expire(
    run_command: RunCommand, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for the user of docs/operations.md, who has no command that Redis calls dangerous."""
    monkeypatch.setenv("REDIS_URL", url_of_user(server, "&*", "+@all", "-@admin", "-@dangerous", "+info"))
    code, parts = diagnose(run_command)
    assert (code, parts["Task queue"]["status"]) == (0, "ok")
    with Redis(port=server.port) as redis:
        assert {0 < redis.ttl(key) <= 60 for key in redis.scan_iter()} == {True}
