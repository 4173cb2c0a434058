"""The server in the foreground: its port, its greeting, its end, and what keeps it from starting."""

import errno
import logging
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from callsheet.server.http import connections
from callsheet.server.processes import serving
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import CallsheetError, Conflict, Invalid
from callsheet.storage.embedded import folders
from tests.doubles.command import Finished, assert_refused, command_in_process
from tests.doubles.waiting import until


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Finished]]:
    # The server sets logging up for its process; here that process is ours.
    monkeypatch.setattr(logging.root, "handlers", [])
    level, chatty = logging.root.level, logging.getLogger("uvicorn.error").level
    yield command_in_process(valkey_url, tmp_path, monkeypatch, capsys)
    logging.root.setLevel(level)
    logging.getLogger("uvicorn.error").setLevel(chatty)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=10).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def test_the_server_greets_serves_and_stops_on_ctrl_c(here: Callable[..., Finished]) -> None:
    """X5: one command, until Ctrl-C."""
    port = free_port()

    def stop() -> None:
        until(lambda: answers(f"http://127.0.0.1:{port}/health"), "an answer", patience_s=40)
        os.kill(os.getpid(), signal.SIGINT)

    stopping = threading.Thread(target=stop)
    stopping.start()
    done = here("serve", "--port", str(port))
    stopping.join()
    said = " ".join(done.out.split())
    assert re.match(rf"Callsheet \S.* Open http://127\.0\.0\.1:{port} Docs ", said), said
    assert said.endswith("Stop Ctrl-C Stopped. Everything is kept.")
    assert (done.code, done.err) == (0, "")


@pytest.mark.slow
def test_what_keeps_the_server_from_starting_is_told_without_a_trace(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://user:secret@127.0.0.1:1")
    done = here("serve", "--port", "0")
    assert_refused(done, "redis://***@127.0.0.1:1", "REDIS_URL")
    assert "secret" not in done.err


def test_a_taken_port_is_named(taken: int) -> None:
    with pytest.raises(Conflict, match=f"port {taken} on 127.0.0.1 is in use") as refusal:
        connections.bind_sockets("127.0.0.1", taken)
    command, *options = refusal.value.remedy.partition("port: ")[2].split()
    assert shutil.which(command), "the remedy is a command of the present shell"
    assert options == ["serve", "--port", "0"]


@pytest.mark.parametrize(
    ("host", "rule"), [("a..localhost", "is not an address"), ("192.0.2.7", "cannot be listened on")]
)
def test_a_host_that_is_not_this_machine_is_named(host: str, rule: str) -> None:
    with pytest.raises(Invalid, match=f"host '{host}' {rule}"):
        connections.bind_sockets(host, 0)


def test_a_port_this_user_may_not_have_is_named() -> None:
    refusal = connections.bind_error("127.0.0.1", 80, OSError(errno.EACCES, "Permission denied"))
    assert refusal.message == "port 80 may not be used by this user"


def test_every_address_of_a_name_gets_the_same_port() -> None:
    listeners = connections.bind_sockets("localhost", 0)
    try:
        ports = {listener.getsockname()[1] for listener in listeners}
        assert len(ports) == 1
        for listener in listeners:
            with socket.create_connection(listener.getsockname()[:2], timeout=5):
                pass
    finally:
        for listener in listeners:
            listener.close()


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (Settings(redis_url="rediss://me:secret@db.example:7000/1"), "rediss://***@db.example:7000/1"),
        (Settings(data_dir=Path("/data/ads")), "/data/ads"),
    ],
)
def test_the_place_of_the_data_is_told_without_a_password(settings: Settings, place: str) -> None:
    assert serving.describe_storage(settings) == place


def test_the_place_of_the_data_is_the_users_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDIS_URL", "CALLSHEET_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert serving.describe_storage(Settings()) == str(folders.default_data_dir())


def test_a_wrong_redis_address_is_refused_before_the_start() -> None:
    with pytest.raises(CallsheetError, match="must begin with one of"):
        serving.describe_storage(Settings(redis_url="http://db.example"))


def test_the_greeting_names_address_documentation_model_place_warnings_and_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Console(width=60).print(serving.greeting("1.2.3", "http://[::1]:2024", "/data\x1b[2J", ["It forgets."]))
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Callsheet 1.2.3 Open http://[::1]:2024 Docs http://[::1]:2024/docs Model ")
    assert said.endswith("Data /data[2J Warning It forgets. Stop Ctrl-C")


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert [connections.url_host(host) for host in ("::1", "127.0.0.1", "localhost")] == [
        "[::1]",
        "127.0.0.1",
        "localhost",
    ]
