"""Starts that fail: every command prints a sentence and a remedy, exits with a code, and shows no trace."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.doubles.command import Finished, ForkedCommand, assert_refused
from tests.doubles.killing import WarmParent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
HTTP = b"HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"
COMMANDS = (
    ("serve", "--port", "0"),
    ("worker",),
    ("doctor", "--port", "0"),
    ("run", "ad_creation", "hello"),
    ("threads", "list"),
)
GRAPHS = {
    "raises.py": "raise RuntimeError('no such model')",
    "exits.py": "import sys\nsys.exit(7)",
    "syntax.py": "x = (",
    "nothing.py": "x = 1",
    "factory.py": "def graph(config):\n    raise KeyError('colour')",
    "needs.py": "\nimport no_such_package",
    "empty.py": "from langgraph.graph import StateGraph\ngraph = StateGraph(dict)",
}


def run_forked(warm_parent: WarmParent, folder: Path, *words: str, **env: str) -> Finished:
    return ForkedCommand.of(warm_parent, folder, *words, **env).result()


def assert_failed(done: Finished, *words: str) -> None:
    """A sentence and a remedy for a person; `doctor` has them in its table."""
    assert "Traceback" not in done.err + done.out
    assert "should not have happened" not in done.err
    if "It does not work yet" not in done.out:
        assert_refused(done, *words)
        return
    table = " ".join(done.out.split())
    assert done.code == 1
    for word in words:
        assert word in table, (word, done.out)


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """A port that answers what it reads with `reply`, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        stopped = threading.Event()

        def serve() -> None:
            while not stopped.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(5)
                    if connection.recv(4096):
                        connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            stopped.set()
            thread.join()


@pytest.mark.parametrize(
    ("reply", "command"),
    [(HTTP, command) for command in COMMANDS] + [(TLS_ALERT, COMMANDS[0]), (b"\xff\xfehello", COMMANDS[0])],
)
def test_a_redis_url_of_another_kind_of_server_is_refused(
    warm_parent: WarmParent, tmp_path: Path, reply: bytes, command: tuple[str, ...]
) -> None:
    with answering(reply) as port:
        done = run_forked(warm_parent, tmp_path, *command, REDIS_URL=f"redis://:secret@127.0.0.1:{port}")
    assert_failed(
        done, f"redis://***@127.0.0.1:{port} is no Redis, or expects TLS", "Correct REDIS_URL", "rediss://"
    )
    assert "secret" not in done.err + done.out


@pytest.mark.parametrize("command", COMMANDS[1:3], ids=lambda words: words[0])
def test_a_redis_that_closes_each_connection_is_unreachable(
    warm_parent: WarmParent, tmp_path: Path, command: tuple[str, ...]
) -> None:
    with answering(b"") as port:
        done = run_forked(warm_parent, tmp_path, *command, REDIS_URL=f"redis://127.0.0.1:{port}")
    assert_failed(done, f"redis://127.0.0.1:{port} cannot be reached", "correct REDIS_URL", "rediss://")


