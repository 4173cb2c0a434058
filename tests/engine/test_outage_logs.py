"""Logs of a server whose Redis takes no writes: the cause at the start, and not again each second."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from callsheet.storage.embedded import watchdog
from tests.doubles.command import ForkedCommand
from tests.doubles.killing import WarmParent
from tests.doubles.redis_server import running_redis
from tests.doubles.waiting import until

pytestmark = pytest.mark.slow


@contextmanager
def serving(warm_parent: WarmParent, folder: Path, redis_url: str) -> Iterator[str]:
    """A server on this Redis; its greeting, and its log in the file `err`."""
    folder.mkdir()
    (folder / "out").touch()
    process = ForkedCommand.of(warm_parent, folder, "serve", "--port", "0", REDIS_URL=redis_url)
    try:
        until(lambda: "Ctrl-C" in (folder / "out").read_text(), "the greeting", patience_s=30)
        yield " ".join((folder / "out").read_text().split())
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def log_lines(folder: Path, logger: str) -> list[dict[str, str]]:
    lines = [json.loads(line) for line in (folder / "err").read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["logger"].startswith(logger)]


def test_a_start_on_a_replica_says_so_and_its_retries_do_not_fill_the_log(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    with running_redis(watchdog.binary(), tmp_path, "--appendonly", "yes") as redis:
        with serving(warm_parent, tmp_path / "first", redis.url) as greeting:
            assert "Warning" not in greeting
        with Redis.from_url(redis.url) as control:
            control.replicaof("127.0.0.1", "1")
        folder = tmp_path / "second"
        with serving(warm_parent, folder, redis.url) as greeting:
            assert "is a replica and takes no writes. Point REDIS_URL to the primary." in greeting
            until(
                lambda: any("task queue" in line["event"] for line in log_lines(folder, "callsheet")),
                "the line about the task queue",
                patience_s=40,
            )
            [retrying] = log_lines(folder, "docket.worker")
            assert "read only replica" in retrying["event"]
            assert "exception" not in retrying
