"""`callsheet doctor`: it checks every part, names remedies, and shows no keys."""

import asyncio
import contextlib
import http.server
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from callsheet.server.operations import doctor
from callsheet.server.operations.doctor import Finding
from callsheet.storage.embedded import watchdog
from callsheet.storage.redis.connection import open_storage
from tests.cli.conftest import RunCommand
from tests.doubles.command import assert_refused
from tests.doubles.redis_server import RedisServer, free_port
from tests.doubles.redis_server import running_redis as redis_running


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_running(watchdog.binary(), tmp_path) as server:
        yield server


def diagnose(run_command: RunCommand, *args: str, port: int | None = None) -> tuple[int, dict[str, Any]]:
    result = run_command("doctor", "--json", "--port", str(port or free_port()), *args)
    return result.code, {finding["part"]: finding for finding in json.loads(result.out)}


def test_without_problems_doctor_exits_with_0(run_command: RunCommand) -> None:
    result = run_command("doctor", "--port", str(free_port()))
    assert result.code == 0, result
    assert "✘" not in result.out
    for part in ("Python", "Packages", "Access", "Storage", "Persistence", "Memory", "Clock", "Port"):
        assert part in result.out
    assert "langgraph" in result.out
    assert "Valkey" in result.out
    assert "all of each part of an artefact are kept" in result.out


