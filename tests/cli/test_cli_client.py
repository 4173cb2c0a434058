"""`callsheet` as a client: it starts a server where there is none, shares it, cancels runs."""

import json
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from callsheet.storage.embedded import server as embedded
from tests.doubles.chat_double import ChatDouble, Silence
from tests.doubles.command import (
    BRIEF,
    COMMAND,
    Finished,
    assert_refused,
    environment,
    start_server,
    stop_server,
)
from tests.doubles.command import run as run_process
from tests.doubles.killing import WarmParent
from tests.doubles.waiting import until
from tests.storage.embedded_server import data_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
STARTING = "Starting a server for this terminal"


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with data_directory() as folder:
        yield folder
        until(lambda: not private_servers(folder), "the end of the terminals' servers", patience_s=30)


def private_servers(data_dir: Path) -> list[psutil.Process]:
    """Servers that terminals have started on this data."""
    folder = f"{data_dir}/terminal/terminal-"
    servers = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "--for-terminals" in words and any(word.startswith(folder) for word in words):
            servers.append(process)
    return servers


@contextmanager
def terminal(folder: Path, *words: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, as a terminal starts it."""
    process = subprocess.Popen(
        [*COMMAND, *words],
        env=environment(**env),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def command(folder: Path, *words: str, **env: str) -> Finished:
    """The result of a command in a process of its own."""
    return run_process(*words, folder=folder, stdin=b"", **env)


def runs_of(folder: Path, thread: str, **env: str) -> list[dict[str, Any]]:
    result = command(folder, "runs", "list", "--id", thread, "--json", **env)
    assert result.code == 0, result.err
    runs: list[dict[str, Any]] = json.loads(result.out)
    return runs


def test_terminals_share_a_server_that_the_first_one_starts_and_no_process_is_left(
    tmp_path: Path, data_dir: Path
) -> None:
    """At the end the data, too, is served by nobody any more."""
    env = {"CALLSHEET_DATA_DIR": str(data_dir)}
    sockets = (data_dir / "terminal").glob
    with (
        terminal(tmp_path, "ads", "new", BRIEF, "--id", "ad-1", **env) as first,
        terminal(tmp_path, "ads", "new", BRIEF, "--id", "ad-2", **env) as second,
    ):
        most = 0
        while first.poll() is None or second.poll() is None:
            # A server that came second ends as soon as it finds that another one serves.
            most = max(most, len([*sockets("*.sock")]))
        _, errors = first.communicate()
        assert (first.returncode, second.returncode, most) == (0, 0, 1), errors
    assert [line for line in errors.splitlines() if "✔" not in line] == [
        f"{STARTING}; it ends when nobody uses it any more."
    ]
    until(lambda: not private_servers(data_dir), "the end of the server", patience_s=30)
    until(lambda: not embedded.is_running(data_dir), "the end of the embedded Valkey", patience_s=30)
    assert not [*sockets("*.sock")]


@pytest.mark.parametrize("with_server", [False, True])
def test_ctrl_c_cancels_the_run_on_the_server(
    tmp_path: Path, data_dir: Path, warm_parent: WarmParent, *, with_server: bool
) -> None:
    """All that was made so far is kept, and the command that goes on is named."""
    with ChatDouble(Silence()) as vendor:
        env = {**vendor.environ, "CALLSHEET_DATA_DIR": str(data_dir)}
        server = start_server(tmp_path, data_dir, warm_parent, **vendor.environ) if with_server else None
        try:
            with terminal(
                tmp_path, "ads", "new", BRIEF, "--id", "ad-1", "--provider", "openai", **env
            ) as process:
                until(
                    lambda: vendor.requests or process.poll() is not None, "the model is asked", patience_s=60
                )
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=30)
                assert process.returncode == 130, errors
            assert "Stopped: the run is cancelled, and everything made so far is kept." in errors
            assert "ads chat ad-1" in errors
            assert (STARTING in errors) is not with_server
            assert [run["status"] for run in runs_of(tmp_path, "ad-1", **env)] == ["interrupted"]
            assert len(vendor.requests) == 1
        finally:
            if server:
                stop_server(server)


def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path, data_dir: Path, warm_parent: WarmParent) -> None:
    with ChatDouble(Silence()) as vendor:
        server = start_server(tmp_path, data_dir, warm_parent, **vendor.environ)
        env = {"CALLSHEET_DATA_DIR": str(data_dir)}
        try:
            with terminal(
                tmp_path, "ads", "new", BRIEF, "--id", "ad-1", "--provider", "openai", **env
            ) as process:
                until(lambda: vendor.requests, "the model is asked", patience_s=60)
                # A server that does not answer keeps the first Ctrl-C waiting.
                server.process.send_signal(signal.SIGSTOP)
                process.send_signal(signal.SIGINT)
                errors = process.stderr
                assert errors
                until(lambda: "Stopping" in errors.readline(), "the first Ctrl-C", patience_s=30)
                process.send_signal(signal.SIGINT)
                assert process.wait(20) == 130
        finally:
            server.process.send_signal(signal.SIGCONT)
            stop_server(server)


def test_the_run_goes_on_when_its_terminal_is_killed(tmp_path: Path, data_dir: Path) -> None:
    with ChatDouble(Silence()) as vendor:
        env = {**vendor.environ, "CALLSHEET_DATA_DIR": str(data_dir)}
        with terminal(
            tmp_path, "ads", "new", BRIEF, "--id", "ad-1", "--provider", "openai", **env
        ) as process:
            until(lambda: vendor.requests or process.poll() is not None, "the model is asked", patience_s=60)
            process.kill()
            process.wait(20)
        [server] = private_servers(data_dir)
        [run] = runs_of(tmp_path, "ad-1", **env)
        assert run["status"] == "running"
        result = command(tmp_path, "runs", "cancel", run["run_id"], **env)
        assert (result.code, STARTING in result.err) == (0, False), result.err
        until(lambda: not server.is_running(), "the end of the server once the run has ended", patience_s=30)


def test_a_server_elsewhere_is_reached_with_a_key_and_shows_only_what_is_the_owners(
    tmp_path: Path, data_dir: Path, warm_parent: WarmParent
) -> None:
    server = start_server(tmp_path, data_dir, warm_parent, CALLSHEET_AUTH="keys")
    local = {"CALLSHEET_DATA_DIR": str(data_dir)}

    def remote(*words: str, key: str = "") -> Finished:
        return command(tmp_path, *words, CALLSHEET_URL=server.url, CALLSHEET_API_KEY=key)

    try:
        key = command(tmp_path, "keys", "create", "alice", **local).out.strip()
        assert_refused(remote("ads", "list"), "no API key", "keys create")
        created = remote("ads", "new", BRIEF, "--id", "ad-1", key=key)
        assert (created.code, "Voices  v1" in created.out) == (0, True), created.err
        assert json.loads(remote("ads", "list", "--json", key=key).out)["ads"][0]["adId"] == "ad-1"
        # The operator's terminal finds the server by its data, needs no key, and looks at one owner's things.
        assert "There are none" in command(tmp_path, "ads", "list", **local).out
        assert "ad-1" in command(tmp_path, "ads", "list", "--owner", "alice", **local).out
        empty = command(tmp_path, "ads", "list", "--owner", "zoë", **local)
        assert (empty.code, "There are none" in empty.out) == (0, True), empty
        assert_refused(remote("ads", "list", key="clé"), "CALLSHEET_API_KEY", "copy it again")
        assert_refused(remote("ads", "list", "--owner", "alice", key=key), "--owner")
        assert httpx.get(f"{server.url}/api/ads", headers={"x-callsheet-owner": "alice"}).status_code == 401
    finally:
        stop_server(server)


def test_only_this_user_may_enter_the_folder_of_the_sockets(tmp_path: Path, data_dir: Path) -> None:
    """Whoever connects to a socket is the operator."""
    (data_dir / "terminal").mkdir(mode=0o755)
    result = command(tmp_path, "ads", "list", CALLSHEET_DATA_DIR=str(data_dir))
    assert_refused(result, "open to others", "chmod 700")


def test_a_server_that_cannot_start_is_an_error_of_the_command(tmp_path: Path, data_dir: Path) -> None:
    env = {"CALLSHEET_DATA_DIR": str(data_dir), "CALLSHEET_LEASE_S": "99"}
    result = command(tmp_path, "ads", "list", **env)
    assert_refused(result, "CALLSHEET_LEASE_S", "correct")


def test_a_command_with_a_running_server_takes_little_processor_time(
    tmp_path: Path, data_dir: Path, warm_parent: WarmParent
) -> None:
    """At most half a second, of which imports are nearly all."""
    server = start_server(tmp_path, data_dir, warm_parent)
    try:
        for words in (("threads", "list"), ("ads", "list"), ("questions", "list")):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert command(tmp_path, *words, CALLSHEET_DATA_DIR=str(data_dir)).code == 0
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            # Measured 0.4; the rest is for machines that are half as fast.
            assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0
    finally:
        stop_server(server)
