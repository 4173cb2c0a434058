"""The `callsheet` command as people run it: the server, ads made and refined, every way to go wrong."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from redis import Redis

from graphs import ad_creation
from server import cli, jobs
from server.jobs import Generate
from server.worker import working
from state.errors import CallsheetError
from storage import connect, threads, use
from storage.threads import Thread
from tests.chat_double import ChatDouble, Fail, Silence

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "server.cli"]
BRIEF = "A 30 second spot for Nordlys, a bakery in Oslo that opens at six. For early commuters."
UPBEAT = "Make the music more upbeat"
T = TypeVar("T")


@dataclass
class Finished:
    """What a command left."""

    code: int
    out: str
    err: str


@dataclass
class Serving:
    """A running `callsheet serve`."""

    process: subprocess.Popen[str]
    url: str
    data_dir: Path
    greeting: str


def environment(**more: str) -> dict[str, str]:
    """No key, no storage but the one a test names, no colours forced upon us."""
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith(("CALLSHEET_", "OPENAI_"))
    }
    ours.pop("REDIS_URL", None)
    return ours | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"} | more


def run(*args: str, folder: Path, stdin: bytes = b"", **env: str) -> Finished:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [*COMMAND, *args],
        env=environment(**env),
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=50,
    )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


def await_value(what: str, look: Callable[[], T | None], patience_s: float = 30.0) -> T:
    deadline = time.monotonic() + patience_s
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"waited {patience_s} s for {what}"
        time.sleep(0.02)
    return found


def begin(folder: Path, data_dir: Path) -> Serving:
    with (folder / "out.txt").open("w") as log:
        process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0", "--data-dir", str(data_dir)],
            env=environment(),
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def greeted() -> str | None:
        said = (folder / "out.txt").read_text()
        assert process.poll() is None, said
        return said if "Ctrl-C" in said else None

    greeting = await_value("the greeting", greeted)
    url = next(word for word in greeting.split() if word.startswith("http://"))
    return Serving(process, url, data_dir, greeting)


def end(serving: Serving) -> int:
    serving.process.send_signal(signal.SIGINT)
    return serving.process.wait(timeout=20)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    # Not pytest's own folder: with the test's name in it, the path may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="callsheet-cli-") as data_dir:
        started = begin(tmp_path_factory.mktemp("serving"), Path(data_dir))
        try:
            yield started
        finally:
            end(started)


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    """The command in this process, on the session's server: the same code without an interpreter's start."""
    for name in [name for name in os.environ if name.startswith(("CALLSHEET_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REDIS_URL", valkey_url)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def command(*args: str) -> Finished:
        with pytest.raises(SystemExit) as ended:
            cli.main(args)
        said = capsys.readouterr()
        return Finished(int(ended.value.code or 0), said.out, said.err)

    return command


def refused(done: Finished, *words: str, code: int = 1) -> None:
    """Two lines on stderr that name these words, nothing on stdout, no trace."""
    assert (done.code, done.out) == (code, ""), done
    lines = done.err.splitlines()
    assert [line.partition(":")[0] for line in lines[-2:]] == ["error", "remedy"], done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in " ".join(lines[-2:]), (word, done.err)


def test_serve_says_where_it_is_who_answers_and_where_the_data_lies(serving: Serving) -> None:
    """X5: one command, no account, no key."""
    said = " ".join(serving.greeting.split())
    assert f"Open {serving.url} " in said
    assert f"Docs {serving.url}/docs " in said
    assert f"Data {serving.data_dir} " in said
    assert "Model offline no key for OpenAI, Qwen or Kimi is set" in said
    assert httpx.get(f"{serving.url}/ok").json() == {"ok": True}


def test_an_ad_begun_in_the_terminal_goes_on_over_rest_and_back(
    serving: Serving, here: Callable[..., Finished]
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


def test_a_process_of_its_own_shares_the_servers_data(serving: Serving, tmp_path: Path) -> None:
    """A33: the embedded server serves both processes; neither sees another's data."""
    done = run("ad", BRIEF, "--ad-id", "ad-2", "--data-dir", str(serving.data_dir), folder=tmp_path)
    assert (done.code, done.err.count("✔")) == (0, 4), done.err
    versions = httpx.get(f"{serving.url}/api/ads/ad-2/voices", timeout=20).json()["versions"]
    assert [version["id"] for version in versions] == ["v1"]


