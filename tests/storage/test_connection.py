"""The connection: choice of server, errors, and loss of the server."""

import asyncio
import os
import signal
import subprocess
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from callsheet.state.errors import Broken, Invalid, StorageDown, StorageFull, TimedOut
from callsheet.storage import Storage, connect, open_storage
from callsheet.storage.embedded import server as embedded
from callsheet.storage.embedded import watchdog
from callsheet.storage.redis.connection import ClusterClient
from callsheet.storage.redis.scripts import Script
from callsheet.storage.runs.events import Announcements
from tests.doubles.needs import need
from tests.doubles.redis_server import (
    RedisServer,
    bulk_reply,
    cluster_options,
    free_port,
    one_node_cluster,
    running_redis,
    scripted_redis,
)
from tests.doubles.waiting import until
from tests.storage.embedded_server import data_directory, has_exited, server_processes


@pytest.fixture
def data_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The default data directory of this test; no Redis is named by the environment."""
    with data_directory() as folder:
        monkeypatch.setenv("CALLSHEET_DATA_DIR", str(folder))
        monkeypatch.delenv("REDIS_URL", raising=False)
        yield folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(watchdog.binary(), tmp_path) as running:
        yield running


async def test_without_a_url_the_embedded_server_is_used(data_dir: Path) -> None:
    async with connect() as storage:
        assert storage.origin == f"the embedded Valkey in {str(data_dir / 'valkey')!r}"
        assert await storage.redis.set("a", "สวัสดี")
        assert await storage.redis.get("a") == "สวัสดี".encode()
        assert embedded.is_running(data_dir)


async def test_an_argument_beats_the_environment_and_the_environment_beats_the_default(
    data_dir: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", f"{server.url}/3")
    async with connect() as storage:
        assert storage.origin == f"REDIS_URL {server.url}/3"
        assert storage.redis.connection_pool.connection_kwargs["db"] == 3
    async with connect(f"{server.url}/4") as storage:
        assert storage.origin == f"{server.url}/4"
        assert storage.redis.connection_pool.connection_kwargs["db"] == 4
    async with connect(data_dir=data_dir) as storage:
        assert "embedded" in storage.origin


async def test_an_empty_redis_url_means_the_embedded_server(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "")
    async with connect() as storage:
        assert "embedded" in storage.origin


async def test_a_data_directory_that_is_a_file_is_refused(data_dir: Path) -> None:
    (data_dir / "file").touch()
    with pytest.raises(Invalid, match="is not a directory"):
        await open_storage(data_dir=data_dir / "file")


async def test_a_plain_redis_without_modules_can_be_used(tmp_path: Path) -> None:
    """X4: plain Redis, no modules."""
    with running_redis(need("redis-server"), tmp_path) as server:
        async with connect(server.url) as storage:
            assert await Script("return redis.call('INCR', KEYS[1])")(storage.redis, ["n"]) == 1


@pytest.fixture
def tls_options(tmp_path: Path) -> list[str]:
    """Options of a server with TLS and the certificate in `cert`."""
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key", "-out", "cert"]
    make = [str(need("openssl")), "req", "-x509", *key, *subject]
    subprocess.run(make, cwd=tmp_path, check=True, capture_output=True)
    files = ["--tls-cert-file", "cert", "--tls-key-file", "key", "--tls-ca-cert-file", "cert"]
    return [*files, "--tls-auth-clients", "no", "--tls-port", str(free_port())]


@pytest.mark.slow
async def test_tls_connects_only_to_a_server_with_a_trusted_certificate(
    tmp_path: Path, tls_options: list[str]
) -> None:
    with running_redis(need("redis-server"), tmp_path, *tls_options):
        url = f"rediss://127.0.0.1:{tls_options[-1]}"
        async with connect(f"{url}?ssl_ca_certs={tmp_path / 'cert'}") as storage:
            assert await storage.redis.ping()
        async with asyncio.timeout(5):
            with pytest.raises(StorageDown, match="certificate verify failed"):
                await open_storage(url)


@pytest.mark.slow
async def test_announcements_are_made_over_tls_on_a_cluster(tmp_path: Path, tls_options: list[str]) -> None:
    options = [*cluster_options(), *tls_options, "--tls-cluster", "yes"]
    with running_redis(need("redis-server"), tmp_path, *options) as server, Redis(port=server.port) as node:
        node.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
        until(lambda: node.cluster("info")["cluster_state"] == "ok", "a complete cluster")
        url = f"rediss+cluster://127.0.0.1:{tls_options[-1]}?ssl_ca_certs={tmp_path / 'cert'}"
        async with connect(url) as storage:
            announcements = Announcements(storage)
            await announcements.open()
            listening = asyncio.create_task(announcements.listen())
            async with announcements.subscribe("t") as signal:
                await asyncio.wait_for(signal.wait(), 20)
            listening.cancel()
            await announcements.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["redis+cluster://{}", "redis://{}?cluster=true"])
async def test_a_cluster_runs_scripts_pipelines_and_many_commands_at_once(tmp_path: Path, form: str) -> None:
    add = Script("redis.call('INCR', KEYS[1]) return redis.call('INCRBY', KEYS[2], ARGV[1])")
    with one_node_cluster(watchdog.binary(), tmp_path) as server:
        async with connect(form.format(server.address)) as storage:
            assert isinstance(storage.redis, ClusterClient)
            answers = await asyncio.gather(
                *(add(storage.redis, [f"a:{{{n}}}", f"b:{{{n}}}"], [n]) for n in range(300))
            )
            assert answers == list(range(300))
            async with storage.redis.pipeline() as pipeline:
                pipeline.get("b:{7}")
                pipeline.get("b:{8}")
                assert await pipeline.execute() == [b"7", b"8"]


@pytest.mark.slow
async def test_a_cluster_url_for_a_single_server_is_refused_and_vice_versa(
    tmp_path: Path, server: RedisServer
) -> None:
    with one_node_cluster(watchdog.binary(), tmp_path) as node:
        with pytest.raises(Invalid, match="is a cluster") as refused:
            await open_storage(node.url)
        assert "redis+cluster://" in refused.value.remedy
    with pytest.raises(Invalid, match="Cluster mode is not enabled"):
        await open_storage(f"redis+cluster://{server.address}")


@pytest.mark.slow
async def test_an_unreachable_server_is_named_without_its_password() -> None:
    with pytest.raises(
        StorageDown, match=r"redis://\*\*\*@127\.0\.0\.1:1/0 cannot be used: Error 111 connecting"
    ) as down:
        await open_storage("redis://me:hunter2@127.0.0.1:1/0")
    assert "REDIS_URL" in down.value.remedy
    assert "hunter2" not in "".join(traceback.format_exception(down.value, limit=0))


async def test_an_unreachable_cluster_is_reported() -> None:
    with pytest.raises(StorageDown, match=r"redis\+cluster://127\.0\.0\.1:1 cannot be used"):
        await open_storage("redis+cluster://127.0.0.1:1")


@pytest.mark.parametrize("user", [":wrong", "nobody:wrong", ""])
@pytest.mark.parametrize("form", ["redis", "redis+cluster"])
async def test_a_wrong_or_missing_password_is_refused_at_once(tmp_path: Path, user: str, form: str) -> None:
    options = cluster_options() if "cluster" in form else []
    with running_redis(watchdog.binary(), tmp_path, "--requirepass", "right", *options) as server:
        async with asyncio.timeout(5):
            with pytest.raises(Invalid, match="refuses the connection") as refused:
                await open_storage(f"{form}://{user}@{server.address}".replace("//@", "//"))
    assert "wrong" not in refused.value.message.replace("wrong number", "")
    assert "Write the password into REDIS_URL" in refused.value.remedy


@pytest.mark.parametrize(
    ("version", "fits"), [("2.8.24", False), ("6.0.16", False), ("6.2.0", True), ("10.0.1", True)]
)
async def test_a_redis_older_than_6_2_is_refused(version: str, *, fits: bool) -> None:
    facts = bulk_reply(f"# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n")
    async with scripted_redis({b"INFO": facts}) as url:
        if fits:
            async with connect(url):
                return
        with pytest.raises(
            Invalid, match=f"is Redis {version}, and the oldest supported version is 6.2"
        ) as refused:
            await open_storage(url)
    assert "Upgrade" in refused.value.remedy


async def test_a_database_number_out_of_range_is_refused(server: RedisServer) -> None:
    with pytest.raises(Invalid, match="DB index is out of range"):
        await open_storage(f"{server.url}/99")


async def test_a_server_that_does_not_answer_is_unreachable() -> None:
    async with scripted_redis({b"PING": b""}, otherwise=b"") as url:
        with pytest.raises(StorageDown, match="it does not answer"):
            await open_storage(url, timeout_s=0.1)


async def test_a_command_without_an_answer_in_time_is_a_timeout_and_later_ones_succeed(
    server: RedisServer,
) -> None:
    async with connect(server.url, timeout_s=0.2) as storage:
        with pytest.raises(TimedOut, match=r"gave no answer within 0\.2 s"):
            await storage.redis.blpop(["never"], timeout=5)
        assert await storage.redis.ping()


async def test_many_commands_at_once_share_few_connections(server: RedisServer) -> None:
    async with connect(f"{server.url}?max_connections=4") as storage:
        await asyncio.gather(*(storage.redis.incr("n") for _ in range(500)))
        assert await storage.redis.get("n") == b"500"
        assert len(await storage.redis.client_list()) <= 4


async def test_many_pipelines_at_once_share_few_connections(server: RedisServer) -> None:
    async def increment_twice(storage: Storage) -> None:
        async with storage.redis.pipeline(transaction=False) as pipeline:
            pipeline.incr("n")
            pipeline.incr("n")
            await pipeline.execute()

    async with connect(f"{server.url}?max_connections=4") as storage:
        await asyncio.gather(*(increment_twice(storage) for _ in range(200)))
        assert await storage.redis.get("n") == b"400"
        assert len(await storage.redis.client_list()) <= 4


@pytest.mark.fault
async def test_a_command_survives_the_restart_of_its_server(tmp_path: Path, server: RedisServer) -> None:
    async with connect(server.url) as storage:
        await storage.redis.ping()
        server.kill()
        waiting = asyncio.create_task(storage.redis.set("a", 1))
        await asyncio.to_thread(server.start)
        assert await waiting


@pytest.mark.fault
async def test_commands_and_pipelines_start_a_killed_embedded_server_again(data_dir: Path) -> None:
    async with connect() as storage, connect() as other:
        for number in range(3):
            pid = int((await storage.redis.info("server"))["process_id"])
            assert await storage.redis.set(f"kept:{number}", number)
            os.kill(pid, signal.SIGKILL)
            async with other.redis.pipeline() as pipeline:
                pipeline.incr("n")
                answers, kept = await asyncio.gather(pipeline.execute(), storage.redis.get(f"kept:{number}"))
            assert answers == [number + 1]
            assert kept == b"%d" % number
            assert has_exited(pid)


@pytest.mark.fault
async def test_a_server_that_cannot_start_again_is_reported_with_its_log(data_dir: Path) -> None:
    async with connect() as storage:
        pid = int((await storage.redis.info("server"))["process_id"])
        await storage.redis.set("a", 1)
        (log,) = (data_dir / "valkey" / "appendonlydir").glob("*.incr.aof")
        os.kill(pid, signal.SIGKILL)
        until(lambda: not embedded.is_running(data_dir), "the end of the killed server")
        log.write_bytes(b"no command\r\n" + log.read_bytes())
        with pytest.raises(Broken, match="Bad file format"):
            await storage.redis.get("a")


async def test_a_full_memory_is_reported_with_a_remedy(server: RedisServer) -> None:
    async with connect(server.url) as storage:
        await storage.redis.config_set("maxmemory", 1)
        with pytest.raises(StorageDown, match="is out of memory") as down:
            await storage.redis.set("a", "x")
        assert "maxmemory" in down.value.remedy


@pytest.mark.parametrize(
    ("reply", "error", "sentence"),
    [
        (
            b"-MISCONF Errors writing to the AOF file: No space left on device\r\n",
            StorageDown,
            "cannot write to its disk",
        ),
        (b"-READONLY You can't write against a read only replica.\r\n", StorageDown, "cannot be used"),
        (b"-NOREPLICAS Not enough good replicas to write.\r\n", StorageDown, "cannot be used"),
        (b"-BUSY Redis is busy running a script.\r\n", StorageDown, "cannot be used"),
        (
            b"-ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed\r\n",
            StorageFull,
            "out of memory",
        ),
        (b"-NOPERM User x has no permissions to run the 'get' command\r\n", StorageDown, "no permissions"),
        (b"-NOPERM User x has no permissions to run the 'get' command\r\n", Invalid, "no permissions"),
    ],
)
async def test_a_failure_of_the_server_becomes_one_of_our_errors(
    reply: bytes, error: type[Exception], sentence: str
) -> None:
    async with (
        scripted_redis({b"INFO": bulk_reply("redis_version:8.0.0\r\n"), b"GET": reply}) as url,
        connect(url) as storage,
    ):
        with pytest.raises(error, match=sentence):
            await storage.redis.get("a")


async def test_a_mistake_in_a_command_stays_a_response_error(storage: Storage) -> None:
    with pytest.raises(ResponseError, match="wrong number of arguments"):
        await storage.redis.execute_command("GET")


async def test_a_storage_shows_no_password(tmp_path: Path) -> None:
    with running_redis(watchdog.binary(), tmp_path, "--requirepass", "hunter2") as server:
        url = f"redis://:hunter2@{server.address}"
        async with connect(url) as storage:
            assert "hunter2" not in repr(storage) + repr(storage.redis) + storage.origin
            assert storage.url == url


async def test_closing_twice_is_safe_and_releases_the_lease(data_dir: Path) -> None:
    storage = await open_storage()
    assert server_processes(data_dir)
    await storage.aclose()
    await storage.aclose()
    until(lambda: not server_processes(data_dir), "the end of the server")
