"""The embedded server: shared by processes, ended with the last one, and without lost writes."""

import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from redis import Redis

from callsheet.storage.embedded import folders, watchdog
from callsheet.storage.embedded import server as embedded
from tests.doubles.waiting import until
from tests.storage.embedded_server import (
    EmbeddedServerUser,
    data_directory,
    has_exited,
    leased_server,
    pid_of,
    server_processes,
)

IDLE_BYTES = 16 * 2**20
"""Most memory of an idle server and its watchdog together."""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with data_directory() as folder:
        yield folder


@pytest.fixture
def start(data_dir: Path) -> Iterator[Callable[[str], EmbeddedServerUser]]:
    """Starts other processes that use the server of `data_dir`; all are killed at the end."""
    with ExitStack() as stack:

        def start_user(name: str) -> EmbeddedServerUser:
            user = EmbeddedServerUser(data_dir, name)
            stack.callback(user.kill)
            return user

        yield start_user


def numbers(server: Redis, name: str) -> list[int]:
    return [int(value) for value in server.lrange(name, 0, -1)]


@pytest.mark.slow
@pytest.mark.fault
def test_four_processes_at_once_share_a_server_that_ends_when_all_are_killed(
    data_dir: Path, start: Callable[[str], EmbeddedServerUser]
) -> None:
    """X17: no orphan after SIGKILL of every user, and no acknowledged write is lost."""
    four = [start(name) for name in "abcd"]
    (pid,) = {user.read_number() for user in four}
    for user in four:
        user.wait_for(30)
    last = {user.name: user.kill() for user in four}
    until(lambda: has_exited(pid), "the end of the server after its last user was killed")
    with leased_server(data_dir) as server:
        for name, number in last.items():
            assert numbers(server, name)[: number + 1] == list(range(number + 1))


@pytest.mark.slow
@pytest.mark.fault
def test_the_server_outlives_each_user_but_the_last(
    data_dir: Path, start: Callable[[str], EmbeddedServerUser]
) -> None:
    first, second = start("a"), start("b")
    pid = first.read_number()
    assert second.read_number() == pid
    first.kill()
    second.wait_for(20)
    with leased_server(data_dir) as server:
        assert pid_of(server) == pid
        second.kill()
        assert server.ping()
    until(lambda: has_exited(pid), "the end of the server after its last user left")


@pytest.mark.slow
@pytest.mark.fault
def test_a_killed_server_is_started_again_with_every_acknowledged_write(
    data_dir: Path, start: Callable[[str], EmbeddedServerUser]
) -> None:
    user = start("a")
    pid = user.read_number()
    user.wait_for(30)
    os.kill(pid, signal.SIGKILL)
    until(lambda: has_exited(pid), "the end of the killed server")
    last = user.kill()
    with leased_server(data_dir) as server:
        assert pid_of(server) != pid
        assert numbers(server, "a")[: last + 1] == list(range(last + 1))


@pytest.mark.fault
def test_a_server_whose_data_was_deleted_ends_with_its_last_user(data_dir: Path) -> None:
    with leased_server(data_dir) as server:
        pid = pid_of(server)
        shutil.rmtree(data_dir / "valkey")
    until(lambda: has_exited(pid), "the end of the server without a folder")


@pytest.mark.fault
def test_a_lease_on_a_killed_server_counts_for_the_next_one(data_dir: Path) -> None:
    with leased_server(data_dir) as before:
        os.kill(pid_of(before), signal.SIGKILL)
        with leased_server(data_dir) as after:
            pid = pid_of(after)
        with leased_server(data_dir) as again:
            assert pid_of(again) == pid
    until(lambda: has_exited(pid), "the end of the second server")


@pytest.mark.fault
def test_a_server_whose_watchdog_was_killed_is_replaced_with_its_data(data_dir: Path) -> None:
    with leased_server(data_dir) as server:
        pid = pid_of(server)
        server.set("kept", 1)
        watchdogs = [process for process in server_processes(data_dir) if process.pid != pid]
        for process in watchdogs:
            process.kill()
        until(lambda: all(has_exited(process.pid) for process in watchdogs), "the end of the watchdog")
        with leased_server(data_dir) as replaced:
            assert pid_of(replaced) != pid
            assert replaced.get("kept") == b"1"
            assert has_exited(pid)


def test_a_starter_that_dies_at_once_leaves_no_server(data_dir: Path) -> None:
    home = folders.private_folder(data_dir / "valkey")
    lease = watchdog.launch(home, watchdog.binary())
    assert lease is not None
    lease.close()
    until(lambda: not embedded.is_running(data_dir), "the end of a server that nobody waited for")


def test_a_second_server_is_not_started_on_the_same_data(data_dir: Path) -> None:
    with leased_server(data_dir):
        assert watchdog.launch(data_dir / "valkey", watchdog.binary()) is None