def test_ctrl_c_ends_the_server_quietly_and_the_ad_is_still_there_afterwards(
    tmp_path: Path, here: Callable[..., Finished]
) -> None:
    """A33: nothing is lost with the process that made it."""
    with tempfile.TemporaryDirectory(prefix="callsheet-cli-") as data_dir:
        first = begin(tmp_path, Path(data_dir))
        body = {"adId": "ad-1", "brief": BRIEF}
        made = httpx.post(f"{first.url}/api/ai/generate", json=body, timeout=30).json()
        assert end(first) == 0
        said = (tmp_path / "out.txt").read_text()
        assert said.rstrip().endswith("Stopped. Everything is kept.")
        assert "Traceback" not in said
        reply = json.loads(here("ad", "--thread", "ad-1", UPBEAT, "--json", "--data-dir", data_dir).out)
        assert reply["drafts"] == {"music": "v2"}
        assert reply["timeline"]["voices"] == made["timeline"]["voices"]


def test_a_taken_port_is_named_with_the_way_to_choose_another(
    serving: Serving, here: Callable[..., Finished]
) -> None:
    port = serving.url.rpartition(":")[2]
    refused(
        here("serve", "--port", port), f"port {port} on 127.0.0.1 is taken", f"CALLSHEET_PORT={int(port) + 1}"
    )


def test_the_server_does_not_start_without_its_redis_and_hides_the_password(tmp_path: Path) -> None:
    done = run("serve", "--port", "0", folder=tmp_path, REDIS_URL="redis://user:secret@127.0.0.1:1")
    refused(done, "redis://***@127.0.0.1:1", "REDIS_URL")
    assert "secret" not in done.err


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::"])
def test_the_server_does_not_listen_where_others_could_reach_it(
    here: Callable[..., Finished], host: str
) -> None:
    """X10: there is no authentication yet."""
    refused(here("serve", "--host", host), repr(host), "authentication")


def test_an_unusable_data_folder_is_named(tmp_path: Path, here: Callable[..., Finished]) -> None:
    (tmp_path / "file").write_text("not a folder")
    refused(
        here("ad", BRIEF, "--data-dir", str(tmp_path / "file")),
        "file",
        "not a directory",
        "CALLSHEET_DATA_DIR",
    )