@pytest.mark.parametrize("command", COMMANDS[:2], ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("REDIS_URL", "redis://no-such-host.invalid", "no-such-host.invalid"),
        ("REDIS_URL", "redis://127.0.0.1:1", "127.0.0.1:1"),
        ("REDIS_URL", "nonsense", "must begin with one of"),
        ("CALLSHEET_LEASE_S", "99", "CALLSHEET_LEASE_S"),
        ("CALLSHEET_BUDGETS", "[1]", "CALLSHEET_BUDGETS"),
        ("CALLSHEET_LOG_LEVEL", "loud", "CALLSHEET_LOG_LEVEL"),
        ("CALLSHEET_DATA_DIR", "/proc/nothing", "/proc/nothing"),
        ("CALLSHEET_DATA_DIR", __file__, "test_start_failures.py"),
    ],
)
def test_a_wrong_setting_is_refused_by_servers_and_workers(
    warm_parent: WarmParent, tmp_path: Path, command: tuple[str, ...], setting: str, value: str, words: str
) -> None:
    assert_failed(run_forked(warm_parent, tmp_path, *command, **{setting: value}), words)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("CALLSHEET_TOOLS", '{"fetch_data": 5}'),
        ("CALLSHEET_BUDGETS", '{"turn": "a"}'),
        ("CALLSHEET_PRICES", '{"m": 5}'),
        ("CALLSHEET_TOOL_GRANTS", '{"*": 5}'),
        ("OPENAI_TIMEOUT_S", "soon"),
        ("DASHSCOPE_EXTRA_BODY", "[1]"),
        ("CALLSHEET_CAMPAIGNS_URL", "mysql://localhost/campaigns"),
        ("CALLSHEET_MAX_CAMPAIGNS", "many"),
        ("CALLSHEET_EMBEDDINGS_URL", "http://localhost:1"),
        ("CALLSHEET_HOST", "0.0.0.0"),
        ("OTEL_TRACES_EXPORTER", "nothing"),
    ],
)
def test_a_wrong_limit_is_refused_by_a_worker(
    valkey_url: str, warm_parent: WarmParent, tmp_path: Path, setting: str, value: str
) -> None:
    env = {setting: value, "CALLSHEET_WORKER_PORT": "0"}
    assert_failed(run_forked(warm_parent, tmp_path, "worker", REDIS_URL=valkey_url, **env))


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("CALLSHEET_PRICES", '{"openai/m":{"input":10,"output":30}}', "the price of 'openai/m'"),
        ("CALLSHEET_BUDGETS", '{"turn": "a"}', "turn"),
    ],
)
def test_limits_that_cannot_be_read_stop_every_command_before_storage_starts(
    warm_parent: WarmParent, tmp_path: Path, setting: str, value: str, words: str
) -> None:
    data = tmp_path / "data"
    for number, command in enumerate((("usage",), ("pages", "new", "hello"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        options = ("--data-dir", str(data))
        assert_failed(run_forked(warm_parent, folder, *command, *options, **{setting: value}), words)
    assert not (data / "valkey").exists()


BROKEN = [
    ('{"graphs": ', "is not JSON"),
    ('{"graphs": ["agent"]}', "has no 'graphs'"),
    ('{"graphs": {"ad_creation": "./absent.py:graph"}}', "absent.py"),
    ('{"graphs": {"ad_creation": "./nothing.py:x"}, "env": "absent"}', "'absent' for 'env'"),
    ('{"graphs": {"ad_creation": "./nothing.py:graph"}}', "has no 'graph'"),
    ('{"graphs": {"ad_creation": "./nothing.py:x"}}', "is of type int"),
    ('{"graphs": {"ad_creation": "no.such.module:x"}}', "there is no module 'no.such.module'"),
    ('{"graphs": {"ad_creation": "./raises.py:graph"}}', "no such model (/"),
    ('{"graphs": {"ad_creation": "./raises.py:graph"}}', "raises.py, line 1)"),
    ('{"graphs": {"ad_creation": "./needs.py:graph"}}', "install the package of 'no_such_package' for /"),
    ('{"graphs": {"ad_creation": "./exits.py:graph"}}', "SystemExit"),
    ('{"graphs": {"ad_creation": "./syntax.py:graph"}}', "SyntaxError"),
    ('{"graphs": {"ad_creation": "./factory.py:graph"}}', "KeyError"),
    ('{"graphs": {"ad_creation": "./empty.py:graph"}}', "cannot be compiled"),
]


@pytest.mark.parametrize(
    ("command", "content", "words"),
    [(COMMANDS[0], *one) for one in BROKEN] + [(each, *BROKEN[10]) for each in COMMANDS[1:4]],
)
def test_a_broken_langgraph_json_is_refused_with_the_graph_and_the_reason(
    valkey_url: str,
    warm_parent: WarmParent,
    tmp_path: Path,
    command: tuple[str, ...],
    content: str,
    words: str,
) -> None:
    for name, text in GRAPHS.items():
        (tmp_path / name).write_text(text)
    file = tmp_path / "graphs.json"
    file.write_text(content)
    assert_failed(
        run_forked(warm_parent, tmp_path, *command, REDIS_URL=valkey_url, CALLSHEET_CONFIG=str(file)), words
    )


def test_a_graph_that_is_no_text_is_refused(valkey_url: str, warm_parent: WarmParent, tmp_path: Path) -> None:
    file = tmp_path / "graphs.json"
    file.write_text(json.dumps({"graphs": {"agent": 5}}))
    done = run_forked(
        warm_parent, tmp_path, "serve", "--port", "0", REDIS_URL=valkey_url, CALLSHEET_CONFIG=str(file)
    )
    assert_failed(done, "has 5 for graph 'agent'")


def test_a_port_in_use_is_refused(valkey_url: str, warm_parent: WarmParent, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for command, setting in (("serve", "CALLSHEET_PORT"), ("worker", "CALLSHEET_WORKER_PORT")):
            folder = tmp_path / command
            folder.mkdir()
            done = run_forked(warm_parent, folder, command, REDIS_URL=valkey_url, **{setting: port})
            assert_failed(done, f"port {port} on 127.0.0.1 is in use")


def test_debug_shows_the_trace_of_a_failed_start(warm_parent: WarmParent, tmp_path: Path) -> None:
    with answering(HTTP) as port:
        url = f"redis://127.0.0.1:{port}"
        done = run_forked(warm_parent, tmp_path, "serve", "--port", "0", "--debug", REDIS_URL=url)
    assert done.code == 1
    assert "Traceback" in done.err
