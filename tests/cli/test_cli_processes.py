"""`callsheet` in processes of its own: a server that is started, shared, ended and started again."""

import json
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.doubles.chat_double import ChatDouble, Silence
from tests.doubles.command import (
    BRIEF,
    COMMAND,
    UPBEAT,
    Finished,
    ForkedCommand,
    RunningServer,
    assert_refused,
    command_in_process,
    environment,
    start_server,
    stop_server,
)
from tests.doubles.killing import WarmParent
from tests.doubles.waiting import until
from tests.storage.embedded_server import data_directory


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with data_directory() as data_dir:
        started = start_server(tmp_path_factory.mktemp("serving"), data_dir)
        try:
            yield started
        finally:
            stop_server(started)


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    return command_in_process(valkey_url, tmp_path, monkeypatch, capsys)


@pytest.mark.slow
def test_serve_says_where_it_is_who_answers_and_where_the_data_lies(serving: RunningServer) -> None:
    """X5: one command, no account, no key."""
    said = " ".join(serving.greeting.split())
    assert f"Open {serving.url} " in said
    assert f"Docs {serving.url}/docs " in said
    assert f"Data {serving.data_dir} " in said
    assert "Model offline no key is set (such as OPENAI_API_KEY)" in said
    assert httpx.get(f"{serving.url}/ok").json() == {"ok": True}


@pytest.mark.slow
def test_an_ad_begun_in_the_terminal_goes_on_over_rest_and_back(
    serving: RunningServer, here: Callable[..., Finished]
) -> None:
    """A14, A55, A56: one conversation, one storage, whichever door is used."""
    storage = ("--data-dir", str(serving.data_dir))
    reply = json.loads(here("ad", BRIEF, "--ad-id", "ad-1", "--json", *storage).out)
    assert reply["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
    listed = httpx.get(f"{serving.url}/api/ads", timeout=20).json()
    assert "ad-1" in json.dumps(listed)
    over_rest = httpx.post(f"{serving.url}/api/ads/ad-1/chat", json={"message": UPBEAT}, timeout=20).json()
    assert over_rest["drafts"] == {"music": "v2"}
    assert set(over_rest) == set(reply)
    back = here("ad", "--thread", "ad-1", "Make the music calmer", *storage)
    assert "v2 → v3" in back.out
    music = httpx.get(f"{serving.url}/api/ads/ad-1/music/v3", timeout=20).json()
    assert music["musicPrompt"] in " ".join(back.out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "begun",
    [
        ("ad", BRIEF, "--ad-id", "ad 3"),
        ("page", "make the headline teal"),
        ("page", "delete the features section"),
        ("lesson", "Leaves make sugar from light. Roots take water from the soil."),
    ],
    ids=lambda begun: " ".join(begun[:2])[:20],
)
def test_the_hinted_command_finds_what_was_made_in_the_folder_that_was_named(
    serving: RunningServer, here: Callable[..., Finished], begun: tuple[str, ...]
) -> None:
    made = here(*begun, "--provider", "offline", "--data-dir", str(serving.data_dir))
    hinted = shlex.split(made.out.rstrip().splitlines()[-1])
    program = next(index for index, word in enumerate(hinted) if Path(word).name == "callsheet")
    again = here(*hinted[program + 1 :])
    assert again.code == 0, again.err
    name = hinted[hinted.index(begun[0]) + 2]
    assert name in again.out
    assert shlex.quote(str(serving.data_dir)) in again.out


@pytest.mark.slow
def test_a_process_of_its_own_shares_the_servers_data(
    serving: RunningServer, warm_parent: WarmParent, tmp_path: Path
) -> None:
    """A33: the embedded server serves both processes; neither sees another's data."""
    words = ("ad", BRIEF, "--ad-id", "ad-2", "--data-dir", str(serving.data_dir))
    done = ForkedCommand.of(warm_parent, tmp_path, *words).result()
    assert (done.code, done.err.count("✔")) == (0, 4), done.err
    versions = httpx.get(f"{serving.url}/api/ads/ad-2/voices", timeout=20).json()["versions"]
    assert [version["id"] for version in versions] == ["v1"]


@pytest.mark.slow
def test_ctrl_c_ends_the_server_quietly_and_the_ad_is_still_there_afterwards(
    tmp_path: Path, warm_parent: WarmParent, here: Callable[..., Finished]
) -> None:
    """A33: nothing is lost with the process that made it."""
    with data_directory() as data_dir:
        first = start_server(tmp_path, data_dir, warm_parent)
        body = {"adId": "ad-1", "brief": BRIEF}
        made = httpx.post(f"{first.url}/api/ai/generate", json=body, timeout=30).json()
        assert stop_server(first) == 0
        said = (tmp_path / "out").read_text()
        assert said.rstrip().endswith("Stopped. Everything is kept.")
        assert "Traceback" not in said + (tmp_path / "err").read_text()
        reply = json.loads(here("ad", "--thread", "ad-1", UPBEAT, "--json", "--data-dir", str(data_dir)).out)
        assert reply["drafts"] == {"music": "v2"}
        assert reply["timeline"]["voices"] == made["timeline"]["voices"]


@pytest.mark.slow
def test_a_taken_port_is_named_with_the_way_to_choose_another(
    serving: RunningServer, here: Callable[..., Finished]
) -> None:
    port = serving.url.rpartition(":")[2]
    assert_refused(
        here("serve", "--port", port), f"port {port} on 127.0.0.1 is in use", "callsheet serve --port 0"
    )


@pytest.mark.slow
def test_ctrl_c_leaves_what_was_made_and_says_how_to_go_on(
    valkey_url: str, warm_parent: WarmParent, tmp_path: Path
) -> None:
    with ChatDouble(Silence()) as double:
        words = ("ad", BRIEF, "--ad-id", "ad-1", "--provider", "openai")
        process = ForkedCommand.of(warm_parent, tmp_path, *words, REDIS_URL=valkey_url, **double.environ)
        until(lambda: double.requests, "a question to the model", patience_s=30)
        process.send_signal(signal.SIGINT)
        done = process.result()
    assert_refused(done, "kept", "--thread ad-1", code=130)


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
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
