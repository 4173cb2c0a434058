"""`callsheet doctor`: every part looked at, each trouble with its remedy, no key shown."""

import contextlib
import http.server
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from callsheet.server.operations import doctor
from callsheet.server.operations.doctor import Finding
from callsheet.storage.embedded import watchdog
from tests.doubles.command import Finished, command_in_process
from tests.doubles.redis_server import RedisServer, free_port
from tests.doubles.redis_server import running_redis as redis_running

Command = Callable[..., Finished]


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    return command_in_process(valkey_url, tmp_path, monkeypatch, capsys)


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_running(watchdog.binary(), tmp_path) as one:
        yield one


def examined(here: Command, *args: str, port: int | None = None) -> tuple[int, dict[str, Any]]:
    done = here("doctor", "--json", "--port", str(port or free_port()), *args)
    return done.code, {one["part"]: one for one in json.loads(done.out)}


def test_where_all_is_well_it_says_so_and_exits_with_0(here: Command) -> None:
    done = here("doctor", "--port", str(free_port()))
    assert done.code == 0, done
    assert "✘" not in done.out
    for part in ("Python", "Packages", "Access", "Storage", "Persistence", "Memory", "Clock", "Port"):
        assert part in done.out
    assert "langgraph" in done.out
    assert "Valkey" in done.out