def test_the_removal_of_old_versions_is_named_by_owner(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_KEPT_VERSIONS", '{"*": 50, "ana": 0}')
    _, findings = diagnose(run_command)
    assert findings["Old versions"]["message"] == (
        "the newest 50 of each part of an artefact; all of “ana” are kept; older ones that nothing needs are "
        "removed for good: docs/operations.md, “Old versions”"
    )


@contextlib.contextmanager
def slow_embedded_server(data_dir: Path) -> Iterator[None]:
    """The embedded server, which answers each command after a third of a second."""
    opened = asyncio.run(open_storage(None, data_dir))
    assert opened.lease
    stopped = threading.Event()

    def pause(path: Path) -> None:
        with Redis(unix_socket_path=str(path)) as redis:
            while not stopped.is_set():
                redis.execute_command("CLIENT", "PAUSE", "300", "ALL")

    thread = threading.Thread(target=pause, args=(opened.lease.socket,))
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        opened.lease.close()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_slow_embedded_server_is_not_to_be_moved(run_command: RunCommand, tmp_path: Path) -> None:
    with slow_embedded_server(tmp_path / "data"):
        _, findings = diagnose(run_command, "--data-dir", str(tmp_path / "data"))
    assert findings["Storage"]["status"] == "warn", findings
    assert "runs on this machine, which is busy" in findings["Storage"]["remedy"]


def test_the_model_is_named_and_its_key_is_not_shown(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, findings = diagnose(run_command)
    assert (code, findings["Model"]["status"]) == (0, "warn")
    assert findings["Model"]["message"].startswith("offline")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    code, findings = diagnose(run_command)
    assert (code, findings["Model"]["status"], findings["Key of openai"]["message"]) == (
        0,
        "ok",
        "OPENAI_API_KEY is set",
    )
    assert "very-secret" not in str(findings) + run_command("doctor", "--port", str(free_port())).out


@pytest.mark.slow
def test_an_unreachable_redis_fails_with_a_remedy(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:hunter2@127.0.0.1:1")
    code, findings = diagnose(run_command)
    assert (code, findings["Storage"]["status"]) == (1, "fail")
    assert "127.0.0.1:1" in findings["Storage"]["message"]
    assert "REDIS_URL" in findings["Storage"]["remedy"]
    assert "hunter2" not in str(findings)
    assert findings["Port"]["status"] == "ok"


def test_a_redis_without_persistence_or_with_eviction_is_reported(
    run_command: RunCommand, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    code, findings = diagnose(run_command)
    assert (code, findings["Persistence"]["status"]) == (0, "warn")
    assert "appendonly" in findings["Persistence"]["remedy"]
    with Redis.from_url(redis_server.url) as redis:
        redis.config_set("maxmemory-policy", "allkeys-lru")
        assert diagnose(run_command)[1]["Memory"]["status"] == "warn"
        redis.config_set("maxmemory", "100mb")
    code, findings = diagnose(run_command)
    assert (code, findings["Memory"]["status"]) == (1, "fail")
    assert "noeviction" in findings["Memory"]["remedy"]


def test_a_redis_that_is_a_replica_fails(
    run_command: RunCommand, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Redis.from_url(redis_server.url) as redis:
        redis.replicaof("127.0.0.1", "1")
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    result = run_command("doctor", "--port", str(free_port()))
    assert result.code == 1
    assert "replica" in result.out


@pytest.mark.slow
def test_a_port_of_another_program_fails(run_command: RunCommand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code, findings = diagnose(run_command, port=listener.getsockname()[1])
    assert (code, findings["Port"]["status"]) == (1, "fail")
    assert "in use" in findings["Port"]["message"]


@contextlib.contextmanager
def http_server(body: bytes) -> Iterator[int]:
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


def test_a_port_of_a_callsheet_server_is_ok(run_command: RunCommand) -> None:
    with http_server(b'{"ok":true}') as port:
        code, findings = diagnose(run_command, port=port)
    assert (code, findings["Port"]["status"]) == (0, "ok")
    assert "is answering" in findings["Port"]["message"]
    with http_server(b"<html>") as port:
        assert diagnose(run_command, port=port)[1]["Port"]["status"] == "fail"


def test_a_public_address_without_authentication_fails(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, findings = diagnose(run_command, "--host", "0.0.0.0")
    assert (code, findings["Access"]["status"]) == (1, "fail")
    monkeypatch.setenv("CALLSHEET_AUTH", "keys")
    assert diagnose(run_command, "--host", "0.0.0.0")[1]["Access"]["status"] == "ok"
    monkeypatch.setenv("CALLSHEET_AUTH", "jwt")
    assert diagnose(run_command)[1]["Access"]["status"] == "fail"


def test_an_invalid_langgraph_json_fails(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "langgraph.json").write_text("{")
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "langgraph.json"))
    code, findings = diagnose(run_command)
    assert (code, findings["Graphs"]["status"]) == (1, "fail")


def test_a_project_protected_by_langgraphs_auth_fails(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = {"graphs": {"mine": "mine:graph"}, "auth": {"path": "./auth.py:auth"}}
    (tmp_path / "langgraph.json").write_text(json.dumps(content))
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "langgraph.json"))
    code, findings = diagnose(run_command)
    assert (code, findings["Graphs"]["status"]) == (1, "fail")
    assert "has 'auth'" in findings["Graphs"]["message"]


def test_an_unknown_trace_exporter_fails(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traces" not in diagnose(run_command)[1]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    assert diagnose(run_command)[1]["Traces"]["status"] == "ok"
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    code, findings = diagnose(run_command)
    assert (code, findings["Traces"]["status"]) == (1, "fail")


def test_an_unusable_data_folder_fails(run_command: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    code, findings = diagnose(run_command, "--data-dir", str(tmp_path / "file"))
    assert (code, findings["Data folder"]["status"]) == (1, "fail")
    assert "CALLSHEET_DATA_DIR" in findings["Data folder"]["remedy"]


def test_the_embedded_server_is_checked(run_command: RunCommand, tmp_path: Path) -> None:
    code, findings = diagnose(run_command, "--data-dir", str(tmp_path / "data"))
    assert (code, findings["Data folder"]["status"], findings["Persistence"]["status"]) == (0, "ok", "ok")
    assert "GiB free" in findings["Data folder"]["message"]


def test_an_invalid_setting_is_reported_before_any_check(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_PORT", "http")
    result = run_command("doctor")
    assert (result.code, result.out) == (1, "")
    assert "CALLSHEET_PORT" in result.err


def test_a_misspelt_setting_is_a_warning(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_LOG_LEVL", "debug")
    code, findings = diagnose(run_command)
    assert (code, findings["Settings"]["status"]) == (0, "warn")
    assert "is it CALLSHEET_LOG_LEVEL?" in findings["Settings"]["message"]


def test_an_invalid_setting_of_a_model_fails(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_TIMEOUT_S", "soon")
    code, findings = diagnose(run_command)
    assert (code, findings["Model"]["status"]) == (1, "fail")
    assert findings["Model"]["message"].startswith("OPENAI_TIMEOUT_S is 'soon'")


def test_invalid_tool_settings_fail_and_unknown_tools_are_a_warning(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"*": {"bogus": 5}}')
    code, findings = diagnose(run_command)
    assert (code, findings["Tools"]["status"]) == (1, "fail")
    assert "'bogus'" in findings["Tools"]["message"]
    assert "CALLSHEET_TOOLS" in findings["Tools"]["remedy"]
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"*": {"tries": 1}, "fetch_data": {"calls": 3}}')
    assert diagnose(run_command)[1]["Tools"]["status"] == "ok"
    monkeypatch.setenv("CALLSHEET_TOOLS", '{"fetch_dat": {"calls": 3}}')
    code, findings = diagnose(run_command)
    assert (code, findings["Tools"]["status"]) == (0, "warn")
    assert "'fetch_dat'" in findings["Tools"]["message"]


def test_the_overall_status_is_the_worst_finding() -> None:
    ok, warning, failure = Finding("x", "ok", ""), Finding("x", "warn", ""), Finding("x", "fail", "")
    assert doctor.worst_status([warning, ok]) == "warn"
    assert doctor.worst_status([ok, failure, warning]) == "fail"
    assert doctor.worst_status([]) == "ok"


def test_the_remedies_for_an_unusable_data_folder_keep_its_data(
    run_command: RunCommand, tmp_path: Path
) -> None:
    """X13: also where a symbolic link leads to the data."""
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
        foreign = tmp_path / "user" / "valkey"
        foreign.mkdir(mode=0o700, parents=True)
        os.chown(foreign, 4321, 4321)
        remedies["user"] = (
            f"Run as user 4321, or take the folder and its data over: chown -R 0 {str(foreign)!r}"
        )
    for name, remedy in remedies.items():
        code, findings = diagnose(run_command, "--data-dir", str(tmp_path / name))
        assert (code, findings["Data folder"]["status"]) == (1, "fail")
        assert remedy in findings["Data folder"]["remedy"]
        assert "Remove" not in findings["Data folder"]["remedy"]


def test_the_configuration_is_shown_with_its_sources(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_PROT", "3000")
    monkeypatch.setenv("CALLSHEET_LEASE_S", "7")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hunter22")
    shown = run_command("config", "show")
    assert "a server has those of its own" in " ".join(shown.err.split())
    assert shown.code == 0, shown.err
    rows = {line.split()[0]: line.split()[1:] for line in shown.out.splitlines()}
    assert rows["CALLSHEET_LEASE_S"] == ["environment", "7"]
    assert rows["OPENAI_API_KEY"] == ["environment", "(hidden)"]
    assert "hunter22" not in shown.out
    assert "CALLSHEET_PORT?" in shown.err
    assert "CALLSHEET_HOST" not in rows
    every = json.loads(run_command("config", "show", "--all", "--json").out)["settings"]
    assert {"name": "CALLSHEET_STOP_GRACE_S", "value": "5", "source": "default"} in every
    monkeypatch.setenv("CALLSHEET_LEASE_S", "70")
    assert_refused(run_command("config", "show"), "CALLSHEET_LEASE_S")


@pytest.mark.slow
def test_runs_that_wait_for_a_graph_that_is_not_served_are_named(
    run_command: RunCommand, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_server.url)
    with Redis.from_url(redis_server.url) as redis:
        for graph in ("ad_creation", "post"):
            redis.zadd("{waiting}:all", {f"run-{graph}\0t": 1})
            redis.hset("{waiting}:about", f"run-{graph}\0t", f"{graph}\0local")
    code, findings = diagnose(run_command)
    assert (code, findings["Runs"]["status"]) == (0, "warn")
    assert findings["Runs"]["message"] == "1 waiting for graph 'post', which is not served here"
    assert findings["Data format"]["status"] == "ok"


def test_a_key_that_is_not_set_has_no_tick(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hunter22")
    findings = json.loads(run_command("doctor", "--json", "--port", "0").out)
    by_part = {one["part"]: one["status"] for one in findings}
    assert (by_part["Key of openai"], by_part["Key of kimi"]) == ("ok", "none")
    lines = run_command("doctor", "--port", "0").out.splitlines()
    [absent] = [line for line in lines if "MOONSHOT_API_KEY is not set" in line]
    assert absent.strip().startswith("·")
