"""`callsheet` in separate processes: a server that is started, shared, stopped and restarted."""

import json
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import RunCommand
from tests.doubles.command import (
    BRIEF,
    COMMAND,
    ROOT,
    UPBEAT,
    ForkedCommand,
    RunningServer,
    assert_refused,
    environment,
    run,
    start_server,
    stop_server,
)
from tests.doubles.killing import WarmParent
from tests.storage.embedded_server import data_directory


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, warm_parent: WarmParent) -> Iterator[RunningServer]:
    with data_directory() as data_dir:
        server = start_server(tmp_path_factory.mktemp("serving"), data_dir, warm_parent)
        try:
            yield server
        finally:
            stop_server(server)


@pytest.mark.slow
def test_serve_prints_its_url_its_model_and_its_data_folder(server: RunningServer) -> None:
    """X5: one command, no account, no key."""
    output = " ".join(server.greeting.split())
    assert f"Open {server.url} " in output
    assert f"Docs {server.url}/docs " in output
    assert f"Data {server.data_dir} " in output
    assert "Model offline no key is set (such as OPENAI_API_KEY)" in output
    assert httpx.get(f"{server.url}/ok").json() == {"ok": True}


@pytest.mark.slow
def test_doctor_without_a_port_knows_the_server_that_runs_on_its_data(
    server: RunningServer, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default port may be another program's: this server has one of its own."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        monkeypatch.setenv("CALLSHEET_PORT", port)
        done = run_command("doctor", "--json", "--data-dir", str(server.data_dir))
        [checked] = [one for one in json.loads(done.out) if one["part"] == "Port"]
        assert (done.code, checked["status"]) == (0, "ok")
        assert "is answering already" in checked["message"]
        named = run_command("doctor", "--json", "--data-dir", str(server.data_dir), "--port", port)
        assert named.code == 1


@pytest.mark.slow
def test_an_ad_can_be_refined_by_terminal_and_rest_in_turns(
    server: RunningServer, run_command: RunCommand
) -> None:
    """A14, A55, A56: both use the same conversation and the same storage."""
    storage = ("--data-dir", str(server.data_dir))
    reply = json.loads(run_command("ad", BRIEF, "--ad-id", "ad-1", "--json", *storage).out)
    assert reply["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
    ads = httpx.get(f"{server.url}/api/ads", timeout=20).json()
    assert "ad-1" in json.dumps(ads)
    over_rest = httpx.post(f"{server.url}/api/ads/ad-1/chat", json={"message": UPBEAT}, timeout=20).json()
    assert over_rest["drafts"] == {"music": "v2"}
    assert set(over_rest) == set(reply)
    refined = run_command("ad", "--thread", "ad-1", "Make the music calmer", *storage)
    assert "v2 → v3" in refined.out
    music = httpx.get(f"{server.url}/api/ads/ad-1/music/v3", timeout=20).json()
    assert music["musicPrompt"] in " ".join(refined.out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("ads", "new", BRIEF, "--id", "ad 3"),
        ("page", "make the headline teal"),
        ("page", "delete the features section"),
        ("lesson", "--file", str(ROOT / "tests/lessons/material/the_moon.txt")),
    ],
    ids=lambda command: " ".join(command[:2])[:20],
)
def test_the_suggested_command_continues_in_the_same_data_folder(
    server: RunningServer, run_command: RunCommand, command: tuple[str, ...]
) -> None:
    first = run_command(*command, "--provider", "offline", "--data-dir", str(server.data_dir))
    line = next(one for one in first.out.splitlines() if one.startswith(("  Go on", "  Answer")))
    suggested = shlex.split(line.partition("callsheet ")[2])
    assert suggested[2:4] == ["--data-dir", str(server.data_dir)]
    second = run_command(*suggested)
    assert second.code == 0, second.err
    assert shlex.quote(suggested[4]) in second.out


@pytest.mark.slow
def test_a_command_in_another_process_shares_the_servers_data(
    server: RunningServer, warm_parent: WarmParent, tmp_path: Path
) -> None:
    """A33: one embedded server serves both processes."""
    args = ("ad", BRIEF, "--ad-id", "ad-2", "--data-dir", str(server.data_dir))
    result = ForkedCommand.of(warm_parent, tmp_path, *args).result()
    assert (result.code, result.err.count("✔")) == (0, 4), result.err
    versions = httpx.get(f"{server.url}/api/ads/ad-2/voices", timeout=20).json()["versions"]
    assert [version["id"] for version in versions] == ["v1"]


@pytest.mark.slow
def test_ctrl_c_stops_the_server_without_a_traceback_and_its_ad_persists(
    tmp_path: Path, warm_parent: WarmParent
) -> None:
    """A33: the ad outlives the process that wrote it."""
    with data_directory() as data_dir:
        server = start_server(tmp_path, data_dir, warm_parent)
        body = {"adId": "ad-1", "brief": BRIEF}
        ad = httpx.post(f"{server.url}/api/ai/generate", json=body, timeout=30).json()
        assert stop_server(server) == 0
        output = (tmp_path / "out").read_text()
        assert output.rstrip().endswith("Stopped. Everything is kept.")
        assert "Traceback" not in output + (tmp_path / "err").read_text()
        words = ("ads", "chat", "ad-1", UPBEAT, "--json", "--data-dir", str(data_dir))
        reply = json.loads(run(*words, folder=tmp_path).out)
        assert reply["drafts"] == {"music": "v2"}
        assert reply["timeline"]["voices"] == ad["timeline"]["voices"]


@pytest.mark.slow
def test_sigterm_stops_the_server_and_leaves_no_socket(tmp_path: Path, warm_parent: WarmParent) -> None:
    with data_directory() as data_dir:
        server = start_server(tmp_path, data_dir, warm_parent)
        assert [*(data_dir / "terminal").glob("*.sock")]
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0
        assert (tmp_path / "out").read_text().rstrip().endswith("Stopped. Everything is kept.")
        assert [*(data_dir / "terminal").glob("*.sock")] == []


@pytest.mark.slow
def test_a_port_in_use_is_named_with_the_option_to_choose_another(
    server: RunningServer, run_command: RunCommand
) -> None:
    port = server.url.rpartition(":")[2]
    assert_refused(
        run_command("serve", "--port", port),
        f"port {port} on 127.0.0.1 is in use",
        "callsheet serve --port 0",
    )


def test_a_closed_output_pipe_is_no_error(tmp_path: Path) -> None:
    """`callsheet ad --help | head -1` prints one line and nothing else."""
    process = subprocess.Popen(
        [*COMMAND, "ad", "--help"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=20) == 1