def test_no_key_is_shown_and_who_answers_is(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = examined(here)
    assert (code, found["Model"]["status"]) == (0, "warn")
    assert found["Model"]["message"].startswith("offline")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    code, found = examined(here)
    assert (code, found["Model"]["status"], found["Key of openai"]["message"]) == (
        0,
        "ok",
        "OPENAI_API_KEY is set",
    )
    assert "very-secret" not in str(found) + here("doctor", "--port", str(free_port())).out


@pytest.mark.slow
def test_a_redis_that_is_not_there_fails_with_its_remedy(
    here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:hunter2@127.0.0.1:1")
    code, found = examined(here)
    assert (code, found["Storage"]["status"]) == (1, "fail")
    assert "127.0.0.1:1" in found["Storage"]["message"]
    assert "REDIS_URL" in found["Storage"]["remedy"]
    assert "hunter2" not in str(found)
    assert found["Port"]["status"] == "ok"


def test_a_redis_that_forgets_is_named(
    here: Command, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    code, found = examined(here)
    assert (code, found["Persistence"]["status"]) == (0, "warn")
    assert "appendonly" in found["Persistence"]["remedy"]
    with Redis.from_url(redis_server.url) as redis:
        redis.config_set("maxmemory-policy", "allkeys-lru")
        assert examined(here)[1]["Memory"]["status"] == "warn"
        redis.config_set("maxmemory", "100mb")
    code, found = examined(here)
    assert (code, found["Memory"]["status"]) == (1, "fail")
    assert "noeviction" in found["Memory"]["remedy"]


def test_a_replica_fails(here: Command, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Redis.from_url(redis_server.url) as redis:
        redis.replicaof("127.0.0.1", "1")
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    done = here("doctor", "--port", str(free_port()))
    assert done.code == 1
    assert "replica" in done.out


@pytest.mark.slow
def test_a_port_that_another_program_has_fails(here: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, found = examined(here, port=taken.getsockname()[1])
    assert (code, found["Port"]["status"]) == (1, "fail")
    assert "in use" in found["Port"]["message"]


@contextlib.contextmanager
def answering(body: bytes) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_port_on_which_we_answer_is_well(here: Command) -> None:
    with answering(b'{"ok":true}') as port:
        code, found = examined(here, port=port)
    assert (code, found["Port"]["status"]) == (0, "ok")
    assert "is answering" in found["Port"]["message"]
    with answering(b"<html>") as port:
        assert examined(here, port=port)[1]["Port"]["status"] == "fail"


def test_an_open_address_without_authentication_fails(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = examined(here, "--host", "0.0.0.0")
    assert (code, found["Access"]["status"]) == (1, "fail")
    monkeypatch.setenv("CALLSHEET_AUTH", "keys")
    assert examined(here, "--host", "0.0.0.0")[1]["Access"]["status"] == "ok"
    monkeypatch.setenv("CALLSHEET_AUTH", "jwt")
    assert examined(here)[1]["Access"]["status"] == "fail"


def test_a_file_of_graphs_that_is_none_fails(
    here: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "langgraph.json").write_text("{")
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "langgraph.json"))
    code, found = examined(here)
    assert (code, found["Graphs"]["status"]) == (1, "fail")


def test_a_project_protected_by_langgraphs_auth_fails(
    here: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = {"graphs": {"mine": "mine:graph"}, "auth": {"path": "./auth.py:auth"}}
    (tmp_path / "langgraph.json").write_text(json.dumps(content))
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "langgraph.json"))
    code, found = examined(here)
    assert (code, found["Graphs"]["status"]) == (1, "fail")
    assert "has 'auth'" in found["Graphs"]["message"]


def test_traces_that_cannot_be_sent_fail(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traces" not in examined(here)[1]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    assert examined(here)[1]["Traces"]["status"] == "ok"
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    code, found = examined(here)
    assert (code, found["Traces"]["status"]) == (1, "fail")


def test_a_folder_that_cannot_be_used_fails(here: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    code, found = examined(here, "--data-dir", str(tmp_path / "file"))
    assert (code, found["Data folder"]["status"]) == (1, "fail")
    assert "CALLSHEET_DATA_DIR" in found["Data folder"]["remedy"]


def test_the_embedded_server_is_looked_at_too(here: Command, tmp_path: Path) -> None:
    code, found = examined(here, "--data-dir", str(tmp_path / "data"))
    assert (code, found["Data folder"]["status"], found["Persistence"]["status"]) == (0, "ok", "ok")
    assert "GiB free" in found["Data folder"]["message"]


def test_a_wrong_setting_is_told_before_anything_else(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_PORT", "http")
    done = here("doctor")
    assert (done.code, done.out) == (1, "")
    assert "CALLSHEET_PORT" in done.err


def test_a_misspelt_setting_is_told(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_LOG_LEVL", "debug")
    code, found = examined(here)
    assert (code, found["Settings"]["status"]) == (0, "warn")
    assert "is it CALLSHEET_LOG_LEVEL?" in found["Settings"]["message"]


def test_a_wrong_setting_of_a_model_is_found_before_it_is_asked(
    here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_TIMEOUT_S", "soon")
    code, found = examined(here)
    assert (code, found["Model"]["status"]) == (1, "fail")
    assert found["Model"]["message"].startswith("OPENAI_TIMEOUT_S is 'soon'")


def test_terms_of_tools_that_there_are_not_are_found_before_the_server_starts(
    here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"*": {"bogus": 5}}')
    code, found = examined(here)
    assert (code, found["Tools"]["status"]) == (1, "fail")
    assert "'bogus'" in found["Tools"]["message"]
    assert "CALLSHEET_TOOLS" in found["Tools"]["remedy"]
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"*": {"tries": 1}, "fetch_data": {"calls": 3}}')
    assert examined(here)[1]["Tools"]["status"] == "ok"
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"fetch_dat": {"calls": 3}}')
    code, found = examined(here)
    assert (code, found["Tools"]["status"]) == (0, "warn")
    assert "'fetch_dat'" in found["Tools"]["message"]


def test_the_worst_finding_counts() -> None:
    one, two, three = Finding("x", "ok", ""), Finding("x", "warn", ""), Finding("x", "fail", "")
    assert doctor.worst_status([two, one]) == "warn"
    assert doctor.worst_status([one, three, two]) == "fail"
    assert doctor.worst_status([]) == "ok"


def test_the_remedies_for_a_data_folder_that_is_not_ours_keep_its_data(here: Command, tmp_path: Path) -> None:
    """X13: who follows them loses nothing; a link may lead to the data."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "valkey").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "valkey").touch()
    remedies = {
        "link": f"Move the directory {str(tmp_path / 'elsewhere')!r}",
        "file": "Move the file away",
    }
    if os.geteuid() == 0:
        home = tmp_path / "user" / "valkey"
        home.mkdir(mode=0o700, parents=True)
        os.chown(home, 4321, 4321)
        remedies["user"] = f"Run as user 4321, or take the folder and its data over: chown -R 0 {str(home)!r}"
    for place, remedy in remedies.items():
        code, found = examined(here, "--data-dir", str(tmp_path / place))
        assert (code, found["Data folder"]["status"]) == (1, "fail")
        assert remedy in found["Data folder"]["remedy"]
        assert "Remove" not in found["Data folder"]["remedy"]