def test_quick_restarts_wait_for_the_server_that_is_ending(data_dir: Path) -> None:
    for number in range(8):
        with leased_server(data_dir) as server:
            assert server.incr("starts") == number + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds", [12, pytest.param(250, marks=[pytest.mark.long, pytest.mark.timeout(180)])]
)
def test_a_user_that_arrives_while_the_last_one_leaves_keeps_its_server(data_dir: Path, rounds: int) -> None:
    """The server that `ensure_running` returned stays: it does not end because an earlier user left."""
    for number in range(rounds):
        leaving = embedded.ensure_running(data_dir)
        leaves = threading.Thread(target=leaving.close)
        leaves.start()
        with leased_server(data_dir) as server:
            leaves.join()
            pid = pid_of(server)
            for _ in range(20):
                server.incr("count")
            assert pid_of(server) == pid
            assert server.get("count") == b"%d" % (20 * number + 20)


def test_nobody_joins_a_server_that_is_ending(data_dir: Path) -> None:
    with leased_server(data_dir):
        ending = data_dir / "valkey" / watchdog.STOPPING
        ending.touch()
        assert watchdog.join(ending.parent) is None
        ending.unlink()
        lease = watchdog.join(ending.parent)
        assert lease is not None
        lease.close()


def test_a_socket_left_by_a_dead_server_does_not_prevent_a_start(data_dir: Path) -> None:
    with leased_server(data_dir) as server:
        pid = pid_of(server)
        for process in server_processes(data_dir):
            process.kill()
        until(lambda: has_exited(pid), "the end of the killed server")
    assert (data_dir / "valkey" / watchdog.SOCKET).is_socket()
    with leased_server(data_dir) as server:
        assert server.ping()


def test_a_flag_left_by_a_dead_watchdog_does_not_prevent_a_start(data_dir: Path) -> None:
    folders.private_folder(data_dir / "valkey")
    (data_dir / "valkey" / watchdog.STOPPING).touch()
    (data_dir / "valkey" / watchdog.LEASE).touch()
    with leased_server(data_dir) as server:
        assert server.ping()


def test_a_closed_lease_cannot_be_revived(data_dir: Path) -> None:
    lease = embedded.ensure_running(data_dir)
    lease.close()
    lease.close()
    lease.revive()
    until(lambda: not embedded.is_running(data_dir), "the end of the server")


def test_a_garbage_collected_lease_is_released(data_dir: Path) -> None:
    lease = embedded.ensure_running(data_dir)
    del lease
    until(lambda: not embedded.is_running(data_dir), "the end of the server")


def test_only_this_user_can_reach_the_server(data_dir: Path) -> None:
    with leased_server(data_dir) as server:
        home = data_dir / "valkey"
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / watchdog.SOCKET).stat().st_mode) == 0o700
        assert psutil.Process(pid_of(server)).net_connections(kind="inet") == []


def test_the_server_inherits_no_secrets(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with leased_server(data_dir) as server:
        assert set(psutil.Process(pid_of(server)).environ()) <= {
            "PATH",
            "LC_ALL",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
        }


def test_the_server_logs_every_write_and_evicts_nothing(data_dir: Path) -> None:
    expected = {"appendonly": "yes", "appendfsync": "no", "save": "", "maxmemory-policy": "noeviction"}
    with leased_server(data_dir) as server:
        assert {name: server.config_get(name)[name] for name in expected} == expected


def test_an_idle_server_needs_little_memory(data_dir: Path) -> None:
    with leased_server(data_dir):
        assert 0 < sum(process.memory_info().rss for process in server_processes(data_dir)) < IDLE_BYTES


@pytest.fixture
def deep_dir(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory whose path is too long for a socket; shortcuts to it are made in `data_dir`."""
    monkeypatch.setattr(tempfile, "tempdir", str(data_dir))
    return data_dir / ("d" * 120)


def test_a_long_path_gets_a_short_socket_and_keeps_its_data(deep_dir: Path) -> None:
    for number in range(2):
        with leased_server(deep_dir) as server:
            assert server.incr("starts") == number + 1
            assert list((deep_dir / "valkey" / "appendonlydir").iterdir())
        until(lambda: not server_processes(deep_dir), "the end of the server")


@pytest.mark.fault
def test_a_deleted_shortcut_is_created_again(deep_dir: Path) -> None:
    lease = embedded.ensure_running(deep_dir)
    shortcut = lease.socket.parent
    shortcut.unlink()
    shortcut.parent.rmdir()
    lease.revive()
    assert embedded.probe(lease.socket) == "ready"
    lease.close()
    until(lambda: not server_processes(deep_dir), "the end of the server")


def test_processes_with_different_temp_folders_share_one_server(deep_dir: Path) -> None:
    other_temp = folders.private_folder(deep_dir.parent / "t")
    with leased_server(deep_dir) as server:
        other = folders.socket_path(deep_dir / "valkey", watchdog.SOCKET, temp=other_temp)
        assert other.is_relative_to(other_temp)
        with Redis(unix_socket_path=str(other)) as same:
            assert pid_of(same) == pid_of(server)
    until(lambda: not server_processes(deep_dir), "the end of the server")


def test_a_link_to_the_data_directory_leads_to_its_server(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data_dir)
    with leased_server(data_dir) as server, leased_server(tmp_path / "link") as same:
        assert pid_of(server) == pid_of(same)
        assert embedded.is_running(tmp_path / "link")


def test_no_server_runs_where_none_was_started(tmp_path: Path) -> None:
    assert not embedded.is_running(tmp_path)
