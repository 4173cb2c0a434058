"""`callsheet serve`: its port, its start message, Ctrl-C, and errors at the start."""

import errno
import logging
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from rich.console import Console

from callsheet.graphs import ad_creation
from callsheet.server.engine.workflows import Workflows
from callsheet.server.http import connections
from callsheet.server.processes import serving
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import CallsheetError, Conflict, Invalid
from callsheet.storage.embedded import folders
from tests.doubles.command import Finished, assert_refused, command_in_process
from tests.doubles.waiting import until


@pytest.fixture
def run_command(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Finished]]:
    # The server configures logging for its process, which is the test's.
    monkeypatch.setattr(logging.root, "handlers", [])
    level, uvicorn_level = logging.root.level, logging.getLogger("uvicorn.error").level
    with command_in_process(valkey_url, tmp_path, monkeypatch, capsys) as command:
        yield command
    logging.root.setLevel(level)
    logging.getLogger("uvicorn.error").setLevel(uvicorn_level)


@pytest.fixture
def port_in_use() -> Iterator[int]:
    """A port that another socket listens on."""
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


def test_serve_prints_its_address_serves_and_stops_on_ctrl_c(run_command: Callable[..., Finished]) -> None:
    """X5: one command, until Ctrl-C."""
    port = free_port()

    def stop() -> None:
        until(lambda: answers(f"http://127.0.0.1:{port}/health"), "an answer", patience_s=40)
        os.kill(os.getpid(), signal.SIGINT)

    stopping = threading.Thread(target=stop)
    stopping.start()
    result = run_command("serve", "--port", str(port))
    stopping.join()
    output = " ".join(result.out.split())
    assert re.match(rf"Callsheet \S.* Open http://127\.0\.0\.1:{port} Docs ", output), output
    assert output.endswith("Stop Ctrl-C Stopped. Everything is kept.")
    assert (result.code, result.err) == (0, "")


@pytest.mark.slow
def test_an_unreachable_redis_is_refused_without_its_password(
    run_command: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://user:secret@127.0.0.1:1")
    result = run_command("serve", "--port", "0")
    assert_refused(result, "redis://***@127.0.0.1:1", "REDIS_URL")
    assert "secret" not in result.err


def test_a_port_in_use_is_named(port_in_use: int) -> None:
    with pytest.raises(Conflict, match=f"port {port_in_use} on 127.0.0.1 is in use") as caught:
        connections.bind_sockets("127.0.0.1", port_in_use)
    command, *options = caught.value.remedy.partition("port: ")[2].split()
    assert shutil.which(command), "the remedy is a command of the present shell"
    assert options == ["serve", "--port", "0"]


@pytest.mark.parametrize(
    ("host", "rule"), [("a..localhost", "is not an address"), ("192.0.2.7", "cannot be listened on")]
)
def test_a_host_that_is_no_address_of_this_machine_is_refused_by_name(host: str, rule: str) -> None:
    with pytest.raises(Invalid, match=f"host '{host}' {rule}"):
        connections.bind_sockets(host, 0)


def test_a_privileged_port_is_refused_by_number() -> None:
    error = connections.bind_error("127.0.0.1", 80, OSError(errno.EACCES, "Permission denied"))
    assert error.message == "port 80 may not be used by this user"


def test_all_addresses_of_a_host_name_get_the_same_port() -> None:
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
def test_the_description_of_storage_hides_the_password(settings: Settings, place: str) -> None:
    assert serving.describe_storage(settings) == place


def test_the_data_folder_of_the_user_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REDIS_URL", "CALLSHEET_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert serving.describe_storage(Settings()) == str(folders.default_data_dir())


def test_a_wrong_redis_address_is_refused_before_the_start() -> None:
    with pytest.raises(CallsheetError, match="must begin with one of"):
        serving.describe_storage(Settings(redis_url="http://db.example"))


def test_the_start_message_has_address_docs_model_data_warnings_and_stop_key(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def greeting(graphs: Mapping[str, Pregel[Any, Any]]) -> str:
        shown = ("1.2.3", "http://[::1]:2024", "/data\x1b[2J", ["It forgets."], Workflows(graphs))
        Console(width=60).print(serving.greeting(*shown))
        return " ".join(capsys.readouterr().out.split())

    address, end = "Callsheet 1.2.3 Open http://[::1]:2024 Docs http://[::1]:2024/docs ", "Stop Ctrl-C"
    ours = greeting({"ad_creation": ad_creation.graph})
    assert ours.startswith(f"{address}Model ")
    assert ours.endswith(f"Data /data[2J Warning It forgets. {end}")
    builder: Any = StateGraph(dict)
    echo = builder.add_node("echo", lambda state: state).add_edge(START, "echo").compile()
    assert greeting({"echo": echo}) == f"{address}Graphs echo Data /data[2J Warning It forgets. {end}"


def test_an_ipv6_address_in_a_url_has_brackets() -> None:
    assert [connections.url_host(host) for host in ("::1", "127.0.0.1", "localhost")] == [
        "[::1]",
        "127.0.0.1",
        "localhost",
    ]