def test_a_wrong_setting_is_named_by_its_variable(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_PORT", "99999")
    refused(here("serve"), "CALLSHEET_PORT", "65535")


def test_a_brief_becomes_an_ad_with_times_voices_music_and_effects(here: Callable[..., Finished]) -> None:
    """A53, A59: the command shows what the endpoint replies."""
    done = here("ad", BRIEF, "--ad-id", "ad-1")
    assert done.code == 0
    assert sorted(line.split(" (")[0] for line in done.err.splitlines()) == [
        "✔ Describing the music: v1",
        "✔ Placing the sound effects: v1",
        "✔ Searching voices: 10 found",
        "✔ Writing and casting the voices: v1",
    ]
    for title in ("Voices  v1", "Music  v1", "Effects  v1", "fits the spot of 30 s", "offline"):
        assert title in done.out
    assert done.out.rstrip().endswith('callsheet ad --thread ad-1 "make the music more upbeat"')
    assert "\x1b" not in done.out + done.err, "no colours where nobody is watching"


def test_a_refinement_shows_what_changed_and_names_what_did_not(here: Callable[..., Finished]) -> None:
    """A56, A58: only the music is new, and its prompt says so."""
    here("ad", BRIEF, "--ad-id", "ad-1")
    done = here("ad", "--thread", "ad-1", UPBEAT)
    assert "Music  v1 → v2" in done.out
    assert "upbeat" in done.out.partition("Music  v1 → v2")[2]
    assert "Unchanged  voices v1, effects v1" in done.out
    assert "Voices  v" not in done.out


def test_options_beat_what_the_brief_says(here: Callable[..., Finished]) -> None:
    """A-R15: the request's own language, market and length win."""
    done = here(
        "ad",
        BRIEF,
        "--json",
        "--language",
        "pl",
        "--market",
        "PL",
        "--duration",
        "15",
        "--provider",
        "offline",
    )
    reply = json.loads(done.out)
    assert reply["timeline"]["spotSeconds"] == 15
    assert (reply["provider"], reply["providerReason"]) == (
        "offline",
        "the caller asked for the offline model",
    )
    searched = next(call for call in reply["toolCalls"] if call["name"] == "search_voices")
    assert searched["arguments"]["language"] == "polish"
    assert reply["adId"] == reply["conversationId"]
    changed = json.loads(here("ad", "--thread", reply["adId"], UPBEAT, "--duration", "20", "--json").out)
    assert changed["timeline"]["spotSeconds"] == 20


@pytest.mark.parametrize("name", ["brief.json", "brief.txt"])
def test_a_brief_is_read_from_a_file(here: Callable[..., Finished], tmp_path: Path, name: str) -> None:
    """A51: an object with the source's fields, or plain text; a byte order mark is no part of it."""
    fields = {"clientDescription": "Café Łódź, kawiarnia", "duration": 20, "language": "polish"}
    (tmp_path / name).write_bytes("\ufeff".encode() + json.dumps(fields, ensure_ascii=False).encode())
    assert json.loads(here("ad", "--file", name, "--json").out)["timeline"]["spotSeconds"] == 20


@pytest.mark.parametrize("args", [("-",), ("--file", "-")])
def test_a_brief_is_read_from_stdin(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    text = "Świeży chleb z piekarni Nordlys, 20 s"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert json.loads(here("ad", *args, "--json").out)["timeline"]["spotSeconds"] == 20


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ("cannot be read", "no such file")),
        (b'{"clientDescription": ', ("is not JSON", "line 1")),
        (b'{"brief": "a", "brief": "b"}', ("is not JSON", "'brief' twice")),
        (b'{"clientDescription": "\\ud800"}', ("is not JSON", "surrogate")),
        (b'{"clientDescription": 7}', ("brief.clientDescription is int", "string")),
        (b'{"clientDescription": "a bank", "duration": 0}', ("brief.duration is 0 s", "more than 0")),
        (b'"\xe9"', ("is not UTF-8", "byte 1")),
        (b" " * 1_000_001, ("over 1000000 bytes", "shorten")),
        (b"{}", ("the brief is empty", "clientDescription")),
    ],
)
def test_a_bad_file_is_refused_by_name_and_rule(
    here: Callable[..., Finished],
    tmp_path: Path,
    valkey_url: str,
    content: bytes | None,
    words: tuple[str, ...],
) -> None:
    """X13: nothing is written for a brief that cannot be."""
    if content is not None:
        (tmp_path / "brief.json").write_bytes(content)
    refused(here("ad", "--file", "brief.json"), *words)
    with Redis.from_url(valkey_url) as server:
        assert server.dbsize() == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((BRIEF, "--language", "klingon"), ("klingon",)),
        ((BRIEF, "--provider", "acme"), ("no provider 'acme'", "offline")),
        ((BRIEF, "--ad-id", ""), ("adId ''", "1 to 255")),
        ((BRIEF, "--ad-id", "a\x00b"), ("adId", "printable")),
        (("caf\udce9",), ("not UTF-8",)),
        (("",), ("the brief is empty",)),
        (("--thread", "nowhere", UPBEAT), ("no conversation or ad 'nowhere'", "callsheet ad")),
    ],
)
def test_a_bad_request_is_refused_before_anything_is_written(
    here: Callable[..., Finished], valkey_url: str, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(here("ad", *args), *words)
    with Redis.from_url(valkey_url) as server:
        assert server.dbsize() == 0


@pytest.mark.parametrize(
    "args",
    [
        ("ad",),
        ("ad", BRIEF, "--file", "brief.json"),
        ("ad", BRIEF, "--thread", "a", "--ad-id", "b"),
        ("ad", BRIEF, "--duration", "long"),
        ("ad", "--bogus"),
        ("bogus",),
        ("serve", "--port", "http"),
    ],
)
def test_wrong_usage_exits_with_2_and_points_to_the_help(
    here: Callable[..., Finished], args: tuple[str, ...]
) -> None:
    refused(here(*args), "--help", code=2)


def test_an_ad_is_found_by_its_own_id_where_its_conversation_has_another(
    valkey_url: str, here: Callable[..., Finished]
) -> None:
    """A-R14: one conversation an ad; either id leads to it."""

    async def begun() -> None:
        async with (
            connect(valkey_url) as storage,
            working(storage, {jobs.GRAPH: ad_creation.graph}, lease_s=5) as worker,
        ):
            use(storage)
            job = await jobs.generate_job(storage, Generate("ad-1", BRIEF, conversation_id="talk-1"))
            await jobs.carried_out(worker, storage, job)
            use(None)

    asyncio.run(begun())
    assert "Music  v1 → v2" in here("ad", "--thread", "ad-1", UPBEAT).out
    assert "Music  v2 → v3" in here("ad", "--thread", "talk-1", "Make the music calmer").out


def test_a_thread_that_is_no_ads_or_says_nothing_yet_is_refused(
    valkey_url: str, here: Callable[..., Finished]
) -> None:
    """A57: there must be something to refine."""

    async def bound() -> None:
        async with connect(valkey_url) as storage:
            await threads.bind(storage, Thread("lesson-1", "local", "fact_narration", "lesson:1"))
            await threads.bind(storage, Thread("ad-1", "local", jobs.GRAPH, "ad:ad-1"))

    asyncio.run(bound())
    refused(here("ad", "--thread", "lesson-1", UPBEAT), "'lesson-1' is about 'lesson:1'")
    refused(here("ad", "--thread", "ad-1", UPBEAT), "No conversation found. Generate initial ad first.")


def test_a_vendors_failure_is_told_like_any_other(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatDouble(Fail(500, "the engine stopped")) as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        refused(here("ad", BRIEF, "--provider", "openai"), "OpenAI failed (500)", "the engine stopped")


def test_ctrl_c_leaves_what_was_made_and_says_how_to_go_on(valkey_url: str, tmp_path: Path) -> None:
    with ChatDouble(Silence()) as double:
        process = subprocess.Popen(
            [*COMMAND, "ad", BRIEF, "--ad-id", "ad-1", "--provider", "openai"],
            env=environment(REDIS_URL=valkey_url, **double.environ),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        await_value("the question to the model", lambda: double.requests or None)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    refused(Finished(process.returncode, out, err), "kept", "--thread ad-1", code=130)


def test_help_comes_without_loading_anything_heavy(tmp_path: Path) -> None:
    """X5: help is answered at once."""
    heavy = ("rich", "pydantic", "langgraph", "fastapi", "redis", "asyncio")
    code = (
        "import sys\nfrom server.cli import main\n"
        "try:\n main(['--help'])\nexcept SystemExit as ended:\n assert not ended.code\n"
        f"assert not {{*{heavy!r}}} & {{*sys.modules}}, {{*{heavy!r}}} & {{*sys.modules}}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout
    assert "ad " in done.stdout


def test_a_bare_command_shows_the_help_and_version_the_version(here: Callable[..., Finished]) -> None:
    assert here().out == here("--help").out
    assert here("--version").out.startswith("callsheet ")


def test_debug_shows_where_an_error_comes_from(here: Callable[..., Finished]) -> None:
    with pytest.raises(CallsheetError):
        cli.main(["ad", "--debug", ""])


def test_an_error_nobody_foresaw_is_two_lines_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    cli.unforeseen(KeyError, KeyError("x"), None)
    refused(Finished(1, "", capsys.readouterr().err), "KeyError", "--debug")


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
